"""Reads in Python workers: input partitions and file reader.

Spark cannot prune the reads of a Python worker, so only the required columns and files
are passed. This is about twice the work of Spark's own reader, and needs no JAR.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StructField, StructType

from mangrove.expressions.predicates import Predicate
from mangrove.local.parquet import read_columns
from mangrove.local.row_numbers import build_row_numbers
from mangrove.local.scan import run_scan
from mangrove.maintenance.export_records import open_export
from mangrove.model.manifests import DataFile
from mangrove.model.types import Column
from mangrove.spark.pyspark_versions import arrow_schema
from mangrove.spark.types import from_spark_schema
from mangrove.storage.opening import open_store
from mangrove.storage.port import Store
from mangrove.tables.scan_plan import FileScan, ScanPlan
from mangrove.tables.table_state import TableState

__all__ = [
    "INPUT_PARTITION_BYTES",
    "FilesInputPartition",
    "InputPartitionReader",
    "WorkerReader",
    "add_row_numbers",
    "plan_input_partitions",
    "strip_logs",
    "to_spark_batches",
]

_PARTITIONS_MAX: Final = 200
_LISTED: Final = "path string, size bigint, number bigint"
_ROWS_AT_ONCE: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class WorkerReader:
    """Factory that opens the store of a lakehouse in each worker."""

    store_uri: str
    storage_options: Mapping[str, str] | None

    def read(
        self,
        session: SparkSession,
        files: Sequence[tuple[str, int, int]],
        schema: StructType,
        number: str | None = None,
        row_index: str | None = None,
    ) -> DataFrame:
        """Return the rows of files, given as path, size and number, with columns matched by field id."""
        uri, options, columns = self.store_uri, self.storage_options, from_spark_schema(schema)
        added = [StructField(name, LongType()) for name in (number, row_index) if name is not None]

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            # A shallow export is layered over its source.
            store = open_export(open_store(uri, options), lambda below: open_store(below, options))
            for batch in batches:
                for entry in batch.to_pylist():
                    rows = read_columns(store, DataFile(entry["path"], entry["size"], 0), columns)
                    numbered = add_row_numbers(rows, entry["number"], number, row_index)
                    yield from numbered.to_batches(max_chunksize=_ROWS_AT_ONCE)

        listed = session.createDataFrame([tuple(file) for file in files], _LISTED)
        spread = listed.repartition(min(len(files), _PARTITIONS_MAX))
        # A required field would fail if a file lacks its column.
        return spread.mapInArrow(read, StructType([*schema.fields, *added]))


def add_row_numbers(rows: Any, file_number: int, number: str | None, row_index: str | None) -> Any:
    """Return the rows of a file with optional columns for the file number and for the row numbers."""
    rows = rows.replace_schema_metadata(None)
    if number is not None:
        rows = rows.append_column(number, pa.repeat(pa.scalar(file_number, pa.int64()), rows.num_rows))
    return rows if row_index is None else rows.append_column(row_index, build_row_numbers(rows.num_rows))


INPUT_PARTITION_BYTES: Final = 32 * 1024 * 1024
"""Small files are combined up to this size, because each task has a fixed cost."""
_BATCH_ROWS: Final = 65_536


@dataclass
class FilesInputPartition(InputPartition):
    """Data files with their delete files."""

    scans: tuple[FileScan, ...]
    version: int
    """The version of these rows, for readers of a change feed."""


@dataclass(frozen=True, slots=True)
class InputPartitionReader:
    """The table state that a task needs, without its logs."""

    state: TableState
    columns: tuple[Column, ...]
    predicate: Predicate | None = None

    def rows(self, store: Store, scans: Sequence[FileScan]) -> pa.Table:
        """Return the visible rows of the files that match the filter."""
        return run_scan(store, self.state, ScanPlan(tuple(scans)), self.columns, self.predicate)


def plan_input_partitions(
    scans: Sequence[FileScan], version: int, size_bytes: int = INPUT_PARTITION_BYTES
) -> list[FilesInputPartition]:
    """Return the files as input partitions of about equal size, in order."""
    pieces: list[FilesInputPartition] = []
    waiting: list[FileScan] = []
    waiting_bytes = 0
    for scan in scans:
        if waiting and waiting_bytes + scan.file.size_bytes > size_bytes:
            pieces.append(FilesInputPartition(tuple(waiting), version))
            waiting, waiting_bytes = [], 0
        waiting.append(scan)
        waiting_bytes += scan.file.size_bytes
    return [*pieces, FilesInputPartition(tuple(waiting), version)] if waiting else pieces


def strip_logs(state: TableState) -> TableState:
    """Return the table state without its logs, for workers."""
    return replace(state, logs=())


def to_spark_batches(rows: pa.Table, schema: StructType) -> Iterator[Any]:
    """Yield the rows in exactly the types that Spark expects."""
    expected = arrow_schema(schema)
    yield from rows.select(expected.names).cast(expected).to_batches(max_chunksize=_BATCH_ROWS)
