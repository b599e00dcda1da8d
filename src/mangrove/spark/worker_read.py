"""Reading files in Python workers, where Spark's Java has no classes for the bucket.

Spark sees nothing of what happens in a worker, so only the columns and files that
were asked for must be given here. It is about twice the work of Spark's own
reader, and needs no JAR.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from mangrove.local.parquet import read_columns
from mangrove.maintenance.opened_export import opened_export
from mangrove.model.manifests import DataFile
from mangrove.spark.types import columns_of
from mangrove.storage.opening import open_store

__all__ = ["WorkerReader"]

_PARTITIONS_MAX: Final = 200
_LISTED: Final = "path string, size bigint, number bigint"
_ROWS_AT_ONCE: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class WorkerReader:
    """Opens the store of a lakehouse in each worker."""

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
        """Return the rows of files, given as path, size and number, with these columns found by their ids."""
        uri, options, columns = self.store_uri, self.storage_options, columns_of(schema)
        added = [StructField(name, LongType()) for name in (number, row_index) if name is not None]

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            # An export that is not full lies on top of what it was made from.
            store = opened_export(open_store(uri, options), lambda below: open_store(below, options))
            for batch in batches:
                for entry in batch.to_pylist():
                    rows: Any = read_columns(store, DataFile(entry["path"], entry["size"], 0), columns)
                    rows = rows.replace_schema_metadata(None)
                    if number is not None:
                        rows = rows.append_column(number, pa.repeat(pa.scalar(entry["number"]), rows.num_rows))
                    if row_index is not None:
                        rows = rows.append_column(row_index, pa.array(range(rows.num_rows), pa.int64()))
                    yield from rows.to_batches(max_chunksize=_ROWS_AT_ONCE)

        listed = session.createDataFrame([tuple(file) for file in files], _LISTED)
        spread = listed.repartition(min(len(files), _PARTITIONS_MAX))
        # A field that must not be null would be refused where a file lacks its column.
        return spread.mapInArrow(read, StructType([*schema.fields, *added]))
