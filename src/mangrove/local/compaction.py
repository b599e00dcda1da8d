"""Compaction of data files with Arrow, including Z-order clustering."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.local.data_files import FileWriter
from mangrove.local.keys import deduplicate_keys
from mangrove.local.parquet import read_columns
from mangrove.local.scan import get_column, run_scan, stream_scan
from mangrove.maintenance.compaction import ReportFraction
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.model.manifests import DataFile
from mangrove.parallel import map_parallel
from mangrove.tables.compaction import Compaction, resolve_clustering_columns, resolve_clustering_property
from mangrove.tables.inline_flush import InlineFlush
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import build_delete_delta, group_files_by_log

__all__ = ["write_compacted_files", "write_flushed_files"]

_SHARE_OF_READING = 0.5
"""Reading and writing take about the same time, for progress reports."""
_Z_BITS = 10
"""The bits of a column's rank in a Z-order; enough for the number of files of the local engine."""


def write_compacted_files(files: FileWriter, compaction: Compaction, report: ReportFraction) -> list[DataFile]:
    """Write the rows that a compaction merges, and return the new files.

    Rows without an order are written while others are read, with bounded memory.
    """
    state = compaction.state
    if not compaction.merged.scans:
        return []
    tables = stream_scan(files.store, state, compaction.merged, state.schema.columns, vectors=files.vectors)
    # Files are as large as possible, so that the next compaction retains them.
    files = replace(files, threads=1)
    is_one_partition = bool(state.log_scheme.fields) or not state.version.partition_scheme.fields
    if resolve_clustering_columns(state) or not is_one_partition:
        rows = pa.concat_tables([schema_to_arrow(state.schema).empty_table(), *tables])
        report(_SHARE_OF_READING)
        tables = iter([_cluster_rows(rows, state)])
    else:
        tables = _group_tables(tables, compaction, files.file_size_bytes, report)
        # A group that is a little larger than estimated stays one file.
        files = replace(files, file_size_bytes=2 * files.file_size_bytes)
    written = files.write_tables(state, tables)
    return [file for there in group_files_by_log(state, written).values() for file in there]


def write_flushed_files(files: FileWriter, flush: InlineFlush) -> list[DataFile]:
    """Write the inline rows of a log as data files, and the keys that delete rows of other files."""
    state, store = flush.state, files.store
    rows = run_scan(store, state, flush.merged, state.schema.columns, vectors=files.vectors)
    files = replace(files, is_inlining=False)
    written = [file for there in group_files_by_log(state, files.write(state, rows)).values() for file in there]
    if not flush.key_files:
        return written
    keys = pa.concat_tables([read_columns(store, file, state.key_columns) for file in flush.key_files])
    deleted = [file for _, file in files.write_keys(state, deduplicate_keys(keys, state.key_columns))]
    return [*build_delete_delta(deleted, state.version.keys).manifest.entries, *written]


def _group_tables(
    tables: Iterable[pa.Table], compaction: Compaction, file_size_bytes: int, report: ReportFraction
) -> Iterator[pa.Table]:
    """Yield the rows in groups of about the same size, each for one file."""
    file_count = max(1, -(-compaction.size_bytes // file_size_bytes))
    group: list[pa.Table] = []
    row_count = rows_done = 0
    for rows in tables:
        group.append(rows)
        row_count += rows.num_rows
        if row_count * file_count >= compaction.row_count:
            yield pa.concat_tables(group)
            rows_done += row_count
            report(rows_done / compaction.row_count)
            group, row_count = [], 0
    if row_count:
        yield pa.concat_tables(group)


def _cluster_rows(rows: pa.Table, state: TableState) -> pa.Table:
    """Return the rows ordered so that neighbouring files share few values; a sort scheme orders them later."""
    column_ids = resolve_clustering_columns(state)
    if not column_ids or not rows.num_rows:
        return rows
    columns = [get_column(rows, state.schema.path_of(column_id)) for column_id in column_ids]
    names = [f"key{place}" for place in range(len(columns))]
    if len(resolve_clustering_property(state)) > 1:
        columns, names = [_interleave_bits([_rank_bits(column) for column in columns]), *columns], ["z", *names]
    ordering: Any = [(name, "ascending") for name in names]
    order = pc.sort_indices(pa.table(columns, names=names), ordering)
    # Taking from one chunk is several times as fast as from many.
    taken = map_parallel(lambda column: pc.take(column.combine_chunks(), order), rows.columns)
    return pa.table(taken, schema=rows.schema)


def _rank_bits(column: Any) -> Any:
    """Return the rank of each value among all, as a number of few bits."""
    ranks = pc.rank(column, sort_keys="ascending", tiebreaker="min")
    scaled = pc.multiply(pc.subtract(ranks.cast(pa.int64()), 1), 2**_Z_BITS)
    return pc.divide(scaled, len(column))


def _interleave_bits(numbers: list[Any]) -> Any:
    """Return the numbers with the interleaved bits of the given ones, highest first."""
    total: Any = pa.array([0], pa.int64())[0]
    width = len(numbers)
    for bit in range(_Z_BITS):
        for place, number in enumerate(numbers):
            single = pc.bit_wise_and(pc.shift_right(number, bit), 1)
            total = pc.bit_wise_or(total, pc.shift_left(single, bit * width + (width - 1 - place)))
    return total
