"""How much memory a row takes, judged by the types of its columns, and so how many rows make a file."""

from typing import Final

from mangrove.model.schema import Schema
from mangrove.model.types import (
    Binary,
    Boolean,
    Char,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float4,
    Int2,
    Int4,
    List,
    Map,
    Struct,
    Varchar,
)

__all__ = ["row_size_bytes", "rows_of_file"]

_NARROW: Final[dict[type, int]] = {Boolean: 1, Int2: 2, Int4: 4, Float4: 4, Date: 4}
_WIDE_BYTES: Final = 8
_VARIABLE_BYTES: Final = 32
"""What texts and bytes of unknown length are taken for."""
_ENTRIES: Final = 4
"""How many entries a list or map is taken to have."""


def row_size_bytes(schema: Schema) -> int:
    """Return about how large a row is in memory; it is an estimate, since texts have any length."""
    return sum(_size(column.type) for column in schema.columns)


def rows_of_file(schema: Schema, file_size_bytes: int) -> int:
    """Return how many rows make a file of that size, at least one."""
    return max(1, file_size_bytes // max(1, row_size_bytes(schema)))


def _size(data_type: DataType) -> int:
    match data_type:
        case Decimal():
            return 16
        case Fixed(length):
            return length
        case Struct(columns):
            return sum(_size(column.type) for column in columns)
        case List(element):
            return _ENTRIES * _size(element.type)
        case Map(key, value):
            return _ENTRIES * (_size(key.type) + _size(value.type))
        case _ if type(data_type) in _NARROW:
            return _NARROW[type(data_type)]
        case Char() | Varchar() | Binary():
            return _VARIABLE_BYTES
        case _:
            return _WIDE_BYTES
