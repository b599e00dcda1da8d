"""Deciding when a default is set whether rows could ever take it, so that no later append has to fail for it."""

import datetime
import decimal
import itertools
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.schema import Schema
from mangrove.model.sql_text import type_text
from mangrove.model.sql_tokens import tokenize
from mangrove.model.types import (
    Binary,
    Boolean,
    Char,
    Column,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float4,
    Float8,
    Int2,
    Int4,
    Int8,
    Timestamp,
    TimestampTz,
    Varchar,
)
from mangrove.tables.constraints import subquery_place
from mangrove.tables.expression_text import parse_expression
from mangrove.tables.expressions import BeyondArrowError, Cast, Expression, Literal, column_paths

__all__ = ["check_default", "check_defaults"]

_WITHOUT_BRACKETS: Final = frozenset(
    {"current_catalog", "current_date", "current_timestamp", "current_user", "localtimestamp", "session_user", "user"}
)
"""Functions that SQL writes like columns."""
_BITS: Final[dict[type, int]] = {Int2: 16, Int4: 32, Int8: 64}
_KINDS: Final[dict[type, str]] = {
    **dict.fromkeys((Int2, Int4, Int8, Decimal, Float4, Float8), "a number"),
    **dict.fromkeys((Char, Varchar), "text"),
    **dict.fromkeys((Date, Timestamp, TimestampTz), "a day or time"),
    **dict.fromkeys((Binary, Fixed), "bytes"),
    Boolean: "true or false",
}
_KINDS_OF_LITERALS: Final[dict[type, str]] = {
    **dict.fromkeys((int, float, decimal.Decimal), "a number"),
    **dict.fromkeys((datetime.date, datetime.datetime), "a day or time"),
    str: "text",
    bytes: "bytes",
    bool: "true or false",
}

_OF_SEVERAL_ROWS: Final = frozenset(
    {"any_value", "avg", "collect_list", "collect_set", "count", "dense_rank", "first", "first_value", "lag", "last"}
    | {"last_value", "lead", "max", "mean", "min", "over", "rank", "row_number", "sum"}
)
_EXACT: Final = decimal.Context(prec=400)
_FLOAT4_END: Final = (2 - decimal.Decimal(2) ** -24) * decimal.Decimal(2) ** 127
"""From here on a number becomes infinite as a float of 32 bits."""


def check_defaults(schema: Schema) -> None:
    """Refuse a schema of which some default can never become a value of its column."""
    for column in schema.columns:
        check_default(column)


def check_default(column: Column) -> None:
    """Refuse a default that names columns, or whose value is of another kind or too large.

    What only Spark understands is left to Spark.
    """
    if column.default is None:
        return
    _refuse_other_rows(column.name, column.default)
    try:
        expression = parse_expression(column.default)
    except BeyondArrowError:
        return
    named = sorted(".".join(names) for names in column_paths(expression) if names[-1].lower() not in _WITHOUT_BRACKETS)
    if named:
        raise InvalidInputError(
            f"the default {column.default} of column {column.name!r} names {named[0]!r}: a default knows no columns of "
            "its row, so give a value, and write a text between quotes"
        )
    given, wanted = _kind_of(expression), _KINDS.get(type(column.type))
    if given is not None and given != wanted and (wanted != "text" or given == "bytes"):
        raise InvalidInputError(
            f"the default {column.default} of column {column.name!r} is {given}, and the column is "
            f"{type_text(column.type)}: write cast(… as {type_text(column.type)}) if that is meant"
        )
    if isinstance(expression, Literal) and not _is_in_range(expression, column.type):
        raise InvalidInputError(
            f"the default {column.default} of column {column.name!r} does not fit into {type_text(column.type)}: "
            "give a smaller one, or widen the column before"
        )


def _refuse_other_rows(name: str, default: str) -> None:
    """Refuse a default that would be computed of several rows: queries, sums and windows."""
    tokens = tokenize(default)
    calls = [one.value.lower() for one, other in itertools.pairwise(tokens) if other.value == "("]
    of_rows = next((call for call in calls if call in _OF_SEVERAL_ROWS), None)
    if subquery_place(default) is not None or of_rows is not None:
        what = "a query" if of_rows is None else of_rows
        raise InvalidInputError(
            f"the default {default} of column {name!r} has {what}, which is computed of several rows: give a value"
        )


def _kind_of(expression: Expression) -> str | None:
    """Return what kind of value an expression gives, or None where only who evaluates it can tell."""
    match expression:
        case Literal(value):
            return _KINDS_OF_LITERALS.get(type(value))
        case Cast(_, data_type):
            return _KINDS.get(type(data_type))
        case _:
            return None


def _is_in_range(literal: Literal, data_type: DataType) -> bool:
    value = literal.value
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return True
    exact = decimal.Decimal(value)
    if not exact.is_finite():
        return False
    if type(data_type) in _BITS:
        end = 1 << (_BITS[type(data_type)] - 1)
        return -end <= int(exact) < end
    if isinstance(data_type, Decimal):
        half_unit = decimal.Decimal(5).scaleb(-data_type.scale - 1)
        too_much = decimal.Decimal(10).scaleb(data_type.precision - data_type.scale - 1)
        return _EXACT.add(exact.copy_abs(), half_unit) < too_much
    return not isinstance(data_type, Float4) or exact.copy_abs() < _FLOAT4_END
