"""What happened to a table's rows between two states, on Spark: for tables that do not fit into one process."""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from mangrove.spark.file_lists import FileLists
from mangrove.spark.scan import quoted, scanned
from mangrove.tables.changes import CHANGE_TYPE, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, differing
from mangrove.tables.table_state import TableState

__all__ = ["changed_rows"]


def changed_rows(lists: FileLists, root_uri: str, before: TableState, after: TableState) -> DataFrame:
    """Return the rows that differ, as of the later state, with a word beside each; in no order."""
    was, plan_before, plan_after = differing(before, after)
    old = scanned(lists, root_uri, was, plan_before, after.schema.columns)
    new = scanned(lists, root_uri, after, plan_after, after.schema.columns)
    gone, came = old.exceptAll(new), new.exceptAll(old)
    names = [column.name for column in after.key_columns]
    if not names:
        return _said(gone, DELETE).unionByName(_said(came, INSERT))
    gone_keys, came_keys = (some.select(*map(_column, names)).distinct() for some in (gone, came))
    parts = [
        _said(gone.join(came_keys, names, "left_anti"), DELETE),
        _said(gone.join(came_keys, names, "left_semi"), UPDATE_BEFORE),
        _said(came.join(gone_keys, names, "left_semi"), UPDATE_AFTER),
        _said(came.join(gone_keys, names, "left_anti"), INSERT),
    ]
    found: DataFrame = reduce(lambda left, right: left.unionByName(right), parts)
    return found.select(*map(_column, [*after.schema.names, CHANGE_TYPE]))


def _said(rows: DataFrame, word: str) -> DataFrame:
    return rows.withColumn(CHANGE_TYPE, f.lit(word))


def _column(name: str) -> Column:
    return f.col(quoted(name))
