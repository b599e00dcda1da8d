"""PyIceberg, Spark or Trino, DuckDB and Mangrove write one table at the same time: nothing is lost or doubled.

`make test-peers` installs the engines. Spark writes on local disk, and Trino in a bucket, which it requires.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, ValidationException
from tests.rest.conftest import TOKEN, served
from tests.rest.peer_process import ICEBERG_JAR, PeerQuery, needs_iceberg_duckdb, needs_iceberg_spark, peer
from tests.support.servers import RealServer, run_seaweedfs
from tests.support.trino import run_trino

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.access import Access

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
FAILURES = ("409", "CommitFailed", "Failed to commit", "conflict", "ValidationException")
"""What an engine says of a commit that did not happen, because another one did. Anything else fails the test."""


@dataclass(frozen=True, slots=True)
class Writer:
    """An engine: what inserts one row, and what deletes one."""

    insert: Callable[[int], object]
    delete: Callable[[int], object]

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
        except (CommitFailedException, ValidationException):
            continue
        except (RuntimeError, OSError) as error:
            if attempt + 1 < ATTEMPTS_MAX and any(one.lower() in str(error).lower() for one in FAILURES):
                continue
            raise
        return
    raise AssertionError("the statement never succeeded")


def in_sql(query: PeerQuery, table: str) -> Writer:
    return Writer(
        lambda number: query(f"INSERT INTO {table} VALUES ({number}, 'sql')"),
        lambda number: query(f"DELETE FROM {table} WHERE id = {number}"),
    )


def in_pyiceberg(catalog: RestCatalog) -> Writer:
    return Writer(
        lambda number: catalog.load_table("shop.t").append(pa.table({"id": [number], "name": ["pyiceberg"]}, SCHEMA)),
        lambda number: catalog.load_table("shop.t").delete(f"id = {number}"),
    )


def in_mangrove(lake: Lakehouse) -> Writer:
    table = lake.table("shop.t")
    return Writer(
        lambda number: table.append([{"id": number, "name": "mangrove"}]),
        lambda number: table.delete(f"id = {number}"),
    )


@contextmanager
def run_duckdb(address: str, bucket: RealServer | None = None) -> Iterator[PeerQuery]:
    with peer("iceberg_duckdb.py") as query:
        if bucket is not None:
            options = bucket.options
            endpoint = options["endpoint"].removeprefix("http://")
            keys = f"KEY_ID '{options['access_key_id']}', SECRET '{options['secret_access_key']}'"
            place = f"ENDPOINT '{endpoint}', REGION '{options['region']}', URL_STYLE 'path', USE_SSL false"
            query(f"CREATE SECRET (TYPE s3, {keys}, {place})")
        query(f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{address}', TOKEN '{TOKEN}')")
        yield query


def check_that_nothing_is_lost_or_doubled(lake: Lakehouse, writers: list[Writer]) -> None:
    start = threading.Barrier(len(writers), timeout=300)
    with ThreadPoolExecutor(len(writers)) as pool:
        for done in [pool.submit(writer.write, 100 * number, start) for number, writer in enumerate(writers)]:
            done.result()
    expected = [100 * writer + number for writer in range(len(writers)) for number in range(1, WRITES)]
    assert sorted(lake.table("shop.t").to_arrow()["id"].to_numpy().tolist()) == expected
    assert lake.maintenance.check().problems == ()


def new_table(uri: str, options: dict[str, str] | None = None) -> Lakehouse:
    lake = mangrove.create(uri, storage_options=options)
    lake.create_namespace("shop")
    lake.create_table("shop.t", "id bigint, name string", properties=RETRIES)
    return lake


@needs_iceberg_spark
@needs_iceberg_duckdb
def test_pyiceberg_spark_duckdb_and_mangrove_write_one_table_on_disk(
    tmp_path: Path, catalog_of: Callable[..., RestCatalog]
) -> None:
    lake = new_table(str(tmp_path / "lake"))
    with (
        served(lake, Access("127.0.0.1", TOKEN, is_writable=True)) as address,
        run_duckdb(address) as duckdb,
        peer("iceberg_spark.py", ICEBERG_JAR, address, TOKEN, str(lake.version)) as spark,
    ):
        spark("SELECT count(*) FROM lake.shop.t")
        writers = [
            in_pyiceberg(catalog_of(address, token=TOKEN)),
            in_sql(spark, "lake.shop.t"),
            in_sql(duckdb, "lake.shop.t"),
            in_mangrove(lake),
        ]
        check_that_nothing_is_lost_or_doubled(lake, writers)


@pytest.mark.skipif(
    "MANGROVE_TRINO" not in os.environ, reason="MANGROVE_TRINO names no Trino server; run: make test-peers"
)
@needs_iceberg_duckdb
def test_pyiceberg_trino_duckdb_and_mangrove_write_one_table_in_a_bucket(
    tmp_path: Path, catalog_of: Callable[..., RestCatalog]
) -> None:
    (tmp_path / "trino").mkdir()
    (tmp_path / "bucket").mkdir()
    with run_seaweedfs(tmp_path / "bucket") as bucket:
        lake = new_table(f"{bucket.uri}lake", dict(bucket.options))
        keys = {"s3.access-key-id": bucket.options["access_key_id"]}
        keys["s3.secret-access-key"] = bucket.options["secret_access_key"]
        with (
            served(lake, Access("127.0.0.1", TOKEN, is_writable=True)) as address,
            run_duckdb(address, bucket) as duckdb,
            run_trino(address, TOKEN, bucket, tmp_path / "trino", os.environ) as trino,
        ):
            writers = [
                in_pyiceberg(catalog_of(address, token=TOKEN, **keys)),
                in_sql(trino, "lake.shop.t"),
                in_sql(duckdb, "lake.shop.t"),
                in_mangrove(lake),
            ]
            check_that_nothing_is_lost_or_doubled(lake, writers)
