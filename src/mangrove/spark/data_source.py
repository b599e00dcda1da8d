"""Spark data source `mangrove`: schema, batch reader and writer factories.

The reader does not accept filter pushdown: Spark 4.3 reuses the partitions that one
query's filter selected for every other query on the same frame, which then misses
rows.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from mangrove.errors import InvalidInputError
from mangrove.expressions.parse import bind_predicate
from mangrove.local.scan import select_columns
from mangrove.metastore import MetastoreSnapshot
from mangrove.spark.data_source_writer import StreamTableWriter, TableWriter
from mangrove.spark.errors import suppress_worker_traceback
from mangrove.spark.source_options import SourceOptions, parse_options, refuse_partial_overwrite
from mangrove.spark.stream_reader import TableStreamReader, build_read_schema
from mangrove.spark.worker_read import (
    FilesInputPartition,
    InputPartitionReader,
    plan_input_partitions,
    strip_logs,
    to_spark_batches,
)
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import load_table_state

__all__ = ["BatchReader", "MangroveSource", "has_stored_options", "resolve_snapshot"]


def resolve_snapshot(options: SourceOptions) -> MetastoreSnapshot:
    """Return the requested version, or the newest."""
    lake = options.opened()
    return lake.metastore.latest() if options.moment is None else lake._snapshot_at(options.moment)


class BatchReader(DataSourceReader):
    """Reader of one table version; planned in the driver and executed in the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        snapshot = resolve_snapshot(options)
        # Later planning uses the same version, regardless of concurrent commits.
        self._version = snapshot.version
        self._target = options.resolve_target(snapshot)
        state = strip_logs(load_table_state(snapshot, self._target, with_logs=False))
        predicate = bind_predicate(options.where, state.schema)
        self._pieces = InputPartitionReader(state, select_columns(state, schema.names), predicate)

    @suppress_worker_traceback()
    def partitions(self) -> list[InputPartition]:
        """Return the input partitions; an empty one if there are no files."""
        snapshot = self._options.opened().metastore.at_version(self._version)
        state = load_table_state(snapshot, self._target, predicate=self._pieces.predicate)
        pieces = plan_input_partitions(plan_scan(state, self._pieces.predicate).scans, self._version)
        return [*pieces] or [FilesInputPartition((), self._version)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of an input partition as Arrow batches."""
        assert isinstance(partition, FilesInputPartition)
        if partition.scans:
            with suppress_worker_traceback():
                rows = self._pieces.rows(self._options.store(), partition.scans)
            yield from to_spark_batches(rows, self._schema)


_OPTIONS_METADATA_KEY: Final = "mangrove.options"
"""Column metadata key for the table's options, which Spark's catalog does not keep."""


class MangroveSource(DataSource):
    """The data source; Spark creates a new one in each process."""

    bound: ClassVar[Mapping[str, str]] = {}
    """Options of a subclass for a table in Spark's catalog."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "mangrove"

    @suppress_worker_traceback()
    def schema(self) -> StructType:
        """Return the columns, all of them nullable like any Spark file source."""
        options = self._parsed()
        snapshot = resolve_snapshot(options)
        state = load_table_state(snapshot, options.resolve_target(snapshot), with_logs=False)
        schema = build_read_schema(state, options)
        # Spark passes the options only when it creates a table.
        return _store_options(schema, self.options) if "provider" in self.options else schema

    @suppress_worker_traceback()
    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader of a version."""
        options = self._parsed(schema)
        if options.reads_changes:
            raise InvalidInputError(
                f"readChangeFeed of {options.name} requires a stream; use readStream or changes(from_version)"
            )
        return BatchReader(options, schema)

    @suppress_worker_traceback()
    def writer(self, schema: StructType, overwrite: bool) -> TableWriter:
        """Return the writer of a batch."""
        if overwrite:
            refuse_partial_overwrite(self.options)
        return TableWriter(self._parsed(), schema, overwrite=overwrite)

    @suppress_worker_traceback()
    def streamReader(self, schema: StructType) -> TableStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of the table's history."""
        return TableStreamReader(self._parsed(schema), schema)

    @suppress_worker_traceback()
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamTableWriter:  # noqa: N802 - Spark's name
        """Return the writer of the batches of a stream."""
        return StreamTableWriter(self._parsed(), schema, overwrite=overwrite)

    def _parsed(self, schema: StructType | None = None) -> SourceOptions:
        """Return the options; options in column metadata are used for reading only.

        Column metadata is copied into other tables, so it must never determine where rows
        are written.
        """
        noted = _read_stored_options(schema) if schema is not None and "lake" not in self.options else {}
        return parse_options({**noted, **self.bound, **self.options})


def _store_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    plain_options = {name: value for name, value in options.items() if not name.startswith("option.")}
    noted: dict[str, Any] = {
        _OPTIONS_METADATA_KEY: json.dumps(
            {name: plain_options[name] for name in sorted(plain_options) if name != "provider"}
        )
    }
    return StructType([StructField(field.name, field.dataType, field.nullable, noted) for field in schema.fields])


def has_stored_options(schema: StructType) -> bool:
    """Return whether the columns belong to a table that was created with this source."""
    return any(_OPTIONS_METADATA_KEY in field.metadata for field in schema.fields)


def _read_stored_options(schema: StructType) -> dict[str, str]:
    texts = {
        field.metadata[_OPTIONS_METADATA_KEY] for field in schema.fields if _OPTIONS_METADATA_KEY in field.metadata
    }
    found: dict[str, str] = json.loads(texts.pop()) if len(texts) == 1 else {}
    return found
