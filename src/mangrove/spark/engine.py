"""The engine on Spark: the same plans as in this process, for rows that do not fit into it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mangrove.errors import InvalidInputError
from mangrove.local.frames import arrow_table
from mangrove.local.python_rows import python_rows
from mangrove.local.scanning import chosen_columns
from mangrove.maintenance.compacting import Tell, compacted_table
from mangrove.maintenance.copying import Copier
from mangrove.maintenance.layered import LayeredStore
from mangrove.maintenance.progress import Watch, unwatched
from mangrove.model.manifests import DataFile
from mangrove.model.objects import DeltaType
from mangrove.model.types import DataType
from mangrove.model.values import Value
from mangrove.spark.arrow_rows import arrow_frame
from mangrove.spark.catalog_hints import Namespaces, add_catalog_hints
from mangrove.spark.changes import changed_rows
from mangrove.spark.changing import SparkFiles
from mangrove.spark.checking import refusals
from mangrove.spark.clouds import can_reach, hadoop_root, hadoop_settings
from mangrove.spark.compacting import compacted_files
from mangrove.spark.constraining import check_refusal, fit
from mangrove.spark.distinct_keys import check_distinct_keys
from mangrove.spark.file_lists import FileLists
from mangrove.spark.hidden_rows import HiddenRows
from mangrove.spark.job_progress import told_jobs
from mangrove.spark.key_bits import KeyBits
from mangrove.spark.merging import merged
from mangrove.spark.reach import opens_in_other_processes
from mangrove.spark.replacing import (
    condition_sql,
    deleted_keys,
    deleted_where,
    overwritten_partitions,
    overwritten_where,
    updated,
)
from mangrove.spark.row_bits import RowBits
from mangrove.spark.scan import scanned
from mangrove.spark.session import local_session
from mangrove.spark.types import given_types
from mangrove.spark.upkeep import SparkUpkeep
from mangrove.spark.worker_read import WorkerReader
from mangrove.spark.write import written
from mangrove.storage.port import Store
from mangrove.tables.assigning import Assignable
from mangrove.tables.compaction import UNBOUNDED, Compaction, CompactionBounds, PlannedCompaction, plan_table_compaction
from mangrove.tables.conditions import Narrowed
from mangrove.tables.merging import MergePlan
from mangrove.tables.predicate_text import bound_predicate
from mangrove.tables.predicates import Predicate
from mangrove.tables.row_counts import RowCounts
from mangrove.tables.scan_plan import ScanPlan, plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.writing import (
    FILE_SIZE_BYTES,
    PlannedWrite,
    all_replaced,
    appended,
    placed,
    planned,
    upserted,
)

__all__ = ["SparkEngine"]

_EXAMPLES_MAX: Final = 3
_SETTINGS: Final = {
    # Only reads that name ids are changed by this; files of others are still read by name.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # Spark has times of day, and leaves them out until it is asked.
    "spark.sql.timeType.enabled": "true",
}


class SparkEngine:
    """One Spark session on the files of one lakehouse; no row comes to the driver, only keys, a few million at most."""

    def __init__(
        self,
        store: Store,
        new_id: Callable[[], str],  # noqa: ARG002 - all engines are made alike; executors make ids of their own
        *,
        storage_options: Mapping[str, str] | None = None,
        session: SparkSession | None = None,
        file_size_bytes: int = FILE_SIZE_BYTES,
    ) -> None:
        if not opens_in_other_processes(store.uri):
            raise InvalidInputError(
                f"{store.uri} is known to this process alone, and Spark has others: use a folder or a bucket"
            )
        self._store = store
        self._storage_options = storage_options
        self._file_size_bytes = file_size_bytes
        self.session = session or local_session()
        for name, value in _SETTINGS.items():
            self.session.conf.set(name, value)
        self._lists = self._reachable_lists()
        self._files = SparkFiles(
            self._lists, self._root_uri, store.uri, storage_options, file_size_bytes, self._written
        )

    @property
    def _root_uri(self) -> str:
        """Return the lakehouse's root as Hadoop spells it."""
        return hadoop_root(self._store.uri, self._storage_options)

    def _reachable_lists(self) -> FileLists:
        """Return what reads files: Spark's own reader, or workers of ours where it has no classes for the bucket."""
        compared: dict[str, Any] = {
            "key_bits": KeyBits(self.session, self._store),
            "row_bits": RowBits(self.session, HiddenRows(self._store)),
        }
        worker = WorkerReader(self._store.uri, self._storage_options)
        uris = self._store.uris if isinstance(self._store, LayeredStore) else (self._store.uri,)
        if all(can_reach(self.session, uri) for uri in uris):
            for uri in uris:
                for name, value in hadoop_settings(uri, self._storage_options).items():
                    self.session.conf.set(name, value)
            roots_of = self._roots_of if len(uris) > 1 else None
            return FileLists(self.session, root_uri=self._root_uri, foreign=worker, roots_of=roots_of, **compared)
        return FileLists(self.session, worker, self._root_uri, **compared)

    def _roots_of(self, paths: Sequence[str]) -> list[str]:
        """Return where files lie that an export may lack and its source has."""
        assert isinstance(self._store, LayeredStore)
        return [hadoop_root(root, self._storage_options) for root in self._store.roots_of(paths)]

    def read(
        self, state: TableState, columns: Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> DataFrame:
        """Return the rows of a table, or those that `where` means, as a DataFrame that Spark's own reader scans."""
        predicate = bound_predicate(where, state.schema)
        plan = plan_scan(state, predicate)
        return scanned(self._lists, self._root_uri, state, plan, chosen_columns(state, columns), predicate)

    @property
    def reads_in_workers(self) -> bool:
        """Whether Spark does not see the files, so that it cannot leave out columns that a query does not need."""
        return self._lists.worker is not None

    def read_files(
        self,
        state: TableState,
        plan: ScanPlan,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """Return the rows of the files of a plan, or those of them that a predicate means."""
        return scanned(self._lists, self._root_uri, state, plan, chosen_columns(state, columns), predicate)

    def append(self, state: TableState, rows: object) -> PlannedWrite:
        """Add rows."""
        by_log = placed(state, self._written(state, rows))
        return planned({values: appended(files) for values, files in by_log.items()}, counts=_inserted(by_log))

    def add(self, state: TableState, rows: object) -> PlannedWrite:
        """Add rows whose order does not matter."""
        write = self.append(state, rows)
        unordered = tuple(replace(one, delta=replace(one.delta, type=DeltaType.ADD)) for one in write.deltas)
        return replace(write, deltas=unordered)

    def upsert(self, state: TableState, rows: object) -> PlannedWrite:
        """Add rows in the place of those with the same keys."""
        state.checked_keys("an upsert")
        files = self._written(state, rows)
        written_files = [file for _, file in files]
        check_distinct_keys(self._lists, self._store, self._root_uri, state, written_files)
        by_log = placed(state, files)
        deltas = {values: upserted(there, state.version.keys) for values, there in by_log.items()}
        return planned(deltas, counts=RowCounts(None, None, 0, sum(file.row_count for file in written_files)))

    def delete(self, state: TableState, what: object) -> PlannedWrite:
        """Delete the rows that a condition means, any that Spark understands, or those with the keys of a frame."""
        with refusals():
            if isinstance(what, str | Predicate | Narrowed):
                return deleted_where(self._files, state, what)
            return deleted_keys(self._files, state, self._frame(state, what))

    def overwrite(self, state: TableState, rows: object, where: str | Predicate | None = None) -> PlannedWrite:
        """Put rows in the place of all, or of those that `where` means."""
        if where is not None:
            with refusals():
                return overwritten_where(self._files, state, self._frame(state, rows), where)
        by_log = placed(state, self._written(state, rows))
        return all_replaced(state, by_log, _inserted(by_log) + RowCounts(deleted=self._count_visible(state)))

    def overwrite_partitions(self, state: TableState, rows: object) -> PlannedWrite:
        """Put rows in the place of those in the partitions that they lie in."""
        with refusals():
            return overwritten_partitions(self._files, state, self._frame(state, rows))

    def update(
        self, state: TableState, values: Mapping[str, Assignable], where: str | Predicate | Narrowed | None = None
    ) -> PlannedWrite:
        """Set columns of the rows that a condition means; expressions may be any that Spark understands."""
        with refusals():
            return updated(self._files, state, values, where)

    def merge(self, state: TableState, source: object, plan: MergePlan) -> PlannedWrite:
        """Do with each row of the source and of the table what the first clause says that applies."""
        with refusals():
            return merged(self._files, state, self._frame(state, source), plan)

    def changes(self, before: TableState, after: TableState) -> DataFrame:
        """Return the rows that differ, with what became of each beside it."""
        return changed_rows(self._lists, self._root_uri, before, after)

    def examples(self, state: TableState, where: str) -> Sequence[Mapping[str, Any]]:
        """Return a few of the rows that a condition means."""
        with refusals():
            found = self.read(state).where(condition_sql(where, state.schema)).limit(_EXAMPLES_MAX)
            return python_rows(found.toArrow())

    def given_columns(self, state: TableState | None, rows: object) -> Mapping[str, DataType | None]:
        """Return the columns that rows have, with None for the type of one that holds nulls alone."""
        return given_types(self._frame(state, rows).schema)

    def compact(
        self, state: TableState, bounds: CompactionBounds = UNBOUNDED, watch: Watch = unwatched
    ) -> PlannedCompaction:
        """Merge the deltas of each log into files that need no merging; no row comes to the driver."""

        def write(compaction: Compaction, tell: Tell) -> list[DataFile]:
            with told_jobs(self.session, tell):
                return compacted_files(self._lists, self._root_uri, compaction, self._merged, self._file_size_bytes)

        plan = plan_table_compaction(state, self._file_size_bytes, bounds)
        return compacted_table(plan, state.name, write, watch)

    def add_catalog_hints(self, namespaces: Namespaces) -> None:
        """Let Spark's errors about names in the lakehouse's namespaces say what to write instead."""
        add_catalog_hints(self.session, self._store.uri, namespaces)

    def copier(self, destination_options: Mapping[str, str] | None = None) -> Copier:
        """Return what copies files on executors, from this lakehouse to a place that these options open."""
        return SparkUpkeep(self.session, self._storage_options, destination_options).copy_files

    def executors(self, options: Mapping[str, str] | None = None) -> SparkUpkeep:
        """Return what looks after the lakehouse's own files on executors, or after those that the options open."""
        return SparkUpkeep(self.session, self._storage_options if options is None else options)

    def _merged(self, rows: DataFrame, state: TableState) -> list[tuple[tuple[Value | None, ...], DataFile]]:
        """Write merged rows; ranges are of unequal size, and none shall be cut into a large file and a tiny one."""
        return written(rows, state, self._store.uri, self._storage_options, 2 * self._file_size_bytes)

    def _written(self, state: TableState, rows: object) -> list[tuple[tuple[Value | None, ...], DataFile]]:
        frame = fit(self._frame(state, rows), state)
        try:
            return written(frame, state, self._store.uri, self._storage_options, self._file_size_bytes)
        except PySparkException as error:
            refusal = check_refusal(error, state)
            if refusal is None:
                raise
            raise refusal from error

    def _frame(self, state: TableState | None, rows: object) -> DataFrame:
        """Return the rows as a DataFrame of this session."""
        if isinstance(rows, DataFrame):
            return rows
        return arrow_frame(self.session, arrow_table(rows, None if state is None else state.schema), state)

    def _count_visible(self, state: TableState) -> int:
        plan = plan_scan(state)
        if all(scan.is_whole for scan in plan.scans):
            return sum(scan.file.row_count for scan in plan.scans)
        return self.read(state, []).count()


def _inserted(by_log: Mapping[tuple[Value | None, ...], Sequence[DataFile]]) -> RowCounts:
    return RowCounts(inserted=sum(file.row_count for files in by_log.values() for file in files))
