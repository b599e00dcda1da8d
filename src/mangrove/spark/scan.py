"""Running a scan plan on Spark: its own reader, and one anti-join where newer keys hide rows."""

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from mangrove.errors import FormatError
from mangrove.model.manifests import PARQUET, DataFile
from mangrove.model.schema import Schema
from mangrove.model.types import Column
from mangrove.spark.file_lists import FileLists, ListedFile
from mangrove.spark.types import spark_schema
from mangrove.tables.predicate_sql import predicate_sql
from mangrove.tables.predicates import Predicate
from mangrove.tables.scan_plan import FileScan, KeyFile, ScanPlan
from mangrove.tables.table_state import TableState

__all__ = ["BROADCAST_ROWS_MAX", "listed", "scanned"]

BROADCAST_ROWS_MAX: Final = 5_000_000
"""Up to so many newer keys are sent to every executor; more are left to Spark's own choice of a join."""
_POSITION: Final = "mangrove position"
"""Names with a space, that no column of ours meets by accident."""
_HIDDEN_BEFORE: Final = "mangrove hidden before"


def scanned(
    lists: FileLists,
    root_uri: str,
    state: TableState,
    plan: ScanPlan,
    columns: Sequence[Column],
    predicate: Predicate | None = None,
) -> DataFrame:
    """Return the rows that a plan means, with these columns.

    Files that nothing hides rows of are scanned as they are; only the others are
    compared with keys.
    """
    schema = spark_schema(state.schema)
    free = [scan.file for scan in plan.scans if not scan.hidden_by]
    touched = [scan for scan in plan.scans if scan.hidden_by]
    rows = lists.read(listed(free, root_uri), schema)
    if touched:
        rows = rows.unionByName(_visible(lists, root_uri, state, touched))
    if predicate is not None:
        rows = rows.where(predicate_sql(predicate, state.schema))
    return rows.select(*(f.col(_quoted(column.name)) for column in columns))


def listed(files: Sequence[DataFile], root_uri: str) -> list[ListedFile]:
    """Return the files as Spark finds them."""
    for file in files:
        if file.content_type != PARQUET or "://" in file.location:
            raise FormatError(f"{file.location} is {file.content_type}: only Parquet files in the lakehouse are read")
    return [ListedFile(root_uri + file.location, file.size_bytes) for file in files]


def _visible(lists: FileLists, root_uri: str, state: TableState, scans: Sequence[FileScan]) -> DataFrame:
    schema = spark_schema(state.schema)
    by_position: dict[int, list[DataFile]] = {}
    for scan in scans:
        by_position.setdefault(scan.position, []).append(scan.file)
    rows = _united(
        [
            lists.read(listed(files, root_uri), schema).withColumn(_POSITION, f.lit(position).cast("bigint"))
            for position, files in by_position.items()
        ]
    )
    hiding = dict.fromkeys(key_file for scan in scans for key_file in scan.hidden_by)
    for key_ids in dict.fromkeys(key_file.key_ids for key_file in hiding):
        chosen = [key_file for key_file in hiding if key_file.key_ids == key_ids]
        rows = _without_hidden(rows, _keys(lists, root_uri, state, chosen), state, chosen)
    return rows.drop(_POSITION)


def _keys(lists: FileLists, root_uri: str, state: TableState, key_files: Sequence[KeyFile]) -> DataFrame:
    columns = [state.schema.column_with_id(key_id) for key_id in key_files[0].key_ids]
    schema = spark_schema(Schema(tuple(columns), last_column_id=state.schema.last_column_id))
    by_position: dict[int, list[DataFile]] = {}
    for key_file in key_files:
        by_position.setdefault(key_file.position, []).append(key_file.file)
    return _united(
        [
            lists.read(listed(files, root_uri), schema).withColumn(_HIDDEN_BEFORE, f.lit(position).cast("bigint"))
            for position, files in by_position.items()
        ]
    )


def _without_hidden(rows: DataFrame, keys: DataFrame, state: TableState, key_files: Sequence[KeyFile]) -> DataFrame:
    names = [state.schema.column_with_id(key_id).name for key_id in key_files[0].key_ids]
    renamed = keys.select(
        *(f.col(_quoted(name)).alias(f"mangrove key {place}") for place, name in enumerate(names)),
        f.col(_quoted(_HIDDEN_BEFORE)),
    )
    if sum(key_file.file.row_count for key_file in key_files) <= BROADCAST_ROWS_MAX:
        renamed = f.broadcast(renamed)
    is_hidden = f.col(_quoted(_POSITION)) < f.col(_quoted(_HIDDEN_BEFORE))
    for place, name in enumerate(names):
        is_hidden = is_hidden & (f.col(_quoted(name)) == f.col(_quoted(f"mangrove key {place}")))
    return rows.join(renamed, is_hidden, "left_anti")


def _united(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
