"""Reading a table through Spark's Python data source: files are the partitions, pruned by the option `where`.

Spark could also hand over its own filters, and this reader does not take them:
Spark 4.3 keeps the partitions that one query's filter left for every other query
on the same frame, which then misses rows.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from mangrove.lakehouse.table_staging import table_state
from mangrove.local.scanning import chosen_columns
from mangrove.metastore import Snapshot
from mangrove.spark.leading import leading
from mangrove.spark.source_options import SourceOptions
from mangrove.spark.source_pieces import FilesPiece, PieceReader, bare, batches, gathered
from mangrove.tables.predicate_text import bound_predicate
from mangrove.tables.scan_plan import plan_scan

__all__ = ["TableReader", "snapshot_of"]


def snapshot_of(options: SourceOptions) -> Snapshot:
    """Return the version that is asked for, or the newest."""
    lake = options.opened()
    return lake.metastore.latest() if options.moment is None else lake.snapshot_at(options.moment)


class TableReader(DataSourceReader):
    """One version of a table: it is planned where the query is, and read in the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        snapshot = snapshot_of(options)
        # What is planned later is of the same version, whatever others commit meanwhile.
        self._version = snapshot.version
        state = bare(table_state(snapshot, options.table, with_logs=False))
        predicate = bound_predicate(options.where, state.schema)
        self._pieces = PieceReader(state, chosen_columns(state, schema.names), predicate)

    @leading()
    def partitions(self) -> list[InputPartition]:
        """Return the files to be read; where there are none, one piece without any."""
        snapshot = self._options.opened().metastore.at_version(self._version)
        state = table_state(snapshot, self._options.table, predicate=self._pieces.predicate)
        pieces = gathered(plan_scan(state, self._pieces.predicate).scans, self._version)
        return [*pieces] or [FilesPiece((), self._version)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a piece as Arrow batches."""
        assert isinstance(partition, FilesPiece)
        if partition.scans:
            with leading():
                rows = self._pieces.rows(self._options.store(), partition.scans)
            yield from batches(rows, self._schema)
