"""Spark engine: reads, writes, merges and compaction of one table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mangrove.errors import InvalidInputError
from mangrove.expressions.parse import SparkCondition, bind_predicate
from mangrove.expressions.predicates import Predicate
from mangrove.local.frames import to_arrow_table
from mangrove.local.python_rows import to_python_rows
from mangrove.local.scan import select_columns
from mangrove.maintenance.compaction import ReportFraction, compact_table
from mangrove.maintenance.copy import Copier
from mangrove.maintenance.export_records import LayeredStore
from mangrove.maintenance.progress import ProgressCallback, ignore_progress
from mangrove.model.manifests import DataFile
from mangrove.model.objects import DeltaType
from mangrove.model.types import DataType
from mangrove.model.values import Value
from mangrove.spark.availability import can_open_in_workers
from mangrove.spark.catalog_hints import Namespaces, add_catalog_hints
from mangrove.spark.change_feed import compute_changed_rows, create_frame_from_arrow
from mangrove.spark.compaction import write_compacted_files
from mangrove.spark.delete_update import (
    apply_defaults_and_checks,
    build_assignments,
    plan_delete_keys,
    plan_delete_where,
    plan_dynamic_overwrite,
    plan_overwrite_where,
    plan_update,
    render_condition_sql,
    translate_check_violation,
)
from mangrove.spark.deletion_vectors import DeletionVectorBuilder, DeletionVectorCache, KeyBitmapCache
from mangrove.spark.file_lists import FileLists
from mangrove.spark.hadoop import build_hadoop_settings, has_filesystem_classes, to_hadoop_uri
from mangrove.spark.job_progress import report_job_progress
from mangrove.spark.maintenance import SparkMaintenance
from mangrove.spark.merge import plan_merge
from mangrove.spark.row_changes import SparkFileContext, translate_spark_errors
from mangrove.spark.scan import column_of, run_scan
from mangrove.spark.session import local_session
from mangrove.spark.store_assignment import cast_by_name, translate_cast_failure
from mangrove.spark.types import detect_column_types, from_spark_type, to_spark_type
from mangrove.spark.worker_read import WorkerReader
from mangrove.spark.write import write_rows
from mangrove.spark.write_checks import check_distinct_keys
from mangrove.storage.port import Store
from mangrove.tables.aggregates import count_rows_from_metadata
from mangrove.tables.compaction import UNBOUNDED, Compaction, CompactionBounds, PlannedCompaction, plan_table_compaction
from mangrove.tables.merge import Assignable, MergePlan
from mangrove.tables.scan_plan import ScanPlan, plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import (
    FILE_SIZE_BYTES,
    PlannedWrite,
    RowCounts,
    build_append_delta,
    build_upsert_delta,
    find_upsert_columns,
    group_files_by_log,
    plan_full_overwrite,
    plan_write,
)

__all__ = ["SparkEngine"]

_EXAMPLES_MAX: Final = 3
_SETTINGS: Final = {
    # Affects only reads with field ids; files without ids are still read by name.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # Enables the TIME type, which is off by default.
    "spark.sql.timeType.enabled": "true",
}


class SparkEngine:
    """Spark engine of one lakehouse.

    Only keys, a few million at most, come to the driver, and the rows of small changes.
    """

    def __init__(
        self,
        store: Store,
        new_id: Callable[[], str],  # noqa: ARG002 - all engines are made alike; executors make ids of their own
        *,
        storage_options: Mapping[str, str] | None = None,
        session: SparkSession | None = None,
        file_size_bytes: int = FILE_SIZE_BYTES,
    ) -> None:
        if not can_open_in_workers(store.uri):
            raise InvalidInputError(f"Spark workers cannot open {store.uri}; use a lakehouse in a folder or a bucket")
        self._store = store
        self._storage_options = storage_options
        self._file_size_bytes = file_size_bytes
        self.session = session or local_session()
        for name, value in _SETTINGS.items():
            self.session.conf.set(name, value)
        self._lists = self._reachable_lists()
        self._files = SparkFileContext(
            self._lists, self._root_uri, store.uri, storage_options, file_size_bytes, self._written, store
        )

    @property
    def _root_uri(self) -> str:
        """Return the lakehouse's root as a Hadoop URI."""
        return to_hadoop_uri(self._store.uri, self._storage_options)

    def _reachable_lists(self) -> FileLists:
        """Return the file reader: Spark's own, or Python workers if Spark has no classes for the bucket."""
        compared: dict[str, Any] = {
            "key_bits": KeyBitmapCache(self.session, self._store),
            "row_bits": DeletionVectorCache(self.session, DeletionVectorBuilder(self._store)),
        }
        worker = WorkerReader(self._store.uri, self._storage_options)
        uris = self._store.uris if isinstance(self._store, LayeredStore) else (self._store.uri,)
        if all(has_filesystem_classes(self.session, uri) for uri in uris):
            for uri in uris:
                for name, value in build_hadoop_settings(uri, self._storage_options).items():
                    self.session.conf.set(name, value)
            roots_of = self._roots_of if len(uris) > 1 else None
            return FileLists(self.session, root_uri=self._root_uri, foreign=worker, roots_of=roots_of, **compared)
        return FileLists(self.session, worker, self._root_uri, **compared)

    def _roots_of(self, paths: Sequence[str]) -> list[str]:
        """Return the roots of files that a shallow export references in its source."""
        assert isinstance(self._store, LayeredStore)
        return [to_hadoop_uri(root, self._storage_options) for root in self._store.roots_of(paths)]

    def read(
        self, state: TableState, columns: Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> DataFrame:
        """Return the rows of a table that match `where` as a lazy DataFrame."""
        predicate = bind_predicate(where, state.schema)
        plan = plan_scan(state, predicate)
        return run_scan(self._lists, self._root_uri, state, plan, select_columns(state, columns), predicate)

    @property
    def reads_in_workers(self) -> bool:
        """Whether Python workers read the files, so that Spark cannot prune columns itself."""
        return self._lists.worker is not None

    def read_files(
        self,
        state: TableState,
        plan: ScanPlan,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """Return the rows of a scan plan that match a predicate."""
        return run_scan(self._lists, self._root_uri, state, plan, select_columns(state, columns), predicate)

    def cast_rows(self, state: TableState, rows: object) -> DataFrame:
        """Cast columns to the table's columns with the same names; a value that cannot be cast fails the write."""
        return cast_by_name(self._frame(state, rows), state.schema, state.name)

    def append(self, state: TableState, rows: object) -> PlannedWrite:
        """Append rows."""
        by_log = group_files_by_log(state, self._written(state, rows))
        return plan_write(
            {values: build_append_delta(files) for values, files in by_log.items()}, counts=_count_inserted(by_log)
        )

    def add(self, state: TableState, rows: object) -> PlannedWrite:
        """Append rows without a defined order."""
        write = self.append(state, rows)
        unordered = tuple(replace(one, delta=replace(one.delta, type=DeltaType.ADD)) for one in write.deltas)
        return replace(write, deltas=unordered)

    def upsert(self, state: TableState, rows: object) -> PlannedWrite:
        """Upsert rows by key."""
        state.checked_keys("an upsert")
        files = self._written(state, rows)
        written_files = [file for _, file in files]
        check_distinct_keys(self._lists, self._store, self._root_uri, state, written_files)
        by_log = group_files_by_log(state, files)
        deltas = {values: build_upsert_delta(there, state.version.keys) for values, there in by_log.items()}
        return plan_write(deltas, counts=RowCounts(None, None, 0, sum(file.row_count for file in written_files)))

    def delete(self, state: TableState, what: object) -> PlannedWrite:
        """Delete the rows that match a Spark condition or have the keys of a frame."""
        with translate_spark_errors():
            if isinstance(what, str | Predicate | SparkCondition):
                return plan_delete_where(self._files, state, what)
            return plan_delete_keys(self._files, state, self._frame(state, what))

    def overwrite(
        self, state: TableState, rows: object, where: str | Predicate | SparkCondition | None = None
    ) -> PlannedWrite:
        """Replace all rows, or those that match `where`."""
        if where is not None:
            with translate_spark_errors():
                return plan_overwrite_where(self._files, state, self._frame(state, rows), where)
        by_log = group_files_by_log(state, self._written(state, rows))
        return plan_full_overwrite(
            state, by_log, _count_inserted(by_log) + RowCounts(deleted=self._count_visible(state))
        )

    def overwrite_partitions(self, state: TableState, rows: object) -> PlannedWrite:
        """Replace the partitions that the rows belong to."""
        with translate_spark_errors():
            return plan_dynamic_overwrite(self._files, state, self._frame(state, rows))

    def update(
        self, state: TableState, values: Mapping[str, Assignable], where: str | Predicate | SparkCondition | None = None
    ) -> PlannedWrite:
        """Update columns of the rows that match a condition; values are Spark expressions."""
        with translate_spark_errors():
            return plan_update(self._files, state, values, where)

    def merge(self, state: TableState, source: object, plan: MergePlan) -> PlannedWrite:
        """Merge a source into the table; the first matching clause applies to each row."""
        rows = self._frame(state, source)
        with translate_spark_errors():
            columns = find_upsert_columns(state, plan, rows.columns, lambda name: _find_column_type(rows, name))
            if columns is None:
                return plan_merge(self._files, state, rows, plan)
            values = build_assignments(state, rows, {name: column_of(own) for name, own in columns.items()})
            return self.upsert(state, rows.select(*values.values()))

    def changes(self, before: TableState, after: TableState) -> DataFrame:
        """Return the changed rows with their change type."""
        return compute_changed_rows(self._lists, self._root_uri, before, after)

    def examples(self, state: TableState, where: str) -> Sequence[Mapping[str, Any]]:
        """Return a few rows that match a condition."""
        with translate_spark_errors():
            found = self.read(state).where(render_condition_sql(where, state.schema)).limit(_EXAMPLES_MAX)
            return to_python_rows(found.toArrow())

    def detect_columns(self, state: TableState | None, rows: object) -> Mapping[str, DataType | None]:
        """Return the columns of rows; the type of an all-null column is None."""
        return detect_column_types(self._frame(state, rows).schema)

    def compact(
        self, state: TableState, bounds: CompactionBounds = UNBOUNDED, watch: ProgressCallback = ignore_progress
    ) -> PlannedCompaction:
        """Compact the deltas of each log on the executors."""

        def write(compaction: Compaction, report: ReportFraction) -> list[DataFile]:
            with report_job_progress(self.session, report):
                return write_compacted_files(
                    self._lists, self._root_uri, compaction, self._merged, self._file_size_bytes
                )

        plan = plan_table_compaction(state, self._file_size_bytes, bounds)
        return compact_table(plan, state.name, write, watch)

    def add_catalog_hints(self, namespaces: Namespaces) -> None:
        """Add hints to Spark's errors about names in the lakehouse's namespaces."""
        add_catalog_hints(self.session, self._store.uri, namespaces)

    def copier(self, destination_options: Mapping[str, str] | None = None) -> Copier:
        """Return a function that copies files on executors to a store with these options."""
        return SparkMaintenance(self.session, self._storage_options, destination_options).copy_files

    def executors(self, options: Mapping[str, str] | None = None) -> SparkMaintenance:
        """Return the maintenance jobs on executors for the store of the lakehouse or with these options."""
        return SparkMaintenance(self.session, self._storage_options if options is None else options)

    def _merged(self, rows: DataFrame, state: TableState) -> list[tuple[tuple[Value | None, ...], DataFile]]:
        """Write merged rows with a relaxed file size limit, to avoid splitting off tiny files."""
        return write_rows(rows, state, self._store.uri, self._storage_options, 2 * self._file_size_bytes)

    def _written(self, state: TableState, rows: object) -> list[tuple[tuple[Value | None, ...], DataFile]]:
        frame = apply_defaults_and_checks(self._frame(state, rows), state)
        try:
            return write_rows(frame, state, self._store.uri, self._storage_options, self._file_size_bytes)
        except PySparkException as error:
            refusal = translate_check_violation(error, state) or translate_cast_failure(error)
            if refusal is None:
                raise
            raise refusal from error

    def _frame(self, state: TableState | None, rows: object) -> DataFrame:
        """Return the rows as a DataFrame of this session."""
        if isinstance(rows, DataFrame):
            return rows
        return create_frame_from_arrow(
            self.session, to_arrow_table(rows, None if state is None else state.schema), state
        )

    def _count_visible(self, state: TableState) -> int:
        known = count_rows_from_metadata(state, plan_scan(state), None)
        return self.read(state, []).count() if known is None else known


def _count_inserted(by_log: Mapping[tuple[Value | None, ...], Sequence[DataFile]]) -> RowCounts:
    return RowCounts(inserted=sum(file.row_count for files in by_log.values() for file in files))


def _find_column_type(rows: DataFrame, name: str) -> DataType | None:
    """Return the type of a column, or None if Spark compares its values in another way, such as by a collation."""
    given = rows.schema[name].dataType
    found = from_spark_type(given, name)
    return found if found is not None and to_spark_type(found) == given else None
