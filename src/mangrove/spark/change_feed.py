"""Row changes between two table states, computed with Spark."""

from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as spark

from mangrove.local.schema_projection import detect_column_types, fill_null_types
from mangrove.spark.file_lists import FileLists
from mangrove.spark.scan import quote_name, run_scan
from mangrove.spark.types import to_spark_type
from mangrove.tables.change_feed import CHANGE_TYPE, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, plan_changed_files
from mangrove.tables.table_state import TableState

__all__ = ["compute_changed_rows", "create_frame_from_arrow"]


def create_frame_from_arrow(session: SparkSession, rows: pa.Table, state: TableState | None) -> DataFrame:
    """Return the rows as a DataFrame with explicit types; a column of nulls gets the type of the table's column.

    By default Spark interprets timestamps without a zone in the session's zone.
    """
    typed_rows = rows if state is None else fill_null_types(rows, state.schema)
    fields = [
        spark.StructField(name, spark.NullType() if given is None else to_spark_type(given))
        for name, given in detect_column_types(typed_rows).items()
    ]
    # Spark reads no rows after a record batch without rows.
    batches = [batch for batch in typed_rows.to_batches() if batch.num_rows]
    return session.createDataFrame(pa.Table.from_batches(batches, typed_rows.schema), spark.StructType(fields))


def compute_changed_rows(lists: FileLists, root_uri: str, before: TableState, after: TableState) -> DataFrame:
    """Return the changed rows of the later state with their change type, unordered."""
    was, plan_before, plan_after = plan_changed_files(before, after)
    old = run_scan(lists, root_uri, was, plan_before, after.schema.columns)
    new = run_scan(lists, root_uri, after, plan_after, after.schema.columns)
    removed, added = old.exceptAll(new), new.exceptAll(old)
    names = [column.name for column in after.key_columns]
    if not names:
        return _with_change_type(removed, DELETE).unionByName(_with_change_type(added, INSERT))
    removed_keys, added_keys = (some.select(*map(_column, names)).distinct() for some in (removed, added))
    parts = [
        _with_change_type(removed.join(added_keys, names, "left_anti"), DELETE),
        _with_change_type(removed.join(added_keys, names, "left_semi"), UPDATE_BEFORE),
        _with_change_type(added.join(removed_keys, names, "left_semi"), UPDATE_AFTER),
        _with_change_type(added.join(removed_keys, names, "left_anti"), INSERT),
    ]
    changes: DataFrame = reduce(lambda left, right: left.unionByName(right), parts)
    return changes.select(*map(_column, [*after.schema.names, CHANGE_TYPE]))


def _with_change_type(rows: DataFrame, word: str) -> DataFrame:
    return rows.withColumn(CHANGE_TYPE, f.lit(word))


def _column(name: str) -> Column:
    return f.col(quote_name(name))
