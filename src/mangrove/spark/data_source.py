"""Spark data source `mangrove`: schema, batch reader and writer factories.

Spark could also hand over its own filters, and this reader does not take them:
Spark 4.3 keeps the partitions that one query's filter left for every other query
on the same frame, which then misses rows.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from mangrove.errors import InvalidInputError
from mangrove.expressions.parse import bind_predicate
from mangrove.lakehouse.table_staging import load_table_state
from mangrove.local.scan import select_columns
from mangrove.metastore import Snapshot
from mangrove.spark.data_source_writer import StreamTableWriter, TableWriter
from mangrove.spark.errors import suppress_worker_traceback
from mangrove.spark.source_options import SourceOptions, parse_options
from mangrove.spark.stream_reader import TableStreamReader, build_read_schema
from mangrove.spark.worker_read import (
    FilesInputPartition,
    InputPartitionReader,
    plan_input_partitions,
    strip_logs,
    to_spark_batches,
)
from mangrove.tables.scan_plan import plan_scan

__all__ = ["MangroveSource", "TableReader", "has_stored_options", "resolve_snapshot"]


def resolve_snapshot(options: SourceOptions) -> Snapshot:
    """Return the version that is asked for, or the newest."""
    lake = options.opened()
    return lake.metastore.latest() if options.moment is None else lake.snapshot_at(options.moment)


class TableReader(DataSourceReader):
    """One version of a table: it is planned where the query is, and read in the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        snapshot = resolve_snapshot(options)
        # What is planned later is of the same version, whatever others commit meanwhile.
        self._version = snapshot.version
        state = strip_logs(load_table_state(snapshot, options.table, with_logs=False))
        predicate = bind_predicate(options.where, state.schema)
        self._pieces = InputPartitionReader(state, select_columns(state, schema.names), predicate)

    @suppress_worker_traceback()
    def partitions(self) -> list[InputPartition]:
        """Return the files to be read; where there are none, one piece without any."""
        snapshot = self._options.opened().metastore.at_version(self._version)
        state = load_table_state(snapshot, self._options.table, predicate=self._pieces.predicate)
        pieces = plan_input_partitions(plan_scan(state, self._pieces.predicate).scans, self._version)
        return [*pieces] or [FilesInputPartition((), self._version)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a piece as Arrow batches."""
        assert isinstance(partition, FilesInputPartition)
        if partition.scans:
            with suppress_worker_traceback():
                rows = self._pieces.rows(self._options.store(), partition.scans)
            yield from to_spark_batches(rows, self._schema)


_OPTIONS_METADATA_KEY: Final = "mangrove.options"
"""Where a column of a table in Spark's catalog notes what Spark itself forgets: the options of the table."""


class MangroveSource(DataSource):
    """What Spark asks for readers and writers, each time in another process."""

    bound: ClassVar[Mapping[str, str]] = {}
    """Options that a subclass stands for, so that a table of Spark's catalog needs none."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "mangrove"

    @suppress_worker_traceback()
    def schema(self) -> StructType:
        """Return the columns, all of them nullable as what is read from files always is."""
        options = self._parsed()
        state = load_table_state(resolve_snapshot(options), options.table, with_logs=False)
        found = build_read_schema(state, options)
        # Spark passes this when it makes a table, and never shows a table's options again.
        return _store_options(found, self.options) if "provider" in self.options else found

    @suppress_worker_traceback()
    def reader(self, schema: StructType) -> TableReader:
        """Return the reader of a version."""
        options = self._parsed(schema)
        if options.reads_changes:
            raise InvalidInputError(
                f"changes of {options.table} are read as a stream, or by the table's own method changes(from_version)"
            )
        return TableReader(options, schema)

    @suppress_worker_traceback()
    def writer(self, schema: StructType, overwrite: bool) -> TableWriter:
        """Return the writer of a batch."""
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
        """Return the options; those that columns note are for reading only.

        Columns keep their notes on their way into other tables, so what is written must
        never go where a column says.
        """
        noted = _read_stored_options(schema) if schema is not None and "lake" not in self.options else {}
        return parse_options({**noted, **self.bound, **self.options})


def _store_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    kept = {name: value for name, value in options.items() if not name.startswith("option.")}
    noted: dict[str, Any] = {
        _OPTIONS_METADATA_KEY: json.dumps({name: kept[name] for name in sorted(kept) if name != "provider"})
    }
    return StructType([StructField(field.name, field.dataType, field.nullable, noted) for field in schema.fields])


def has_stored_options(schema: StructType) -> bool:
    """Return whether the columns are those of a table that was made with this source."""
    return any(_OPTIONS_METADATA_KEY in field.metadata for field in schema.fields)


def _read_stored_options(schema: StructType) -> dict[str, str]:
    texts = {
        field.metadata[_OPTIONS_METADATA_KEY] for field in schema.fields if _OPTIONS_METADATA_KEY in field.metadata
    }
    found: dict[str, str] = json.loads(texts.pop()) if len(texts) == 1 else {}
    return found
