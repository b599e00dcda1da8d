"""Bare Parquet files in a folder, written and read by pyarrow: the baseline of all systems."""

import os
import uuid
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from benchmarks.peers.systems.port import Place, TableSystem
from pyarrow import fs


class BareParquet(TableSystem):
    """A folder of files per table; there are no commits, so upserts and compaction are missing."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._files: fs.FileSystem = fs.LocalFileSystem()
        self._root = place.data
        if place.s3:
            self._files = fs.S3FileSystem(
                access_key=place.s3["access_key_id"],
                secret_key=place.s3["secret_access_key"],
                region=place.s3["region"],
                scheme="http",
                endpoint_override=urlsplit(place.s3["endpoint"]).netloc,
            )
            self._root = place.data.removeprefix("s3://")

    def create(self, table: str) -> None:
        self._files.create_dir(f"{self._root}/{table}")

    def append(self, table: str, rows: pa.Table) -> None:
        path = f"{self._root}/{table}/{uuid.uuid4()}.parquet"
        pq.write_table(rows, path, compression="zstd", filesystem=self._files)
        if not self.place.s3:
            flush_file(path)

    def scan(self, table: str) -> pa.Table:
        return pq.read_table(f"{self._root}/{table}", filesystem=self._files)

    def filter(self, table: str, column: str, low: float, high: float) -> pa.Table:
        condition = (pc.field(column) >= low) & (pc.field(column) < high)
        return pq.read_table(f"{self._root}/{table}", filesystem=self._files, filters=condition)


def flush_file(path: str) -> None:
    """Write a file through to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
