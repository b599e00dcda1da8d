"""Pointing at a place in SQL text: its line, its column, and a caret below it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from mangrove.errors import InvalidInputError, MangroveError

__all__ = ["error_at", "line_of", "located", "placed", "pointed"]

_Kind = TypeVar("_Kind", bound=MangroveError)
_WIDTH_MAX = 100


def error_at(text: str, position: int, message: str) -> InvalidInputError:
    """Return the refusal of what stands at a position."""
    return InvalidInputError(pointed(text, position, message))


def located(error: _Kind, text: str, position: int) -> _Kind:
    """Return the same error with the place at which it arose; one that names its place already stays."""
    message = str(error)
    return error if "\n" in message else type(error)(pointed(text, position, message))


@contextmanager
def placed(text: str, position: int) -> Iterator[None]:
    """Say of an error without a place that it arose here."""
    try:
        yield
    except MangroveError as error:
        raise located(error, text, position) from error


def pointed(text: str, position: int, message: str) -> str:
    r"""Return the message with its place.

    >>> print(pointed("select *\nfrom ordrs", 14, "table ordrs is not there"))
    line 2, column 6: table ordrs is not there
        from ordrs
             ^
    """
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : len(text) if end < 0 else end].expandtabs(1)
    column = position - start
    cut = max(0, column - _WIDTH_MAX + 20)
    shown = line[cut : cut + _WIDTH_MAX]
    where = f"line {line_of(text, position)}, column {column + 1}"
    return f"{where}: {message}\n    {shown}\n    {' ' * (column - cut)}^"


def line_of(text: str, position: int) -> int:
    """Return the number of the line, from 1."""
    return text.count("\n", 0, position) + 1
