"""A catalog written by DeltaCAT 2.0 reads completely: now, at every time before, and across its renames."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import mangrove
from mangrove.errors import ConflictError, NotFoundError
from mangrove.layouts.deltacat.metastore import DeltaCatMetastore, open_catalog
from mangrove.layouts.deltacat.paths import TAKEOVER_PATH
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot
from mangrove.metastore import Changes, Isolation, MetastoreSnapshot
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
)
from mangrove.model.manifests import PARQUET, DataFile, Manifest
from mangrove.model.objects import (
    Delta,
    DeltaType,
    NamespaceEntry,
    Partition,
    StreamState,
    TableEntry,
    TableVersion,
    TableVersionState,
)
from mangrove.storage.opening import open_store
from mangrove.testing.effects import Clock, build_deterministic_effects

_FIXTURE = Path(__file__).parent / "fixtures" / "deltacat-2"
_DEFAULT, _SALES, _RENAMED = 0, 1, 14
_FIRST_ORDERS, _CITY, _USERS, _MERGED, _DELETED, _PURCHASES, _MULTI = 2, 5, 6, 7, 8, 9, 10
_REPLACED, _DROPPED = 12, 13


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(_FIXTURE, tmp_path / "catalog")
    return tmp_path / "catalog"


@pytest.fixture
def catalog(root: Path) -> DeltaCatMetastore:
    return _opened(root)


def _opened(root: Path, first_id: int = 1) -> DeltaCatMetastore:
    clock = Clock(now_millis=1_794_800_000_000)
    return open_catalog(build_deterministic_effects(open_store(root.as_uri()), clock, first_id))


def _tables(snapshot: MetastoreSnapshot) -> list[str]:
    spaces = [way for way, _ in snapshot.children(Kind.NAMESPACE, None) if isinstance(way, NamespaceLocator)]
    return [str(way) for space in spaces for way, _ in snapshot.children(Kind.TABLE, space)]


def _live_partition(snapshot: MetastoreSnapshot, name: TableLocator) -> PartitionLocator:
    """Return the one partition whose deltas are the table's rows."""
    table = snapshot.get(name)
    assert isinstance(table, TableEntry)
    assert table.latest_active_table_version is not None
    version = TableVersionLocator(table.namespace_id, table.id, table.latest_active_table_version)
    described = snapshot.get(version)
    assert isinstance(described, TableVersion)
    assert described.latest_stream_id is not None
    stream = StreamLocator(version.namespace_id, version.table_id, version.version, described.latest_stream_id)
    (live,) = [
        way
        for way, partition in snapshot.children(Kind.PARTITION, stream)
        if isinstance(partition, Partition) and partition.state is StreamState.COMMITTED
    ]
    assert isinstance(live, PartitionLocator)
    return live


def _rows(root: Path, snapshot: MetastoreSnapshot, name: TableLocator) -> list[dict[str, Any]]:
    """Return the rows of a table that holds appends only, sorted."""
    rows: list[dict[str, Any]] = []
    for _, delta in snapshot.children(Kind.DELTA, _live_partition(snapshot, name)):
        assert isinstance(delta, Delta)
        assert delta.type in (DeltaType.APPEND, DeltaType.ADD)
        for entry in delta.manifest.entries:
            found = pq.read_table(root / entry.location).to_pylist()
            assert len(found) == entry.row_count
            rows.extend(found)
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def test_the_current_state_equals_the_one_of_deltacat(root: Path, catalog: DeltaCatMetastore) -> None:
    newest = catalog.latest()
    assert (catalog.revision.name, newest.version) == ("2", _RENAMED)
    assert [str(way) for way, _ in newest.children(Kind.NAMESPACE, None)] == ["default", "sales2"]
    assert _tables(newest) == ["sales2.purchases", "sales2.users"]
    assert _rows(root, newest, TableLocator("sales2", "purchases")) == [
        {"id": 100, "item": "z", "qty": 1, "city": "W"},
    ]
    users = _rows(root, newest, TableLocator("sales2", "users"))
    assert [(row["uid"], row["name"], row["age"]) for row in users] == [
        (2, "n2b", 21),
        (3, "n3", 30),
        (4, "n4", 40),
        (9, "n9", 90),
    ]


