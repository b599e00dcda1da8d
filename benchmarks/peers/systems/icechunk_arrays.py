"""Icechunk, which stores arrays: a table is a Zarr group with one array per column."""

from collections.abc import Sequence
from urllib.parse import urlsplit

import icechunk  # type: ignore[import-not-found]
import pyarrow as pa
import zarr  # type: ignore[import-not-found]
from benchmarks.peers.systems.port import Place, TableSystem

CHUNK_ROWS = 10_000
"""An append rewrites the last chunk, so that larger chunks make small appends slow."""
DTYPES = {"id": "int64", "name": "string", "v": "float64"}


class IcechunkArrays(TableSystem):
    """One repository; arrays have no predicates and no keys, so filters and upserts are missing."""

    conflicts = (icechunk.ConflictError,)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._repository = icechunk.Repository.open_or_create(self._open_storage())

    def create(self, table: str) -> None:
        self._create([table])

    def create_many(self, count: int) -> None:
        self._create([self.name_next() for _ in range(count)])

    def append(self, table: str, rows: pa.Table) -> None:
        session = self._repository.writable_session("main")
        group = zarr.open_group(session.store, path=table)
        for name in DTYPES:
            group[name].append(rows[name].to_numpy())
        session.commit("append")

    def scan(self, table: str) -> pa.Table:
        group = zarr.open_group(self._repository.readonly_session("main").store, path=table, mode="r")
        return pa.table({name: group[name][:] for name in DTYPES})

    def _create(self, tables: Sequence[str]) -> None:
        session = self._repository.writable_session("main")
        for table in tables:
            group = zarr.create_group(session.store, path=table)
            for name, dtype in DTYPES.items():
                group.create_array(name, shape=(0,), chunks=(CHUNK_ROWS,), dtype=dtype)
        session.commit("create")

    def _open_storage(self) -> icechunk.Storage:
        if not self.place.s3:
            return icechunk.local_filesystem_storage(self.place.data)
        uri, s3 = urlsplit(self.place.data), self.place.s3
        return icechunk.s3_storage(
            bucket=uri.netloc,
            prefix=uri.path.strip("/"),
            endpoint_url=s3["endpoint"],
            access_key_id=s3["access_key_id"],
            secret_access_key=s3["secret_access_key"],
            region=s3["region"],
            allow_http=True,
            force_path_style=True,
        )
