"""Predicates on columns by id, and their rendering as SQL.

Predicates follow SQL: a comparison with null is neither true nor false, and only rows for
which the predicate is true match. As in Spark, NaN equals itself and is greater than every
other number.
"""

import datetime
import decimal
import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from mangrove.errors import InvalidInputError
from mangrove.model.names import quote_name
from mangrove.model.schema import Schema
from mangrove.model.schema_text import quote_text
from mangrove.model.types import DataType, TimestampNs, TimestampTzNs
from mangrove.model.values import Value, format_nanos

__all__ = [
    "AllOf",
    "AnyOf",
    "ColumnComparison",
    "ConstantPredicate",
    "IsIn",
    "IsNull",
    "Leaf",
    "Operator",
    "Predicate",
    "StartsWith",
    "collect_column_ids",
    "negate_predicate",
    "render_predicate_sql",
]


class Operator(enum.Enum):
    """A comparison operator."""

    EQUAL = "="
    UNEQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="

    @property
    def opposite(self) -> "Operator":
        """The negated operator."""
        return _OPPOSITES[self]

    @property
    def mirrored(self) -> "Operator":
        """The equivalent operator with exchanged operands."""
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
class ConstantPredicate:
    """True or false for every row."""

    holds: bool


@dataclass(frozen=True, slots=True)
class ColumnComparison:
    """A comparison of a column with a value of its type."""

    column_id: int
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class IsNull:
    """`is null` or `is not null`."""

    column_id: int
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsIn:
    """`in` or `not in` with a list of values."""

    column_id: int
    values: tuple[Value, ...]
    negated: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise InvalidInputError("the list of `in` is empty; give at least one value")


@dataclass(frozen=True, slots=True)
class StartsWith:
    """A prefix test of a string column."""

    column_id: int
    prefix: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class AllOf:
    """A conjunction."""

    parts: "tuple[Predicate, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A disjunction."""

    parts: "tuple[Predicate, ...]"


Leaf: TypeAlias = ColumnComparison | IsNull | IsIn | StartsWith
Predicate: TypeAlias = ConstantPredicate | Leaf | AllOf | AnyOf


def negate_predicate(predicate: Predicate) -> Predicate:
    """Return the negation, which is unknown where `predicate` is unknown."""
    match predicate:
        case ConstantPredicate(holds):
            return ConstantPredicate(not holds)
        case ColumnComparison(_, operator):
            return replace(predicate, operator=operator.opposite)
        case IsNull() | IsIn() | StartsWith():
            return replace(predicate, negated=not predicate.negated)
        case AllOf(parts):
            return AnyOf(tuple(negate_predicate(part) for part in parts))
        case AnyOf(parts):
            return AllOf(tuple(negate_predicate(part) for part in parts))
        case _:
            assert_never(predicate)


def collect_column_ids(predicate: Predicate) -> frozenset[int]:
    """Return the ids of the columns of a predicate."""
    return frozenset(leaf.column_id for leaf in _leaves(predicate))


def _leaves(predicate: Predicate) -> Iterator[Leaf]:
    match predicate:
        case ConstantPredicate():
            return
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from _leaves(part)
        case _:
            yield predicate


def render_predicate_sql(predicate: Predicate, schema: Schema) -> str:
    """Return the predicate as SQL text, with the column names of `schema`."""
    match predicate:
        case ConstantPredicate(holds):
            return "true" if holds else "false"
        case AllOf(parts):
            return "(" + " and ".join(render_predicate_sql(part, schema) for part in parts) + ")"
        case AnyOf(parts):
            return "(" + " or ".join(render_predicate_sql(part, schema) for part in parts) + ")"
        case ColumnComparison() | IsNull() | IsIn() | StartsWith():
            name = ".".join(quote_name(part) for part in schema.path_of(predicate.column_id))
            return _leaf_sql(predicate, name, schema.column_with_id(predicate.column_id).type)
        case _:
            assert_never(predicate)


def _leaf_sql(leaf: ColumnComparison | IsNull | IsIn | StartsWith, name: str, data_type: DataType) -> str:
    match leaf:
        case ColumnComparison(_, operator, value):
            return f"{name} {operator.value} {_literal_sql(value, data_type)}"
        case IsNull(_, negated):
            return f"{name} is {'not ' if negated else ''}null"
        case IsIn(_, values, negated):
            items = ", ".join(_literal_sql(value, data_type) for value in values)
            return f"{name} {'not ' if negated else ''}in ({items})"
        case StartsWith(_, prefix, negated):
            plain = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            return f"{name} {'not ' if negated else ''}like {quote_text(plain + '%')}"
        case _:
            assert_never(leaf)


def _literal_sql(value: Value, data_type: DataType) -> str:
    match value:
        case int() if isinstance(data_type, TimestampNs | TimestampTzNs):
            return quote_text(format_nanos(value, has_zone=isinstance(data_type, TimestampTzNs)))
        case bool():
            return "true" if value else "false"
        case str():
            return quote_text(value)
        case bytes():
            return f"x'{value.hex()}'"
        case float() if math.isinf(value):
            return "'infinity'" if value > 0 else "'-infinity'"
        case decimal.Decimal():
            return f"{value:f}"
        case datetime.datetime():
            word = "timestamp_ntz" if value.tzinfo is None else "timestamp"
            return f"{word} '{value.isoformat(' ')}'"
        case datetime.date():
            return f"date '{value.isoformat()}'"
        case datetime.time():
            return f"time '{value.replace(tzinfo=None).isoformat()}'"
        case _:
            return repr(value)
