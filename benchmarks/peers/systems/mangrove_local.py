"""Mangrove with its local engine, without a JVM."""

import pyarrow as pa
from benchmarks.peers.rows import KEY, SCHEMA
from benchmarks.peers.systems.port import Place, TableSystem, render_condition

import mangrove
from mangrove.errors import ConflictError, NotFoundError


class MangroveLocal(TableSystem):
    """A lakehouse in the default layout."""

    conflicts = (ConflictError,)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        options = dict(place.s3)
        try:
            self._lake = mangrove.open(place.data, storage_options=options)
        except NotFoundError:
            self._lake = mangrove.create(place.data, storage_options=options)
            self._lake.create_namespace("bench")

    def create(self, table: str) -> None:
        self._lake.create_table(f"bench.{table}", SCHEMA, keys=[KEY])

    def create_many(self, count: int) -> None:
        with self._lake.transaction() as transaction:
            for _ in range(count):
                transaction.create_table(f"bench.{self.name_next()}", SCHEMA, keys=[KEY])

    def append(self, table: str, rows: pa.Table) -> None:
        self._lake.table(f"bench.{table}").append(rows)

    def scan(self, table: str) -> pa.Table:
        return self._lake.table(f"bench.{table}").to_arrow()

    def filter(self, table: str, column: str, low: float, high: float) -> pa.Table:
        return self._lake.table(f"bench.{table}").to_arrow(where=render_condition(column, low, high))

    def upsert(self, table: str, rows: pa.Table) -> None:
        self._lake.table(f"bench.{table}").upsert(rows)

    def compact(self, table: str) -> None:
        self._lake.table(f"bench.{table}").compact(engine="local")
