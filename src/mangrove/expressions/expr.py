"""Expression tree over the columns of a row.

An expression has no types yet: whoever evaluates it knows the columns. It means
what the same text means to Spark in its ANSI mode.
"""

import datetime
import decimal
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TypeAlias

from mangrove.errors import InvalidInputError
from mangrove.model.types import DataType

__all__ = [
    "BinaryOp",
    "Case",
    "Cast",
    "ColumnPath",
    "Expression",
    "InList",
    "Like",
    "Literal",
    "LiteralValue",
    "NullTest",
    "RequiresSparkError",
    "ScalarFunction",
    "UnaryOp",
    "collect_column_paths",
    "split_conjuncts",
]


class RequiresSparkError(InvalidInputError):
    """Input that the engine in this process cannot take, and that Spark may understand."""


LiteralValue: TypeAlias = bool | int | float | decimal.Decimal | str | bytes | datetime.date | datetime.datetime | None
"""What can be written down: an int is a whole number, a Decimal one with a point, a float one with an exponent."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is written down."""

    value: LiteralValue


@dataclass(frozen=True, slots=True)
class ColumnPath:
    """A column by the names that lead to it: `amount`, `address.city`, and in a merge `t.amount`."""

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
    """Whether an operand has no value."""

    operand: "Expression"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class InList:
    """Whether an operand is equal to one of several."""

    operand: "Expression"
    items: "tuple[Expression, ...]"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """Whether a text has a form in which `%` stands for any characters and `_` for one."""

    operand: "Expression"
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """The value beside the first condition that is true."""

    branches: "tuple[tuple[Expression, Expression], ...]"
    otherwise: "Expression"


@dataclass(frozen=True, slots=True)
class Cast:
    """An operand as a value of another type."""

    operand: "Expression"
    type: DataType


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function of some arguments; its name is in lower case."""

    name: str
    arguments: "tuple[Expression, ...]"


Expression: TypeAlias = (
    Literal | ColumnPath | UnaryOp | BinaryOp | NullTest | InList | Like | Case | Cast | ScalarFunction
)


def collect_column_paths(expression: Expression) -> frozenset[tuple[str, ...]]:
    """Return the columns that an expression looks at, as they are written."""
    return frozenset(part.names for part in _parts(expression) if isinstance(part, ColumnPath))


def split_conjuncts(expression: Expression) -> list[Expression]:
    """Return the conditions that `and` joins."""
    if isinstance(expression, BinaryOp) and expression.operator == "and":
        return [*split_conjuncts(expression.left), *split_conjuncts(expression.right)]
    return [expression]


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for inner in value:
            yield from _parts(inner)
    elif isinstance(value, Expression):
        yield value
        for field in fields(value):
            yield from _parts(getattr(value, field.name))
