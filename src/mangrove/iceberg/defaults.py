"""Defaults of columns in format version 3: conversion between values and the SQL text that a column has.

A `write-default` is the default of the column. An `initial-default` is the value in rows that were
written before the column was added. Readers of Mangrove do not fill it in. So the commit that adds the
column updates such rows, and the value is published again.
"""

import datetime
import decimal
import math
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.expressions.expr import Cast, Literal, LiteralValue, RequiresSparkError
from mangrove.expressions.parse import parse_expression
from mangrove.expressions.sql_expression import format_literal
from mangrove.model.schema_text import format_type
from mangrove.model.types import (
    Boolean,
    Char,
    Column,
    DataType,
    Date,
    Decimal,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    Varchar,
)

__all__ = ["INITIAL_DEFAULT", "format_default", "initial_default_of", "parse_default"]

INITIAL_DEFAULT: Final = "iceberg.initial-default"
"""Column property with the initial default as SQL text."""
_INTEGERS: Final = (Int16, Int32, Int64)
_FLOATS: Final = (Float32, Float64)


def format_default(value: object, data_type: DataType, where: str) -> str:
    """Return the SQL text of a default of an Iceberg client; raise InvalidInputError for unsupported types."""
    match value:
        case bool() if isinstance(data_type, Boolean):
            return format_literal(value)
        case int() if isinstance(data_type, _INTEGERS) and not isinstance(value, bool):
            return format_literal(value)
        case float() if isinstance(data_type, _FLOATS) and math.isfinite(value):
            return repr(value) if "e" in repr(value) else f"{value!r}e0"
        case decimal.Decimal() if isinstance(data_type, Decimal):
            return f"cast('{value:f}' as {format_type(data_type)})"
        case str() if isinstance(data_type, Char | Varchar):
            return format_literal(value)
        case datetime.date() if isinstance(data_type, Date):
            return format_literal(value)
    raise InvalidInputError(
        f"{where} has the unsupported default {value!r}; booleans, numbers, strings and dates can have one"
    )


def parse_default(text: str | None, data_type: DataType) -> LiteralValue:
    """Return the value of a default that Iceberg clients can have; None if it is no constant of its type."""
    try:
        expression = None if text is None else parse_expression(text)
    except RequiresSparkError:
        return None
    match expression:
        case Literal(value) | Cast(Literal(value), _):
            return _convert(value, data_type)
        case _:
            return None


def initial_default_of(column: Column) -> LiteralValue:
    """Return the value of a column in rows that were written before it was added, as clients read it."""
    return parse_default(column.properties.get(INITIAL_DEFAULT), column.type)


def _convert(value: LiteralValue, data_type: DataType) -> LiteralValue:
    match value:
        case bool():
            return value if isinstance(data_type, Boolean) else None
        case str() if isinstance(data_type, Decimal):
            return _to_decimal(value, data_type)
        case str():
            return value if isinstance(data_type, Char | Varchar) else None
        case int() | float() | decimal.Decimal() if isinstance(data_type, _FLOATS):
            return float(value)
        case int() | decimal.Decimal() if isinstance(data_type, Decimal):
            return _to_decimal(str(value), data_type)
        case int():
            return value if isinstance(data_type, _INTEGERS) else None
        case datetime.datetime():
            return None
        case datetime.date():
            return value if isinstance(data_type, Date) else None
        case _:
            return None


def _to_decimal(text: str, data_type: Decimal) -> decimal.Decimal | None:
    try:
        found = decimal.Decimal(text).quantize(decimal.Decimal(1).scaleb(-data_type.scale))
    except decimal.InvalidOperation:
        return None
    return found if len(found.as_tuple().digits) <= data_type.precision else None
