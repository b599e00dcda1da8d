"""What DeltaCAT commits beside us, without a guard, becomes versions when it is absorbed."""

from dataclasses import replace

import pytest

from mangrove.effects import Effects
from mangrove.errors import ConflictError
from mangrove.lakehouse.maintenance import build_conversion_target
from mangrove.layouts.deltacat.metastore import DeltaCatMetastore, create_catalog, open_catalog
from mangrove.layouts.deltacat.msgpack_maps import encode_map
from mangrove.layouts.deltacat.revision import DELTACAT_2, SEED
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot
from mangrove.layouts.deltacat.staging import stage_changes
from mangrove.layouts.deltacat.transaction_log import build_transaction_id, encode_log, minute_log_path
from mangrove.maintenance.check import check_lakehouse
from mangrove.maintenance.clock_repair import repair_clock
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.convert.conversion import convert_lakehouse
from mangrove.metastore import Changes, MetastoreSnapshot
from mangrove.model.locators import (
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
)
from mangrove.model.objects import Delta, NamespaceEntry, Object, Partition, Stream, TableEntry, TableVersion
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.metastore_contract import commit_objects, make_delta

STREAM = StreamLocator("n", "t", 1, "s")
PARTITION = PartitionLocator("n", "t", 1, "s", "p")
ORDERS = TableLocator("sales", "orders")
VERSION = TableVersionLocator("n", "t", 1)


@pytest.fixture
def effects() -> Effects:
    return build_deterministic_effects(MemoryStore("memory://catalog/"))


@pytest.fixture
def catalog(effects: Effects) -> DeltaCatMetastore:
    return _with_a_table(effects)


def _with_a_table(effects: Effects) -> DeltaCatMetastore:
    catalog = create_catalog(effects, LakehouseSettings(), Changes("made"), DELTACAT_2)
    commit_objects(
        catalog,
        catalog.latest(),
        (NamespaceLocator("sales"), NamespaceEntry("n", "sales")),
        (ORDERS, TableEntry("t", "n", "orders")),
        (VERSION, TableVersion(1, None, latest_stream_id="s")),
        (STREAM, Stream("s")),
        (PARTITION, Partition("p")),
    )
    return catalog


def _beside(
    effects: Effects,
    base: DeltaCatSnapshot,
    *objects: tuple[Locator, Object],
    deletes: frozenset[Locator] = frozenset(),
    unique: str = "theirs",
) -> str:
    """Commit as DeltaCAT does: revision files and a log, and no guard."""
    start = base.commit.created_at_millis * 1_000_000 + 123_456
    transaction = build_transaction_id(start, unique)
    changes = Changes("x", puts=dict(objects), deletes=deletes, message="of DeltaCAT")
    staged = stage_changes(base, changes, transaction)
    effects.store.put_many(staged.files)
    log = encode_log(transaction, start + 500, staged.operations, changes)
    del log["mangrove"]
    effects.store.put(minute_log_path(transaction, start + 500), encode_map(log))
    return transaction


def _positions(snapshot: MetastoreSnapshot) -> list[str | int]:
    return [way.parts[-1] for way, _ in snapshot.children(Kind.DELTA, PARTITION)]


def test_a_concurrent_append_of_deltacat_becomes_a_version(catalog: DeltaCatMetastore, effects: Effects) -> None:
    commit_objects(catalog, catalog.latest(), make_delta(PARTITION, 1))
    before = catalog.latest()
    transaction = _beside(effects, before, make_delta(PARTITION, 2, writer="DeltaCAT"))
    assert catalog.latest().version == before.version
    (version,) = catalog.import_foreign_commits()
    assert version.version == before.version + 1
    assert (version.commit.transaction_id, version.commit.message) == (transaction, "of DeltaCAT")
    assert _positions(version) == [1, 2]
    assert _positions(before) == [1]
    commit_objects(catalog, catalog.latest(), make_delta(PARTITION, 3))
    other = open_catalog(build_deterministic_effects(effects.store, first_id=10**6))
    assert _positions(other.latest()) == [1, 2, 3]
    times = [line.created_at_millis for line in other.history()]
    assert times == sorted(set(times), reverse=True)


