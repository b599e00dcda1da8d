"""Conversion between table schemas and Arrow schemas.

What Arrow cannot say is kept as metadata of the field: the id under
`PARQUET:field_id`, the comment under `comment`, the default and a type that
Arrow has no own form for under names that begin with `mangrove.`; all other
metadata of a field are the column's properties.

A nanosecond timestamp is `timestamp[ns]` in Arrow and has its type in the metadata too. Without
it, `timestamp[ns]` is a timestamp in microseconds: pandas and DeltaCAT use nanoseconds for all times.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from mangrove.errors import InvalidInputError
from mangrove.model.schema import Schema, assign_fresh_ids, check_has_columns
from mangrove.model.schema_text import format_type, parse_plain_type
from mangrove.model.types import (
    COLUMN_ID_MAX,
    ELEMENT_NAME,
    KEY_NAME,
    VALUE_NAME,
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

__all__ = ["detect_type", "field_to_arrow", "schema_from_arrow", "schema_to_arrow", "type_to_arrow"]

_FIELD_ID: Final = "PARQUET:field_id"
_COMMENT: Final = "comment"
_SCHEMAS_MAX: Final = 128
_DEFAULT: Final = "mangrove.default"
"""The default value of a column in the metadata of its Arrow field."""
_TYPE: Final = "mangrove.type"
"""The type of a column in the metadata of its Arrow field, where Arrow has no type of its own for it."""
_SCHEMA_ID: Final = "mangrove.schema_id"
_LAST_COLUMN_ID: Final = "mangrove.last_column_id"
_MANGROVE_KEYS: Final = frozenset([_FIELD_ID, _COMMENT, _DEFAULT, _TYPE])

_TO_ARROW: Final[dict[type, Any]] = {
    Boolean: pa.bool_(),
    Int16: pa.int16(),
    Int32: pa.int32(),
    Int64: pa.int64(),
    Float32: pa.float32(),
    Float64: pa.float64(),
    Char: pa.string(),
    Varchar: pa.string(),
    Date: pa.date32(),
    Time: pa.time64("us"),
    TimeTz: pa.time64("us"),
    Timestamp: pa.timestamp("us"),
    TimestampTz: pa.timestamp("us", "UTC"),
    TimestampNs: pa.timestamp("ns"),
    TimestampTzNs: pa.timestamp("ns", "UTC"),
    Binary: pa.binary(),
}
_HINTED: Final = (TimeTz, Char, TimestampNs, TimestampTzNs)
"""Types whose Arrow type alone means another type."""
_NANOSECOND_TYPES: Final = (format_type(TimestampNs()), format_type(TimestampTzNs()))
_FROM_ARROW: Final[dict[Any, DataType]] = {
    pa.bool_(): Boolean(),
    pa.int8(): Int16(),
    pa.int16(): Int16(),
    pa.int32(): Int32(),
    pa.int64(): Int64(),
    pa.uint8(): Int16(),
    pa.uint16(): Int32(),
    pa.uint32(): Int64(),
    pa.uint64(): Decimal(20),
    pa.float16(): Float32(),
    pa.float32(): Float32(),
    pa.float64(): Float64(),
    pa.string(): Varchar(),
    pa.large_string(): Varchar(),
    pa.string_view(): Varchar(),
    pa.binary(): Binary(),
    pa.large_binary(): Binary(),
    pa.binary_view(): Binary(),
    pa.date32(): Date(),
    pa.date64(): Date(),
}


@lru_cache(maxsize=_SCHEMAS_MAX)
def schema_to_arrow(schema: Schema) -> pa.Schema:
    """Return the Arrow schema from which `schema_from_arrow` gives the same schema.

    The last ones are cached: a scan of many small files needs the same one for each of them.
    """
    metadata = {_SCHEMA_ID: str(schema.schema_id), _LAST_COLUMN_ID: str(schema.last_column_id)}
    return pa.schema([_field_of(column) for column in schema.columns], metadata=_encode_metadata(metadata))


def schema_from_arrow(arrow: pa.Schema, schema_id: int | None = None, *, has_nanoseconds: bool = False) -> Schema:
    """Return the schema of an Arrow table; columns without an id get one that no other column has.

    Wider or narrower forms of a type become the one that holds all their values:
    an unsigned integer the next larger signed one, times of any unit microseconds. With
    `has_nanoseconds` those in nanoseconds are nanosecond timestamps.
    """
    given = [field_id for field in _all_fields(list(arrow)) if (field_id := _given_id(field)) is not None]
    last_column_id = max([_number(arrow, _LAST_COLUMN_ID), *given], default=0) if given else 0
    fresh = iter(range(last_column_id + 1, COLUMN_ID_MAX + 1))
    columns = tuple(_column_of(_Detection(fresh, has_nanoseconds), field, field.name) for field in arrow)
    if not given:
        columns = assign_fresh_ids(columns)
        return check_has_columns(Schema(columns, _number(arrow, _SCHEMA_ID) if schema_id is None else schema_id))
    largest = max(last_column_id, next(fresh, COLUMN_ID_MAX) - 1)
    return Schema(columns, _number(arrow, _SCHEMA_ID) if schema_id is None else schema_id, largest)


def detect_type(field: "pa.Field[Any]") -> DataType:
    """Return the type of a column for the values of a field; lengths of text are not part of it."""
    has_nanoseconds = _decode_metadata(field.metadata).get(_TYPE) in _NANOSECOND_TYPES
    bare = pa.field(field.name, field.type)
    return schema_from_arrow(pa.schema([bare]), has_nanoseconds=has_nanoseconds).columns[0].type


def field_to_arrow(name: str, data_type: DataType) -> "pa.Field[Any]":
    """Return a field without an id, from which `schema_from_arrow` gives the same type if it is a timestamp."""
    metadata = {_TYPE: format_type(data_type)} if isinstance(data_type, TimestampNs | TimestampTzNs) else {}
    return pa.field(name, type_to_arrow(data_type), metadata=_encode_metadata(metadata) or None)


def type_to_arrow(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of values of `data_type`."""
    match data_type:
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Fixed(length):
            return pa.binary(length)
        case Struct(columns):
            return pa.struct([_field_of(column) for column in columns])
        case List(element):
            return pa.list_(_field_of(element))
        case Map(key, value):
            key_field: Any = _field_of(key)
            value_field: Any = _field_of(value)
            of_fields: pa.DataType = pa.map_(key_field, value_field)
            return of_fields
        case _:
            arrow: pa.DataType = _TO_ARROW[type(data_type)]
            return arrow


