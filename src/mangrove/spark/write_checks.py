"""Checks of written rows for duplicate keys and float overflow.

The written files are checked and not the DataFrame, which may return other rows when it
is computed again. Few keys are compared in this process, which is faster than starting a
task; Spark compares many.
"""

import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as spark

from mangrove.errors import InvalidInputError
from mangrove.local.keys import check_keys_unique
from mangrove.local.parquet import read_columns
from mangrove.local.python_rows import to_python_rows
from mangrove.model.manifests import DataFile
from mangrove.model.schema import Schema
from mangrove.spark.file_lists import FileLists
from mangrove.spark.scan import to_listed_files
from mangrove.spark.types import to_spark_schema
from mangrove.storage.port import Store
from mangrove.tables.table_state import TableState

__all__ = ["LOCAL_ROWS_MAX", "can_overflow", "cast_without_overflow", "check_distinct_keys"]

_FLOAT_MAX: Final = (2 - 2**-23) * 2.0**127
_TOO_LARGE: Final = _FLOAT_MAX + 2.0**102
"""From this value on, a double rounds to infinity as a float."""


def can_overflow(given: spark.DataType, target: spark.DataType) -> bool:
    """Return whether a value may overflow: a double for a float column."""
    match given, target:
        case spark.DoubleType(), spark.FloatType():
            return True
        case spark.ArrayType(), spark.ArrayType():
            return can_overflow(given.elementType, target.elementType)
        case spark.MapType(), spark.MapType():
            return can_overflow(given.keyType, target.keyType) or can_overflow(given.valueType, target.valueType)
        case spark.StructType(), spark.StructType():
            return any(can_overflow(one.dataType, to.dataType) for one, to in _pairs(given, target))
        case _:
            return False


def cast_without_overflow(value: Column, given: spark.DataType, target: spark.DataType, message: str) -> Column:
    """Return the value cast to another type; an overflow fails the job with the message and the value."""
    if not can_overflow(given, target):
        return value.cast(target)
    value_text = value.cast("string") if isinstance(given, spark.DoubleType) else f.to_json(f.struct(value))
    error = f.raise_error(f.concat(f.lit(message), value_text)).cast(target)
    return f.when(_too_large(value, given, target), error).otherwise(value.cast(target))


def _too_large(value: Any, given: spark.DataType, target: spark.DataType) -> Any:
    """Return whether a number in the value overflows."""
    match given, target:
        case spark.DoubleType(), spark.FloatType():
            size = f.abs(value)
            # NaN sorts above every number in Spark but does not overflow.
            return (size >= f.lit(_TOO_LARGE)) & (size < f.lit(float("inf")))
        case spark.ArrayType(), spark.ArrayType():
            return _any_of(value, given.elementType, target.elementType)
        case spark.MapType(), spark.MapType():
            keys = _any_of(f.map_keys(value), given.keyType, target.keyType)
            return _certain(keys) | _certain(_any_of(f.map_values(value), given.valueType, target.valueType))
        case spark.StructType(), spark.StructType():
            parts = [
                _certain(_too_large(value.getField(one.name), one.dataType, to.dataType))
                for one, to in _pairs(given, target)
            ]
            return functools.reduce(operator.or_, parts)
        case _:
            return f.expr("false")


def _any_of(values: Any, given: spark.DataType, target: spark.DataType) -> Any:
    return f.exists(values, lambda one: _certain(_too_large(one, given, target)))


def _certain(condition: Any) -> Any:
    """Return whether a condition is true; null counts as false."""
    return f.coalesce(condition, f.expr("false"))


def _pairs(given: spark.StructType, target: spark.StructType) -> Iterator[tuple[spark.StructField, spark.StructField]]:
    """Yield the pairs of fields that Spark's cast matches by position."""
    return zip(given.fields, target.fields, strict=False)


LOCAL_ROWS_MAX: Final = 2_000_000
"""Maximum number of keys read into this process."""
_ROWS: Final = "mangrove rows"


def check_distinct_keys(
    lists: FileLists,
    store: Store,
    root_uri: str,
    state: TableState,
    files: Sequence[DataFile],
    *,
    rows_here_max: int = LOCAL_ROWS_MAX,
) -> None:
    """Raise InvalidInputError for duplicate keys in the files."""
    if sum(file.row_count for file in files) <= rows_here_max:
        if files:
            keys = pa.concat_tables([read_columns(store, file, state.key_columns) for file in files])
            check_keys_unique(state.name, keys, state.key_columns)
        return
    schema = to_spark_schema(Schema(state.key_columns, last_column_id=state.schema.last_column_id))
    rows = lists.read(to_listed_files(files, root_uri), schema)
    counted = rows.groupBy(*(f.col(f"`{name}`") for name in rows.columns)).agg(f.count(f.lit(1)).alias(_ROWS))
    examples = to_python_rows(counted.where(f"`{_ROWS}` > 1").limit(3).toArrow())
    if examples:
        raise InvalidInputError(
            f"some keys occur more than once in the rows for {state.name}, "
            f"for example {examples}; keep one row for each key"
        )
