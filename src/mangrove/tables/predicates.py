"""Predicates: which rows are meant, as values that name columns by id.

They follow SQL: a comparison with null is neither true nor false, and only rows
for which the whole is true are meant. NaN is equal to itself and above every
other number, as in Spark.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from mangrove.errors import InvalidInputError
from mangrove.model.values import Value

__all__ = [
    "AllOf",
    "AnyOf",
    "Comparison",
    "Constant",
    "IsIn",
    "IsNull",
    "Leaf",
    "Operator",
    "Predicate",
    "StartsWith",
    "column_ids",
    "negation",
]


class Operator(enum.Enum):
    """How two values are compared."""

    EQUAL = "="
    UNEQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="

    @property
    def opposite(self) -> "Operator":
        """The operator that holds exactly where this one does not."""
        return _OPPOSITES[self]

    @property
    def mirrored(self) -> "Operator":
        """The operator that means the same with the two sides exchanged."""
        return _MIRRORED[self]


_OPPOSITES: Final = {
    Operator.EQUAL: Operator.UNEQUAL,
    Operator.UNEQUAL: Operator.EQUAL,
    Operator.LESS: Operator.GREATER_OR_EQUAL,
    Operator.GREATER_OR_EQUAL: Operator.LESS,
    Operator.GREATER: Operator.LESS_OR_EQUAL,
    Operator.LESS_OR_EQUAL: Operator.GREATER,
}
_MIRRORED: Final = {
    Operator.EQUAL: Operator.EQUAL,
    Operator.UNEQUAL: Operator.UNEQUAL,
    Operator.LESS: Operator.GREATER,
    Operator.GREATER_OR_EQUAL: Operator.LESS_OR_EQUAL,
    Operator.GREATER: Operator.LESS,
    Operator.LESS_OR_EQUAL: Operator.GREATER_OR_EQUAL,
}


@dataclass(frozen=True, slots=True)
class Constant:
    """Every row, or none."""

    holds: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column's value beside one of the column's own type."""

    column_id: int
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a column has no value."""

    column_id: int
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsIn:
    """Whether a column's value is one of several."""

    column_id: int
    values: tuple[Value, ...]
    negated: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise InvalidInputError("`in` has an empty list: name at least one value")


@dataclass(frozen=True, slots=True)
class StartsWith:
    """Whether a text begins with another."""

    column_id: int
    prefix: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class AllOf:
    """What holds where every part does."""

    parts: "tuple[Predicate, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """What holds where at least one part does."""

    parts: "tuple[Predicate, ...]"


Leaf: TypeAlias = Comparison | IsNull | IsIn | StartsWith
Predicate: TypeAlias = Constant | Leaf | AllOf | AnyOf


def negation(predicate: Predicate) -> Predicate:
    """Return what is true where `predicate` is false, and unknown where that is unknown."""
    match predicate:
        case Constant(holds):
            return Constant(not holds)
        case Comparison(_, operator):
            return replace(predicate, operator=operator.opposite)
        case IsNull() | IsIn() | StartsWith():
            return replace(predicate, negated=not predicate.negated)
        case AllOf(parts):
            return AnyOf(tuple(negation(part) for part in parts))
        case AnyOf(parts):
            return AllOf(tuple(negation(part) for part in parts))
        case _:
            assert_never(predicate)


def column_ids(predicate: Predicate) -> frozenset[int]:
    """Return the ids of the columns that `predicate` looks at."""
    return frozenset(leaf.column_id for leaf in _leaves(predicate))


def _leaves(predicate: Predicate) -> Iterator[Leaf]:
    match predicate:
        case Constant():
            return
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from _leaves(part)
        case _:
            yield predicate
