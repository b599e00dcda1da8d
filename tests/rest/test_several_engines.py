"""Several engines and Mangrove write one table at the same time through `mangrove serve`: nothing is lost or doubled.

What engines do to maintain a table harms no version of it. PyIceberg and two processes of Mangrove always write.
`make test-peers` installs the other engines.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, ValidationException
from tests.rest.conftest import TOKEN
from tests.rest.peer_process import (
    ICEBERG_GO,
    ICEBERG_JAR,
    PeerQuery,
    needs_iceberg_duckdb,
    needs_iceberg_go,
    needs_iceberg_spark,
    needs_trino,
    peer,
    run_peer,
)
from tests.support.servers import RealServer, run_mangrove, run_seaweedfs
from tests.support.trino import run_trino

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.tables.iceberg_names import STAGING_FOLDER

pytestmark = [pytest.mark.slow, pytest.mark.interop]

WRITES = 6
ATTEMPTS_MAX = 100
FIELDS: list[Any] = [pa.field("id", pa.int64()), pa.field("name", pa.string())]
SCHEMA = pa.schema(FIELDS)
RETRIES = {
    "commit.retry.num-retries": "100",
    "commit.retry.min-wait-ms": "10",
    "commit.retry.max-wait-ms": "200",
}
FAILURES = ("409", "CommitFailed", "Failed to commit", "Conflict", "ValidationException")
"""What an engine says of a commit that did not happen, because another one did. Anything else fails the test."""


@dataclass(frozen=True, slots=True)
class Writer:
    """An engine: what inserts one row, and what deletes one."""

    insert: Callable[[int], object]
    delete: Callable[[int], object]
    query: PeerQuery = lambda _: []

    def write(self, first_id: int, start: threading.Barrier) -> None:
        """Insert rows with consecutive ids, and delete the first one in between."""
        start.wait()
        for number in range(WRITES):
            _retry(self.insert, first_id + number)
            if number == WRITES // 2:
                _retry(self.delete, first_id)


def _retry(statement: Callable[[int], object], number: int) -> None:
    """Repeat a statement whose commit failed. If it happened nevertheless, its row is there twice."""
    for attempt in range(ATTEMPTS_MAX):
        try:
            statement(number)
        except (CommitFailedException, ValidationException, mangrove.ConflictError):
            continue
        except (RuntimeError, OSError) as error:
            if attempt + 1 < ATTEMPTS_MAX and any(one.lower() in str(error).lower() for one in FAILURES):
                continue
            raise
        return
    raise AssertionError("the statement never succeeded")


@dataclass(frozen=True, slots=True)
class Served:
    """A served lakehouse with the table that all engines write."""

    lake: Lakehouse
    address: str
    bucket: RealServer | None
    folder: Path


@contextmanager
def serve_new_table(store: str, folder: Path) -> Iterator[Served]:
    """Serve a new lakehouse on disk, or in a bucket whose keys clients get from the server."""
    with ExitStack() as stack:
        bucket = None
        if store == "bucket":
            (folder / "seaweedfs").mkdir()
            bucket = stack.enter_context(run_seaweedfs(folder / "seaweedfs"))
        uri = str(folder / "lake") if bucket is None else f"{bucket.uri}lake"
        options = None if bucket is None else bucket.options
        lake = mangrove.create(uri, storage_options=options)
        lake.create_namespace("shop")
        lake.create_table("shop.t", "id bigint, name string", properties=RETRIES)
        address = stack.enter_context(run_mangrove(lake.uri, TOKEN, options=options))
        yield Served(lake, address, bucket, folder)


def write_in_sql(query: PeerQuery, table: str) -> Writer:
    return Writer(
        lambda number: query(f"INSERT INTO {table} VALUES ({number}, 'sql')"),
        lambda number: query(f"DELETE FROM {table} WHERE id = {number}"),
        query,
    )


@contextmanager
def run_pyiceberg(served: Served) -> Iterator[Writer]:
    with RestCatalog("lake", uri=served.address, token=TOKEN) as catalog:
        yield Writer(
            lambda number: catalog.load_table("shop.t").append(
                pa.table({"id": [number], "name": ["pyiceberg"]}, SCHEMA)
            ),
            lambda number: catalog.load_table("shop.t").delete(f"id = {number}"),
        )


@contextmanager
def run_mangrove_here(served: Served) -> Iterator[Writer]:
    table = served.lake.table("shop.t")
    yield Writer(
        lambda number: table.append([{"id": number, "name": "mangrove"}]),
        lambda number: table.delete(f"id = {number}"),
    )


@contextmanager
def run_mangrove_sql(served: Served) -> Iterator[Writer]:
    options = json.dumps(served.lake.storage_options)
    with peer("mangrove_sql.py", served.lake.uri, options, python=sys.executable) as query:
        yield write_in_sql(query, "shop.t")


@contextmanager
def run_duckdb(served: Served) -> Iterator[Writer]:
    with peer("iceberg_duckdb.py") as query:
        query(f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{served.address}', TOKEN '{TOKEN}')")
        yield write_in_sql(query, "lake.shop.t")


@contextmanager
def run_spark(served: Served) -> Iterator[Writer]:
    with peer("iceberg_spark.py", ICEBERG_JAR, served.address, TOKEN, str(served.lake.version)) as query:
        query("SELECT count(*) FROM lake.shop.t")
        yield write_in_sql(query, "lake.shop.t")


@contextmanager
def run_go(served: Served) -> Iterator[Writer]:
    with run_peer([ICEBERG_GO, served.address, TOKEN]) as command:
        yield Writer(
            lambda number: command(f"append shop.t {number}"),
            lambda number: command(f"delete shop.t {number}"),
            command,
        )


@contextmanager
def run_trino_writer(served: Served) -> Iterator[Writer]:
    assert served.bucket is not None
    (served.folder / "trino").mkdir()
    with run_trino(served.address, TOKEN, served.bucket, served.folder / "trino", os.environ) as query:
        yield write_in_sql(query, "lake.shop.t")


OpenWriter = Callable[[Served], AbstractContextManager[Writer]]
ALWAYS: tuple[OpenWriter, ...] = (run_pyiceberg, run_mangrove_here, run_mangrove_sql)


@pytest.mark.parametrize(
    ("store", "others"),
    [
        pytest.param("disk", (run_pyiceberg,), id="pyiceberg-disk"),
        pytest.param("bucket", (run_pyiceberg,), id="pyiceberg-bucket"),
        pytest.param(
            "disk", (run_spark, run_duckdb), id="spark-duckdb-disk", marks=[needs_iceberg_spark, needs_iceberg_duckdb]
        ),
        pytest.param(
            "bucket",
            (run_spark, run_duckdb),
            id="spark-duckdb-bucket",
            marks=[needs_iceberg_spark, needs_iceberg_duckdb],
        ),
        pytest.param("disk", (run_go, run_duckdb), id="go-duckdb-disk", marks=[needs_iceberg_go, needs_iceberg_duckdb]),
        # Trino stores tables only in buckets.
        pytest.param("bucket", (run_trino_writer, run_go), id="trino-go-bucket", marks=[needs_trino, needs_iceberg_go]),
    ],
)
def test_engines_and_mangrove_write_one_table_and_nothing_is_lost_or_doubled(
    tmp_path: Path, store: str, others: tuple[OpenWriter, ...]
) -> None:
    with serve_new_table(store, tmp_path) as served, ExitStack() as stack:
        writers = [stack.enter_context(run(served)) for run in (*ALWAYS, *others)]
        start = threading.Barrier(len(writers), timeout=300)
        with ThreadPoolExecutor(len(writers)) as pool:
            for done in [pool.submit(writer.write, 100 * number, start) for number, writer in enumerate(writers)]:
                done.result()
        expected = [100 * writer + number for writer in range(len(writers)) for number in range(1, WRITES)]
        assert read_ids(served.lake) == expected
        check_every_version(served.lake)
        assert served.lake.maintenance.check().problems == ()


def read_ids(lake: Lakehouse, version: int | None = None) -> list[int]:
    rows = lake if version is None else lake.at(version)
    return sorted(rows.table("shop.t").to_arrow()["id"].to_numpy().tolist())


def read_table_id(lake: Lakehouse) -> str:
    return next(one.path for one in lake.effects.store.list("data/")).split("/")[1]


def check_every_version(lake: Lakehouse) -> None:
    """Verify that each version has what each writer had inserted until then: no row was lost and came back."""
    for one in lake.table("shop.t").history():
        by_writer: dict[int, list[int]] = {}
        for found in read_ids(lake, one.version):
            by_writer.setdefault(found // 100, []).append(found % 100)
        for numbers in by_writer.values():
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
            assert numbers[0] <= 1


OLD = "older_than => TIMESTAMP '2100-01-01 00:00:00'"
ORPHANS = "CALL lake.system.remove_orphan_files(table => 'shop.t',"
SPARK_MAINTENANCE = {
    # Spark caches tables, and the snapshot that it knows is no longer listed.
    "REFRESH TABLE lake.shop.t": "",
    "CALL lake.system.rewrite_data_files(table => 'shop.t', options => map('rewrite-all', 'true'))": "",
    "ALTER TABLE lake.shop.t SET TBLPROPERTIES ('gc.enabled' = 'true')": "gc.enabled",
    f"{ORPHANS} {OLD})": "GC is disabled",
    f"{ORPHANS} {OLD}, location => 'FOLDER')": "GC is disabled",
    f"CALL lake.system.expire_snapshots(table => 'shop.t', {OLD}, retain_last => 1)": "GC is disabled",
    "DROP TABLE lake.shop.t PURGE": "GC is disabled",
}
TRINO_MAINTENANCE = {
    "ALTER TABLE lake.shop.t EXECUTE optimize": "",
    "ALTER TABLE lake.shop.t EXECUTE remove_orphan_files(retention_threshold => '0s')": "",
    "ALTER TABLE lake.shop.t EXECUTE expire_snapshots(retention_threshold => '0s')": "GC is disabled",
}
GO_MAINTENANCE = {"remove-orphan-files shop.t": "", "expire-snapshots shop.t": "GC is disabled"}
"""Statements of an engine, and why each is refused, if it is."""


@pytest.mark.parametrize(
    ("store", "run", "statements"),
    [
        pytest.param("disk", run_spark, SPARK_MAINTENANCE, id="spark-disk", marks=needs_iceberg_spark),
        pytest.param("bucket", run_spark, SPARK_MAINTENANCE, id="spark-bucket", marks=needs_iceberg_spark),
        pytest.param("disk", run_go, GO_MAINTENANCE, id="go-disk", marks=needs_iceberg_go),
        pytest.param("bucket", run_go, GO_MAINTENANCE, id="go-bucket", marks=needs_iceberg_go),
        pytest.param("bucket", run_trino_writer, TRINO_MAINTENANCE, id="trino-bucket", marks=needs_trino),
    ],
)
def test_maintenance_by_an_engine_harms_no_version(
    tmp_path: Path, store: str, run: OpenWriter, statements: dict[str, str]
) -> None:
    with serve_new_table(store, tmp_path) as served, run(served) as writer:
        lake, table = served.lake, served.lake.table("shop.t")
        for number in range(3):
            writer.insert(number)
        table.append([{"id": 3, "name": "mangrove"}])
        writer.delete(1)
        lake.maintenance.compact("shop.t", full=True)
        # Files of earlier versions are in no snapshot that an engine sees.
        table.alter({"iceberg.max-snapshots": "1"})
        versions = [one.version for one in table.history()]
        ids = {version: read_ids(lake, version) for version in versions}
        assert ids[versions[0]] == [0, 2, 3]
        orphan = f"data/{read_table_id(lake)}/{STAGING_FOLDER}/data/orphan.parquet"
        lake.effects.store.put(orphan, b"")
        for statement, refusal in statements.items():
            text = statement.replace("FOLDER", lake.uri)
            with pytest.raises((RuntimeError, OSError), match=refusal) if refusal else nullcontext():
                writer.query(text)
        assert {version: read_ids(lake, version) for version in versions} == ids
        assert read_ids(lake) == [0, 2, 3]
        removes_orphans = any("orphan" in one and not refusal for one, refusal in statements.items())
        assert [*lake.effects.store.list(orphan)] == [] or not removes_orphans
        assert lake.maintenance.check().problems == ()
