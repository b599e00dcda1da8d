"""Casts of query columns to table columns by the SQL store assignment rules."""

import re
from collections.abc import Sequence
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType

from mangrove.errors import InvalidInputError
from mangrove.model.names import quote_name
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
from mangrove.model.types import Column, Float32, is_nested
from mangrove.spark.types import from_spark_type, reorder_struct_fields, to_spark_type
from mangrove.spark.write_checks import cast_without_overflow
from mangrove.tables.type_compatibility import can_assign_type, can_cast_type

__all__ = ["cast_by_name", "cast_for_assignment", "translate_cast_failure"]

_CAST_FAILURE: Final = re.compile(r"column '[^\n]*, which cannot hold [^\n]*?(?= SQLSTATE|$)", re.MULTILINE)


def cast_for_assignment(
    rows: DataFrame, names: Sequence[str], schema: Schema, table: str, *, fields_by_name: bool = False
) -> DataFrame:
    """Return the rows with their columns, in order, renamed and cast to the table's columns.

    A value that does not fit its column fails the write: Spark's own cast overflows
    silently unless the session uses ANSI mode. Struct fields are matched by position,
    as in Spark, or by name if the columns are.
    """
    if len(rows.columns) != len(names):
        raise InvalidInputError(
            f"the query has {len(rows.columns)} columns, but {table} takes {len(names)}: {', '.join(names)}"
        )
    # Columns of a query may share a name, so they are renamed by position.
    places = [f"mangrove {place}" for place in range(len(names))]
    renamed = rows.toDF(*places)
    if fields_by_name:
        target = [to_spark_type(schema.column(name).type) for name in names]
        given = [field.dataType for field in renamed.schema.fields]
        ordered = map(reorder_struct_fields, map(f.col, map("`{}`".format, places)), given, target)
        renamed = renamed.select(*(value.alias(place) for value, place in zip(ordered, places, strict=True)))
    chosen = [
        _cast(renamed, place, schema.column(name), table).alias(schema.column(name).name)
        for place, name in zip(places, names, strict=True)
    ]
    return renamed.select(*chosen)


def translate_cast_failure(error: PySparkException) -> InvalidInputError | None:
    """Return the error for a value that could not be cast, if that is why Spark failed."""
    match = _CAST_FAILURE.search(str(error))
    return None if match is None else InvalidInputError(match[0])


def cast_by_name(rows: DataFrame, schema: Schema, table: str) -> DataFrame:
    """Return rows whose columns are cast to the table's columns with the same names, if a cast can convert them."""
    columns = {column.name.casefold(): column for column in schema.columns}
    selected = []
    for field in rows.schema.fields:
        value, column = rows[quote_name(field.name)], columns.get(field.name.casefold())
        given = None if column is None else from_spark_type(field.dataType, field.name)
        if column is not None and given is not None and can_cast_type(column.type, given):
            value = _convert(value, field.dataType, column, table).alias(field.name)
        selected.append(value)
    return rows.select(*selected)


def _cast(rows: DataFrame, place: str, column: Column, table: str) -> SparkColumn:
    given = rows.schema[place].dataType
    given_type = from_spark_type(given, column.name)
    value = f.col(f"`{place}`")
    target = to_spark_type(column.type)
    if given_type is None:
        return value.cast(target)
    if not can_assign_type(column.type, given_type):
        raise InvalidInputError(
            f"column {column.name!r} of {table} is {format_type(column.type)}, but the query has "
            f"{given.simpleString()}; use a cast"
        )
    return _convert(value, given, column, table)


def _convert(value: SparkColumn, given: DataType, column: Column, table: str) -> SparkColumn:
    """Return a cast that fails the write if a value does not fit the column."""
    target = to_spark_type(column.type)
    message = f"column {column.name!r} of {table} is {format_type(column.type)}, which cannot hold "
    if given == target or is_nested(column.type) or isinstance(column.type, Float32):
        return cast_without_overflow(value, given, target, message)
    converted = value.try_cast(target)
    error = f.raise_error(f.concat(f.lit(message), value.cast("string")))
    return f.when(value.isNotNull() & converted.isNull(), error.cast(target)).otherwise(converted)
