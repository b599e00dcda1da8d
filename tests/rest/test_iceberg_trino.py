"""Trino as a client: it creates, fills and maintains tables, and nothing that it does harms an earlier version.

`make test-peers` installs Trino, which `MANGROVE_TRINO` names, and a Java for it, which `MANGROVE_TRINO_JAVA` names.
"""

import json
import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.rest.conftest import TOKEN, served
from tests.rest.peer_process import PeerQuery, Rows
from tests.support.ports import reserve_ports
from tests.support.servers import RealServer, run_seaweedfs, run_server

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.access import Access

TRINO = os.environ.get("MANGROVE_TRINO")
JAVA = os.environ.get("MANGROVE_TRINO_JAVA", "java")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.skipif(TRINO is None, reason="MANGROVE_TRINO names no Trino server; run: make test-peers"),
]


def trino_files(address: str, bucket: RealServer, port: int) -> dict[str, str]:
    """Return the configuration of a Trino with the catalog `lake`."""
    options = bucket.options
    return {
        "config.properties": "coordinator=true\nnode-scheduler.include-coordinator=true\n"
        f"http-server.http.port={port}\ndiscovery.uri=http://127.0.0.1:{port}\n",
        "log.properties": "io.trino=WARN\n",
        "catalog/lake.properties": "connector.name=iceberg\niceberg.catalog.type=rest\n"
        f"iceberg.rest-catalog.uri={address}\niceberg.rest-catalog.security=OAUTH2\n"
        f"iceberg.rest-catalog.oauth2.token={TOKEN}\nfs.native-s3.enabled=true\n"
        "iceberg.remove-orphan-files.min-retention=0s\niceberg.expire-snapshots.min-retention=0s\n"
        f"s3.endpoint={options['endpoint']}\ns3.region={options['region']}\ns3.path-style-access=true\n"
        f"s3.aws-access-key={options['access_key_id']}\ns3.aws-secret-key={options['secret_access_key']}\n",
    }


@contextmanager
def run_trino(address: str, bucket: RealServer, folder: Path) -> Iterator[PeerQuery]:
    """Run Trino with its data in `folder`; give what sends it statements."""
    (port,) = reserve_ports(1)
    for name, text in trino_files(address, bucket, port).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    settings = {
        "node.environment": "test",
        "node.id": "test",
        "node.data-dir": f"{folder}/var",
        "config": f"{folder}/config.properties",
        "log.levels-file": f"{folder}/log.properties",
        "catalog.config-dir": f"{folder}/catalog",
        "plugin.dir": f"{TRINO}/plugin",
        "jdk.attach.allowAttachSelf": "true",
    }
    command = [JAVA, "-Xmx2G", "--sun-misc-unsafe-memory-access=allow"]
    command += [*(f"-D{name}={value}" for name, value in settings.items())]
    command += ["-cp", f"{TRINO}/lib/*", "io.trino.server.TrinoServer"]
    # Statements are refused until the server has registered itself as a worker.
    with run_server(command, folder, lambda: [*run_statement(port, "SELECT 1")].clear()):
        yield lambda statement: run_statement(port, statement)


def send(address: str, body: str | None = None) -> dict[str, Any]:
    request = urllib.request.Request(address, None if body is None else body.encode(), {"X-Trino-User": "test"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def run_statement(port: int, statement: str) -> Rows:
    """Run a statement by Trino's protocol; what it refuses is raised."""
    answer = send(f"http://127.0.0.1:{port}/v1/statement", statement)
    rows: Rows = []
    while True:
        if "error" in answer:
            raise OSError(answer["error"]["message"])
        rows += [[str(value) for value in row] for row in answer.get("data", [])]
        if "nextUri" not in answer:
            return rows
        answer = send(answer["nextUri"])


@pytest.fixture(scope="module")
def trino_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lakehouse, PeerQuery]]:
    access = Access("127.0.0.1", TOKEN, is_writable=True)
    with run_seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as bucket:
        lake = mangrove.create(f"{bucket.uri}lake", storage_options=bucket.options)
        with served(lake, access) as address, run_trino(address, bucket, tmp_path_factory.mktemp("trino")) as query:
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
