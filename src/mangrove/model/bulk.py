"""Construction of thousands of values of a frozen dataclass from columns."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TypeVar

__all__ = ["build_unchecked", "build_validated"]

T = TypeVar("T")


def build_validated(cls: type[T], columns: Mapping[str, Sequence[object]]) -> list[T]:
    """Return one value for each row of the columns, which are named like fields; each value validates itself."""
    return [cls(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


def build_unchecked(cls: type[T], columns: Mapping[str, Sequence[object]]) -> list[T]:
    """Return what `build_validated` returns, if the caller has validated the columns; all fields are given.

    The constructor of a frozen dataclass looks up each field by its name; here loops in C fill the slots.
    """
    built = [object.__new__(cls) for _ in next(iter(columns.values()))]
    for name, column in columns.items():
        deque(map(vars(cls)[name].__set__, built, column), maxlen=0)
    return built