def _field_of(column: Column) -> "pa.Field[Any]":
    metadata = dict(column.properties)
    for name in _MANGROVE_KEYS & metadata.keys():
        raise InvalidInputError(f"column {column.name!r} has the property {name!r}, which is reserved")
    metadata[_FIELD_ID] = str(column.id)
    if column.comment is not None:
        metadata[_COMMENT] = column.comment
    if column.default is not None:
        metadata[_DEFAULT] = column.default
    if isinstance(column.type, _HINTED) or (isinstance(column.type, Varchar) and column.type.length is not None):
        metadata[_TYPE] = format_type(column.type)
    return pa.field(column.name, type_to_arrow(column.type), column.nullable, metadata=_encode_metadata(metadata))


@dataclass(frozen=True, slots=True)
class _Detection:
    """How Arrow fields become columns."""

    fresh_ids: Iterator[int]
    has_nanoseconds: bool


def _column_of(how: _Detection, field: "pa.Field[Any]", path: str, name: str | None = None) -> Column:
    metadata = _decode_metadata(field.metadata)
    given = _given_id(field)
    data_type = _type_of(how, field.type, path)
    return Column(
        id=next(how.fresh_ids) if given is None else given,
        name=field.name if name is None else name,
        type=_apply_type_hint(data_type, field.type, metadata.get(_TYPE)),
        nullable=field.nullable and name != KEY_NAME,
        comment=metadata.get(_COMMENT),
        default=metadata.get(_DEFAULT),
        properties={key: value for key, value in metadata.items() if key not in _MANGROVE_KEYS},
    )


