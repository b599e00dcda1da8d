"""Conversion of Iceberg filter expressions to predicates that prune files.

The predicate is true for each row for which the expression is true, and may be true for more: an
expression without an equivalent becomes a constant. The client filters the rows.

As in Iceberg, `not-eq`, `not-in` and `not-starts-with` are true for null. Literals of strings, numbers,
dates and times have one meaning in JSON. Others prune nothing: a `float` is written with the digits of
another number, and engines order UUIDs differently.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyiceberg.expressions.literals import AboveMax, BelowMin, literal

from mangrove.errors import InvalidInputError
from mangrove.expressions.predicates import (
    AllOf,
    AnyOf,
    ColumnComparison,
    ConstantPredicate,
    IsIn,
    IsNull,
    Operator,
    Predicate,
    StartsWith,
)
from mangrove.iceberg.schemas import to_iceberg_primitive
from mangrove.iceberg.values import from_iceberg_value
from mangrove.model.schema import Schema
from mangrove.model.types import (
    Boolean,
    Column,
    Date,
    Decimal,
    Float64,
    Int16,
    Int32,
    Int64,
    Struct,
    Time,
    Timestamp,
    TimestampNs,
    TimestampTz,
    TimestampTzNs,
    Varchar,
    inner_columns,
)
from mangrove.model.values import Value, parse_nanos

__all__ = ["to_pruning_predicate"]

_EVERY_ROW: Final = ConstantPredicate(holds=True)
_NEGATIONS: Final = {
    "is-null": "not-null",
    "is-nan": "not-nan",
    "lt": "gt-eq",
    "gt": "lt-eq",
    "eq": "not-eq",
    "in": "not-in",
    "starts-with": "not-starts-with",
}
_OPPOSITES: Final = _NEGATIONS | {negated: name for name, negated in _NEGATIONS.items()}
_OPERATORS: Final = {
    "lt": Operator.LESS,
    "lt-eq": Operator.LESS_OR_EQUAL,
    "gt": Operator.GREATER,
    "gt-eq": Operator.GREATER_OR_EQUAL,
    "eq": Operator.EQUAL,
    "not-eq": Operator.UNEQUAL,
}
_PRUNED_TYPES: Final = (
    Boolean,
    Date,
    Decimal,
    Float64,
    Int16,
    Int32,
    Int64,
    Time,
    Timestamp,
    TimestampNs,
    TimestampTz,
    TimestampTzNs,
    Varchar,
)


def to_pruning_predicate(expression: object, schema: Schema, *, is_case_sensitive: bool = True) -> Predicate:
    """Return a predicate that is true for each row for which an expression in Iceberg's JSON is true."""
    columns = {name if is_case_sensitive else name.lower(): one for name, one in _list_named_columns(schema.columns)}
    return _Conversion(columns, is_case_sensitive).convert(expression)


def _list_named_columns(columns: Sequence[Column], above: str = "") -> Iterator[tuple[str, Column]]:
    """Yield the columns outside of lists and maps by their names in expressions."""
    for column in columns:
        yield above + column.name, column
        if isinstance(column.type, Struct):
            yield from _list_named_columns(inner_columns(column.type), f"{above}{column.name}.")


@dataclass(frozen=True, slots=True)
class _Conversion:
    columns: Mapping[str, Column]
    is_case_sensitive: bool

    def convert(self, expression: object, *, is_negated: bool = False) -> Predicate:
        """Return the predicate of an expression or of its negation."""
        match expression:
            case bool(holds) | {"type": "literal", "value": bool(holds)}:
                return ConstantPredicate(holds != is_negated)
            case {"type": "true" | "false" as name}:
                return ConstantPredicate((name == "true") != is_negated)
            case {"type": "and" | "or" as name, "left": left, "right": right}:
                parts = self.convert(left, is_negated=is_negated), self.convert(right, is_negated=is_negated)
                return AllOf(parts) if (name == "and") != is_negated else AnyOf(parts)
            case {"type": "not", "child": child}:
                return self.convert(child, is_negated=not is_negated)
            case {"type": str(name), "term": term, **operands} if name in _OPPOSITES:
                column = self._find_column(term)
                return _convert_leaf(_OPPOSITES[name] if is_negated else name, column, operands)
            case _:
                raise InvalidInputError(f"invalid filter {str(expression)[:100]}; expected an Iceberg expression")

    def _find_column(self, term: object) -> Column | None:
        """Return the column of a term; None for a transform of a column."""
        match term:
            case str(name) | {"type": "reference", "term": str(name)}:
                column = self.columns.get(name if self.is_case_sensitive else name.lower())
                if column is None:
                    raise InvalidInputError(f"the filter references column {name[:100]!r}, which does not exist")
                return column
            case {"type": "transform"}:
                return None
            case _:
                raise InvalidInputError(f"invalid term {str(term)[:100]} in the filter; expected the name of a column")


def _convert_leaf(name: str, column: Column | None, operands: Mapping[Any, Any]) -> Predicate:
    """Return the predicate of a test of a column."""
    if column is None:
        return _EVERY_ROW
    if name in ("is-null", "not-null"):
        return IsNull(column.id, negated=name == "not-null")
    if not isinstance(column.type, _PRUNED_TYPES):
        return _EVERY_ROW
    given = operands.get("values") if name in ("in", "not-in") else [operands.get("value")]
    values = [_to_value(one, column) for one in given] if isinstance(given, list) else []
    found = [one for one in values if one is not None]
    if not found or len(found) < len(values):
        return _EVERY_ROW
    predicate: Predicate
    if name in _OPERATORS:
        predicate = ColumnComparison(column.id, _OPERATORS[name], found[0])
    elif name in ("in", "not-in"):
        predicate = IsIn(column.id, tuple(found), negated=name == "not-in")
    elif name in ("starts-with", "not-starts-with") and isinstance(found[0], str):
        predicate = StartsWith(column.id, found[0], negated=name == "not-starts-with")
    else:
        return _EVERY_ROW
    return AnyOf((IsNull(column.id), predicate)) if name.startswith("not-") else predicate


def _to_value(given: object, column: Column) -> Value | None:
    """Return a literal as a value of the column's type; None if the type cannot represent it."""
    if isinstance(given, float) and not isinstance(column.type, Float64):
        # PyIceberg would round it.
        return None
    if isinstance(column.type, TimestampNs | TimestampTzNs):
        # PyIceberg has no literals of these types.
        try:
            has_zone = isinstance(column.type, TimestampTzNs)
            return parse_nanos(given, has_zone=has_zone) if isinstance(given, str) else None
        except ValueError:
            return None
    try:
        converted: Any = literal(given).to(to_iceberg_primitive(column))  # type: ignore[type-var]
    except (TypeError, ValueError, ArithmeticError):
        return None
    if isinstance(converted, AboveMax | BelowMin):
        return None
    return from_iceberg_value(converted.value, column.type)
