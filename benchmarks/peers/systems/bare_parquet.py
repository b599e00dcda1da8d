"""Bare Parquet files in a folder, written and read by pyarrow: the baseline of all systems."""

import os
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.peers.systems.port import TableSystem


class BareParquet(TableSystem):
    """A folder of files per table; there are no commits, so upserts and compaction are missing."""

    def create(self, table: str) -> None:
        self._folder(table).mkdir(parents=True)

    def append(self, table: str, rows: pa.Table) -> None:
        path = self._folder(table) / f"{uuid.uuid4()}.parquet"
        pq.write_table(rows, path, compression="zstd")
        with path.open("rb") as written:
            os.fsync(written.fileno())

    def scan(self, table: str) -> pa.Table:
        return pq.read_table(self._folder(table))

    def filter(self, table: str, column: str, low: float, high: float) -> pa.Table:
        return pq.read_table(self._folder(table), filters=[(column, ">=", low), (column, "<", high)])

    def _folder(self, table: str) -> Path:
        return Path(self.place.data) / table
