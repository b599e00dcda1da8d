"""Real DeltaCAT reads what we write in its format revision, appends to it, and we read that in turn."""

import json
import queue
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.peers.environments import FOLDER, NotAvailable, prepare_environment

import mangrove
from mangrove.effects import Effects, build_effects
from mangrove.layouts.deltacat.metastore import DeltaCatMetastore, create_catalog
from mangrove.layouts.deltacat.revision import DELTACAT_2
from mangrove.maintenance.check import check_lakehouse
from mangrove.maintenance.context import MaintenanceContext
from mangrove.metastore import Changes, MetastoreSnapshot
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.manifests import Author, DataFile, Manifest
from mangrove.model.objects import (
    Delta,
    DeltaType,
    NamespaceEntry,
    Partition,
    Stream,
    TableEntry,
    TableVersion,
    ViewEntry,
)
from mangrove.model.schema import Schema
from mangrove.model.settings import LakehouseSettings
from mangrove.model.types import Column, Int64, Varchar
from mangrove.storage.opening import open_store
from mangrove.testing.metastore_contract import commit_objects

pytestmark = [pytest.mark.interop, pytest.mark.slow]

_REQUIREMENT = "deltacat==2.0.0.post4"
_ENVIRONMENT = FOLDER / "deltacat"
_FIXTURE = Path(__file__).with_name("fixtures") / "deltacat-2"
_PEER = Path(__file__).with_name("deltacat_peer.py")


