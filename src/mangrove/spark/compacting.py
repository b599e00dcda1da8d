"""Compaction on Spark: what a log means, written anew by the executors in files that share no range of keys."""

from collections.abc import Callable
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from mangrove.model.manifests import DataFile
from mangrove.model.transforms import Identity
from mangrove.model.values import Value
from mangrove.spark.clustering import clustered
from mangrove.spark.file_lists import FileLists
from mangrove.spark.native_write import ordering
from mangrove.spark.scan import quoted, scanned
from mangrove.tables.compaction import Compaction, clustering_columns, named_clustering
from mangrove.tables.row_sizes import row_size_bytes
from mangrove.tables.table_state import TableState
from mangrove.tables.writing import placed

__all__ = ["compacted_files"]

_Writer: TypeAlias = Callable[[DataFrame, TableState], list[tuple[tuple[Value | None, ...], DataFile]]]
"""Writes rows as new files, and returns each with its partition values."""


def compacted_files(
    lists: FileLists, root_uri: str, compaction: Compaction, write: _Writer, file_size_bytes: int
) -> list[DataFile]:
    """Write the rows that a compaction merges, and return the new files."""
    if not compaction.merged.scans:
        return []
    state = compaction.state
    rows = scanned(lists, root_uri, state, compaction.merged, state.schema.columns)
    size_bytes = compaction.row_count * row_size_bytes(state.schema)
    file_count = max(1, -(-size_bytes // file_size_bytes))
    laid_out = _laid_out(rows, state, file_count, compaction.row_count)
    return [file for there in placed(state, write(laid_out, state)).values() for file in there]


def _laid_out(rows: DataFrame, state: TableState, file_count: int, row_count: int) -> DataFrame:
    named = named_clustering(state)
    fields = state.version.sort_scheme.fields
    if not named and fields and all(isinstance(field.transform, Identity) for field in fields):
        columns = [ordering(state, field) for field in fields]
    else:
        paths = [state.schema.path_of(column_id) for column_id in clustering_columns(state)]
        columns = [f.col(".".join(map(quoted, path))) for path in paths]
    if columns:
        return clustered(rows, columns, file_count, alike=len(named) > 1, row_count=row_count)
    return rows.coalesce(1) if file_count == 1 else rows.repartition(file_count)