def test_every_version_equals_the_state_of_deltacat_at_that_time(root: Path, catalog: DeltaCatMetastore) -> None:
    names = {
        _DEFAULT: [],
        _SALES: [],
        _FIRST_ORDERS: ["sales.orders"],
        _CITY: ["sales.orders"],
        _USERS: ["sales.orders", "sales.users"],
        _DELETED: ["sales.orders", "sales.users"],
        _PURCHASES: ["sales.purchases", "sales.users"],
        _MULTI: ["sales.purchases", "sales.third", "sales.users"],
        _REPLACED: ["sales.purchases", "sales.third", "sales.users"],
        _DROPPED: ["sales.purchases", "sales.users"],
        _RENAMED: ["sales2.purchases", "sales2.users"],
    }
    assert {version: _tables(catalog.at_version(version)) for version in names} == names
    orders = {
        version: len(_rows(root, catalog.at_version(version), TableLocator("sales", "orders")))
        for version in range(2, 9)
    }
    assert orders == {2: 3, 3: 4, 4: 5, 5: 6, 6: 6, 7: 6, 8: 6}
    users = TableLocator("sales", "users")
    uids = {
        v: [row["uid"] for row in _rows(root, catalog.at_version(v), users)]
        for v in (_USERS, _MERGED, _DELETED, _MULTI)
    }
    assert uids == {_USERS: [1, 2, 3], _MERGED: [1, 2, 3, 4], _DELETED: [2, 3, 4], _MULTI: [2, 3, 4, 9]}


def test_as_of_a_time_before_the_renames_finds_the_old_names(root: Path, catalog: DeltaCatMetastore) -> None:
    for line in list(catalog.history()):
        then = catalog.at_time(line.created_at_millis)
        assert then.version == line.version
        is_before = line.version < _PURCHASES
        if line.version >= _FIRST_ORDERS:
            name = "orders" if is_before else "purchases"
            space = "sales2" if line.version == _RENAMED else "sales"
            assert _rows(root, then, TableLocator(space, name))
            assert then.get(TableLocator(space, "purchases" if is_before else "orders")) is None
    with pytest.raises(NotFoundError, match="later time"):
        catalog.at_time(1_794_723_850_660)


def test_a_transaction_over_several_tables_is_one_version(catalog: DeltaCatMetastore) -> None:
    line = catalog.at_version(_MULTI).commit
    assert line.message == "multi-table txn"
    assert line.transaction_id == "1794723905841057529_20b1db50-b32e-4369-9a9d-04409148bd4a"
    before, after = catalog.at_version(_MULTI - 1), catalog.at_version(_MULTI)
    assert after.get(TableLocator("sales", "third")) is not None
    assert before.get(TableLocator("sales", "third")) is None


def test_the_history_has_no_transaction_that_failed(catalog: DeltaCatMetastore) -> None:
    lines = list(catalog.history())
    assert [line.version for line in lines] == list(range(_RENAMED, -1, -1))
    assert len({line.transaction_id for line in lines}) == _RENAMED + 1
    failed = {path.name for path in (_FIXTURE / "txn" / "failed").rglob("*") if path.is_file()}
    assert len(failed) == 2
    assert not failed & {line.transaction_id for line in lines}
    assert [line.version for line in catalog.history(before=3)] == [2, 1, 0]


def test_schemas_keys_states_and_properties_are_read(catalog: DeltaCatMetastore) -> None:
    newest = catalog.latest()
    space = newest.get(NamespaceLocator("sales2"))
    assert isinstance(space, NamespaceEntry)
    assert space.properties == {"owner": "qa"}
    table = newest.get(TableLocator("sales2", "users"))
    assert isinstance(table, TableEntry)
    assert table.properties["records_per_compacted_file"] == "4000000"
    version = newest.get(TableVersionLocator(table.namespace_id, table.id, 1))
    assert isinstance(version, TableVersion)
    assert version.schema is not None
    assert (version.schema.names, version.schema.schema_id) == (("uid", "name", "age"), 1)
    assert [schema.schema_id for schema in version.earlier_schemas] == [0]
    assert [version.schema.column_with_id(key).name for key in version.keys] == ["uid"]
    assert version.state is TableVersionState.ACTIVE
    earlier = catalog.at_version(_FIRST_ORDERS)
    orders = earlier.get(TableLocator("sales", "orders"))
    assert isinstance(orders, TableEntry)
    first = earlier.get(TableVersionLocator(orders.namespace_id, orders.id, 1))
    assert isinstance(first, TableVersion)
    assert first.schema is not None
    assert first.schema.names == ("id", "item", "qty")


def _append(snapshot: MetastoreSnapshot, name: TableLocator, position: int) -> tuple[DeltaLocator, Delta]:
    live = _live_partition(snapshot, name)
    way = DeltaLocator(live.namespace_id, live.table_id, live.version, live.stream_id, live.partition_id, position)
    return way, Delta(DeltaType.APPEND, Manifest((DataFile("data/new.parquet", 10, 1),)))


