"""Trino as a client: it creates, fills and maintains tables, and nothing that it does harms an earlier version.

`make test-peers` installs Trino, which `MANGROVE_TRINO` names, and a Java for it, which `MANGROVE_TRINO_JAVA` names.
"""

import os
from collections.abc import Iterator

import pytest
from tests.rest.conftest import TOKEN, served
from tests.rest.peer_process import PeerQuery, needs_trino
from tests.support.servers import run_seaweedfs
from tests.support.trino import run_trino

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.access import Access

pytestmark = [
    pytest.mark.slow,
    pytest.mark.interop,
    needs_trino,
]


@pytest.fixture(scope="module")
def trino_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lakehouse, PeerQuery]]:
    access = Access("127.0.0.1", TOKEN, is_writable=True)
    with run_seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as bucket:
        lake = mangrove.create(f"{bucket.uri}lake", storage_options=bucket.options)
        with (
            served(lake, access) as address,
            run_trino(address, TOKEN, bucket, tmp_path_factory.mktemp("trino"), os.environ) as query,
        ):
            yield lake, query


def test_trino_creates_fills_and_maintains_tables_and_harms_no_version(
    trino_lake: tuple[Lakehouse, PeerQuery],
) -> None:
    lake, query = trino_lake
    query("CREATE SCHEMA lake.shop")
    query("CREATE TABLE lake.shop.t (id bigint NOT NULL, s varchar)")
    query("INSERT INTO lake.shop.t VALUES (1, 'a'), (2, 'b')")
    query("INSERT INTO lake.shop.t VALUES (3, 'c')")
    query("DELETE FROM lake.shop.t WHERE id = 1")
    lake.table("shop.t").append([{"id": 4, "s": "d"}])
    query("UPDATE lake.shop.t SET s = 'B' WHERE id = 2")
    query("CREATE TABLE lake.shop.copy AS SELECT * FROM lake.shop.t")
    query("ALTER TABLE lake.shop.t EXECUTE optimize")
    lake.table("shop.t").alter({"iceberg.max-snapshots": "1"})
    rows = {one.version: lake.at(one.version).table("shop.t").to_arrow() for one in lake.table("shop.t").history()}
    query("ALTER TABLE lake.shop.t EXECUTE remove_orphan_files(retention_threshold => '0s')")
    with pytest.raises(OSError, match="GC is disabled"):
        query("ALTER TABLE lake.shop.t EXECUTE expire_snapshots(retention_threshold => '0s')")
    for version, before in rows.items():
        assert lake.at(version).table("shop.t").to_arrow() == before
    assert query("SELECT id, s FROM lake.shop.copy ORDER BY id") == [["2", "B"], ["3", "c"], ["4", "d"]]
    assert lake.maintenance.check().problems == ()


def test_trino_selects_its_views(trino_lake: tuple[Lakehouse, PeerQuery]) -> None:
    _, query = trino_lake
    query("CREATE SCHEMA lake.views")
    query("CREATE TABLE lake.views.t AS SELECT 7 AS id")
    query("CREATE VIEW lake.views.v AS SELECT id + 1 AS next FROM lake.views.t")
    assert query("SELECT * FROM lake.views.v") == [["8"]]


def test_trino_reads_tags_and_changes_the_partitions_of_tables(trino_lake: tuple[Lakehouse, PeerQuery]) -> None:
    lake, query = trino_lake
    query("CREATE SCHEMA lake.parts")
    query("CREATE TABLE lake.parts.t AS SELECT 1 AS id, 'a' AS s")
    lake.tag("first")
    query("ALTER TABLE lake.parts.t SET PROPERTIES partitioning = ARRAY['s']")
    query("INSERT INTO lake.parts.t VALUES (2, 'b')")
    assert query("SELECT id FROM lake.parts.t ORDER BY id") == [["1"], ["2"]]
    assert query("SELECT id FROM lake.parts.t FOR VERSION AS OF 'first'") == [["1"]]
    query("CREATE OR REPLACE TABLE lake.parts.t WITH (partitioning = ARRAY['id']) AS SELECT 3 AS id, 'c' AS s")
    assert query("SELECT id, s FROM lake.parts.t") == [["3", "c"]]
    assert lake.table("parts.t").partition_by == ("id",)
    assert lake.maintenance.check().problems == ()


def test_trino_rolls_a_table_back(trino_lake: tuple[Lakehouse, PeerQuery]) -> None:
    lake, query = trino_lake
    query("CREATE SCHEMA lake.rolled")
    query("CREATE TABLE lake.rolled.t (id bigint, s varchar) WITH (partitioning = ARRAY['s'])")
    query("INSERT INTO lake.rolled.t VALUES (1, 'a')")
    query("INSERT INTO lake.rolled.t VALUES (2, 'b')")
    logged = query('SELECT snapshot_id FROM lake.rolled."t$history" ORDER BY made_current_at')
    query(f"ALTER TABLE lake.rolled.t EXECUTE rollback_to_snapshot({logged[-2][0]})")
    assert query("SELECT id FROM lake.rolled.t") == [["1"]]
    assert lake.table("rolled.t").to_arrow()["id"].to_pylist() == [1]
    assert lake.maintenance.check().problems == ()


def test_trino_finds_the_statistics_that_it_wrote(trino_lake: tuple[Lakehouse, PeerQuery]) -> None:
    lake, query = trino_lake
    query("CREATE SCHEMA lake.counted")
    query("CREATE TABLE lake.counted.t AS SELECT n AS id, n % 10 AS part FROM UNNEST(sequence(1, 1000)) AS u(n)")
    query("INSERT INTO lake.counted.t VALUES (1, 10), (2, 11)")
    counts = {row[0]: row[2] for row in query("SHOW STATS FOR lake.counted.t")}
    assert counts["part"] == "12.0"
    lake.table("counted.t").append([{"id": 3, "part": 12}])
    lake.maintenance.vacuum(alone=True)
    query("ANALYZE lake.counted.t")
    counts = {row[0]: row[2] for row in query("SHOW STATS FOR lake.counted.t")}
    assert (counts["part"], 900 < float(counts["id"]) < 1100) == ("13.0", True)
    query("ALTER TABLE lake.counted.t EXECUTE remove_orphan_files(retention_threshold => '0s')")
    assert {row[0]: row[2] for row in query("SHOW STATS FOR lake.counted.t")} == counts
    query("ALTER TABLE lake.counted.t EXECUTE drop_extended_stats")
    assert {row[0]: row[2] for row in query("SHOW STATS FOR lake.counted.t")}["part"] == "None"
    assert lake.maintenance.check().problems == ()
