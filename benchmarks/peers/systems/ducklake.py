"""DuckLake through DuckDB, with its catalog in a DuckDB file or in PostgreSQL."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
from benchmarks.peers.rows import KEY
from benchmarks.peers.systems.port import Place, TableSystem, render_condition


class DuckLake(TableSystem):
    """A DuckLake whose catalog is a DuckDB file."""

    conflicts: tuple[type[Exception], ...] = (duckdb.TransactionException,)
    extensions: Sequence[str] = ("ducklake",)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._connection = duckdb.connect()
        for extension in [*self.extensions, *(["httpfs"] if place.s3 else [])]:
            self._load_extension(extension)
        if place.s3:
            self._set_secret()
        catalog = self._start_catalog()
        self._connection.execute(f"attach 'ducklake:{catalog}' as lake (data_path '{place.data}/')")

    def create(self, table: str) -> None:
        self._connection.execute(f"create table lake.{table} (id bigint not null, name varchar, v double)")

    def create_many(self, count: int) -> None:
        self._connection.execute("begin")
        super().create_many(count)
        self._connection.execute("commit")

    def append(self, table: str, rows: pa.Table) -> None:
        self._connection.register("rows", rows).execute(f"insert into lake.{table} select * from rows")

    def scan(self, table: str) -> pa.Table:
        return self._read(table)

    def filter(self, table: str, column: str, low: float, high: float) -> pa.Table:
        return self._read(table, render_condition(column, low, high))

    def upsert(self, table: str, rows: pa.Table) -> None:
        self._connection.register("rows", rows).execute(
            f"merge into lake.{table} as t using rows as s on t.{KEY} = s.{KEY} "
            "when matched then update when not matched then insert"
        )

    def compact(self, table: str) -> None:
        # Deletes are applied by the first call, small files are merged by the second.
        self._connection.execute(f"call ducklake_rewrite_data_files('lake', '{table}', delete_threshold => 0)")
        self._connection.execute(f"call ducklake_merge_adjacent_files('lake', '{table}')")

    def close(self) -> None:
        self._connection.close()

    def _read(self, table: str, condition: str = "true") -> pa.Table:
        rows = self._connection.execute(f"select * from lake.{table} where {condition}").to_arrow_table()
        assert rows is not None
        return rows

    def _start_catalog(self) -> str:
        return f"{self.place.folder}/catalog.ducklake"

    def _load_extension(self, name: str) -> None:
        """Load an extension from its wheel: extensions are not downloaded."""
        module = importlib.import_module(f"duckdb_extension_{name}")
        (path,) = Path(next(iter(module.__path__))).glob("extensions/*/*.duckdb_extension")
        self._connection.execute(f"load '{path}'")

    def _set_secret(self) -> None:
        s3 = self.place.s3
        self._connection.execute(
            f"create secret (type s3, key_id '{s3['access_key_id']}', secret '{s3['secret_access_key']}', "
            f"region '{s3['region']}', endpoint '{urlsplit(s3['endpoint']).netloc}', url_style 'path', use_ssl false)"
        )


class DuckLakePostgres(DuckLake):
    """A DuckLake whose catalog is a PostgreSQL server on this machine."""

    conflicts = (duckdb.TransactionException, duckdb.IOException)
    extensions = ("ducklake", "postgres_scanner")

    def _start_catalog(self) -> str:
        import pgserver  # type: ignore[import-not-found]  # only in the environment of this system

        self._server = pgserver.get_server(f"{self.place.folder}/postgres")
        parts = urlsplit(self._server.get_uri("ducklake"))
        if "ducklake" not in self._server.psql("select datname from pg_database"):
            self._server.psql("create database ducklake")
        host = dict(pair.split("=", 1) for pair in parts.query.split("&"))["host"]
        return f"postgres:dbname=ducklake user={parts.username} host={host}"

    def list_processes(self) -> Sequence[int]:
        return [self._server.get_pid()]

    def close(self) -> None:
        super().close()
        self._server.cleanup()
