"""Formatting of types and columns as Spark SQL text, and the names of types without columns inside.

`mangrove.expressions.schema_text` parses schemas, columns and types.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.names import quote_name
from mangrove.model.types import (
    Binary,
    Boolean,
    Char,
    Column,
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
)

__all__ = [
    "TYPES_ALLOWED",
    "find_plain_type",
    "format_column",
    "format_type",
    "parse_plain_type",
    "quote_text",
]


_ESCAPES: Final = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\u0000"}


def quote_text(text: str) -> str:
    """Return `text` as a literal that Spark and our parser read back."""
    return "'" + "".join(_ESCAPES.get(character, character) for character in text) + "'"


_PLAIN: Final[dict[str, DataType]] = {
    "boolean": Boolean(),
    "bool": Boolean(),
    "tinyint": Int16(),
    "byte": Int16(),
    "smallint": Int16(),
    "short": Int16(),
    "int2": Int16(),
    "int": Int32(),
    "integer": Int32(),
    "int4": Int32(),
    "bigint": Int64(),
    "long": Int64(),
    "int8": Int64(),
    "float": Float32(),
    "real": Float32(),
    "float4": Float32(),
    "double": Float64(),
    "float8": Float64(),
    "string": Varchar(),
    "text": Varchar(),
    "date": Date(),
    "time": Time(),
    "timetz": TimeTz(),
    "timestamp": TimestampTz(),
    "timestamp_ltz": TimestampTz(),
    "timestamptz": TimestampTz(),
    "timestamp_ntz": Timestamp(),
    "timestamp_ns": TimestampNs(),
    "timestamptz_ns": TimestampTzNs(),
    "binary": Binary(),
    "bytes": Binary(),
}
_SIZED: Final[dict[str, Callable[[int], DataType]]] = {
    "char": Char,
    "character": Char,
    "varchar": Varchar,
    "fixed": Fixed,
}
_PLAIN_TYPE: Final = re.compile(r"\s*(\w+)\s*(?:\(\s*(\d{1,10})\s*(?:,\s*(\d{1,10})\s*)?\))?\s*")
_DECIMALS: Final = ("decimal", "dec", "numeric")
_DECIMAL_PRECISION: Final = 10
TYPES_ALLOWED: Final = (
    "boolean, tinyint, smallint, int, bigint, decimal(p,s), float, double, char(n), varchar(n), string, date, time, "
    "timetz, timestamp, timestamp_ntz, timestamp_ns, timestamptz_ns, fixed(n), binary, array<…>, map<…,…>, struct<…>"
)
_TYPE_NAMES: Final[dict[type, str]] = {
    Boolean: "boolean",
    Int16: "smallint",
    Int32: "int",
    Int64: "bigint",
    Float32: "float",
    Float64: "double",
    Date: "date",
    Time: "time",
    TimeTz: "timetz",
    Timestamp: "timestamp_ntz",
    TimestampTz: "timestamp",
    TimestampNs: "timestamp_ns",
    TimestampTzNs: "timestamptz_ns",
    Binary: "binary",
}


def find_plain_type(word: str, sizes: Sequence[int] = ()) -> DataType | None:
    """Return the type with this name and these sizes that has no columns inside, or None where there is none."""
    if word in _DECIMALS and len(sizes) <= 2:
        return Decimal(*sizes) if sizes else Decimal(_DECIMAL_PRECISION)
    if word in _SIZED and len(sizes) == 1:
        return _SIZED[word](sizes[0])
    return {**_PLAIN, "varchar": Varchar()}.get(word) if not sizes else None


def parse_plain_type(text: str) -> DataType:
    """Return the type that `format_type` printed, of a type that has no columns inside."""
    match = _PLAIN_TYPE.fullmatch(text)
    found = match and find_plain_type(match[1].lower(), [int(size) for size in match.groups()[1:] if size])
    if not found:
        raise InvalidInputError(f"unknown type {text!r}; expected one of {TYPES_ALLOWED}")
    return found


def format_type(data_type: DataType) -> str:
    """Return text that `expressions.schema_text.parse_type` reads back."""
    match data_type:
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Char(length):
            return f"char({length})"
        case Varchar(None):
            return "string"
        case Varchar(length):
            return f"varchar({length})"
        case Fixed(length):
            return f"fixed({length})"
        case Struct(columns):
            return f"struct<{', '.join(format_column(column, ': ') for column in columns)}>"
        case List(element):
            return f"array<{_inner_text(element)}>"
        case Map(key, value):
            return f"map<{_inner_text(key, is_key=True)}, {_inner_text(value)}>"
        case _:
            return _TYPE_NAMES[type(data_type)]


def format_column(column: Column, separator: str = " ") -> str:
    """Return the text of a column without its default."""
    return f"{quote_name(column.name)}{separator}{_inner_text(column)}"


def _inner_text(column: Column, *, is_key: bool = False) -> str:
    null = "" if column.nullable or is_key else " not null"
    comment = "" if column.comment is None else f" comment {quote_text(column.comment)}"
    return f"{format_type(column.type)}{null}{comment}"
