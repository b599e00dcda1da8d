"""The protobuf codec of schemas, partition schemes and sort schemes."""

from typing import Final, Literal

from mangrove.errors import FormatError
from mangrove.layouts.tree.proto import mangrove_tree_pb2 as pb
from mangrove.model.partitioning import (
    Bucket,
    Days,
    Direction,
    Hours,
    Identity,
    Months,
    Nulls,
    PartitionField,
    PartitionScheme,
    SortField,
    SortScheme,
    Transform,
    Truncate,
    Years,
)
from mangrove.model.schema import NESTING_MAX, Schema, check_has_columns
from mangrove.model.types import (
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

__all__ = [
    "decode_partition_scheme",
    "decode_schema",
    "decode_sort_scheme",
    "fill_partition_scheme",
    "fill_schema",
    "fill_sort_scheme",
]

_NUMBERS: Final[dict[type, pb.DataType.ValueType]] = {
    Boolean: pb.BOOLEAN,
    Int16: pb.INT2,
    Int32: pb.INT4,
    Int64: pb.INT8,
    Decimal: pb.DECIMAL,
    Float32: pb.FLOAT4,
    Float64: pb.FLOAT8,
    Char: pb.CHAR,
    Varchar: pb.VARCHAR,
    Date: pb.DATE,
    Time: pb.TIME,
    TimeTz: pb.TIMETZ,
    Timestamp: pb.TIMESTAMP,
    TimestampTz: pb.TIMESTAMPTZ,
    TimestampNs: pb.TIMESTAMP_NS,
    TimestampTzNs: pb.TIMESTAMPTZ_NS,
    Fixed: pb.FIXED,
    Binary: pb.BINARY,
    Struct: pb.STRUCT,
    Map: pb.MAP,
    List: pb.LIST,
}
_PLAIN: Final[dict[int, DataType]] = {
    pb.BOOLEAN: Boolean(),
    pb.INT2: Int16(),
    pb.INT4: Int32(),
    pb.INT8: Int64(),
    pb.FLOAT4: Float32(),
    pb.FLOAT8: Float64(),
    pb.DATE: Date(),
    pb.TIME: Time(),
    pb.TIMETZ: TimeTz(),
    pb.TIMESTAMP: Timestamp(),
    pb.TIMESTAMPTZ: TimestampTz(),
    pb.TIMESTAMP_NS: TimestampNs(),
    pb.TIMESTAMPTZ_NS: TimestampTzNs(),
    pb.BINARY: Binary(),
}
_TRANSFORM_NUMBERS: Final[dict[type, pb.Transform.ValueType]] = {
    Identity: pb.TRANSFORM_IDENTITY,
    Bucket: pb.TRANSFORM_BUCKET,
    Truncate: pb.TRANSFORM_TRUNCATE,
    Years: pb.TRANSFORM_YEARS,
    Months: pb.TRANSFORM_MONTHS,
    Days: pb.TRANSFORM_DAYS,
    Hours: pb.TRANSFORM_HOURS,
}
_SIMPLE_TRANSFORMS: Final[dict[int, Transform]] = {
    pb.TRANSFORM_IDENTITY: Identity(),
    pb.TRANSFORM_YEARS: Years(),
    pb.TRANSFORM_MONTHS: Months(),
    pb.TRANSFORM_DAYS: Days(),
    pb.TRANSFORM_HOURS: Hours(),
}
_FOREIGN_PRECISION: Final = 38
"""The precision and scale of a decimal that does not record them."""


def fill_schema(message: pb.Schema, schema: Schema) -> None:
    """Write `schema` into an empty message."""
    message.SetInParent()
    message.schema_id = schema.schema_id
    message.last_column_id = schema.last_column_id
    for column in schema.columns:
        _fill_column(message.columns.add(), column)


def decode_schema(message: pb.Schema) -> Schema:
    """Return the schema in the message."""
    columns = tuple(_column_of(column, None, 1) for column in message.columns)
    last_column_id = message.last_column_id if message.HasField("last_column_id") else -1
    return check_has_columns(Schema(columns, message.schema_id, last_column_id))


def fill_partition_scheme(message: pb.PartitionScheme, scheme: PartitionScheme) -> None:
    """Write `scheme` into an empty message."""
    message.id = scheme.id
    if scheme.name is not None:
        message.name = scheme.name
    for field in scheme.fields:
        message.fields.add(
            source_id=field.source_id,
            transform=_TRANSFORM_NUMBERS[type(field.transform)],
            parameter=_parameter(field.transform),
            name=field.name,
        )


def decode_partition_scheme(message: pb.PartitionScheme) -> PartitionScheme:
    """Return the partition scheme in the message."""
    return PartitionScheme(
        tuple(
            PartitionField(field.source_id, _transform_of(field.transform, field.parameter), field.name)
            for field in message.fields
        ),
        message.id,
        message.name if message.HasField("name") else None,
    )


def fill_sort_scheme(message: pb.SortScheme, scheme: SortScheme) -> None:
    """Write `scheme` into an empty message."""
    message.id = scheme.id
    if scheme.name is not None:
        message.name = scheme.name
    for field in scheme.fields:
        message.fields.add(
            source_id=field.source_id,
            transform=_TRANSFORM_NUMBERS[type(field.transform)],
            parameter=_parameter(field.transform),
            is_descending=field.direction is Direction.DESCENDING,
            are_nulls_last=field.nulls is Nulls.LAST,
        )


def decode_sort_scheme(message: pb.SortScheme) -> SortScheme:
    """Return the sort scheme in the message."""
    return SortScheme(
        tuple(
            SortField(
                field.source_id,
                Direction.DESCENDING if field.is_descending else Direction.ASCENDING,
                Nulls.LAST if field.are_nulls_last else Nulls.FIRST,
                _transform_of(field.transform, field.parameter),
            )
            for field in message.fields
        ),
        message.id,
        message.name if message.HasField("name") else None,
    )


def _fill_column(message: pb.Column, column: Column) -> None:
    message.id = column.id
    message.name = column.name
    message.type = _NUMBERS[type(column.type)]
    message.nullable = column.nullable
    if column.properties:
        message.properties.update(column.properties)
    if column.comment is not None:
        message.comment = column.comment
    if column.default is not None:
        message.default_sql = column.default
    match column.type:
        case Decimal(precision, scale):
            message.precision, message.scale = precision, scale
        case Char(length) | Fixed(length):
            message.length = length
        case Varchar(varying_length) if varying_length is not None:
            message.length = varying_length
        case Struct(columns):
            for inner in columns:
                _fill_column(message.struct_fields.add(), inner)
        case List(element):
            _fill_column(message.list_element, element)
        case Map(key, value):
            _fill_column(message.map_key, key)
            _fill_column(message.map_value, value)


def _column_of(message: pb.Column, name: str | None, depth: int) -> Column:
    if depth > NESTING_MAX:
        raise FormatError(f"types are nested more than {NESTING_MAX} levels deep")
    return Column(
        message.id,
        message.name if name is None else name,
        _type_of(message, depth),
        message.nullable and name != KEY_NAME,
        message.comment if message.HasField("comment") else None,
        message.default_sql if message.HasField("default_sql") else None,
        message.properties,
    )


def _type_of(message: pb.Column, depth: int) -> DataType:
    number = message.type
    if number in _PLAIN:
        return _PLAIN[number]
    match number:
        case pb.DECIMAL:
            return Decimal(message.precision or _FOREIGN_PRECISION, message.scale)
        case pb.CHAR:
            return Char(message.length or 1)
        case pb.VARCHAR:
            return Varchar(message.length or None)
        case pb.FIXED:
            return Fixed(message.length or 1)
        case pb.STRUCT:
            return Struct(tuple(_column_of(inner, None, depth + 1) for inner in message.struct_fields))
        case pb.LIST:
            _require(message, "list_element")
            return List(_column_of(message.list_element, ELEMENT_NAME, depth + 1))
        case pb.MAP:
            _require(message, "map_key", "map_value")
            key = _column_of(message.map_key, KEY_NAME, depth + 1)
            return Map(key, _column_of(message.map_value, VALUE_NAME, depth + 1))
    raise FormatError(f"unknown type {number} of column {message.name!r}; use a newer release")


def _require(message: pb.Column, *names: Literal["list_element", "map_key", "map_value"]) -> None:
    for name in names:
        if not message.HasField(name):
            raise FormatError(f"column {message.name!r} has no {name}")


def _parameter(transform: Transform) -> int:
    match transform:
        case Bucket(number) | Truncate(number):
            return number
        case _:
            return 0


def _transform_of(number: int, parameter: int) -> Transform:
    if number == pb.TRANSFORM_BUCKET:
        return Bucket(parameter)
    if number == pb.TRANSFORM_TRUNCATE:
        return Truncate(parameter)
    if number not in _SIMPLE_TRANSFORMS:
        raise FormatError(f"unknown transform {number} of a field; use a newer release")
    return _SIMPLE_TRANSFORMS[number]
