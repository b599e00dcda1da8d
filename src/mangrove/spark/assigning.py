"""Fitting the columns of a query to those of a table by SQL's rules of assignment, whatever the session is set to."""

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from mangrove.errors import InvalidInputError
from mangrove.model.schema import Schema
from mangrove.model.sql_text import type_text
from mangrove.model.types import Column, Float4, is_nested
from mangrove.spark.nesting import by_field_names
from mangrove.spark.overflow import cast_without_overflow
from mangrove.spark.types import column_type, spark_type
from mangrove.tables.conversion import assigns

__all__ = ["assigned"]


def assigned(
    rows: DataFrame, names: Sequence[str], schema: Schema, table: str, *, fields_by_name: bool = False
) -> DataFrame:
    """Return the rows with their columns, in order, under the names of a table's columns and in their types.

    A value that its column cannot hold stops the write: Spark's own cast would let it
    overflow where the session is not set to the rules of ANSI. The fields of structs go
    by their places, as in Spark, or by their names where the columns do.
    """
    if len(rows.columns) != len(names):
        raise InvalidInputError(
            f"the query gives {len(rows.columns)} columns, and {table} takes {len(names)}: {', '.join(names)}"
        )
    # Columns of a query may share a name, so they are renamed by their places.
    places = [f"mangrove {place}" for place in range(len(names))]
    renamed = rows.toDF(*places)
    if fields_by_name:
        wanted = [spark_type(schema.column(name).type) for name in names]
        given = [field.dataType for field in renamed.schema.fields]
        ordered = map(by_field_names, map(f.col, map("`{}`".format, places)), given, wanted)
        renamed = renamed.select(*(value.alias(place) for value, place in zip(ordered, places, strict=True)))
    chosen = [
        _cast(renamed, place, schema.column(name), table).alias(schema.column(name).name)
        for place, name in zip(places, names, strict=True)
    ]
    return renamed.select(*chosen)


def _cast(rows: DataFrame, place: str, column: Column, table: str) -> SparkColumn:
    given = rows.schema[place].dataType
    found = column_type(given, column.name)
    value = f.col(f"`{place}`")
    wanted = spark_type(column.type)
    if found is None:
        return value.cast(wanted)
    if not assigns(column.type, found):
        raise InvalidInputError(
            f"column {column.name!r} of {table} is {type_text(column.type)}, and the query gives "
            f"{given.simpleString()}: cast it"
        )
    message = f"column {column.name!r} of {table} is {type_text(column.type)}, which cannot hold "
    if given == wanted or is_nested(column.type) or isinstance(column.type, Float4):
        return cast_without_overflow(value, given, wanted, message)
    kept = value.try_cast(wanted)
    error = f.raise_error(f.concat(f.lit(message), value.cast("string")))
    return f.when(value.isNotNull() & kept.isNull(), error.cast(wanted)).otherwise(kept)
