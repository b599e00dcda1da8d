"""DuckDB as a client: it reads what the lakehouse holds, and the lakehouse what it commits.

`make test-peers` installs DuckDB and the packages of its extensions.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.rest.conftest import ASCENDING, TOKEN, counted, create_ascending_table, filled, served
from tests.rest.peer_process import PeerQuery, Rows, needs_iceberg_duckdb, peer
from tests.support.servers import run_seaweedfs

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.locators import TableLocator
from mangrove.server.access import Access
from mangrove.web.pages.connect import IcebergConnection, render_snippets

pytestmark = [
    pytest.mark.slow,
    needs_iceberg_duckdb,
]


@pytest.fixture
def duck_lake(tmp_path: Path) -> Lakehouse:
    lake = filled(tmp_path / "my lake")
    orders = lake.table("sales.orders")
    orders.upsert([{"id": 2, "customer": "bea"}, {"id": 4, "customer": None}])
    orders.delete("id = 1")
    lake.create_table("sales.empty", "id int")
    create_ascending_table(lake, "sales.clicks")
    return lake


def attached(where: IcebergConnection) -> str:
    """Return the statement that the explorer shows, with the token in its place."""
    text = dict(render_snippets(where, TableLocator("sales", "orders")))["DuckDB"]
    return text.splitlines()[1].replace("…", TOKEN)


@pytest.fixture
def query_duckdb(duck_lake: Lakehouse) -> Iterator[PeerQuery]:
    access = Access("127.0.0.1", TOKEN, is_writable=True)
    with served(counted(duck_lake), access) as address, peer("iceberg_duckdb.py") as ask:
        ask(attached(IcebergConnection(address, duck_lake.uri, None, has_token=True)))
        ask(attached(IcebergConnection(address, duck_lake.uri, 4, has_token=True)).replace(" AS lake ", " AS past "))
        yield ask


def test_duckdb_reads_the_newest_and_earlier_versions(query_duckdb: PeerQuery) -> None:
    wanted: dict[str, Rows] = {
        "SELECT id, customer FROM lake.sales.orders ORDER BY id": [["2", "bea"], ["3", "cy"], ["4", "None"]],
        "SELECT customer FROM lake.sales.orders WHERE id > 2 ORDER BY id": [["cy"], ["None"]],
        "SELECT count(*), max(customer) FROM past.sales.orders": [["3", "cy"]],
        "SELECT count(*) FROM lake.sales.empty": [["0"]],
        "SELECT count(*), count(distinct clicked_at), sum(id) FROM lake.sales.clicks": [ASCENDING],
    }
    for query, rows in wanted.items():
        assert query_duckdb(query) == rows, query
    with pytest.raises(RuntimeError, match="does not exist"):
        query_duckdb("SELECT * FROM lake.sales.nobody")
    with pytest.raises(RuntimeError, match="earlier version cannot be changed"):
        query_duckdb("INSERT INTO past.sales.orders VALUES (9, 'x')")


def test_duckdb_changes_tables_of_format_version_3(query_duckdb: PeerQuery, duck_lake: Lakehouse) -> None:
    orders = duck_lake.table("sales.orders")
    orders.alter({"format-version": "3"})
    assert query_duckdb("SELECT id, customer FROM lake.sales.orders ORDER BY id") == [
        ["2", "bea"], ["3", "cy"], ["4", "None"],
    ]  # fmt: skip
    query_duckdb("INSERT INTO lake.sales.orders VALUES (9, 'duck')")
    query_duckdb("DELETE FROM lake.sales.orders WHERE id = 2")
    query_duckdb("UPDATE lake.sales.orders SET customer = 'changed' WHERE id = 3")
    found = [["3", "changed"], ["4", "None"], ["9", "duck"]]
    assert query_duckdb("SELECT id, customer FROM lake.sales.orders ORDER BY id") == found
    assert sorted([str(row["id"]), str(row["customer"])] for row in orders.to_arrow().to_pylist()) == found


def test_duckdb_reads_earlier_snapshots_by_id_and_time(query_duckdb: PeerQuery, duck_lake: Lakehouse) -> None:
    listed = query_duckdb("SELECT snapshot_id FROM iceberg_snapshots(lake.sales.orders) ORDER BY sequence_number")
    versions = [entry.version for entry in duck_lake.table("sales.orders").history()][::-1]
    written = [one for one in versions if duck_lake.at(one).table("sales.orders").to_arrow().num_rows]
    assert len(listed) == len(written) > 1
    for (snapshot_id,), version in zip(listed, written, strict=True):
        past = duck_lake.at(version)
        rows = [[str(past.table("sales.orders").to_arrow().num_rows)]]
        assert query_duckdb(f"SELECT count(*) FROM lake.sales.orders AT (VERSION => {snapshot_id})") == rows
        time = f"TIMESTAMP => TIMESTAMP '{past.created_at:%Y-%m-%d %H:%M:%S.%f}'"
        assert query_duckdb(f"SELECT count(*) FROM lake.sales.orders AT ({time})") == rows


def test_the_lakehouse_reads_commits_of_duckdb(query_duckdb: PeerQuery, duck_lake: Lakehouse) -> None:
    for statement in (
        "INSERT INTO lake.sales.orders VALUES (7, 'gil')",
        "DELETE FROM lake.sales.orders WHERE id = 3",
        "UPDATE lake.sales.orders SET customer = 'upd' WHERE id = 4",
        "CREATE SCHEMA lake.fresh",
        "CREATE TABLE lake.fresh.t (id bigint, s varchar)",
    ):
        query_duckdb(statement)
    before = duck_lake.version
    for statement in (
        "BEGIN",
        "INSERT INTO lake.fresh.t VALUES (1, 'x')",
        "INSERT INTO lake.sales.empty VALUES (2)",
        "COMMIT",
    ):
        query_duckdb(statement)
    assert duck_lake.version == before + 1
    rows = {row["id"]: row["customer"] for row in duck_lake.table("sales.orders").to_arrow().to_pylist()}
    assert rows == {2: "bea", 4: "upd", 7: "gil"}
    assert duck_lake.table("fresh.t").to_arrow().to_pylist() == [{"id": 1, "s": "x"}]
    assert duck_lake.maintenance.check().problems == ()


@pytest.mark.interop
def test_duckdb_reads_and_writes_a_bucket_with_the_key_that_it_was_given(tmp_path: Path) -> None:
    access = Access("127.0.0.1", TOKEN, is_writable=True)
    with run_seaweedfs(tmp_path) as bucket:
        lake = mangrove.create(f"{bucket.uri}lake", storage_options=bucket.options)
        lake.create_namespace("sales")
        orders = lake.create_table("sales.orders", "id bigint not null, customer string", keys=["id"])
        orders.append([{"id": number, "customer": "ana"} for number in range(9)])
        orders.upsert([{"id": 3, "customer": "bo"}])
        options = bucket.options
        host = options["endpoint"].removeprefix("http://")
        secret = f"KEY_ID '{options['access_key_id']}', SECRET '{options['secret_access_key']}'"
        where = f"REGION '{options['region']}', ENDPOINT '{host}', USE_SSL false, URL_STYLE 'path'"
        with served(lake, access) as address, peer("iceberg_duckdb.py") as ask:
            ask(f"CREATE SECRET (TYPE s3, {secret}, {where})")
            ask(attached(IcebergConnection(address, lake.uri, None, has_token=True)))
            assert ask("SELECT customer FROM lake.sales.orders WHERE id IN (2, 3) ORDER BY id") == [["ana"], ["bo"]]
            ask("CREATE TABLE lake.sales.made AS SELECT 1 AS one")
            ask("DELETE FROM lake.sales.orders WHERE id < 3")
        assert lake.table("sales.made").to_arrow().to_pylist() == [{"one": 1}]
        assert orders.to_arrow().num_rows == 6
