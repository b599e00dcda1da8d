"""Batch and streaming writers of the Spark data source.

A failed or duplicate task leaves unreferenced files, which vacuum deletes. So there is
nothing to do when Spark aborts a write, which it may also report after a successful
commit.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from mangrove.errors import ConflictError, InvalidInputError, MangroveError
from mangrove.lakehouse.table_staging import stage_write
from mangrove.lakehouse.transaction import Transaction
from mangrove.local.engine import LocalEngine
from mangrove.local.keys import check_keys_unique
from mangrove.local.parquet import read_columns
from mangrove.metastore import MetastoreSnapshot
from mangrove.model.manifests import DataFile
from mangrove.model.objects import TableEntry
from mangrove.model.values import Value
from mangrove.spark.errors import suppress_worker_traceback
from mangrove.spark.source_options import SourceOptions
from mangrove.spark.task_files import create_file_id, group_batches
from mangrove.spark.types import from_spark_type
from mangrove.spark.worker_read import strip_logs
from mangrove.storage.opening import open_store
from mangrove.tables.change_feed import is_append_compatible
from mangrove.tables.table_state import TableState, load_table_state
from mangrove.tables.type_compatibility import check_columns
from mangrove.tables.write_plan import (
    FILE_SIZE_BYTES,
    PlannedWrite,
    build_append_delta,
    build_upsert_delta,
    plan_full_overwrite,
    plan_write,
)
from mangrove.transaction.catalog import search_table
from mangrove.transaction.deltas import TableTarget, check_writable, open_table
from mangrove.transaction.idempotency import list_query_batches

__all__ = ["StreamTableWriter", "TableWriter", "WrittenFiles", "read_checkpoint_query_id"]

_METADATA: Final = "metadata"


@dataclass
class WrittenFiles(WriterCommitMessage):
    """The files of one task and the table definition that it used."""

    table: TableEntry
    state: TableState
    files: tuple[tuple[tuple[Value | None, ...], DataFile], ...]


class _TaskWriter:
    """The part of a writer that runs in the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        self._options = options
        self._overwrite = overwrite
        if overwrite and options.operation != "append":
            raise InvalidInputError(
                f"mode overwrite and operation upsert exclude each other for {options.name}; choose one of them"
            )
        snapshot = options.opened().metastore.latest()
        self._target = self._resolve_target(snapshot)
        check_writable(self._target)
        self._table = open_table(snapshot, self._target).table
        self._state = strip_logs(load_table_state(snapshot, self._target, with_logs=False))
        given = {field.name: from_spark_type(field.dataType, field.name) for field in schema.fields}
        check_columns(self._state.name, self._state.schema, given)
        if options.operation == "upsert":
            self._state.checked_keys("an upsert")
            self._check_complete(given)

    def _resolve_target(self, snapshot: MetastoreSnapshot) -> TableTarget:
        """Return what is written."""
        return self._options.resolve_target(snapshot)

    def _check_complete(self, given: Iterable[str]) -> None:
        """Raise InvalidInputError if columns are missing: a blind upsert cannot keep their existing values."""
        names = {name.casefold() for name in given}
        missing = [column.name for column in self._state.schema.columns if column.name.casefold() not in names]
        if missing:
            raise InvalidInputError(
                f"the rows to upsert into {self._state.name} lack {', '.join(missing)}; provide every column, or "
                "use the method upsert of the table in foreachBatch"
            )

    @suppress_worker_traceback()
    def write(self, iterator: Iterator[Any]) -> WrittenFiles:
        """Write the rows of a task, and report the files."""
        engine = LocalEngine(self._options.store(), create_file_id)
        verb = engine.upsert if self._options.operation == "upsert" else engine.append
        files = [
            (delta.log_values, file)
            for part in group_batches(iterator, FILE_SIZE_BYTES)
            for delta in verb(self._state, part).deltas
            for file in delta.delta.manifest.entries
        ]
        return WrittenFiles(self._table, self._state, tuple(files))

    def _stage(self, transaction: Transaction, messages: Sequence[WrittenFiles]) -> None:
        """Stage the files of the tasks in a transaction; the table is found by id if it was renamed."""
        workspace = transaction._reading()
        target = replace(self._target, table_id=self._table.id)
        state = load_table_state(workspace, target, with_logs=self._overwrite, is_recorded=False)
        for message in messages:
            if not is_append_compatible(message.state, state):
                raise ConflictError(
                    f"the keys, partitions or columns of {state.name} were changed by a concurrent commit; "
                    "nothing was committed, retry the write"
                )
        files = [file for message in messages for file in message.files]
        stage_write(workspace, target, self._planned(state, files), transaction.id)

    def _planned(self, state: TableState, files: Sequence[tuple[tuple[Value | None, ...], DataFile]]) -> PlannedWrite:
        by_log: dict[tuple[Value | None, ...], list[DataFile]] = {}
        for values, file in files:
            by_log.setdefault(values, []).append(file)
        if self._overwrite:
            return plan_full_overwrite(state, by_log)
        if self._options.operation == "upsert":
            return plan_write(
                {values: build_upsert_delta(there, state.version.keys) for values, there in by_log.items()}
            )
        return plan_write({values: build_append_delta(there) for values, there in by_log.items()})

    def _check_distinct(self, messages: Sequence[WrittenFiles]) -> None:
        """Raise InvalidInputError for keys in files of several tasks; each task has checked only its own."""
        files = [file for message in messages for _, file in message.files]
        if self._options.operation != "upsert" or len(files) < 2:
            return
        store, keys = self._options.store(), self._state.key_columns
        rows = pa.concat_tables([read_columns(store, file, keys) for file in files])
        check_keys_unique(self._state.name, rows, keys)


