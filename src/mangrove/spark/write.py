"""Writing a Spark DataFrame: each task writes files of its own, and only what it reports is committed.

A task that fails, or that another one overtakes, leaves files behind that nobody
names; vacuum finds them. Spark's own writer is faster and serves where it can.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, MapType, StructType

from mangrove.errors import InvalidInputError
from mangrove.local.conforming import by_name, conformed
from mangrove.local.files import FileWriter
from mangrove.model.manifests import DataFile
from mangrove.model.sql_text import type_text
from mangrove.model.values import Value
from mangrove.spark.native_write import REFUSAL, REFUSED, can_write_natively, written_natively
from mangrove.spark.nesting import by_field_names
from mangrove.spark.overflow import can_overflow, cast_without_overflow
from mangrove.spark.task_files import gathered, new_id, reports, written_by_tasks
from mangrove.spark.types import given_types, spark_type
from mangrove.storage.opening import open_store
from mangrove.tables.conversion import check_columns
from mangrove.tables.table_state import TableState

__all__ = ["written"]

_REFUSAL: Final = re.compile(r"mangrove\.errors\.InvalidInputError: (.*)|" + REFUSAL.pattern, re.MULTILINE)


def written(
    rows: DataFrame,
    state: TableState,
    store_uri: str,
    storage_options: Mapping[str, str] | None,
    file_size_bytes: int,
) -> list[tuple[tuple[Value | None, ...], DataFile]]:
    """Write the rows as new files, and return each with its partition values."""
    check_columns(state.name, state.schema, given_types(rows.schema))
    rows = _without_overflow(_by_field_names(rows, state), state)
    if can_write_natively(state, store_uri):
        return [((), file) for file in written_natively(rows, state, store_uri, new_id, file_size_bytes)]
    # The deltas stay behind: a worker needs to know the columns, not what was written before.
    bare = replace(state, logs=())

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(store_uri, storage_options)
        files = FileWriter(store, new_id, file_size_bytes)
        for part in gathered(batches, file_size_bytes):
            checked = conformed(part, bare.schema, by_name, is_checked=True)
            yield reports(files.write(bare, checked))

    try:
        return written_by_tasks(_cast(rows, state), write)
    except PySparkException as error:
        refusal = _REFUSAL.search(str(error))
        if refusal is None:
            raise
        raise InvalidInputError(refusal[1] or refusal[2]) from error


def _by_field_names(rows: DataFrame, state: TableState) -> DataFrame:
    """Return the rows with the fields of structs where the table has them, whatever order they came in."""
    wanted = {column.name.casefold(): spark_type(column.type) for column in state.schema.columns}
    ordered = {}
    for field in rows.schema.fields:
        if not isinstance(field.dataType, ArrayType | MapType | StructType):
            continue
        value = f.col(f"`{field.name.replace('`', '``')}`")
        found = by_field_names(value, field.dataType, wanted[field.name.casefold()])
        if found is not value:
            ordered[field.name] = found
    return rows.withColumns(ordered) if ordered else rows


def _without_overflow(rows: DataFrame, state: TableState) -> DataFrame:
    """Return the rows with numbers as `float` where a column wants that; one that is too large stops the write."""
    wanted = {column.name.casefold(): column for column in state.schema.columns}
    narrowed = {}
    for field in rows.schema.fields:
        column = wanted[field.name.casefold()]
        if can_overflow(field.dataType, spark_type(column.type)):
            message = f"{REFUSED}column {column.name!r} is {type_text(column.type)}, which cannot hold "
            value = f.col(f"`{field.name.replace('`', '``')}`")
            narrowed[field.name] = cast_without_overflow(value, field.dataType, spark_type(column.type), message)
    return rows.withColumns(narrowed) if narrowed else rows


def _cast(rows: DataFrame, state: TableState) -> DataFrame:
    """Return the rows with the columns of the table in order; what a column cannot hold stops the write."""
    given = {name.casefold(): name for name in rows.columns}
    columns = []
    for column in state.schema.columns:
        name = given.get(column.name.casefold())
        wanted = spark_type(column.type)
        found: Any = f.lit(None) if name is None else f.col(f"`{name.replace('`', '``')}`")
        columns.append(found.cast(wanted).alias(column.name))
    return rows.select(*columns)