def test_the_first_commit_of_mangrove_adds_one_version_to_those_of_deltacat(
    root: Path, catalog: DeltaCatMetastore
) -> None:
    purchases = TableLocator("sales2", "purchases")
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    base = catalog.latest()
    way, delta = _append(base, purchases, 2)
    after = catalog.commit(base, Changes("ours", puts={way: delta}), Isolation.SNAPSHOT).snapshot
    assert after.version == _RENAMED + 1
    assert after.get(way) is not None
    for metastore in (catalog, _opened(root, 10**6)):
        assert metastore.latest().version == _RENAMED + 1
        lines = list(metastore.history())
        assert [line.version for line in lines] == list(range(_RENAMED + 1, -1, -1))
        assert lines[0].transaction_id == "ours"
        assert _tables(metastore.at_version(_PURCHASES)) == ["sales.purchases", "sales.users"]
        assert metastore.at_time(lines[3].created_at_millis).version == _RENAMED - 2
        positions = [way.parts[-1] for way, _ in metastore.latest().children(Kind.DELTA, way.parent)]
        assert positions == [1, 2]
    assert all(path.read_bytes() == data for path, data in before.items())


def test_unmapped_fields_of_deltacat_are_preserved_by_a_change(catalog: DeltaCatMetastore) -> None:
    base = catalog.latest()
    old = TableLocator("sales2", "users")
    (before,) = base.bodies([old])
    assert before is not None
    assert isinstance(before.value, TableEntry)
    new = TableLocator("sales2", "people")
    table = before.value
    renamed = TableEntry(table.id, table.namespace_id, "people", properties=table.properties, latest_table_version=1)
    after = catalog.commit(base, Changes("x", puts={new: renamed}, deletes=frozenset([old])), Isolation.SNAPSHOT)
    assert isinstance(after.snapshot, DeltaCatSnapshot)
    (body,) = after.snapshot.bodies([new])
    assert body is not None
    assert body.fields["properties"] == before.fields["properties"]
    assert body.fields["nativeObject"] == before.fields["nativeObject"]


def test_a_commit_based_on_an_old_version_detects_conflicts_with_later_transactions_of_deltacat(
    catalog: DeltaCatMetastore,
) -> None:
    old = catalog.at_version(_USERS)
    orders = old.get(TableLocator("sales", "orders"))
    assert isinstance(orders, TableEntry)
    changed = TableEntry(orders.id, orders.namespace_id, "orders", description="changed")
    with pytest.raises(ConflictError, match="repeat"):
        catalog.commit(old, Changes("x", puts={TableLocator("sales", "orders"): changed}), Isolation.SNAPSHOT)
    new = (NamespaceLocator("new"), NamespaceEntry("new-id", "new"))
    assert catalog.commit(old, Changes("y", puts=dict([new])), Isolation.SNAPSHOT).snapshot.version == _RENAMED + 1


def test_two_first_commits_take_over_the_same_transactions(root: Path) -> None:
    one, two = _opened(root), _opened(root, 10**6)
    bases = one.latest(), two.latest()
    one.commit(bases[0], Changes("1", puts={NamespaceLocator("a"): NamespaceEntry("a-id", "a")}), Isolation.SNAPSHOT)
    taken_over = (root / TAKEOVER_PATH).read_bytes()
    two.commit(bases[1], Changes("2", puts={NamespaceLocator("b"): NamespaceEntry("b-id", "b")}), Isolation.SNAPSHOT)
    assert (root / TAKEOVER_PATH).read_bytes() == taken_over
    names = [str(way) for way, _ in one.latest().children(Kind.NAMESPACE, None)]
    assert names == ["a", "b", "default", "sales2"]
    assert one.latest().version == _RENAMED + 2


def test_a_transaction_that_deltacat_logs_while_the_catalog_is_open_becomes_the_next_version(root: Path) -> None:
    log = root / "txn" / "success" / "2026" / "11" / "15" / "06" / "25"
    (renaming,) = log.glob("1794723907685800020_*")
    aside = root.parent / "aside"
    renaming.rename(aside)
    catalog = _opened(root)
    assert _tables(catalog.latest()) == ["sales.purchases", "sales.users"]
    aside.rename(renaming)
    assert _tables(catalog.latest()) == ["sales2.purchases", "sales2.users"]
    assert catalog.latest().version == _RENAMED


def test_the_files_and_rows_of_a_table_without_a_schema_are_read(root: Path) -> None:
    lake = mangrove.open(root)
    third = lake.at(_MULTI + 1).table("sales.third")
    assert third.schema is None
    assert [(file.content_type, file.size_bytes, file.row_count) for file in third.files()] == [(PARQUET, 1212, 1)]
    assert third.to_arrow().to_pylist() == [{"k": 1}]
    made = lake.create_table("sales2.raw", schemaless=True)
    made.add_files({"a.csv": b"k\n2\n"})
    assert mangrove.open(root).table("sales2.raw").to_arrow().to_pylist() == [{"k": 2}]


def test_an_alias_is_created_in_a_catalog_of_deltacat(root: Path) -> None:
    lake = mangrove.open(root)
    lake.create_alias("sales2.orders", "sales2.purchases")
    assert mangrove.open(root).table("sales2.orders").to_arrow().num_rows == 1
    assert not lake.maintenance.check().problems
