"""What maintenance needs of the DeltaCAT layout: rollback, differences, expiry, garbage, problems and repair."""

from collections.abc import Iterable

import pytest

from mangrove.effects import Effects
from mangrove.errors import ConflictError, FormatError, InvalidInputError, NotFoundError
from mangrove.layouts.deltacat.metastore import DeltaCatMetastore, create_catalog, open_catalog
from mangrove.layouts.deltacat.paths import HINT_PATH, MANGROVE_FOLDER, guard_path
from mangrove.layouts.deltacat.revision import DELTACAT_2, SEED, DeltaCatRevision
from mangrove.layouts.deltacat.staging import stage_changes
from mangrove.metastore import Changes, Isolation, MetastoreMaintenance, MetastoreSnapshot
from mangrove.model.locators import (
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.objects import NamespaceEntry, Object, Partition, Stream, TableEntry, TableVersion, ViewEntry
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import ObjectInfo
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.metastore_contract import commit_objects, make_delta, make_namespace

PARTITION = PartitionLocator("n", "t", 1, "s", "p")
ORDERS = TableLocator("sales", "orders")
SALES = NamespaceLocator("sales")


@pytest.fixture(params=[SEED, DELTACAT_2], ids=["seed", "deltacat-2"])
def revision(request: pytest.FixtureRequest) -> DeltaCatRevision:
    assert isinstance(request.param, DeltaCatRevision)
    return request.param


@pytest.fixture
def effects() -> Effects:
    return build_deterministic_effects(MemoryStore())


@pytest.fixture
def catalog(effects: Effects, revision: DeltaCatRevision) -> DeltaCatMetastore:
    catalog = create_catalog(effects, LakehouseSettings(), Changes("made"), revision)
    commit_objects(
        catalog,
        catalog.latest(),
        (SALES, NamespaceEntry("n", "sales")),
        (ORDERS, TableEntry("t", "n", "orders")),
        (TableVersionLocator("n", "t", 1), TableVersion(1, None, latest_stream_id="s")),
        (StreamLocator("n", "t", 1, "s"), Stream("s")),
        (PARTITION, Partition("p")),
        (ViewLocator("sales", "daily"), ViewEntry("v", "daily", "select 1")),
    )
    return catalog


def _everything(catalog: DeltaCatMetastore, snapshot: MetastoreSnapshot) -> dict[Locator, Object]:
    return {way: value for kind in Kind if kind is not Kind.LAKEHOUSE for way, value in catalog.objects(snapshot, kind)}


def _changed(catalog: DeltaCatMetastore, before: int, after: int) -> dict[Locator, tuple[Object | None, Object | None]]:
    found = catalog.differences(catalog.at_version(before), catalog.at_version(after))
    return {one.locator: (one.before, one.after) for one in found}


def test_the_metastore_implements_the_maintenance_interface(catalog: DeltaCatMetastore) -> None:
    maintenance: MetastoreMaintenance = catalog
    assert [line.version for line in maintenance.list_retained()] == [0, 1]


def test_differences_list_the_objects_that_differ_between_two_versions(catalog: DeltaCatMetastore) -> None:
    commit_objects(
        catalog, catalog.latest(), make_delta(PARTITION, 1), (TableLocator("sales", "x"), TableEntry("x", "n", "x"))
    )
    commit_objects(catalog, catalog.latest(), (ORDERS, TableEntry("t", "n", "orders", description="new")))
    commit_objects(catalog, catalog.latest(), deletes=frozenset([TableLocator("sales", "x")]))
    versions = range(catalog.latest().version + 1)
    for before in versions:
        for after in versions:
            old = _everything(catalog, catalog.at_version(before))
            new = _everything(catalog, catalog.at_version(after))
            expected = {
                way: (old.get(way), new.get(way)) for way in old.keys() | new.keys() if old.get(way) != new.get(way)
            }
            assert _changed(catalog, before, after) == expected
            assert list(_changed(catalog, before, after)) == sorted(expected)


def test_a_namespace_rename_is_a_difference_of_all_its_objects(catalog: DeltaCatMetastore) -> None:
    commit_objects(
        catalog, catalog.latest(), (NamespaceLocator("shop"), NamespaceEntry("n", "shop")), deletes=frozenset([SALES])
    )
    changed = _changed(catalog, 1, 2)
    assert set(changed) == {
        SALES,
        ORDERS,
        ViewLocator("sales", "daily"),
        NamespaceLocator("shop"),
        TableLocator("shop", "orders"),
        ViewLocator("shop", "daily"),
    }
    assert changed[ORDERS] == (TableEntry("t", "n", "orders"), None)


def test_a_rollback_restores_exactly_the_objects_of_the_version(catalog: DeltaCatMetastore, effects: Effects) -> None:
    commit_objects(catalog, catalog.latest(), make_delta(PARTITION, 1), make_delta(PARTITION, 2))
    target = catalog.latest()
    wanted = _everything(catalog, target)
    below = {way for way in wanted if way.kind >= Kind.TABLE_VERSION}
    commit_objects(catalog, catalog.latest(), deletes=frozenset([ORDERS, *below]))
    commit_objects(
        catalog, catalog.latest(), (NamespaceLocator("shop"), NamespaceEntry("n", "shop")), deletes=frozenset([SALES])
    )
    commit_objects(
        catalog,
        catalog.latest(),
        (ORDERS.parent, NamespaceEntry("m", "sales")),
        (ORDERS, TableEntry("u", "m", "orders")),
    )
    commit_objects(catalog, catalog.latest(), make_delta(PARTITION, 3), settings=LakehouseSettings(name="changed"))
    before = catalog.latest()
    after = catalog.roll_back(target, Changes("undo", message="undo"))
    assert _everything(catalog, after) == wanted
    assert after.settings == target.settings
    assert (after.version, after.commit.rolled_back_from) == (before.version + 1, before.version)
    bare = MemoryStore()
    for entry in effects.store.list():
        if isinstance(entry, ObjectInfo) and not entry.path.startswith(MANGROVE_FOLDER):
            bare.put(entry.path, effects.store.read(entry.path))
    seen = open_catalog(build_deterministic_effects(bare))
    views = {way for way in wanted if way.kind is Kind.VIEW}
    assert _everything(seen, seen.latest()) == {way: value for way, value in wanted.items() if way not in views}
    assert _everything(catalog, catalog.roll_back(before, Changes("redo"))) == _everything(catalog, before)


def test_a_rollback_conflicts_with_every_concurrent_commit(catalog: DeltaCatMetastore) -> None:
    base = catalog.latest()
    catalog.roll_back(catalog.at_version(0), Changes("undo"))
    with pytest.raises(ConflictError, match="rolled back"):
        commit_objects(catalog, base, (NamespaceLocator("other"), NamespaceEntry("o", "other")))
    with pytest.raises(InvalidInputError, match="cannot contain other changes"):
        catalog.roll_back(base, Changes("undo", deletes=frozenset([SALES])))


def test_an_expired_version_is_not_found_and_its_number_is_not_reused(
    catalog: DeltaCatMetastore, effects: Effects
) -> None:
    old = catalog.at_version(1)
    for position in range(1, 6):
        commit_objects(catalog, catalog.latest(), make_delta(PARTITION, position))
    newest = _everything(catalog, catalog.latest())
    catalog.expire([0, 2, 3])
    for found in (catalog, open_catalog(build_deterministic_effects(effects.store, first_id=10**6))):
        assert [line.version for line in found.list_retained()] == [1, 4, 5, 6]
        assert _everything(found, found.latest()) == newest
        with pytest.raises(NotFoundError, match="version 2"):
            found.at_version(2)
    with pytest.raises(ConflictError, match="expired"):
        commit_objects(catalog, old, make_delta(PARTITION, 1))
    assert effects.store.exists(guard_path(2))
    with pytest.raises(InvalidInputError, match="newest"):
        catalog.expire([6])
    with pytest.raises(NotFoundError, match="99"):
        catalog.expire([99])


def _vacuum(catalog: DeltaCatMetastore, effects: Effects, versions: Iterable[int]) -> list[str]:
    """Delete the garbage, as maintenance does when its grace time is over."""
    needed = set(catalog.files_of([catalog.at_version(version) for version in versions]))
    garbage = [entry.path for entry in effects.store.list() if catalog.owns(entry.path) and entry.path not in needed]
    effects.store.delete_many(garbage)
    return garbage


def test_files_of_a_crashed_writer_can_be_deleted(catalog: DeltaCatMetastore, effects: Effects) -> None:
    crashed = Changes("x", puts=dict([make_delta(PARTITION, 1)]), deletes=frozenset([ORDERS]))
    staged = stage_changes(catalog.latest(), crashed, "1800000009999_crashed")
    effects.store.put_many(staged.files)
    commit_objects(catalog, catalog.latest(), make_delta(PARTITION, 1))
    before = _everything(catalog, catalog.latest())
    kept = [line.version for line in catalog.list_retained()]
    assert set(_vacuum(catalog, effects, kept)) == set(staged.files)
    reopened = open_catalog(build_deterministic_effects(effects.store, first_id=10**6))
    assert _everything(reopened, reopened.latest()) == before
    assert list(reopened.problems(reopened.latest())) == []
    assert _vacuum(reopened, effects, kept) == []


def test_expiry_frees_the_index_nodes_that_only_old_versions_needed(
    catalog: DeltaCatMetastore, effects: Effects
) -> None:
    for position in range(1, 400):
        commit_objects(catalog, catalog.latest(), make_delta(PARTITION, position))
    newest = catalog.latest()
    catalog.expire(range(newest.version))
    garbage = _vacuum(catalog, effects, [newest.version])
    assert garbage
    freed = {path for path in garbage if not path.startswith("mangrove/node/")}
    partitions = {path for path in freed if path.startswith("n/t/1/s/p/rev/")}
    assert all(path.startswith("txn/") for path in freed - partitions)
    reopened = open_catalog(build_deterministic_effects(effects.store, first_id=10**6))
    assert len(list(reopened.latest().children(Kind.DELTA, PARTITION))) == 399
    assert list(reopened.problems(reopened.latest())) == []


def test_problems_lists_each_damaged_or_missing_file(catalog: DeltaCatMetastore, effects: Effects) -> None:
    commit_objects(catalog, catalog.latest(), make_delta(PARTITION, 1))
    newest = catalog.latest()
    assert list(catalog.problems(newest)) == []
    (path,) = [entry.path for entry in effects.store.list("n/t/1/s/p/1/")]
    data = effects.store.read(path)
    effects.store.put(path, data[:-5])
    assert [problem.path for problem in catalog.problems(newest)] == [path]
    effects.store.delete_many([path])
    assert [problem.path for problem in catalog.problems(newest)] == [path]
    fresh = open_catalog(build_deterministic_effects(effects.store, first_id=10**6)).latest()
    with pytest.raises(FormatError, match="missing"):
        list(fresh.children(Kind.DELTA, PARTITION))
    effects.store.put(path, data)
    effects.store.delete_many([newest.guard.log_path])
    assert {problem.rule.split(" is ")[-1] for problem in catalog.problems(newest)} == {"not in the log"}


def test_an_unreadable_delete_revision_and_a_missing_log_are_reported(
    catalog: DeltaCatMetastore, effects: Effects
) -> None:
    commit_objects(catalog, catalog.latest(), deletes=frozenset([ORDERS]))
    dropped = catalog.latest()
    commit_objects(catalog, dropped, make_namespace("more"))
    newest = catalog.latest()
    assert list(catalog.problems(newest)) == []
    (path,) = [entry.path for entry in effects.store.list("n/t/rev/") if "_delete_" in entry.path]
    data = effects.store.read(path)
    effects.store.put(path, data[:-5])
    assert [problem.path for problem in catalog.problems(newest)] == [path]
    effects.store.put(path, data)
    effects.store.delete_many([dropped.guard.log_path])
    assert dropped.guard.log_path in [problem.path for problem in catalog.problems(newest)]


def test_repair_completes_the_newest_version_and_the_hint(catalog: DeltaCatMetastore, effects: Effects) -> None:
    assert catalog.repair() == []
    newest = catalog.latest()
    effects.store.delete_many([newest.guard.log_path])
    effects.store.put(HINT_PATH, b"77")
    assert len(catalog.repair()) == 2
    assert catalog.repair() == []
    assert list(catalog.problems(newest)) == []
    assert effects.store.read(HINT_PATH) == b"1"
    catalog.commit(newest, Changes("x", deletes=frozenset([ORDERS])), Isolation.SNAPSHOT)


def test_every_object_has_its_history(catalog: DeltaCatMetastore, effects: Effects) -> None:
    for number in range(3):
        commit_objects(catalog, catalog.latest(), (ORDERS, TableEntry("t", "n", "orders", description=f"{number}")))
    then = catalog.latest()
    new = TableLocator("sales", "purchases")
    commit_objects(catalog, catalog.latest(), (new, TableEntry("t", "n", "purchases")), deletes=frozenset([ORDERS]))
    for entry in list(effects.store.list("n/t/rev/")):
        transaction = entry.path.rpartition("_")[0].rpartition("_")[2]
        effects.store.put(entry.path.replace(f"{transaction}_", "1799999999999999983_"), b"an orphan")
    newest = catalog.latest()
    found = catalog.list_revisions(newest, new)
    assert [(one.number, one.operation) for one in found] == [
        (1, "create"),
        *((number, "update") for number in range(2, 6)),
    ]
    assert [one.value.name for one in found if isinstance(one.value, TableEntry)] == ["orders"] * 4 + ["purchases"]
    assert catalog.list_revisions(then, ORDERS) == found[:4]
    assert catalog.list_revisions(newest, ORDERS) == []
    commit_objects(catalog, newest, make_delta(PARTITION, 1))
    (only,) = catalog.list_revisions(catalog.latest(), make_delta(PARTITION, 1)[0])
    assert only.operation == "create"
