"""Streaming reader of the Spark data source with offsets and rate limits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyspark
from cachetools import LRUCache
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.expressions.parse import bind_predicate
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.local.change_feed import CHANGE_TYPE
from mangrove.local.engine import LocalEngine
from mangrove.local.scan import build_predicate_mask, select_columns
from mangrove.metastore import MetastoreSnapshot
from mangrove.model.schema import Schema
from mangrove.spark.errors import suppress_worker_traceback
from mangrove.spark.pyspark_versions import (
    HAS_READ_LIMITS,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from mangrove.spark.source_options import SourceOptions
from mangrove.spark.types import to_spark_schema
from mangrove.spark.worker_read import InputPartitionReader, plan_input_partitions, strip_logs, to_spark_batches
from mangrove.tables.change_feed import (
    BatchLimit,
    StreamOffset,
    StreamStep,
    advance_offset,
    compute_fingerprint,
    find_changed_versions,
    offset_from_json,
    plan_initial_step,
    plan_step_between,
    select_batch_units,
)
from mangrove.tables.scan_plan import FileScan
from mangrove.tables.table_state import TableState, load_table_state
from mangrove.transaction.deltas import TableTarget, find_target_table, open_table

__all__ = ["COMMIT_VERSION", "StreamInputPartition", "TableHistory", "TableStreamReader", "build_read_schema"]

_STATES_MAX: Final = 32
"""Number of cached table versions; bisection returns to some of them."""


class TableHistory:
    """The immutable versions of one table, cached."""

    def __init__(self, lake: Lakehouse, target: TableTarget, *, fails_on_data_loss: bool = True) -> None:
        self._lake = lake
        self.table_id: Final = target.table_id or open_table(lake.metastore.latest(), target).table.id
        self._target = replace(target, table_id=self.table_id)
        self._fails_on_data_loss = fails_on_data_loss
        self._states: LRUCache[int, TableState] = LRUCache(_STATES_MAX)
        self._first: StreamStep | None = None

    @property
    def target(self) -> TableTarget:
        """What is read; the table is followed by its id after a rename."""
        return self._target

    def newest(self) -> tuple[int, TableState]:
        """Return the newest version of the table; raises NotFoundError if it was dropped."""
        snapshot = self._lake.metastore.latest()
        self._target = self._locate(snapshot)
        return snapshot.version, self.state(snapshot.version)

    def state(self, version: int) -> TableState:
        """Return the table as of a version; empty if it did not exist yet."""
        if version not in self._states:
            self._states[version] = self._read(version)
        return self._states[version]

    def steps(self, start: StreamOffset, upto: int) -> Iterator[StreamStep]:
        """Yield the changes after an offset of a retained version, version by version up to `upto`."""
        if start.is_first:
            if self._first is None or self._first.version != start.version:
                self._first = plan_initial_step(self.state(start.version), start.version)
            yield self._first
        for version in find_changed_versions(start.version, upto, lambda one: self.state(one).logs):
            yield plan_step_between(self.state(version - 1), self.state(version), version)

    def _read(self, version: int) -> TableState:
        if version < 0:
            return replace(self.newest()[1], logs=())
        snapshot = self._lake.metastore.at_version(version)
        try:
            target = self._locate(snapshot)
        except NotFoundError:
            return replace(self.newest()[1], logs=())
        try:
            return load_table_state(snapshot, target)
        except NotFoundError:
            if target.version is None or snapshot.version == self._lake.metastore.latest().version:
                raise
            return replace(self.newest()[1], logs=())  # the table version or stream did not exist yet

    def _locate(self, snapshot: MetastoreSnapshot) -> TableTarget:
        """Return the target with the name that the table has in a version."""
        locator, _ = find_target_table(snapshot, self._target)
        return replace(self._target, locator=locator)

    def find_retained(self, start: StreamOffset) -> StreamOffset:
        """Return the offset to continue from: the given one, or one of a retained version with the same rows.

        After the initial snapshot, a part of a version that was read does not count for another version.
        """
        if start.version < 0 or self._can_continue_from(start.version):
            return start
        oldest = self._oldest()
        if compute_fingerprint(self.state(oldest)) == start.state:
            return replace(start, version=oldest, files=start.files if start.is_first else 0)
        if not self._fails_on_data_loss:
            return replace(start, version=oldest, files=0)
        raise NotFoundError(
            f"version {start.version}, up to which this stream has read {self._target}, has expired; the oldest "
            f"retained version is {oldest}, and rows in between may be lost. Use a new checkpoint, or continue from "
            f'{oldest} with .option("failOnDataLoss", "false"); increase the retention beyond the pauses of a stream'
        )

    def _can_continue_from(self, version: int) -> bool:
        """Return whether a version and its successor are retained; an export may retain a single version."""
        newest = self._lake.metastore.latest().version
        try:
            for one in range(version, min(version + 1, newest) + 1):
                self.state(one)
        except NotFoundError:
            return False
        return True

    def _oldest(self) -> int:
        """Return the oldest version from which all later ones are retained."""
        commits = self._lake.metastore.history()
        oldest = next(commits).version
        for commit in commits:
            if commit.version < oldest - 1:
                break
            oldest = commit.version
        return oldest


COMMIT_VERSION: Final = "_commit_version"
_INSERT: Final = "insert"
_LIMITS: Final = {
    "maxFilesPerTrigger": ReadMaxFiles,
    "maxRowsPerTrigger": ReadMaxRows,
    "maxBytesPerTrigger": ReadMaxBytes,
}


def build_read_schema(state: TableState, options: SourceOptions) -> spark.StructType:
    """Return the columns of the reader, with the change columns of a change feed."""
    chosen = Schema(select_columns(state, options.columns), last_column_id=state.schema.last_column_id)
    found = to_spark_schema(chosen, with_ids=False)
    if options.reads_changes:
        found = found.add(CHANGE_TYPE, spark.StringType()).add(COMMIT_VERSION, spark.LongType())
    return found


@dataclass
class StreamInputPartition(InputPartition):
    """Input partition of a batch: files with new rows, or the changes of one version."""

    reader: InputPartitionReader
    scans: tuple[FileScan, ...]
    version: int
    changed: TableTarget | None = None
    """The table of the changes by its id, because a former name cannot be resolved in a task."""


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of a table's history; a separate process requests offsets and plans batches."""

    def __init__(self, options: SourceOptions, schema: spark.StructType) -> None:
        if options.limit is not None and not HAS_READ_LIMITS:
            raise InvalidInputError(
                f"{options.limit[0]} requires PySpark 4.2 or newer, not {pyspark.__version__}; remove the option"
            )
        self._options = options
        self._schema = schema
        self._history: TableHistory | None = None
        self._reached: dict[str, Any] | None = None
        """The end of the last batch, which PySpark 4.1 does not pass to `latestOffset`."""
        self._last_version: int | None = None
        """The end offset of a query with `Trigger.AvailableNow`."""

    @suppress_worker_traceback()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Record the newest version as the end of the query."""
        self._last_version = self._opened().newest()[0]

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the read limit of the options."""
        if self._options.limit is None:
            return ReadAllAvailable()
        name, count = self._options.limit
        return _LIMITS[name](count)

    @suppress_worker_traceback()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the start offset of a new query."""
        history = self._opened()
        newest = history.newest()[0] if self._last_version is None else self._last_version
        self._reached = self._with_state(history, self._first_offset(history, newest)).to_json()
        return self._reached

    @suppress_worker_traceback()
    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end offset of the next batch; `start` itself if there is nothing new.

        PySpark 4.1 passes no `start`. After a restart from a checkpoint the first batch
        then reads up to the newest version.
        """
        history = self._opened()
        newest = history.newest()[0] if self._last_version is None else self._last_version
        self._check_columns(history)
        start = self._reached if start is None else start
        if start is None:
            return self._with_state(history, StreamOffset(history.table_id, newest)).to_json()
        begin = history.find_retained(self._checked(start))
        end = advance_offset(begin, self._steps(history, begin, newest), _batch_limit(limit))
        return start if end == begin else self._with_state(history, end).to_json()

    @suppress_worker_traceback()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the input partitions of a batch."""
        history, begin, until = self._opened(), self._checked(start), self._checked(end)
        self._reached = end
        if begin == until:
            return []
        begin = history.find_retained(begin)
        reader = self._create_input_reader(self._check_columns(history))
        upto = until.version + (1 if until.files and not until.is_first else 0)
        pieces: list[StreamInputPartition] = []
        for step, units in select_batch_units(
            begin, until, self._steps(history, begin, upto, stops_before_change=False)
        ):
            if step.is_change:
                pieces.append(StreamInputPartition(reader, (), step.version, history.target))
                continue
            scans = [unit.scan for unit in units if unit.scan is not None]
            pieces += [
                StreamInputPartition(reader, piece.scans, step.version)
                for piece in plan_input_partitions(scans, step.version)
            ]
        return pieces

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of an input partition as Arrow batches; runs in a task."""
        assert isinstance(partition, StreamInputPartition)
        with suppress_worker_traceback():
            rows = (
                self._new_rows(partition) if partition.changed is None else self._changes(partition, partition.changed)
            )
        versions = pa.repeat(pa.scalar(partition.version, pa.int64()), rows.num_rows)
        yield from to_spark_batches(rows.append_column(COMMIT_VERSION, versions), self._schema)

    def _new_rows(self, piece: StreamInputPartition) -> pa.Table:
        rows = piece.reader.rows(self._options.store(), piece.scans)
        return rows.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(_INSERT), rows.num_rows))

    def _changes(self, piece: StreamInputPartition, target: TableTarget) -> pa.Table:
        history, store = TableHistory(self._options.opened(), target), self._options.store()
        version = piece.reader.state.version
        before = replace(history.state(piece.version - 1), version=version)
        after = replace(history.state(piece.version), version=version)
        rows = LocalEngine(store, lambda: "unused").changes(before, after)
        predicate = piece.reader.predicate
        return rows if predicate is None else rows.filter(build_predicate_mask(rows, predicate, after.schema))

    def _opened(self) -> TableHistory:
        if self._history is None:
            lake = self._options.opened()
            target = self._options.resolve_target(lake.metastore.latest())
            self._history = TableHistory(lake, target, fails_on_data_loss=self._options.fails_on_data_loss)
        return self._history

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without open files and threads; a task opens its own."""
        return self.__dict__ | {"_history": None}

    def _first_offset(self, history: TableHistory, newest: int) -> StreamOffset:
        start_version, timestamp = self._options.starting_version, self._options.starting_timestamp
        if timestamp is not None:
            return StreamOffset(history.table_id, self._options.opened()._snapshot_at(timestamp).version)
        if start_version is None or start_version == "earliest":
            return StreamOffset(history.table_id, newest, is_first=True)
        if isinstance(start_version, str):
            return StreamOffset(history.table_id, newest)
        if start_version > newest + 1:
            raise InvalidInputError(
                f"startingVersion {start_version} does not exist yet; the newest version is {newest}"
            )
        return StreamOffset(history.table_id, start_version - 1)

    def _with_state(self, history: TableHistory, offset: StreamOffset) -> StreamOffset:
        return replace(offset, state=compute_fingerprint(history.state(offset.version)))

    def _checked(self, given: dict[str, Any]) -> StreamOffset:
        offset = offset_from_json(given)
        if offset.table_id != self._opened().table_id:
            raise InvalidInputError(
                f"the checkpoint belongs to the table with id {offset.table_id}, but {self._options.name} is another "
                "table now; use a new checkpoint"
            )
        return offset

    def _check_columns(self, history: TableHistory) -> TableState:
        """Return the current table; raise InvalidInputError if its columns changed since the query started."""
        newest = history.newest()[1]
        found = [(field.name, field.dataType) for field in build_read_schema(newest, self._options).fields]
        if found != [(field.name, field.dataType) for field in self._schema.fields]:
            raise InvalidInputError(
                f"the columns of {newest.name} changed while a stream was reading it; "
                "restart the query with the same checkpoint to continue with the new columns"
            )
        return newest

    def _create_input_reader(self, newest: TableState) -> InputPartitionReader:
        """Return the scan options for any version, with the current columns resolved by id."""
        predicate = bind_predicate(self._options.where, newest.schema)
        return InputPartitionReader(strip_logs(newest), select_columns(newest, self._options.columns), predicate)

    def _steps(
        self, history: TableHistory, start: StreamOffset, upto: int, *, stops_before_change: bool = True
    ) -> Iterator[StreamStep]:
        """Yield the steps of this stream; a version with changed rows is rejected, skipped or included.

        With `stops_before_change` new rows before such a version are returned first.
        """
        is_late = False
        for step in history.steps(start, upto):
            if not step.is_change or self._options.reads_changes:
                is_late = is_late or bool(step.units)
                yield step
            elif self._options.skips_changes:
                yield replace(step, units=())
            else:
                if is_late and stops_before_change:
                    return
                raise InvalidInputError(
                    f"version {step.version} changed or deleted rows of {self._options.name}, but this stream reads "
                    'only appended rows; use .option("readChangeFeed", "true"), or skip such versions with '
                    '.option("skipChangeCommits", "true")'
                )


def _batch_limit(limit: ReadLimit | None) -> BatchLimit:
    match limit:
        case ReadMaxFiles(max_files):
            return BatchLimit(files=max_files)
        case ReadMaxRows(max_rows):
            return BatchLimit(rows=max_rows)
        case ReadMaxBytes(max_bytes):
            return BatchLimit(size_bytes=max_bytes)
        case _:
            return BatchLimit()
