"""Conversion between table schemas and Spark schemas, with column ids."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any, Final

from pyspark.sql import functions as f
from pyspark.sql import types as spark

from mangrove.errors import InvalidInputError
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
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

__all__ = [
    "FIELD_ID",
    "detect_column_types",
    "from_spark_schema",
    "from_spark_type",
    "reorder_struct_fields",
    "to_spark_schema",
    "to_spark_type",
]


def reorder_struct_fields(value: Any, given: spark.DataType, target: spark.DataType) -> Any:
    """Return the value with its fields in the target order at every level; missing fields are null."""
    if not _differs(given, target):
        return value
    match given, target:
        case spark.StructType(), spark.StructType():
            own = {field.name.casefold(): field for field in given.fields}
            parts = []
            for field in target.fields:
                found = own.get(field.name.casefold())
                if found is None:
                    part = f.lit(None).cast(field.dataType)
                else:
                    part = reorder_struct_fields(value.getField(found.name), found.dataType, field.dataType)
                parts.append(part.alias(field.name))
            return f.when(value.isNotNull(), f.struct(*parts))
        case spark.ArrayType(), spark.ArrayType():
            return f.transform(value, lambda one: reorder_struct_fields(one, given.elementType, target.elementType))
        case spark.MapType(), spark.MapType():
            values = f.transform_values(
                value, lambda _, one: reorder_struct_fields(one, given.valueType, target.valueType)
            )
            return f.transform_keys(values, lambda key, _: reorder_struct_fields(key, given.keyType, target.keyType))
        case _:
            raise AssertionError("only nested types can differ in the order of their fields")


def _differs(given: spark.DataType, target: spark.DataType) -> bool:
    match given, target:
        case spark.StructType(), spark.StructType():
            own, theirs = ([field.name.casefold() for field in one.fields] for one in (given, target))
            pairs = zip(given.fields, target.fields, strict=False)
            return own != theirs or any(_differs(one.dataType, to.dataType) for one, to in pairs)
        case spark.ArrayType(), spark.ArrayType():
            return _differs(given.elementType, target.elementType)
        case spark.MapType(), spark.MapType():
            return _differs(given.keyType, target.keyType) or _differs(given.valueType, target.valueType)
        case _:
            return False


FIELD_ID: Final = "parquet.field.id"
_PLAIN: Final[dict[type, spark.DataType]] = {
    Boolean: spark.BooleanType(),
    Int16: spark.ShortType(),
    Int32: spark.IntegerType(),
    Int64: spark.LongType(),
    Float32: spark.FloatType(),
    Float64: spark.DoubleType(),
    Char: spark.StringType(),
    Varchar: spark.StringType(),
    Date: spark.DateType(),
    Time: spark.TimeType(6),
    TimeTz: spark.TimeType(6),
    Timestamp: spark.TimestampNTZType(),
    TimestampTz: spark.TimestampType(),
    Fixed: spark.BinaryType(),
    Binary: spark.BinaryType(),
}


_BACK: Final[dict[type, DataType]] = {
    spark.BooleanType: Boolean(),
    spark.ByteType: Int16(),
    spark.ShortType: Int16(),
    spark.IntegerType: Int32(),
    spark.LongType: Int64(),
    spark.FloatType: Float32(),
    spark.DoubleType: Float64(),
    spark.StringType: Varchar(),
    spark.CharType: Varchar(),
    spark.VarcharType: Varchar(),
    spark.DateType: Date(),
    spark.TimeType: Time(),
    spark.TimestampNTZType: Timestamp(),
    spark.TimestampType: TimestampTz(),
    spark.BinaryType: Binary(),
}


def from_spark_type(given: spark.DataType, path: str) -> DataType | None:
    """Return the column type for a Spark type, or None for an all-null column."""
    match given:
        case spark.NullType():
            return None
        case spark.DecimalType():
            return Decimal(given.precision, given.scale)
        case spark.StructType():
            return Struct(tuple(_inner(field.name, field.dataType, path) for field in given.fields))
        case spark.ArrayType():
            return List(_inner(ELEMENT_NAME, given.elementType, path))
        case spark.MapType():
            key = replace(_inner(KEY_NAME, given.keyType, path), nullable=False)
            return Map(key, _inner(VALUE_NAME, given.valueType, path))
        case _ if type(given) in _BACK:
            return _BACK[type(given)]
        case _:
            raise InvalidInputError(f"column {path!r} has the unsupported Spark type {given.simpleString()}; cast it")


def detect_column_types(schema: spark.StructType) -> dict[str, DataType | None]:
    """Return the column types by name; raise InvalidInputError for duplicate names."""
    seen: set[str] = set()
    for name in schema.names:
        if name.casefold() in seen:
            raise InvalidInputError(f"the rows have two columns {name!r}; rename one of them with AS")
        seen.add(name.casefold())
    return {field.name: from_spark_type(field.dataType, field.name) for field in schema.fields}


def from_spark_schema(schema: spark.StructType) -> tuple[Column, ...]:
    """Return the schema of a Spark schema that `to_spark_schema` created, as far as reading needs it.

    Elements, keys and values, which have no ids in Spark, get unused ones.
    """
    unused = count(COLUMN_ID_MAX, -1)
    return tuple(_restore_column(field, unused) for field in schema.fields)


def to_spark_schema(schema: Schema, *, with_ids: bool = True) -> spark.StructType:
    """Return the Spark schema; all fields are nullable, like those of any Spark file source."""
    return spark.StructType([_field(column, with_ids=with_ids) for column in schema.columns])


def to_spark_type(data_type: DataType, *, with_ids: bool = False) -> spark.DataType:
    """Return the Spark type of `data_type`."""
    match data_type:
        case Decimal(precision, scale):
            return spark.DecimalType(precision, scale)
        case Struct(columns):
            return spark.StructType([_field(column, with_ids=with_ids) for column in columns])
        case List(element):
            return spark.ArrayType(to_spark_type(element.type, with_ids=with_ids))
        case Map(key, value):
            return spark.MapType(
                to_spark_type(key.type, with_ids=with_ids), to_spark_type(value.type, with_ids=with_ids)
            )
        case TimestampNs() | TimestampTzNs():
            raise InvalidInputError(
                f"the table has a column of type {format_type(data_type)}, which Spark does not have; select other "
                "columns, or use engine='local' in Python and engine='duckdb' in SQL"
            )
        case _:
            return _PLAIN[type(data_type)]


def _inner(name: str, given: spark.DataType, path: str) -> Column:
    inner = from_spark_type(given, f"{path}.{name}")
    if inner is None:
        raise InvalidInputError(f"{f'{path}.{name}'!r} has only nulls, so its type is unknown; cast it")
    return Column(0, name, inner)


def _restore_column(field: spark.StructField, unused: Iterator[int]) -> Column:
    column_id = (field.metadata or {}).get(FIELD_ID)
    return Column(next(unused) if column_id is None else column_id, field.name, _restore_type(field.dataType, unused))


def _restore_type(given: spark.DataType, unused: Iterator[int]) -> DataType:
    """Return the type of a Spark type, with the ids of nested fields."""
    match given:
        case spark.StructType():
            return Struct(tuple(_restore_column(field, unused) for field in given.fields))
        case spark.ArrayType():
            return List(Column(next(unused), ELEMENT_NAME, _restore_type(given.elementType, unused)))
        case spark.MapType():
            key = Column(next(unused), KEY_NAME, _restore_type(given.keyType, unused), nullable=False)
            return Map(key, Column(next(unused), VALUE_NAME, _restore_type(given.valueType, unused)))
        case _:
            plain = from_spark_type(given, "")
            assert plain is not None
            return plain


def _field(column: Column, *, with_ids: bool) -> spark.StructField:
    metadata = {FIELD_ID: column.id} if with_ids else None
    return spark.StructField(
        column.name, to_spark_type(column.type, with_ids=with_ids), nullable=True, metadata=metadata
    )
