"""Arrow engine: reads, writes, merges and compaction of one table.

Writes return the deltas for the logs of the table, which the transaction stages. Vacuum deletes
the files of transactions that are never committed.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from mangrove.expressions.parse import SparkCondition, bind_predicate, parse_condition
from mangrove.expressions.predicates import Predicate
from mangrove.local.change_feed import compute_changed_rows
from mangrove.local.column_profile import profile_columns
from mangrove.local.compaction import write_compacted_files, write_flushed_files
from mangrove.local.data_files import FileWriter, split_by_partition
from mangrove.local.frames import to_arrow_table, to_duckdb, to_polars
from mangrove.local.inline_rows import InlineRowsReader
from mangrove.local.keys import check_keys_unique, deduplicate_keys
from mangrove.local.merge import plan_merge
from mangrove.local.parquet import count_rows, encode_parquet
from mangrove.local.python_rows import to_python_rows
from mangrove.local.row_changes import (
    check_constraints,
    evaluate_where,
    fill_defaults,
    plan_overwrite,
    plan_update,
    read_target_rows,
    set_column_values,
)
from mangrove.local.row_conflict_detection import have_rows_changed
from mangrove.local.scan import (
    RowMaskCache,
    count_matching_rows,
    count_visible_rows,
    run_scan,
    select_columns,
    stream_scan,
)
from mangrove.local.schema_projection import (
    cast_rows,
    check_rows_fit,
    conform_rows,
    detect_column_types,
    fill_null_types,
    fit_rows,
    match_by_name,
)
from mangrove.local.schemaless_files import describe_new_file, read_stored_files
from mangrove.maintenance.compaction import compact_table
from mangrove.maintenance.progress import ProgressCallback, ignore_progress
from mangrove.metastore import RowRange
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.model.locators import PartitionLocator
from mangrove.model.manifests import DataFile
from mangrove.model.objects import DeltaType
from mangrove.model.schema import Schema
from mangrove.model.types import DataType
from mangrove.model.values import Value
from mangrove.parallel import THREADS_MAX
from mangrove.storage.port import Store
from mangrove.tables.column_profile import ColumnProfile
from mangrove.tables.compaction import (
    UNBOUNDED,
    CompactionBounds,
    PlannedCompaction,
    plan_table_compaction,
)
from mangrove.tables.inline_flush import plan_inline_flushes
from mangrove.tables.merge import Assignable, MergePlan, resolve_assignments, to_expression
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.schemaless_files import NewFile, build_stored_file_path
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import (
    FILE_SIZE_BYTES,
    PlannedWrite,
    RowCounts,
    build_append_delta,
    build_delete_delta,
    build_partition_predicate,
    build_upsert_delta,
    find_upsert_columns,
    group_files_by_log,
    plan_full_overwrite,
    plan_write,
)
from mangrove.transaction.catalog import CatalogReader

if TYPE_CHECKING:
    import duckdb
    import polars

__all__ = ["LocalEngine", "LocalReader"]


class LocalReader:
    """Reads the files of one lakehouse with Arrow in this process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._vectors = RowMaskCache()

    def read(
        self, state: TableState, columns: Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> pa.Table:
        """Return the rows of a table, or those that match `where`, with all or some columns."""
        predicate = bind_predicate(where, state.schema)
        selected = select_columns(state, columns)
        return run_scan(self._store, state, plan_scan(state, predicate), selected, predicate, self._vectors)

    def read_batches(
        self, state: TableState, columns: Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the same rows in batches; a bounded number of row groups is read ahead."""
        predicate = bind_predicate(where, state.schema)
        selected, plan = select_columns(state, columns), plan_scan(state, predicate)
        if not selected:
            yield from run_scan(self._store, state, plan, selected, predicate, self._vectors).to_batches()
            return
        for rows in stream_scan(self._store, state, plan, selected, predicate, self._vectors):
            yield from rows.to_batches()

    def open_reader(
        self,
        state: TableState,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """Return a reader of the same rows, or of the first ones, which knows their schema."""
        selected = select_columns(state, columns)
        arrow = schema_to_arrow(Schema(selected)) if selected else pa.schema([])
        batches = self.read_batches(state, columns, where)
        return pa.RecordBatchReader.from_batches(arrow, batches if limit is None else _limit_rows(batches, limit))

    def count(self, state: TableState, where: str | Predicate | None = None) -> int:
        """Return the number of rows of a table, or of those that match `where`."""
        predicate = bind_predicate(where, state.schema)
        return count_matching_rows(self._store, state, plan_scan(state, predicate), predicate, self._vectors)

    def profile(self, rows: pa.RecordBatchReader) -> list[ColumnProfile]:
        """Return statistics of each column of rows, in bounded memory."""
        return profile_columns(rows, rows.schema)

    def read_files(self, files: Sequence[DataFile], table: str) -> pa.Table:
        """Return the rows of the files of a table without a schema."""
        return read_stored_files(self._store, files, table)

    def count_rows(self, store: Store, file: DataFile) -> int:
        """Return the number of rows of a data file by reading it."""
        return count_rows(store, file)

    def encode_rows(self, file: DataFile) -> bytes:
        """Return the inline rows of an entry as a data file."""
        return encode_parquet(InlineRowsReader(file).rows)

    def have_rows_changed(
        self,
        rows: RowRange,
        partitions: Collection[PartitionLocator],
        before: CatalogReader,
        after: CatalogReader,
    ) -> bool:
        """Return whether rows of a range differ between two versions; files are read only where statistics allow."""
        return have_rows_changed(self._store, rows, partitions, before, after)


def _limit_rows(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yield the first rows, and read no batch after the last of them."""
    while limit > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, limit)
        limit -= batch.num_rows


_EXAMPLES_MAX: Final = 3


class LocalEngine(LocalReader):
    """Reads and writes the files of one lakehouse with Arrow in this process."""

    def __init__(self, store: Store, new_id: Callable[[], str], file_size_bytes: int = FILE_SIZE_BYTES) -> None:
        super().__init__(store)
        threads = min(pa.cpu_count(), THREADS_MAX)
        self._files = FileWriter(store, new_id, file_size_bytes, threads, self._vectors, is_inlining=True)

    def add_files(self, table_id: str, files: Sequence[NewFile], path_bytes_max: int) -> list[DataFile]:
        """Write files unchanged, under new names of a limited size, without a commit."""
        added: dict[str, tuple[DataFile, bytes]] = {}
        for file in files:
            content_type, encoding, rows = describe_new_file(file)
            path = build_stored_file_path(table_id, self._files.new_id(), file.name, path_bytes_max)
            stored = DataFile(path, len(file.data), rows, content_type=content_type, content_encoding=encoding)
            added[path] = (stored, file.data)
        self._store.put_many({path: data for path, (_, data) in added.items()})
        return [stored for stored, _ in added.values()]

    def changes(self, before: TableState, after: TableState) -> pa.Table:
        """Return the rows that differ, with the type of each change."""
        return compute_changed_rows(self._store, before, after, self._vectors)

    def polars_frame(self, rows: pa.Table) -> "polars.DataFrame":
        """Return rows as a polars DataFrame."""
        return to_polars(rows)

    def duckdb_relation(
        self, rows: pa.Table, connection: "duckdb.DuckDBPyConnection | None" = None
    ) -> "duckdb.DuckDBPyRelation":
        """Return rows as a DuckDB relation."""
        return to_duckdb(rows, connection)

    def cast_rows(self, state: TableState, rows: object) -> pa.Table:
        """Cast columns to the table's columns with the same names."""
        return cast_rows(to_arrow_table(rows, state.schema), state.schema)

    def append(self, state: TableState, rows: object) -> PlannedWrite:
        """Plan an append of rows."""
        checked = _prepare_rows(state, rows)
        by_log = group_files_by_log(state, self._files.write(state, checked))
        counts = RowCounts(inserted=checked.num_rows)
        return plan_write({values: build_append_delta(files) for values, files in by_log.items()}, counts=counts)

    def add(self, state: TableState, rows: object) -> PlannedWrite:
        """Plan an append of rows, unordered."""
        write = self.append(state, rows)
        unordered = tuple(replace(one, delta=replace(one.delta, type=DeltaType.ADD)) for one in write.deltas)
        return replace(write, deltas=unordered)

    def upsert(self, state: TableState, rows: object) -> PlannedWrite:
        """Plan an upsert: the rows replace existing rows with the same keys."""
        keys = state.checked_keys("an upsert")
        checked = _prepare_rows(state, rows)
        check_keys_unique(state.name, checked, keys)
        by_log = group_files_by_log(state, self._files.write(state, checked))
        deltas = {values: build_upsert_delta(files, state.version.keys) for values, files in by_log.items()}
        return plan_write(deltas, counts=RowCounts(None, None, 0, checked.num_rows))

    def delete(self, state: TableState, what: object) -> PlannedWrite:
        """Plan a delete of the rows that match a predicate, or that have the keys of a frame."""
        if isinstance(what, str | Predicate | SparkCondition):
            return plan_overwrite(self._files, state, parse_condition(what, state.schema), None)
        keys = state.checked_keys("a delete by keys")
        only_keys = Schema(keys, state.schema.schema_id, state.schema.last_column_id)
        others = {column.name.casefold() for column in state.schema.columns if column not in keys}
        given = to_arrow_table(what, only_keys)
        given = given.drop_columns([name for name in given.column_names if name.casefold() in others])
        check_rows_fit(f"the keys of {state.name}", only_keys, given)
        deleted = deduplicate_keys(conform_rows(given, only_keys, match_by_name, is_checked=True), keys)
        by_log: dict[tuple[Value | None, ...], list[DataFile]] = {}
        for values, file in self._files.write_keys(state, deleted):
            by_log.setdefault(values, []).append(file)
        deltas = {values: build_delete_delta(files, state.version.keys) for values, files in by_log.items()}
        return plan_write(deltas, counts=RowCounts(deleted=None))

    def overwrite(
        self, state: TableState, rows: object, where: str | Predicate | SparkCondition | None = None
    ) -> PlannedWrite:
        """Plan a replacement of all rows, or of those that match `where`."""
        checked = _prepare_rows(state, rows)
        if where is not None:
            return self._overwritten(state, checked, where)
        by_log = group_files_by_log(state, self._files.write(state, checked))
        counts = RowCounts(inserted=checked.num_rows, deleted=count_visible_rows(self._store, state, self._vectors))
        return plan_full_overwrite(state, by_log, counts)

    def overwrite_partitions(self, state: TableState, rows: object) -> PlannedWrite:
        """Plan a replacement of the partitions to which the rows belong."""
        checked = _prepare_rows(state, rows)
        parts = split_by_partition(checked, state.version.partition_scheme, state.schema)
        touched = build_partition_predicate(state, (values for values, _ in parts))
        return plan_write({}) if touched is None else self._overwritten(state, checked, touched)

    def _overwritten(self, state: TableState, rows: pa.Table, where: str | Predicate | SparkCondition) -> PlannedWrite:
        condition = parse_condition(where, state.schema)
        if state.version.keys:
            check_keys_unique(state.name, rows, state.checked_keys("an overwrite of some rows"))
        return plan_overwrite(self._files, state, condition, rows)

    def update(
        self, state: TableState, values: Mapping[str, Assignable], where: str | Predicate | SparkCondition | None = None
    ) -> PlannedWrite:
        """Plan an update of the rows that match `where`."""
        checked = resolve_assignments(values, state.schema)
        expressions = {name: to_expression(value) for name, value in checked.items()}
        return plan_update(self._files, state, expressions, parse_condition(where, state.schema))

    def merge(self, state: TableState, source: object, plan: MergePlan) -> PlannedWrite:
        """Plan a merge: the first matching clause applies to each row of the source and of the table."""
        rows = to_arrow_table(source, state.schema)
        columns = find_upsert_columns(
            state, plan, rows.column_names, lambda name: detect_column_types(rows.select([name]))[name]
        )
        if columns is None:
            return plan_merge(self._files, state, rows, plan)
        return self.upsert(
            state, set_column_values(state.schema, rows, {name: rows.column(own) for name, own in columns.items()})
        )

    def examples(self, state: TableState, where: str) -> Sequence[Mapping[str, Any]]:
        """Return a few of the rows that match a condition."""
        condition = parse_condition(where, state.schema)
        rows = read_target_rows(self._files, state, state.schema.columns, condition.predicate).rows
        matching = rows.filter(evaluate_where(rows, condition, state.schema)).select(list(state.schema.names))
        return to_python_rows(matching.slice(0, _EXAMPLES_MAX))

    def detect_columns(self, state: TableState | None, rows: object) -> Mapping[str, DataType | None]:
        """Return the columns of rows; one with only nulls has the type of the table's column, or None if it is new."""
        given = to_arrow_table(rows, None if state is None else state.schema)
        return detect_column_types(given if state is None else fill_null_types(given, state.schema))

    def compact(
        self, state: TableState, bounds: CompactionBounds = UNBOUNDED, watch: ProgressCallback = ignore_progress
    ) -> PlannedCompaction:
        """Plan a compaction of the deltas of each log that needs it."""
        plan = plan_table_compaction(state, self._files.file_size_bytes, bounds)
        return compact_table(plan, state.name, partial(write_compacted_files, self._files), watch)

    def flush_inline_rows(self, state: TableState) -> PlannedWrite:
        """Plan deltas that move inline rows into data files, for each log that has many."""
        flushes = plan_inline_flushes(state)
        return plan_write({one.log_values: one.delta(write_flushed_files(self._files, one)) for one in flushes})


def _prepare_rows(state: TableState, rows: object) -> pa.Table:
    given = fill_defaults(to_arrow_table(rows, state.schema), state)
    checked = fit_rows(state.name, given, state.schema)
    check_constraints(state, checked)
    return checked
