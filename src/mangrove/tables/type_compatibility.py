"""Type compatibility rules for writes and assignments."""

import decimal
from collections.abc import Mapping
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.names import find_closest_name, quote_name
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
from mangrove.model.types import (
    Binary,
    Char,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    List,
    Map,
    Struct,
    Time,
    Timestamp,
    TimestampNs,
    TimestampTz,
    TimestampTzNs,
    TimeTz,
    Varchar,
    is_nested,
)

__all__ = [
    "can_assign_type",
    "can_cast_type",
    "can_write_type",
    "check_columns",
    "describe_invalid_decimal",
]

_DIGITS_MAX: Final = 38
"""The maximum precision of a decimal in any engine."""

_INTEGERS: Final = (Int16, Int32, Int64)
_NUMBERS: Final = (*_INTEGERS, Decimal)
_FLOATS: Final = (Float32, Float64)
_TEXTS: Final = (Char, Varchar)
_BYTES: Final = (Fixed, Binary)
_TIMES: Final = (Time, TimeTz)
_TIMESTAMPS: Final = (Timestamp, TimestampNs, TimestampTz, TimestampTzNs)


def can_write_type(column: DataType, given: DataType) -> bool:
    """Return whether values of type `given` can be written into a column of type `column`.

    Whether each value fits, such as a narrower integer or a shorter text, is checked at the
    write; here only incompatible types are rejected.
    """
    match column:
        case Int16() | Int32() | Int64():
            return isinstance(given, _INTEGERS)
        case Decimal():
            return isinstance(given, _NUMBERS)
        case Float32() | Float64():
            return isinstance(given, (*_FLOATS, *_NUMBERS))
        case Char() | Varchar():
            return isinstance(given, _TEXTS)
        case Fixed() | Binary():
            return isinstance(given, _BYTES)
        case Time() | TimeTz():
            return isinstance(given, _TIMES)
        case Timestamp() | TimestampNs():
            return isinstance(given, Timestamp | TimestampNs)
        case TimestampTz() | TimestampTzNs():
            # Times without a zone are UTC, as in every other write.
            return isinstance(given, _TIMESTAMPS)
        case List(element):
            return isinstance(given, List) and can_write_type(element.type, given.element.type)
        case Map(key, value):
            return (
                isinstance(given, Map)
                and can_write_type(key.type, given.key.type)
                and can_write_type(value.type, given.value.type)
            )
        case Struct(columns):
            if not isinstance(given, Struct):
                return False
            inner = {field.name.casefold(): field.type for field in given.columns}
            known = {field.name.casefold() for field in columns}
            return inner.keys() <= known and all(
                can_write_type(field.type, inner[field.name.casefold()])
                if field.name.casefold() in inner
                else field.nullable
                for field in columns
            )
        case _:
            return type(column) is type(given)


def can_assign_type(column: DataType, given: DataType) -> bool:
    """Return whether an expression of type `given` can be assigned to a column, by the SQL rules.

    Numbers convert to numbers, dates to timestamps and back, and primitive types to text.
    Text converts to nothing else without a cast.
    """
    numbers, times = (*_NUMBERS, *_FLOATS), (Date, *_TIMESTAMPS)
    if isinstance(column, numbers) and isinstance(given, numbers):
        return True
    if isinstance(column, times) and isinstance(given, times):
        return True
    if isinstance(column, _TEXTS) and not is_nested(given) and not isinstance(given, _BYTES):
        return True
    return can_write_type(column, given)


def can_cast_type(column: DataType, given: DataType) -> bool:
    """Return whether a cast can convert values of type `given` to those of a column, if each value allows it."""
    is_text_for_value = isinstance(given, _TEXTS) and not is_nested(column) and not isinstance(column, _BYTES)
    return is_text_for_value or can_assign_type(column, given)


def check_columns(table: str, schema: Schema, given: Mapping[str, DataType | None]) -> None:
    """Raise an error for rows whose columns do not match the table; a type of None matches all (only nulls)."""
    by_name = {column.name.casefold(): column for column in schema.columns}
    problems, casts = [], []
    seen: set[str] = set()
    for name, data_type in given.items():
        column = by_name.get(name.casefold())
        if name.casefold() in seen:
            problems.append(f"column {name!r} is given twice")
        elif column is None:
            closest = find_closest_name(name, schema.names)
            problems.append(
                f"column {name!r} is not in the table" + (f" (did you mean {closest!r}?)" if closest else "")
            )
        elif data_type is not None and not can_write_type(column.type, data_type):
            problems.append(
                f"column {name!r} is {format_type(column.type)}, but the rows have {format_type(data_type)}"
            )
            if can_cast_type(column.type, data_type):
                casts.append(f"CAST({quote_name(name)} AS {format_type(column.type)})")
        seen.add(name.casefold())
    problems += [
        f"column {column.name!r} is not null, but missing in the rows"
        for column in schema.columns
        if not column.nullable and column.name.casefold() not in seen
    ]
    if problems:
        remedy = f". Convert the values with {', '.join(casts)}, or append with cast=True" if casts else ""
        raise InvalidInputError(
            f"the rows do not match {table}: {'; '.join(problems)}. The table has {', '.join(schema.names)}{remedy}"
        )


def describe_invalid_decimal(value: decimal.Decimal) -> str | None:
    """Return the problem of a decimal that no decimal column can store, with a remedy, or None.

    >>> describe_invalid_decimal(decimal.Decimal("NaN"))
    'NaN, but decimals have no NaN or infinity; give None or a number'
    """
    if not value.is_finite():
        return f"{value}, but decimals have no NaN or infinity; give None or a number"
    if value.adjusted() >= _DIGITS_MAX:
        return f"{value:.3e}, but decimals have at most {_DIGITS_MAX} digits; give a float for a double column"
    return None
