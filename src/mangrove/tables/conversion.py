"""Which values may be written into which columns, with refusals that name every column at fault."""

from collections.abc import Mapping
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.schema import Schema
from mangrove.model.sql_text import type_text
from mangrove.model.types import (
    Binary,
    Char,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float4,
    Float8,
    Int2,
    Int4,
    Int8,
    List,
    Map,
    Struct,
    Time,
    Timestamp,
    TimestampTz,
    TimeTz,
    Varchar,
    is_nested,
)
from mangrove.tables.suggesting import closest

__all__ = ["accepts", "assigns", "check_columns"]

_INTEGERS: Final = (Int2, Int4, Int8)
_NUMBERS: Final = (*_INTEGERS, Decimal)
_FLOATS: Final = (Float4, Float8)
_TEXTS: Final = (Char, Varchar)
_BYTES: Final = (Fixed, Binary)
_TIMES: Final = (Time, TimeTz)


def accepts(column: DataType, given: DataType) -> bool:
    """Return whether values of type `given` can be written into a column of type `column`.

    Whether each single value fits, a narrower integer or a shorter text, is seen
    when it is written; here only what could never be meant is refused.
    """
    match column:
        case Int2() | Int4() | Int8():
            return isinstance(given, _INTEGERS)
        case Decimal():
            return isinstance(given, _NUMBERS)
        case Float4() | Float8():
            return isinstance(given, (*_FLOATS, *_NUMBERS))
        case Char() | Varchar():
            return isinstance(given, _TEXTS)
        case Fixed() | Binary():
            return isinstance(given, _BYTES)
        case Time() | TimeTz():
            return isinstance(given, _TIMES)
        case TimestampTz():
            # What has no zone is taken for UTC, as in every other place where a time is written.
            return isinstance(given, Timestamp | TimestampTz)
        case List(element):
            return isinstance(given, List) and accepts(element.type, given.element.type)
        case Map(key, value):
            return (
                isinstance(given, Map) and accepts(key.type, given.key.type) and accepts(value.type, given.value.type)
            )
        case Struct(columns):
            if not isinstance(given, Struct):
                return False
            inner = {field.name.casefold(): field.type for field in given.columns}
            known = {field.name.casefold() for field in columns}
            return inner.keys() <= known and all(
                accepts(field.type, inner[field.name.casefold()]) if field.name.casefold() in inner else field.nullable
                for field in columns
            )
        case _:
            return type(column) is type(given)


def assigns(column: DataType, given: DataType) -> bool:
    """Return whether an expression of type `given` can be set into a column, by SQL's rules of assignment.

    Numbers become numbers, days moments and moments days, and plain things text. Text
    becomes nothing else: that must be asked for with a cast.
    """
    numbers, moments = (*_NUMBERS, *_FLOATS), (Date, Timestamp, TimestampTz)
    if isinstance(column, numbers) and isinstance(given, numbers):
        return True
    if isinstance(column, moments) and isinstance(given, moments):
        return True
    if isinstance(column, _TEXTS) and not is_nested(given) and not isinstance(given, _BYTES):
        return True
    return accepts(column, given)


def check_columns(table: str, schema: Schema, given: Mapping[str, DataType | None]) -> None:
    """Refuse rows whose columns do not fit the table; a given type of None fits all, because there are only nulls."""
    by_name = {column.name.casefold(): column for column in schema.columns}
    problems = []
    seen: set[str] = set()
    for name, data_type in given.items():
        column = by_name.get(name.casefold())
        if name.casefold() in seen:
            problems.append(f"column {name!r} is given twice")
        elif column is None:
            meant = closest(name, schema.names)
            problems.append(f"column {name!r} is not in the table" + (f" (did you mean {meant!r}?)" if meant else ""))
        elif data_type is not None and not accepts(column.type, data_type):
            problems.append(f"column {name!r} is {type_text(column.type)} and the rows have {type_text(data_type)}")
        seen.add(name.casefold())
    problems += [
        f"column {column.name!r} is not null and the rows lack it"
        for column in schema.columns
        if not column.nullable and column.name.casefold() not in seen
    ]
    if problems:
        raise InvalidInputError(
            f"the rows do not fit {table}: {'; '.join(problems)}. The table has {', '.join(schema.names)}"
        )