def _pythons() -> Iterator[str]:
    """Yield where a Python 3.10 may be; a version manager's stand-in may be there without it."""
    yield "python3.10"
    yield from (str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.10*/bin/python3.10")))
    yield from (str(path) for path in sorted(Path.home().glob(".local/share/uv/python/cpython-3.10*/bin/python3.10")))


def _works(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False


class Peer:
    """A process in which DeltaCAT runs."""

    def __init__(self, python: str, folder: Path) -> None:
        command = [python, str(_PEER)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@"):
                self._lines.put(line[1:])

    def ask(self, root: Path, table: TableLocator, appended: dict[str, Any] | None = None) -> dict[str, Any]:
        """Append a row if there is one, and return what DeltaCAT sees then."""
        return self._run(root, table, appended=appended)

    def read_by_partition(self, root: Path, table: TableLocator) -> list[dict[str, Any]]:
        """Return the rows of a partitioned table, read through DeltaCAT's storage interface."""
        rows: list[dict[str, Any]] = self._run(root, table, run="read_by_partition")["rows"]
        return rows

    def read_versions(self, root: Path, table: TableLocator) -> dict[str, Any]:
        """Return the versions of a table as DeltaCAT lists and reads them."""
        return self._run(root, table, run="read_versions")

    def write_partitioned(self, root: Path, table: TableLocator) -> None:
        """Let DeltaCAT write a partitioned table."""
        self._run(root, table, run="write_partitioned")

    def _run(self, root: Path, table: TableLocator, **arguments: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        question = {"root": str(root), "namespace": table.namespace, "table": table.name, **arguments}
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        said: dict[str, Any] = json.loads(self._lines.get(timeout=300))
        assert "failed" not in said, said["failed"][-3000:]
        found: dict[str, Any] = said["answer"]
        return found

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._listener.join()
        self._process.communicate()


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """Yield a process that has DeltaCAT, which is installed once in an environment of its own."""
    peer = Peer(_python_with_deltacat(), tmp_path_factory.mktemp("peer"))
    yield peer
    peer.stop()


def _python_with_deltacat() -> str:
    python = next((python for python in _pythons() if _works(python, "--version")), None)
    if python is None:
        pytest.skip("there is no Python 3.10 here, and DeltaCAT installs on no later one")
    try:
        return str(prepare_environment(_ENVIRONMENT, [_REQUIREMENT], python))
    except NotAvailable as error:
        pytest.skip(f"{_REQUIREMENT} is {error}")


class Lake:
    """A catalog in DeltaCAT's format revision, with a table of two columns."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.effects: Effects = build_effects(open_store(root.as_uri()))
        self.catalog: DeltaCatMetastore = create_catalog(self.effects, LakehouseSettings(), Changes("made"), DELTACAT_2)
        self.ids = [self.effects.new_id() for _ in range(4)]
        namespace_id, table_id, stream_id, partition_id = self.ids
        self.partition = PartitionLocator(namespace_id, table_id, 1, stream_id, partition_id)
        schema = Schema((Column(1, "id", Int64()), Column(2, "item", Varchar())))
        commit_objects(
            self.catalog,
            self.catalog.latest(),
            (NamespaceLocator("sales"), NamespaceEntry(namespace_id, "sales", {"owner": "ana"})),
            (TableLocator("sales", "orders"), self.table("orders")),
            (TableVersionLocator(namespace_id, table_id, 1), TableVersion(1, schema, latest_stream_id=stream_id)),
            (self.partition.parent, Stream(stream_id)),
            (self.partition, Partition(partition_id)),
        )

    def table(self, name: str) -> TableEntry:
        return TableEntry(self.ids[1], self.ids[0], name, latest_table_version=1, latest_active_table_version=1)

    def append(self, position: int, *rows: tuple[int, str]) -> None:
        path = f"data/{self.partition.partition_id}/{self.effects.new_id()}.parquet"
        written = pa.table({"id": pa.array([row[0] for row in rows], pa.int64()), "item": [row[1] for row in rows]})
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(written, self.root / path)
        file = DataFile(path, (self.root / path).stat().st_size, len(rows), schema_id=0)
        manifest = Manifest((file,), id=self.effects.new_id(), author=Author("mangrove"))
        way = DeltaLocator(*self.partition.parts, position)  # type: ignore[arg-type, call-arg]
        commit_objects(self.catalog, self.catalog.latest(), (way, Delta(DeltaType.APPEND, manifest)))

    def rows(self, snapshot: MetastoreSnapshot) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for _, delta in snapshot.children(Kind.DELTA, self.partition):
            assert isinstance(delta, Delta)
            for entry in delta.manifest.entries:
                found.extend(pq.read_table(self.root / entry.location).to_pylist())
        return found


def test_deltacat_and_mangrove_read_each_others_appends(tmp_path: Path, peer: Peer) -> None:
    lake = Lake(tmp_path / "catalog")
    lake.append(1, (1, "a"), (2, "b"))
    lake.append(2, (3, "c"))
    orders = TableLocator("sales", "orders")
    expected = [{"id": 1, "item": "a"}, {"id": 2, "item": "b"}, {"id": 3, "item": "c"}]
    found = peer.ask(lake.root, orders)
    assert sorted(found["rows"], key=lambda row: row["id"]) == expected
    assert found["positions"] == [1, 2]

    purchases = TableLocator("sales", "purchases")
    commit_objects(
        lake.catalog,
        lake.catalog.latest(),
        (purchases, lake.table("purchases")),
        (ViewLocator("sales", "daily"), ViewEntry(lake.effects.new_id(), "daily", "select 1")),
        deletes=frozenset([orders]),
    )
    shop = (NamespaceLocator("shop"), NamespaceEntry(lake.ids[0], "shop"))
    commit_objects(lake.catalog, lake.catalog.latest(), shop, deletes=frozenset([NamespaceLocator("sales")]))
    renamed = TableLocator("shop", "purchases")
    found = peer.ask(lake.root, renamed, {"id": 4, "item": "of DeltaCAT"})
    assert (found["namespaces"], found["tables"]) == (["default", "shop"], ["purchases"])
    assert found["positions"] == [1, 2, 3]
    assert {"id": 4, "item": "of DeltaCAT"} in found["rows"]

    before = lake.catalog.latest()
    repaired = check_lakehouse(MaintenanceContext(lake.effects, lake.catalog, lake.catalog), repair=True)
    assert any("of DeltaCAT" in line or "DeltaCAT committed" in line for line in repaired.repaired)
    assert before.version < lake.catalog.latest().version
    assert list(repaired) == []
    assert lake.rows(lake.catalog.latest()) == [*expected, {"id": 4, "item": "of DeltaCAT"}]
    lake.append(4, (5, "e"))
    found = peer.ask(lake.root, renamed)
    assert found["positions"] == [1, 2, 3, 4]
    assert sorted(row["id"] for row in found["rows"]) == [1, 2, 3, 4, 5]
    assert lake.rows(lake.catalog.at_version(before.version)) == expected


def test_alternating_appends_of_deltacat_and_mangrove_lose_nothing(tmp_path: Path, peer: Peer) -> None:
    root = tmp_path / "catalog"
    shutil.copytree(_FIXTURE, root)
    mangrove.open(root).table("sales2.purchases").append([{"id": 101, "item": "ours", "qty": 2, "city": "V"}])
    purchases = TableLocator("sales2", "purchases")
    found = peer.ask(root, purchases, {"id": 102, "item": "theirs", "qty": 3, "city": "U"})
    assert sorted(row["id"] for row in found["rows"]) == [100, 101, 102]

    lake = mangrove.open(root)
    lake.table("sales2.purchases").append([{"id": 103, "item": "ours", "qty": 4, "city": "T"}])
    rows = lake.table("sales2.purchases").to_arrow().to_pylist()
    assert sorted(row["id"] for row in rows) == [100, 101, 102, 103]
    found = peer.ask(root, purchases)
    assert sorted(row["id"] for row in found["rows"]) == [100, 101, 102, 103]
    assert found["positions"] == [1, 2, 3, 4]
    assert list(lake.maintenance.check()) == []


def test_deltacat_reads_every_state_of_a_compatible_lakehouse(tmp_path: Path, peer: Peer) -> None:
    root = tmp_path / "lake"
    lake = mangrove.create(root, compatible_with="deltacat")
    lake.create_namespace("sales")
    name = TableLocator("sales", "orders")
    lake.create_table(str(name), schema="id bigint not null, item string", keys=["id"])
    steps: list[tuple[Callable[[mangrove.Table], object], list[tuple[int, str | None]]]] = [
        (lambda table: table.append([{"id": 1, "item": "a"}, {"id": 2, "item": None}]), [(1, "a"), (2, None)]),
        (lambda table: table.upsert([{"id": 1, "item": "z"}, {"id": 3, "item": "c"}]), [(1, "z"), (2, None), (3, "c")]),
        (lambda table: table.delete("id = 3"), [(1, "z"), (2, None)]),
        (lambda table: table.update({"item": "u"}, "id = 2"), [(1, "z"), (2, "u")]),
        (lambda table: table.append([{"id": 4, "item": "d"}]), [(1, "z"), (2, "u"), (4, "d")]),
        (lambda table: table.delete("id > 0"), []),
        (lambda table: table.append([{"id": 1, "item": "z"}, {"id": 2, "item": "u"}]), [(1, "z"), (2, "u")]),
        (lambda table: table.upsert([{"id": 4, "item": "d"}]), [(1, "z"), (2, "u"), (4, "d")]),
        (lambda table: table.compact(), [(1, "z"), (2, "u"), (4, "d")]),
        (
            lambda table: table.upsert([{"id": 4, "item": "e"}], position=40, author="ana", properties={"from": "x"}),
            [(1, "z"), (2, "u"), (4, "e")],
        ),
        (lambda table: table.overwrite([{"id": 9, "item": "z"}]), [(9, "z")]),
    ]
    for step, expected in steps:
        step(lake.table(str(name)))
        found = peer.ask(root, name)
        assert sorted((row["id"], row["item"]) for row in found["rows"]) == expected
    lake.create_namespace("shop")
    lake.rename_table(str(name), "shop.purchases")
    found = peer.ask(root, TableLocator("shop", "purchases"))
    assert (found["tables"], found["rows"]) == (["purchases"], [{"id": 9, "item": "z"}])


def test_deltacat_reads_every_partition_of_a_table_that_is_written_for_it(tmp_path: Path, peer: Peer) -> None:
    lake = mangrove.create(tmp_path / "lake", compatible_with="deltacat")
    lake.create_namespace("sales")
    days = lake.create_table(
        "sales.days", schema="day int not null, id bigint not null, item string", keys=["day", "id"], partition_by="day"
    )
    days.append([{"day": day, "id": number, "item": "a"} for day in (1, 2) for number in (1, 2)])
    days.upsert([{"day": 2, "id": 1, "item": "z"}, {"day": 3, "id": 1, "item": "n"}])
    days.delete("day = 1 and id = 2")
    found = peer.read_by_partition(tmp_path / "lake", TableLocator("sales", "days"))
    rows = sorted((row["day"], row["id"], row["item"]) for row in found)
    assert rows == [(1, 1, "a"), (2, 1, "z"), (2, 2, "a"), (3, 1, "n")]


def test_deltacat_lists_and_reads_every_table_version_and_its_current_stream(tmp_path: Path, peer: Peer) -> None:
    lake = mangrove.create(tmp_path / "lake", compatible_with="deltacat")
    lake.create_namespace("sales")
    name = TableLocator("sales", "orders")
    table = lake.create_table(str(name), schema="id bigint not null, item string", keys=["id"], stream_id="first")
    table.append([{"id": 1, "item": "a"}])
    table.create_version("id bigint not null, item string", stream_id="second").append([{"id": 2, "item": "b"}])
    table.create_version(stream_id="third")
    found = peer.read_versions(tmp_path / "lake", name)
    rows = {number: [row["id"] for row in one["rows"]] for number, one in found["versions"].items()}
    assert (rows, found["active"]) == ({"1": [1], "2": [2], "3": []}, "1")
    with lake.transaction() as transaction:
        transaction.table(str(name)).version(2).set_state("active")
        transaction.table(str(name)).version(1).set_state("deprecated")
    table.version(2).create_stream("reload").append([{"id": 7, "item": "z"}])
    table.drop_version(3)
    found = peer.read_versions(tmp_path / "lake", name)
    assert (sorted(found["versions"]), found["active"]) == (["1", "2"], "2")
    assert [row["id"] for row in found["versions"]["2"]["rows"]] == [2]
    assert [row["id"] for row in peer.ask(tmp_path / "lake", name)["rows"]] == [2]
    table.version(2).stream("reload").commit_stream()
    found = peer.read_versions(tmp_path / "lake", name)["versions"]["2"]
    assert [row["id"] for row in found["rows"]] == [7]
    assert ["reload", "committed"] in found["streams"]


def test_the_table_interface_of_deltacat_cannot_read_partitioned_tables(tmp_path: Path, peer: Peer) -> None:
    days = TableLocator("sales", "days")
    peer.write_partitioned(tmp_path / "theirs", days)
    assert sorted(row["id"] for row in peer.read_by_partition(tmp_path / "theirs", days)) == [10, 20]
    with pytest.raises(AssertionError, match="unhashable type"):
        peer.ask(tmp_path / "theirs", days)
    assert sorted(mangrove.open(tmp_path / "theirs").table(str(days)).to_arrow()["id"].to_numpy().tolist()) == [10, 20]


def test_deltacat_does_not_see_a_dropped_table(tmp_path: Path, peer: Peer) -> None:
    lake = Lake(tmp_path / "catalog")
    lake.append(1, (1, "a"))
    other = TableEntry(lake.effects.new_id(), lake.ids[0], "other")
    commit_objects(lake.catalog, lake.catalog.latest(), (TableLocator("sales", "other"), other))
    commit_objects(lake.catalog, lake.catalog.latest(), deletes=frozenset([TableLocator("sales", "other")]))
    stream = StreamLocator(lake.ids[0], lake.ids[1], 1, "gone")
    commit_objects(lake.catalog, lake.catalog.latest(), (stream, Stream("gone", previous_id=lake.ids[2])))
    commit_objects(
        lake.catalog,
        lake.catalog.latest(),
        (lake.partition.parent, Stream(lake.ids[2], previous_id="gone")),
        deletes=frozenset([stream]),
    )
    found = peer.ask(lake.root, TableLocator("sales", "orders"))
    assert found["tables"] == ["orders"]
    assert found["rows"] == [{"id": 1, "item": "a"}]
