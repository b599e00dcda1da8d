"""Expression tree over the columns of a row.

Expressions are untyped; the evaluator knows the columns. The semantics are those of Spark
in ANSI mode.
"""

import datetime
import decimal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self, TypeAlias

from mangrove.errors import InvalidInputError
from mangrove.model.types import DataType

__all__ = [
    "BinaryOp",
    "Case",
    "Cast",
    "ColumnPath",
    "EngineValues",
    "Expression",
    "InList",
    "Like",
    "Literal",
    "LiteralValue",
    "NullTest",
    "PreparedSql",
    "RequiresSparkError",
    "ScalarFunction",
    "UnaryOp",
    "collect_column_paths",
    "split_conjuncts",
    "split_like_pattern",
]


class RequiresSparkError(InvalidInputError):
    """Input that the local engine does not support, but Spark may."""


LiteralValue: TypeAlias = bool | int | float | decimal.Decimal | str | bytes | datetime.date | datetime.datetime | None
"""The value of a literal: int for integers, Decimal with a decimal point, float with an exponent."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal value."""

    value: LiteralValue


@dataclass(frozen=True, slots=True)
class ColumnPath:
    """A column path: `amount`, `address.city`, and in a merge `t.amount`."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnaryOp:
    """`-` or `not` before an operand."""

    operator: str
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class BinaryOp:
    """An operator between two operands."""

    operator: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class NullTest:
    """`is null` or `is not null`."""

    operand: "Expression"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class InList:
    """`in` or `not in` with a list of operands."""

    operand: "Expression"
    items: "tuple[Expression, ...]"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """`like` or `not like`; `%` matches any characters and `_` one, and a backslash before them escapes them."""

    operand: "Expression"
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true."""

    branches: "tuple[tuple[Expression, Expression], ...]"
    otherwise: "Expression"


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion of an operand to another type."""

    operand: "Expression"
    type: DataType


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function call; the name is in lower case."""

    name: str
    arguments: "tuple[Expression, ...]"


@dataclass(frozen=True, slots=True, eq=False)
class EngineValues:
    """Values that an SQL engine computes from columns of the rows; it is given these and the number of rows."""

    columns: tuple[ColumnPath, ...]
    compute: Callable[[Sequence[Any], int], Any]


Expression: TypeAlias = (
    Literal | ColumnPath | UnaryOp | BinaryOp | NullTest | InList | Like | Case | Cast | ScalarFunction | EngineValues
)


class PreparedSql(str):
    """The text of an expression that is parsed already, because an SQL engine computes a part of it."""

    __slots__ = ("expression",)
    expression: Expression

    def __new__(cls, text: str, expression: Expression) -> Self:
        """Return the text with its expression."""
        prepared = super().__new__(cls, text)
        prepared.expression = expression
        return prepared


def collect_column_paths(expression: Expression) -> frozenset[tuple[str, ...]]:
    """Return the column paths that an expression uses, as written."""
    return frozenset(part.names for part in _parts(expression) if isinstance(part, ColumnPath))


def split_conjuncts(expression: Expression) -> list[Expression]:
    """Return the operands of a conjunction."""
    if isinstance(expression, BinaryOp) and expression.operator == "and":
        return [*split_conjuncts(expression.left), *split_conjuncts(expression.right)]
    return [expression]


def split_like_pattern(pattern: str) -> list[tuple[str, bool]]:
    r"""Return the characters of a `like` pattern, and whether each is a wildcard.

    >>> split_like_pattern(r"a\%%")
    [('a', False), ('%', False), ('%', True)]
    """
    found = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in ("%", "_", "\\"):
                raise InvalidInputError(
                    f"a backslash in the pattern {pattern!r} is not before `%`, `_` or another backslash; write two"
                )
            found.append((escaped, False))
        else:
            found.append((character, character in "%_"))
    return found


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for inner in value:
            yield from _parts(inner)
    elif isinstance(value, Expression):
        yield value
        for field in fields(value):
            yield from _parts(getattr(value, field.name))
