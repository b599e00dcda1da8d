"""Iceberg through PyIceberg, with its catalog in a SQLite file."""

import pyarrow as pa
from benchmarks.peers.systems.port import Place, TableSystem, render_condition
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, LongType, NestedField, StringType
from sqlalchemy.exc import OperationalError

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "v", DoubleType()),
    identifier_field_ids=[1],
)


class PyIceberg(TableSystem):
    """Tables of format version 2, with the defaults of PyIceberg."""

    conflicts = (CommitFailedException, OperationalError)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        properties = {f"s3.{name.replace('_', '-')}": value for name, value in place.s3.items()}
        warehouse = place.data if place.s3 else f"file://{place.data}"
        uri = f"sqlite:///{place.folder}/catalog.db"
        self._catalog = SqlCatalog("bench", uri=uri, warehouse=warehouse, **properties)
        self._catalog.create_namespace_if_not_exists("bench")

    def create(self, table: str) -> None:
        self._catalog.create_table(f"bench.{table}", SCHEMA)

    def append(self, table: str, rows: pa.Table) -> None:
        self._load(table).append(rows)

    def scan(self, table: str) -> pa.Table:
        return self._load(table).scan().to_arrow()

    def filter(self, table: str, column: str, low: float, high: float) -> pa.Table:
        return self._load(table).scan(render_condition(column, low, high)).to_arrow()

    def upsert(self, table: str, rows: pa.Table) -> None:
        self._load(table).upsert(rows)

    def _load(self, table: str) -> Table:
        return self._catalog.load_table(f"bench.{table}")