def _type_of(how: _Detection, arrow: Any, path: str) -> DataType:
    kind = pa.types
    if kind.is_dictionary(arrow):
        return _type_of(how, arrow.value_type, path)
    if isinstance(arrow, pa.BaseExtensionType):
        return _type_of(how, arrow.storage_type, path)
    if kind.is_decimal(arrow):
        return _decimal_of(arrow, path)
    if kind.is_fixed_size_binary(arrow):
        return Fixed(arrow.byte_width)
    if kind.is_time(arrow):
        return Time()
    if kind.is_timestamp(arrow) and arrow.unit == "ns" and how.has_nanoseconds:
        return TimestampNs() if arrow.tz is None else TimestampTzNs()
    if kind.is_timestamp(arrow):
        return Timestamp() if arrow.tz is None else TimestampTz()
    if kind.is_struct(arrow):
        inner = [arrow.field(place) for place in range(arrow.num_fields)]
        return Struct(tuple(_column_of(how, field, f"{path}.{field.name}") for field in inner))
    if kind.is_map(arrow):
        key = _column_of(how, arrow.key_field, f"{path}.{KEY_NAME}", KEY_NAME)
        return Map(key, _column_of(how, arrow.item_field, f"{path}.{VALUE_NAME}", VALUE_NAME))
    if _is_any_list(arrow):
        return List(_column_of(how, arrow.value_field, f"{path}.{ELEMENT_NAME}", ELEMENT_NAME))
    plain = _FROM_ARROW.get(arrow)
    if plain is None:
        raise InvalidInputError(f"column {path!r} has the Arrow type {arrow}, which is not supported; cast it first")
    return plain


def _decimal_of(arrow: Any, path: str) -> Decimal:
    if arrow.scale < 0:
        raise InvalidInputError(f"column {path!r} has the Arrow type {arrow} with a negative scale; cast it first")
    # A scale above the precision is legal in Arrow; a precision as large as the scale holds the same values.
    return Decimal(max(arrow.precision, arrow.scale), arrow.scale)


def _apply_type_hint(data_type: DataType, arrow: Any, hint: str | None) -> DataType:
    """Return the type that the hint names if Arrow holds it in the same form; a cast leaves stale hints behind."""
    if hint is None:
        return data_type
    named = parse_plain_type(hint)
    return named if type_to_arrow(named) in (arrow, type_to_arrow(data_type)) else data_type


def _all_fields(fields: "Iterable[pa.Field[Any]]") -> "Iterator[pa.Field[Any]]":
    for field in fields:
        yield field
        yield from _all_fields(_inner_fields(field.type))


def _inner_fields(arrow: Any) -> "list[pa.Field[Any]]":
    if pa.types.is_dictionary(arrow):
        return _inner_fields(arrow.value_type)
    if isinstance(arrow, pa.BaseExtensionType):
        return _inner_fields(arrow.storage_type)
    if pa.types.is_map(arrow):
        return [arrow.key_field, arrow.item_field]
    return [arrow.field(place) for place in range(arrow.num_fields)] if pa.types.is_nested(arrow) else []


def _is_any_list(arrow: Any) -> bool:
    kind = pa.types
    return (
        kind.is_list(arrow)
        or kind.is_large_list(arrow)
        or kind.is_fixed_size_list(arrow)
        or kind.is_list_view(arrow)
        or kind.is_large_list_view(arrow)
    )


def _given_id(field: "pa.Field[Any]") -> int | None:
    raw = (field.metadata or {}).get(_FIELD_ID.encode())
    # Writers without ids put -1 there.
    return int(raw) if raw is not None and raw.isdigit() and len(raw) <= 10 else None


def _number(arrow: pa.Schema, key: str) -> int:
    raw = (arrow.metadata or {}).get(key.encode(), b"")
    return int(raw) if raw.isdigit() and len(raw) <= 10 else 0


def _encode_metadata(metadata: dict[str, str]) -> dict[bytes | str, bytes | str]:
    return {key.encode(): value.encode() for key, value in metadata.items()}


def _decode_metadata(metadata: Any) -> dict[str, str]:
    try:
        return {key.decode(): value.decode() for key, value in (metadata or {}).items()}
    except UnicodeDecodeError as error:
        raise InvalidInputError("metadata of an Arrow schema is not UTF-8; remove or encode it first") from error
