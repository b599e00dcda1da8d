"""Schemas as Spark has them, with column ids where its Parquet reader looks for them."""

from dataclasses import replace
from typing import Final

from pyspark.sql import types as spark

from mangrove.errors import InvalidInputError
from mangrove.model.schema import Schema
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
)

__all__ = ["FIELD_ID", "column_type", "columns_of", "given_types", "spark_schema", "spark_type"]

FIELD_ID: Final = "parquet.field.id"
_PLAIN: Final[dict[type, spark.DataType]] = {
    Boolean: spark.BooleanType(),
    Int2: spark.ShortType(),
    Int4: spark.IntegerType(),
    Int8: spark.LongType(),
    Float4: spark.FloatType(),
    Float8: spark.DoubleType(),
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
    spark.ByteType: Int2(),
    spark.ShortType: Int2(),
    spark.IntegerType: Int4(),
    spark.LongType: Int8(),
    spark.FloatType: Float4(),
    spark.DoubleType: Float8(),
    spark.StringType: Varchar(),
    spark.CharType: Varchar(),
    spark.VarcharType: Varchar(),
    spark.DateType: Date(),
    spark.TimeType: Time(),
    spark.TimestampNTZType: Timestamp(),
    spark.TimestampType: TimestampTz(),
    spark.BinaryType: Binary(),
}


def column_type(given: spark.DataType, path: str) -> DataType | None:
    """Return the type of a column that holds what Spark has, or None for a column of nulls alone."""
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
            raise InvalidInputError(
                f"column {path!r} has Spark's type {given.simpleString()}, which no column can hold: cast it first"
            )


def given_types(schema: spark.StructType) -> dict[str, DataType | None]:
    """Return the types of the columns of rows by their names; refuse two columns that SQL cannot tell apart."""
    seen: set[str] = set()
    for name in schema.names:
        if name.casefold() in seen:
            raise InvalidInputError(f"the rows have two columns {name!r}: give one of them another name, with AS")
        seen.add(name.casefold())
    return {field.name: column_type(field.dataType, field.name) for field in schema.fields}


def columns_of(schema: spark.StructType) -> tuple[Column, ...]:
    """Return the columns that `spark_schema` was made from, as far as reading them needs."""
    return tuple(_field_of(field, "") for field in schema.fields)


def spark_schema(schema: Schema, *, with_ids: bool = True) -> spark.StructType:
    """Return the schema; everything is nullable, as what is read from files always is."""
    return spark.StructType([_field(column, with_ids=with_ids) for column in schema.columns])


def spark_type(data_type: DataType, *, with_ids: bool = False) -> spark.DataType:
    """Return the type in which Spark holds values of `data_type`."""
    match data_type:
        case Decimal(precision, scale):
            return spark.DecimalType(precision, scale)
        case Struct(columns):
            return spark.StructType([_field(column, with_ids=with_ids) for column in columns])
        case List(element):
            return spark.ArrayType(spark_type(element.type, with_ids=with_ids))
        case Map(key, value):
            return spark.MapType(spark_type(key.type, with_ids=with_ids), spark_type(value.type, with_ids=with_ids))
        case _:
            return _PLAIN[type(data_type)]


def _inner(name: str, given: spark.DataType, path: str) -> Column:
    inner = column_type(given, f"{path}.{name}")
    if inner is None:
        raise InvalidInputError(f"{f'{path}.{name}'!r} holds nulls alone, so its type is not known: cast it first")
    return Column(0, name, inner)


def _field_of(field: spark.StructField, path: str) -> Column:
    """Return the column of a field, with the ids that the field and those inside it keep."""
    column = _inner(field.name, field.dataType, path)
    if isinstance(field.dataType, spark.StructType):
        column = replace(column, type=Struct(tuple(_field_of(inner, path) for inner in field.dataType.fields)))
    return replace(column, id=(field.metadata or {}).get(FIELD_ID, 0))


def _field(column: Column, *, with_ids: bool) -> spark.StructField:
    metadata = {FIELD_ID: column.id} if with_ids else None
    return spark.StructField(column.name, spark_type(column.type, with_ids=with_ids), nullable=True, metadata=metadata)
