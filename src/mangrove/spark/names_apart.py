"""Columns whose names meant other columns in earlier files, under names that no file has.

Spark finds columns by their ids, but looks for what it pushes into a file, a condition
or the type that it expects, by the name that a column has now. In a file that was
written before two columns swapped their names, that is the other column: rows that are
meant would be skipped. What no file knows is never pushed, and so decided row by row.
"""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from mangrove.model.schema import Schema
from mangrove.model.types import Column, DataType, List, Map, Struct
from mangrove.spark.types import spark_type

__all__ = ["named_apart", "named_back"]


def named_apart(schema: Schema, earlier: Sequence[Schema]) -> Schema:
    """Return the schema with other names for columns whose name, or one inside them, was another column's once.

    To Spark names are the same however they are capitalised.
    """
    if not earlier:
        return schema
    now = {_folded(path): (path[0], column.id) for path, column in schema.all_columns()}
    once = ((now.get(_folded(path)), column.id) for old in earlier for path, column in old.all_columns())
    taken = {found[0] for found, column_id in once if found is not None and found[1] != column_id}
    if not taken:
        return schema
    columns = (_apart(column) if column.name in taken else column for column in schema.columns)
    return replace(schema, columns=tuple(columns))


def named_back(rows: DataFrame, apart: Schema, schema: Schema) -> DataFrame:
    """Return rows that were read with the names of one schema with those of the other."""
    if apart is schema:
        return rows
    read = set(rows.columns)
    pairs = [pair for pair in zip(apart.columns, schema.columns, strict=True) if pair[0].name in read]
    # Parts keep their order, and that is how a cast finds their names.
    whole = {
        one.name: f.col(f"`{one.name}`").cast(spark_type(named.type)) for one, named in pairs if one.type != named.type
    }
    return (rows.withColumns(whole) if whole else rows).withColumnsRenamed(
        {one.name: named.name for one, named in pairs if one.name != named.name}
    )


def _apart(column: Column) -> Column:
    return replace(column, name=f"mangrove column {column.id}", type=_apart_inside(column.type))


def _apart_inside(given: DataType) -> DataType:
    match given:
        case Struct(columns):
            return Struct(tuple(map(_apart, columns)))
        case List(element):
            return List(replace(element, type=_apart_inside(element.type)))
        case Map(key, value):
            return Map(replace(key, type=_apart_inside(key.type)), replace(value, type=_apart_inside(value.type)))
        case _:
            return given


def _folded(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.casefold() for name in path)