def test_opening_the_catalog_absorbs_transactions_of_deltacat(effects: Effects) -> None:
    catalog = _with_a_table(effects)
    commit_objects(catalog, catalog.latest(), make_delta(PARTITION, 1))
    _beside(effects, catalog.latest(), make_delta(PARTITION, 2, writer="DeltaCAT"))
    other = open_catalog(build_deterministic_effects(effects.store, first_id=10**6))
    assert _positions(other.latest()) == [1]
    commit_objects(other, other.latest(), make_delta(PARTITION, 2, writer="ours"))
    assert _positions(other.latest()) == [1, 2, 3]
    assert [line.message for line in other.history()][:2] == ["", "of DeltaCAT"]


def test_an_open_writer_checks_for_transactions_of_deltacat_every_minute(effects: Effects) -> None:
    clock = Clock()
    catalog = _with_a_table(replace(effects, now_millis=clock.read))
    _beside(effects, catalog.latest(), make_delta(PARTITION, 1, writer="DeltaCAT"))
    clock.now_millis += 60_000
    commit_objects(catalog, catalog.latest(), make_delta(PARTITION, 1, writer="ours"))
    assert _positions(catalog.latest()) == [1, 2]


def test_a_write_conflicts_with_a_concurrent_transaction_of_deltacat(effects: Effects) -> None:
    catalog = _with_a_table(effects)
    renamed = TableLocator("sales", "purchases")
    _beside(effects, catalog.latest(), (renamed, TableEntry("t", "n", "purchases")), deletes=frozenset([ORDERS]))
    other = open_catalog(build_deterministic_effects(effects.store, first_id=10**6))
    with pytest.raises(ConflictError, match="changed it first"):
        commit_objects(other, other.latest(), (ORDERS, TableEntry("t", "n", "orders", description="ours")))
    assert other.latest().get(renamed) is not None


def test_check_with_repair_absorbs_transactions_of_deltacat(effects: Effects) -> None:
    catalog = _with_a_table(effects)
    transaction = _beside(effects, catalog.latest(), make_delta(PARTITION, 1))
    lake = MaintenanceContext(effects, catalog, catalog)
    assert _positions(catalog.latest()) == []
    assert any(transaction in line for line in check_lakehouse(lake, repair=True).repaired)
    assert _positions(catalog.latest()) == [1]


def test_a_conversion_reports_transactions_of_deltacat_that_are_not_absorbed(effects: Effects) -> None:
    catalog = _with_a_table(effects)
    transaction = _beside(effects, catalog.latest(), make_delta(PARTITION, 1))
    lake = MaintenanceContext(effects, catalog, catalog)
    report = convert_lakehouse(lake, build_conversion_target(MemoryStore("memory://one/"), "tree"))
    assert [transaction in note for note in report.notes] == [True]
    catalog.import_foreign_commits()
    assert convert_lakehouse(lake, build_conversion_target(MemoryStore("memory://two/"), "tree")).notes == ()


def test_a_transaction_is_absorbed_only_once(catalog: DeltaCatMetastore, effects: Effects) -> None:
    _beside(effects, catalog.latest(), make_delta(PARTITION, 1))
    other = open_catalog(build_deterministic_effects(effects.store, first_id=10**6))
    assert len(catalog.import_foreign_commits()) == 1
    assert catalog.import_foreign_commits() == []
    assert other.import_foreign_commits() == []
    commit_objects(other, other.latest(), make_delta(PARTITION, 2))
    assert other.import_foreign_commits() == []
    assert _positions(other.latest()) == [1, 2]


def test_transactions_of_mangrove_are_not_absorbed(catalog: DeltaCatMetastore) -> None:
    for position in range(1, 20):
        commit_objects(catalog, catalog.latest(), make_delta(PARTITION, position))
    assert catalog.import_foreign_commits() == []


