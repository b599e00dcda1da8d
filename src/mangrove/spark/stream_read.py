"""Reading a table as a stream: first the table as it is, then what each version adds, a batch at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyspark
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from mangrove.errors import InvalidInputError
from mangrove.local.changes import CHANGE_TYPE
from mangrove.local.engine import LocalEngine
from mangrove.local.masks import meant_rows
from mangrove.local.scanning import chosen_columns
from mangrove.model.objects import Table
from mangrove.model.schema import Schema
from mangrove.spark.leading import leading
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
from mangrove.spark.source_pieces import PieceReader, bare, batches, gathered
from mangrove.spark.stream_history import TableHistory
from mangrove.spark.types import spark_schema
from mangrove.tables.predicate_text import bound_predicate
from mangrove.tables.scan_plan import FileScan
from mangrove.tables.stream_offsets import BatchLimit, StreamOffset, advanced, offset_from_json, units_between
from mangrove.tables.stream_steps import Step, fingerprint
from mangrove.tables.table_state import TableState

__all__ = ["COMMIT_VERSION", "StreamPiece", "TableStreamReader", "read_schema"]

COMMIT_VERSION: Final = "_commit_version"
_INSERT: Final = "insert"
_LIMITS: Final = {
    "maxFilesPerTrigger": ReadMaxFiles,
    "maxRowsPerTrigger": ReadMaxRows,
    "maxBytesPerTrigger": ReadMaxBytes,
}


def read_schema(state: TableState, options: SourceOptions) -> spark.StructType:
    """Return the columns that a reader gives, with what happened to each row where that is asked for."""
    chosen = Schema(chosen_columns(state, options.columns), last_column_id=state.schema.last_column_id)
    found = spark_schema(chosen, with_ids=False)
    if options.reads_changes:
        found = found.add(CHANGE_TYPE, spark.StringType()).add(COMMIT_VERSION, spark.LongType())
    return found


@dataclass
class StreamPiece(InputPartition):
    """What one task reads of a batch: files of new rows, or the changes of one version."""

    reader: PieceReader
    scans: tuple[FileScan, ...]
    version: int
    changed: Table | None = None
    """The table of which it is the changes, since a task finds no table by a name that it had."""


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A table's history from a place in it; a process of its own asks for offsets and plans batches."""

    def __init__(self, options: SourceOptions, schema: spark.StructType) -> None:
        if options.limit is not None and not HAS_READ_LIMITS:
            raise InvalidInputError(
                f"{options.limit[0]} needs PySpark 4.2 or newer, and this is {pyspark.__version__}: leave it out"
            )
        self._options = options
        self._schema = schema
        self._history: TableHistory | None = None
        self._reached: dict[str, Any] | None = None
        """The end of the last batch, which PySpark 4.1 does not pass to `latestOffset`."""
        self._last_version: int | None = None
        """Up to where a query reads that takes what is there now and then ends."""

    @leading()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take note of what is available now."""
        self._last_version = self._opened().newest()[0]

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how much a batch may hold by the options."""
        if self._options.limit is None:
            return ReadAllAvailable()
        name, count = self._options.limit
        return _LIMITS[name](count)

    @leading()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new query starts."""
        history = self._opened()
        newest = history.newest()[0] if self._last_version is None else self._last_version
        self._reached = self._with_state(history, self._first_offset(history, newest)).to_json()
        return self._reached

    @leading()
    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return up to where the next batch reads; `start` itself where there is nothing new.

        PySpark 4.1 gives no `start`. In a query that goes on from a checkpoint the first
        batch then reads up to the newest version, whatever that version changed.
        """
        history = self._opened()
        newest = history.newest()[0] if self._last_version is None else self._last_version
        self._check_columns(history)
        start = self._reached if start is None else start
        if start is None:
            return self._with_state(history, StreamOffset(history.table_id, newest)).to_json()
        begin = self._checked(start)
        end = advanced(begin, self._steps(history, begin, newest), _batch_limit(limit))
        return start if end == begin else self._with_state(history, end).to_json()

    @leading()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return what the tasks of a batch read."""
        history, begin, until = self._opened(), self._checked(start), self._checked(end)
        self._reached = end
        if begin == until:
            return []
        reader = self._piece_reader(self._check_columns(history))
        upto = until.version + (1 if until.files and not until.is_first else 0)
        pieces: list[StreamPiece] = []
        for step, units in units_between(begin, until, self._steps(history, begin, upto, stops_before_change=False)):
            if step.is_change:
                pieces.append(StreamPiece(reader, (), step.version, history.table))
                continue
            scans = [unit.scan for unit in units if unit.scan is not None]
            pieces += [StreamPiece(reader, piece.scans, step.version) for piece in gathered(scans, step.version)]
        return pieces

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a piece as Arrow batches; this runs in a task."""
        assert isinstance(partition, StreamPiece)
        with leading():
            rows = (
                self._new_rows(partition) if partition.changed is None else self._changes(partition, partition.changed)
            )
        versions = pa.repeat(pa.scalar(partition.version, pa.int64()), rows.num_rows)
        yield from batches(rows.append_column(COMMIT_VERSION, versions), self._schema)

    def _new_rows(self, piece: StreamPiece) -> pa.Table:
        rows = piece.reader.rows(self._options.store(), piece.scans)
        return rows.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(_INSERT), rows.num_rows))

    def _changes(self, piece: StreamPiece, table: Table) -> pa.Table:
        history, store = TableHistory(self._options.opened(), self._options.table, table=table), self._options.store()
        version = piece.reader.state.version
        before = replace(history.state(piece.version - 1), version=version)
        after = replace(history.state(piece.version), version=version)
        rows = LocalEngine(store, lambda: "unused").changes(before, after)
        predicate = piece.reader.predicate
        return rows if predicate is None else rows.filter(meant_rows(rows, predicate, after.schema))

    def _opened(self) -> TableHistory:
        if self._history is None:
            self._history = TableHistory(
                self._options.opened(), self._options.table, fails_on_data_loss=self._options.fails_on_data_loss
            )
        return self._history

    def __getstate__(self) -> dict[str, Any]:
        """Leave open files and threads behind: a task opens its own."""
        return self.__dict__ | {"_history": None}

    def _first_offset(self, history: TableHistory, newest: int) -> StreamOffset:
        wanted, moment = self._options.starting_version, self._options.starting_timestamp
        if moment is not None:
            return StreamOffset(history.table_id, self._options.opened().snapshot_at(moment).version)
        if wanted is None or wanted == "earliest":
            return StreamOffset(history.table_id, newest, is_first=True)
        if isinstance(wanted, str):
            return StreamOffset(history.table_id, newest)
        if wanted > newest + 1:
            raise InvalidInputError(f"startingVersion is {wanted}, and the newest version is {newest}: wait for it")
        return StreamOffset(history.table_id, wanted - 1)

    def _with_state(self, history: TableHistory, offset: StreamOffset) -> StreamOffset:
        return replace(offset, state=fingerprint(history.state(offset.version)))

    def _checked(self, given: dict[str, Any]) -> StreamOffset:
        offset = offset_from_json(given)
        if offset.table_id != self._opened().table_id:
            raise InvalidInputError(
                f"the checkpoint is of the table with the id {offset.table_id}, and {self._options.table} is another "
                "one by now: use a new checkpoint"
            )
        return offset

    def _check_columns(self, history: TableHistory) -> TableState:
        """Return the table as it is now; a query whose columns are others than those it began with must begin again."""
        newest = history.newest()[1]
        found = [(field.name, field.dataType) for field in read_schema(newest, self._options).fields]
        if found != [(field.name, field.dataType) for field in self._schema.fields]:
            raise InvalidInputError(
                f"the columns of {newest.name} changed while a stream was reading it: "
                "start the query again, with the same checkpoint, to go on with the new ones"
            )
        return newest

    def _piece_reader(self, newest: TableState) -> PieceReader:
        """Return how rows of any version are read: with the columns of today, which ids lead to."""
        predicate = bound_predicate(self._options.where, newest.schema)
        return PieceReader(bare(newest), chosen_columns(newest, self._options.columns), predicate)

    def _steps(
        self, history: TableHistory, start: StreamOffset, upto: int, *, stops_before_change: bool = True
    ) -> Iterator[Step]:
        """Yield the steps that this stream gives; a version that changed rows is refused, left out or given.

        With `stops_before_change` new rows that came before such a version are given first.
        """
        is_late = False
        for step in history.steps(start, upto):
            if not step.is_change or self._options.reads_changes:
                is_late = is_late or bool(step.units)
                yield step
            elif not self._options.skips_changes:
                if is_late and stops_before_change:
                    return
                raise InvalidInputError(
                    f"version {step.version} changed or deleted rows of {self._options.table}, and this stream gives "
                    'new rows only: read it with .option("readChangeFeed", "true"), or leave such versions out with '
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
