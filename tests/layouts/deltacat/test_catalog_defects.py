"""What goes wrong in DeltaCAT, one test for each: it does not go wrong here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mangrove.effects import Effects, build_effects
from mangrove.errors import ConflictError
from mangrove.layouts.deltacat.index import mapping_key, parse_mapping_entry
from mangrove.layouts.deltacat.metastore import DeltaCatMetastore, create_catalog, open_catalog
from mangrove.layouts.deltacat.paths import MANGROVE_FOLDER, parse_numbered_path
from mangrove.layouts.deltacat.revision import DELTACAT_2, SEED, DeltaCatRevision, digest_of
from mangrove.layouts.deltacat.staging import stage_changes
from mangrove.layouts.deltacat.transaction_log import parse_log_path
from mangrove.metastore import Changes, Isolation, MetastoreSnapshot
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableIdentity,
    TableLocator,
    TableVersionLocator,
)
from mangrove.model.manifests import DataFile, FileKind, Manifest
from mangrove.model.objects import (
    Delta,
    DeltaType,
    NamespaceEntry,
    Object,
    Partition,
    Stream,
    TableEntry,
    TableVersion,
)
from mangrove.model.partitioning import Bucket, Identity, PartitionField, PartitionScheme
from mangrove.model.schema import Schema
from mangrove.model.settings import LakehouseSettings
from mangrove.model.types import Column, Int64, Varchar
from mangrove.storage.memory import MemoryStore
from mangrove.storage.opening import open_store
from mangrove.storage.port import ObjectInfo, Store
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.metastore_contract import commit_objects, make_delta

STREAM = StreamLocator("n", "t", 1, "s")
PARTITION = PartitionLocator("n", "t", 1, "s", "p")
ORDERS = TableLocator("sales", "orders")
ORDERS_TABLE = TableEntry("t", "n", "orders", latest_table_version=1, latest_active_table_version=1)


@pytest.fixture(params=[SEED, DELTACAT_2], ids=["seed", "deltacat-2"])
def revision(request: pytest.FixtureRequest) -> DeltaCatRevision:
    assert isinstance(request.param, DeltaCatRevision)
    return request.param


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def effects(clock: Clock) -> Effects:
    return build_deterministic_effects(MemoryStore(), clock)


@pytest.fixture
def catalog(effects: Effects, revision: DeltaCatRevision) -> DeltaCatMetastore:
    return _with_a_table(effects, revision)


def _with_a_table(effects: Effects, revision: DeltaCatRevision) -> DeltaCatMetastore:
    catalog = create_catalog(effects, LakehouseSettings(), Changes("made"), revision)
    commit_objects(
        catalog,
        catalog.latest(),
        (NamespaceLocator("sales"), NamespaceEntry("n", "sales")),
        (ORDERS, ORDERS_TABLE),
        (TableVersionLocator("n", "t", 1), TableVersion(1, None, latest_stream_id="s")),
        (STREAM, Stream("s")),
        (PARTITION, Partition("p")),
    )
    return catalog


def _positions(snapshot: MetastoreSnapshot) -> list[str | int]:
    return [way.parts[-1] for way, _ in snapshot.children(Kind.DELTA, PARTITION)]


def _reopened(effects: Effects) -> DeltaCatMetastore:
    return open_catalog(build_deterministic_effects(effects.store, first_id=10**9))


def _without_guards(store: Store) -> DeltaCatMetastore:
    """Return the catalog as somebody finds it who has only what DeltaCAT knows of it."""
    bare = MemoryStore()
    for entry in store.list():
        if isinstance(entry, ObjectInfo) and not entry.path.startswith(MANGROVE_FOLDER):
            bare.put(entry.path, store.read(entry.path))
    return open_catalog(build_deterministic_effects(bare))


def _race(uri: str, processes: int, count: int) -> None:
    script = Path(__file__).with_name("append_deltas.py")
    running = [
        subprocess.Popen([sys.executable, str(script), uri, str(worker), str(count)]) for worker in range(processes)
    ]
    assert [process.wait() for process in running] == [0] * processes


@pytest.mark.slow
def test_concurrent_appends_of_four_processes_lose_nothing(tmp_path: Path, revision: DeltaCatRevision) -> None:
    """DeltaCAT lost 14 of 1,528 in a minute: `MANGROVE_RACE_APPENDS=400` runs about as long."""
    uri, each = tmp_path.as_uri(), int(os.environ.get("MANGROVE_RACE_APPENDS", "40"))
    _with_a_table(build_effects(open_store(uri)), revision)
    _race(uri, processes=4, count=each)
    newest = open_catalog(build_effects(open_store(uri))).latest()
    assert newest.version == 1 + 4 * each
    deltas = [delta for _, delta in newest.children(Kind.DELTA, PARTITION) if isinstance(delta, Delta)]
    assert [delta.position for delta in deltas] == list(range(1, 4 * each + 1))
    writers = {delta.properties["writer"] for delta in deltas}
    assert writers == {f"{worker}/{number}" for worker in range(4) for number in range(each)}
    bare = _without_guards(open_store(uri)).latest()
    assert _positions(bare) == list(range(1, 4 * each + 1))


def test_an_orphan_file_does_not_replace_a_committed_one(catalog: DeltaCatMetastore, effects: Effects) -> None:
    commit_objects(catalog, catalog.latest(), make_delta(PARTITION, 1))
    orphans = 0
    for entry in list(effects.store.list()):
        if entry.path.startswith((MANGROVE_FOLDER, "txn/")):
            continue
        file = parse_numbered_path(entry.path)
        orphan = entry.path.replace(file.transaction, "9999999999999999999_crashed").replace("_create_", "_update_")
        effects.store.put(orphan, effects.store.read(entry.path))
        orphans += 1
    assert orphans > 5
    for found in (_reopened(effects), _without_guards(effects.store)):
        newest = found.latest()
        assert newest.get(ORDERS) == ORDERS_TABLE
        assert _positions(newest) == [1]
        commit_objects(found, newest, make_delta(PARTITION, 2))
        assert _positions(found.latest()) == [1, 2]


def test_time_travel_by_time_is_repeatable(catalog: DeltaCatMetastore, clock: Clock) -> None:
    answers: dict[int, list[str | int]] = {}
    for number in range(1, 30):
        clock.now_millis += 10_000 if number % 3 else -25_000
        commit_objects(catalog, catalog.latest(), make_delta(PARTITION, number))
        newest = catalog.latest()
        answers[newest.commit.created_at_millis] = _positions(newest)
        assert {millis: _positions(catalog.at_time(millis)) for millis in answers} == answers


def _replace_stream(catalog: DeltaCatMetastore, base: MetastoreSnapshot) -> None:
    version = TableVersionLocator("n", "t", 1)
    new = StreamLocator("n", "t", 1, "s2")
    commit_objects(
        catalog,
        base,
        (version, TableVersion(1, None, latest_stream_id="s2")),
        (new, Stream("s2", previous_id="s")),
        (PartitionLocator("n", "t", 1, "s2", "p2"), Partition("p2")),
        deletes=frozenset([STREAM, PARTITION]),
    )


@pytest.mark.parametrize("isolation", list(Isolation))
def test_an_add_conflicts_with_a_concurrent_replace_of_the_stream(
    catalog: DeltaCatMetastore, isolation: Isolation
) -> None:
    base = catalog.latest()
    _replace_stream(catalog, base)
    way, _ = make_delta(PARTITION, 77)
    with pytest.raises(ConflictError, match=r"partition n\|t\|1\|s\|p"):
        commit_objects(catalog, base, (way, Delta(DeltaType.ADD)), guards=frozenset([PARTITION]), isolation=isolation)
    newest = catalog.latest()
    described = newest.get(TableVersionLocator("n", "t", 1))
    assert isinstance(described, TableVersion)
    assert described.latest_stream_id == "s2"


@pytest.mark.parametrize("isolation", list(Isolation))
def test_an_append_conflicts_with_a_concurrent_drop(catalog: DeltaCatMetastore, isolation: Isolation) -> None:
    base = catalog.latest()
    commit_objects(catalog, base, deletes=frozenset([ORDERS]))
    guards: frozenset[Locator] = frozenset([ORDERS, PARTITION])
    with pytest.raises(ConflictError, match=r"table sales\.orders"):
        commit_objects(catalog, base, make_delta(PARTITION, 1), guards=guards, isolation=isolation)
    assert catalog.latest().version == base.version + 1


def test_an_uncommitted_rename_is_not_seen_by_others(catalog: DeltaCatMetastore, effects: Effects) -> None:
    renamed = TableEntry("t", "n", "purchases")
    changes = Changes("r", puts={TableLocator("sales", "purchases"): renamed}, deletes=frozenset([ORDERS]))
    staged = stage_changes(catalog.latest(), changes, "1800000009999_crashed")
    effects.store.put_many(staged.files)
    for found in (catalog, _reopened(effects), _without_guards(effects.store)):
        newest = found.latest()
        assert newest.get(ORDERS) == ORDERS_TABLE
        assert newest.get(TableLocator("sales", "purchases")) is None
        assert newest.get(TableVersionLocator("n", "t", 1)) is not None


def test_as_of_before_renames_finds_the_old_names(catalog: DeltaCatMetastore, effects: Effects) -> None:
    before = catalog.latest().version
    new = TableLocator("sales", "purchases")
    commit_objects(catalog, catalog.latest(), (new, TableEntry("t", "n", "purchases")), deletes=frozenset([ORDERS]))
    between = catalog.latest().version
    old_space = frozenset([NamespaceLocator("sales")])
    commit_objects(
        catalog, catalog.latest(), (NamespaceLocator("shop"), NamespaceEntry("n", "shop")), deletes=old_space
    )
    commit_objects(catalog, catalog.latest(), make_delta(PARTITION, 1))
    times = {line.version: line.created_at_millis for line in catalog.history()}
    bare = _without_guards(effects.store)
    for found in (catalog, _reopened(effects), bare):
        assert found.at_time(times[before]).get(ORDERS) == ORDERS_TABLE
        assert found.at_time(times[between]).get(ORDERS) is None
        assert found.at_time(times[between]).get(new) is not None
        newest = found.at_time(times[between] + 10**6)
        assert newest.get(new) is None
        assert newest.get(TableLocator("shop", "purchases")) is not None
        assert _positions(newest) == [1]


def test_a_name_can_be_dropped_and_given_again_many_times(catalog: DeltaCatMetastore, effects: Effects) -> None:
    for number in range(5):
        commit_objects(catalog, catalog.latest(), deletes=frozenset([ORDERS]))
        assert catalog.latest().get(ORDERS) is None
        commit_objects(catalog, catalog.latest(), (ORDERS, TableEntry(f"t{number}", "n", "orders")))
    for found in (catalog, _reopened(effects), _without_guards(effects.store)):
        assert found.latest().get(ORDERS) == TableEntry("t4", "n", "orders")


def test_an_object_exists_until_its_last_name_is_deleted(catalog: DeltaCatMetastore) -> None:
    alias = TableLocator("sales", "alias")
    commit_objects(catalog, catalog.latest(), (alias, ORDERS_TABLE))
    newest = catalog.latest()
    assert newest.get(alias) == newest.get(ORDERS) == ORDERS_TABLE
    commit_objects(catalog, newest, deletes=frozenset([ORDERS]))
    assert catalog.latest().get(ORDERS) is None
    assert catalog.latest().get(alias) == ORDERS_TABLE
    commit_objects(catalog, catalog.latest(), deletes=frozenset([alias]))
    assert catalog.latest().get(alias) is None
    commit_objects(catalog, catalog.latest(), (ORDERS, ORDERS_TABLE))
    assert catalog.latest().get(ORDERS) == ORDERS_TABLE


def test_an_object_can_have_more_than_999_revisions(catalog: DeltaCatMetastore, effects: Effects) -> None:
    for number in range(1, 1051):
        value = TableEntry("t", "n", "orders", description=f"revision {number}")
        commit_objects(catalog, catalog.latest(), (ORDERS, value))
    then = catalog.at_version(500).commit.created_at_millis
    for found in (catalog, _reopened(effects), _without_guards(effects.store)):
        table = found.latest().get(ORDERS)
        assert isinstance(table, TableEntry)
        assert table.description == "revision 1050"
        earlier = found.at_time(then).get(ORDERS)
        assert isinstance(earlier, TableEntry)
        assert earlier.description == "revision 499"


def test_a_partitioned_table_reads_partition_by_partition(catalog: DeltaCatMetastore, effects: Effects) -> None:
    schema = Schema((Column(1, "country", Varchar()), Column(2, "id", Int64())))
    fields = (PartitionField(1, Identity(), "country"), PartitionField(2, Bucket(4), "id_bucket"))
    scheme = PartitionScheme(fields, "by-country")
    values = [("de", 0), ("de", 1), ("fr", 0), (None, 3)]
    puts: dict[Locator, Object] = {
        TableVersionLocator("n", "t", 1): TableVersion(1, schema, partition_scheme=scheme, latest_stream_id="s"),
        STREAM: Stream("s", partition_scheme_id="by-country"),
    }
    for number, pair in enumerate(values):
        way = PartitionLocator("n", "t", 1, "s", f"part-{number}")
        puts[way] = Partition(f"part-{number}", pair, "by-country")
        puts[DeltaLocator("n", "t", 1, "s", f"part-{number}", 1)] = Delta(DeltaType.APPEND)
    commit_objects(catalog, catalog.latest(), *puts.items(), deletes=frozenset([PARTITION]))
    for found in (catalog, _reopened(effects), _without_guards(effects.store)):
        newest = found.latest()
        partitions = list(newest.children(Kind.PARTITION, STREAM))
        assert [value.values for _, value in partitions if isinstance(value, Partition)] == values
        for at, _ in partitions:
            assert isinstance(at, PartitionLocator)
            assert len(list(newest.children(Kind.DELTA, at))) == 1
        described = newest.get(TableVersionLocator("n", "t", 1))
        assert isinstance(described, TableVersion)
        assert described.partition_scheme == scheme


def test_dropping_a_column_does_not_change_the_keys(catalog: DeltaCatMetastore) -> None:
    columns = (Column(1, "a", Int64()), Column(2, "b", Int64()), Column(3, "c", Int64()), Column(4, "d", Int64()))
    version = TableVersionLocator("n", "t", 1)
    commit_objects(catalog, catalog.latest(), (version, TableVersion(1, Schema(columns), keys=(4, 2))))
    dropped = Schema(columns[1:], 1, 4)
    commit_objects(
        catalog,
        catalog.latest(),
        (version, TableVersion(1, dropped, earlier_schemas=(Schema(columns),), keys=(4, 2))),
    )
    found = catalog.latest().get(version)
    assert isinstance(found, TableVersion)
    assert found.schema is not None
    assert [found.schema.column_with_id(key).name for key in found.keys] == ["d", "b"]


def test_delete_keys_and_upserted_columns_are_recorded_in_the_manifest(catalog: DeltaCatMetastore) -> None:
    deleted = DataFile("data/d.parquet", 10, 2, FileKind.KEY_DELETES, key_ids=(4, 2))
    upserted = DataFile("data/u.parquet", 10, 2, schema_id=3)
    way, _ = make_delta(PARTITION, 1)
    commit_objects(catalog, catalog.latest(), (way, Delta(DeltaType.DELETE, Manifest((deleted, upserted)))))
    found = catalog.latest().get(way)
    assert isinstance(found, Delta)
    assert found.manifest.entries == (deleted, upserted)


def test_files_of_a_lost_race_are_deleted(catalog: DeltaCatMetastore, effects: Effects) -> None:
    base = catalog.latest()
    commit_objects(catalog, base, make_delta(PARTITION, 1))
    commit_objects(catalog, base, make_delta(PARTITION, 1))
    with pytest.raises(ConflictError):
        commit_objects(
            catalog,
            base,
            make_delta(PARTITION, 1),
            deletes=frozenset([ORDERS]),
            guards=frozenset([DeltaLocator("n", "t", 1, "s", "p", 1)]),
        )
    committed = {logged.id for entry in effects.store.list("txn/") if (logged := parse_log_path(entry.path))}
    for entry in effects.store.list():
        if not entry.path.startswith((MANGROVE_FOLDER, "txn/")):
            assert parse_numbered_path(entry.path).transaction in committed


def test_the_catalog_read_without_guards_equals_the_one_with_guards(
    catalog: DeltaCatMetastore, effects: Effects
) -> None:
    deltas = make_delta(PARTITION, 1), make_delta(PARTITION, 2)
    commit_objects(catalog, catalog.latest(), *deltas)
    _replace_stream(catalog, catalog.latest())
    commit_objects(catalog, catalog.latest(), deletes=frozenset([PARTITION, *(way for way, _ in deltas)]))
    commit_objects(
        catalog,
        catalog.latest(),
        (NamespaceLocator("b"), NamespaceEntry("b-id", "b")),
        (TableLocator("b", "x"), TableEntry("x", "b-id", "x")),
    )
    commit_objects(catalog, catalog.latest(), deletes=frozenset([TableLocator("b", "x")]))
    bare = _without_guards(effects.store)
    for mine, theirs in ((catalog.latest(), bare.latest()), (catalog.at_version(2), bare.at_version(1))):
        for kind, parent in (
            (Kind.NAMESPACE, None),
            (Kind.TABLE, NamespaceLocator("sales")),
            (Kind.TABLE_VERSION, TableIdentity("n", "t")),
            (Kind.STREAM, TableVersionLocator("n", "t", 1)),
            (Kind.PARTITION, STREAM),
            (Kind.DELTA, PARTITION),
        ):
            assert list(mine.children(kind, parent)) == list(theirs.children(kind, parent))


def test_objects_below_a_stream_deleted_by_deltacat_are_not_found(catalog: DeltaCatMetastore, effects: Effects) -> None:
    commit_objects(catalog, catalog.latest(), make_delta(PARTITION, 1))
    _replace_stream(catalog, catalog.latest())
    bare = _without_guards(effects.store)
    assert list(bare.objects(bare.latest(), Kind.DELTA)) == []
    assert PARTITION not in dict(bare.objects(bare.latest(), Kind.PARTITION))
    before = bare.at_version(bare.latest().version - 1)
    gone = {one.locator for one in bare.differences(before, bare.latest()) if one.after is None}
    assert gone == {STREAM, PARTITION, make_delta(PARTITION, 1)[0]}


def test_the_stream_that_deltacat_finds_is_the_one_that_the_table_version_names(effects: Effects) -> None:
    catalog = _with_a_table(effects, DELTACAT_2)
    version = TableVersionLocator("n", "t", 1)
    second = StreamLocator("n", "t", 1, "s2")

    def found_by_deltacat() -> str:
        alias = f"n/t/1/{digest_of('deltacat')}"
        return parse_mapping_entry(_without_guards(effects.store).latest().value_of(mapping_key(alias))).target

    commit_objects(
        catalog, catalog.latest(), (second, Stream("s2")), (version, TableVersion(1, None, latest_stream_id="s2"))
    )
    assert found_by_deltacat() == "s2"
    commit_objects(catalog, catalog.latest(), (version, TableVersion(1, None, latest_stream_id="s")))
    assert found_by_deltacat() == "s"
    commit_objects(catalog, catalog.latest(), (second, Stream("s2", watermark=1)), deletes=frozenset([STREAM]))
    assert found_by_deltacat() == "s2"