def test_renames_of_deltacat_are_followed(catalog: DeltaCatMetastore, effects: Effects) -> None:
    new, space = TableLocator("sales", "purchases"), NamespaceLocator("shop")
    _beside(
        effects, catalog.latest(), (new, TableEntry("t", "n", "purchases")), deletes=frozenset([ORDERS]), unique="one"
    )
    catalog.import_foreign_commits()
    assert catalog.latest().get(ORDERS) is None
    assert catalog.latest().get(new) == TableEntry("t", "n", "purchases")
    old = frozenset([NamespaceLocator("sales")])
    _beside(effects, catalog.latest(), (space, NamespaceEntry("n", "shop")), deletes=old, unique="two")
    catalog.import_foreign_commits()
    assert catalog.latest().get(TableLocator("shop", "purchases")) == TableEntry("t", "n", "purchases")
    assert catalog.latest().get(NamespaceLocator("sales")) is None
    commit_objects(catalog, catalog.latest(), deletes=frozenset([TableLocator("shop", "purchases")]))
    assert list(catalog.latest().children(Kind.TABLE, space)) == []


def test_a_stream_that_deltacat_replaced_is_the_tables_stream(catalog: DeltaCatMetastore, effects: Effects) -> None:
    base = catalog.latest()
    new = StreamLocator("n", "t", 1, "s2")
    _beside(effects, base, (new, Stream("s2", previous_id="s")), deletes=frozenset([STREAM]))
    catalog.import_foreign_commits()
    described = catalog.latest().get(VERSION)
    assert isinstance(described, TableVersion)
    assert described.latest_stream_id == "s2"
    before = catalog.at_version(base.version).get(VERSION)
    assert isinstance(before, TableVersion)
    assert before.latest_stream_id == "s"


def test_an_acknowledged_delta_wins_over_a_delta_of_deltacat_at_the_same_position(
    catalog: DeltaCatMetastore, effects: Effects
) -> None:
    base = catalog.latest()
    commit_objects(catalog, base, make_delta(PARTITION, 1, writer="ours"))
    _beside(effects, base, make_delta(PARTITION, 1, writer="theirs"))
    (version,) = catalog.import_foreign_commits()
    ((_, delta),) = version.children(Kind.DELTA, PARTITION)
    assert isinstance(delta, Delta)
    assert delta.properties == {"writer": "ours"}
    assert "n/t/1/s/p/1/rev" in version.commit.properties["deltacat.overruled"]


def test_the_seed_revision_absorbs_nothing() -> None:
    catalog = create_catalog(build_deterministic_effects(MemoryStore()), LakehouseSettings(), Changes("made"), SEED)
    assert catalog.import_foreign_commits() == []


def test_a_clock_repair_absorbs_concurrent_transactions_of_deltacat_only_once() -> None:
    clock = Clock()
    effects = build_deterministic_effects(MemoryStore("memory://catalog/"), clock)
    catalog = _with_a_table(effects)
    _beside(effects, catalog.latest(), make_delta(PARTITION, 1, writer="DeltaCAT"), unique="first")
    catalog.import_foreign_commits()
    right = catalog.latest()
    years_millis = 200 * 366 * 24 * 60 * 60 * 1000
    clock.now_millis += years_millis
    commit_objects(catalog, catalog.latest(), make_delta(PARTITION, 2))
    clock.now_millis += 1 - years_millis
    # Its base is dated rightly, and so is it, though its positions follow what is there.
    _beside(effects, right, make_delta(PARTITION, 3, writer="DeltaCAT"), unique="second")
    clock.now_millis += 5 * 60 * 60 * 1000
    version = repair_clock(MaintenanceContext(effects, catalog, catalog))
    assert version == right.version + 3
    assert _positions(catalog.latest()) == [1, 2, 3]
    assert catalog.list_foreign_commits() == []
    assert (
        open_catalog(build_deterministic_effects(effects.store, clock, first_id=10**6)).import_foreign_commits() == []
    )
    assert catalog.at_time(clock.now_millis).version == version