class TableWriter(_TaskWriter, DataSourceArrowWriter):
    """A batch write, committed as one transaction."""

    @suppress_worker_traceback()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks."""
        reported = [message for message in messages if isinstance(message, WrittenFiles)]
        self._check_distinct(reported)
        verb = "overwrite" if self._overwrite else f"{self._options.operation} to"
        self._options.opened().run(
            lambda transaction: self._stage(transaction, reported), message=f"{verb} {self._target}"
        )


class StreamTableWriter(_TaskWriter, DataSourceStreamArrowWriter):
    """A streaming write: one idempotent transaction per batch."""

    @suppress_worker_traceback()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit a batch with its number, unless it is already committed.

        A batch without files is not committed.
        """
        reported = [message for message in messages if isinstance(message, WrittenFiles)]
        if not self._overwrite and not any(message.files for message in reported):
            return
        self._check_distinct(reported)
        query = f"{self._into()}{self._table.id}"
        self._options.opened().run_once(query, batchId, lambda transaction: self._stage(transaction, reported))

    def _resolve_target(self, snapshot: MetastoreSnapshot) -> TableTarget:
        """Return what is written; after a rename the table is found by the query's last batch.

        Spark creates a new writer for every batch with the table name at the start of the
        query.
        """
        named = self._options.named_target
        if named is not None and snapshot.get(named.locator) is None:
            into = self._into()
            mine = [batch for batch in list_query_batches(snapshot) if batch.query.startswith(into)]
            for batch in sorted(mine, key=lambda one: one.noted_at_millis, reverse=True):
                found = search_table(snapshot, batch.query.removeprefix(into))
                if found is not None:
                    return replace(named, locator=found)
        return self._options.resolve_target(snapshot)

    def _into(self) -> str:
        """Return the prefix of this query's idempotency keys; the table id follows."""
        return f"{self._options.query or read_checkpoint_query_id(self._options)} into table "


def read_checkpoint_query_id(options: SourceOptions) -> str:
    """Return the id that Spark gave a query when its checkpoint was made.

    It stays when the query restarts. A checkpoint that was deleted and created again has
    another id: its batch numbers start at 0 again.
    """
    remedy = f'name the query of {options.name} yourself with .option("query", "some-name")'
    if options.checkpoint is None:
        raise InvalidInputError(f'the query has no option "checkpointLocation"; set it, or {remedy}')
    location = options.checkpoint.replace("s3a://", "s3://", 1)
    if location.startswith("file:/"):
        location = f"file:///{location.removeprefix('file:').lstrip('/')}"
    try:
        is_cloud = "://" in location and not location.startswith("file:")
        store = open_store(location, options.storage if is_cloud and options.storage else None)
        return str(json.loads(store.read(_METADATA))["id"])
    except (MangroveError, ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(
            f"cannot read the query id of checkpoint {options.checkpoint} ({error}); {remedy}"
        ) from error
