"""Expiry and vacuum free revisions, mappings and logs that no kept version needs, and nothing that one needs."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.maintenance.test_maintenance_machine import HookedStore

import mangrove
from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.layouts.deltacat.metastore import DeltaCatMetastore, open_catalog
from mangrove.layouts.deltacat.paths import MANGROVE_FOLDER, VERSION_FOLDER
from mangrove.maintenance.vacuum import vacuum_files
from mangrove.model.locators import Kind, Locator
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType, Object
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import ObjectInfo, Store
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.faulty_store import SimulatedCrash
from mangrove.transaction.transaction import youngest_expirable_millis

LAYOUTS = ["deltacat", "deltacat-2"]
REQUESTS_MAX = 80
StoreT = TypeVar("StoreT", bound=MemoryStore)
_REFUSED = (AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError)


def make(store: Store, layout: str, clock: Clock | None = None) -> Lakehouse:
    """Return a new lakehouse of which all but two versions may expire."""
    lake = create_on_store(build_deterministic_effects(store, clock or Clock(tick_millis=1)), layout=layout)
    lake.alter({"transaction.time-limit-millis": "1000"}, maximum_version_age_millis=1, minimum_versions_to_keep=2)
    return without_engine(lake)


def reopen(store: Store, clock: Clock | None = None, number: int = 1) -> Lakehouse:
    return without_engine(
        open_on_store(build_deterministic_effects(store, clock or Clock(2 * 10**12), first_id=10**9 * number))
    )


def without_engine(lake: Lakehouse) -> Lakehouse:
    """Return the lakehouse without what reads rows: most data files of these tests hold none."""
    lake.engines = None
    return lake


def add_rows(lake: Lakehouse, table: str, name: str) -> None:
    lake.effects.store.put(f"data/{name}.parquet", b"rows")
    with lake.transaction() as transaction:
        transaction.add_delta(table, (), Delta(DeltaType.APPEND, Manifest((DataFile(f"data/{name}.parquet", 4, 1),))))


ACTIONS: list[Callable[[Lakehouse, int], object]] = [
    lambda lake, at: lake.create_namespace(f"n{at % 2}"),
    lambda lake, at: lake.create_table(f"n{at % 2}.t{at % 3}", "id int"),
    lambda lake, at: lake.create_table(f"n{at % 2}.t{at % 3}", "id int"),
    lambda lake, at: add_rows(lake, f"n{at % 2}.t{at % 3}", f"f{at}-{lake.version}"),
    lambda lake, at: add_rows(lake, f"n{at % 2}.t{at % 3}", f"g{at}-{lake.version}"),
    lambda lake, at: lake.table(f"n{at % 2}.t{at % 3}").alter({"at": str(lake.version)}),
    lambda lake, at: lake.rename_table(f"n{at % 2}.t{at % 3}", f"n{(at + 1) % 2}.t{(at + 2) % 3}"),
    lambda lake, at: lake.drop_table(f"n{at % 2}.t{at % 3}"),
    lambda lake, at: lake.create_view(f"n{at % 2}.v", "select 1"),
    lambda lake, at: lake.drop_view(f"n{at % 2}.v"),
    lambda lake, at: lake.rename_namespace(f"n{at % 2}", f"n{(at + 1) % 2}"),
    lambda lake, at: lake.drop_namespace(f"n{at % 2}"),
    lambda lake, at: lake.rollback(to=max(1, lake.version - 1 - at % 3)),
]


def act(lake: Lakehouse, action: int, at: int) -> None:
    try:
        ACTIONS[action](lake, at)
    except _REFUSED:
        return


def catalog_of(lake: Lakehouse) -> DeltaCatMetastore:
    assert isinstance(lake.metastore, DeltaCatMetastore)
    return lake.metastore


def everything(catalog: DeltaCatMetastore, version: int | None = None) -> dict[Locator, Object]:
    snapshot = catalog.latest() if version is None else catalog.at_version(version)
    return {at: value for kind in Kind if kind is not Kind.LAKEHOUSE for at, value in catalog.objects(snapshot, kind)}


def seen_by_deltacat(store: Store) -> dict[Locator, Object]:
    """Return what is there for a program that knows revisions, mappings and the log, and nothing of Mangrove's."""
    bare = MemoryStore()
    for entry in store.list():
        if isinstance(entry, ObjectInfo) and not entry.path.startswith(MANGROVE_FOLDER):
            bare.put(entry.path, store.read(entry.path))
    return everything(open_catalog(build_deterministic_effects(bare)))


def without_views(found: dict[Locator, Object]) -> dict[Locator, Object]:
    ours = (Kind.VIEW, Kind.SHARED_TRANSACTION)
    return {at: value for at, value in found.items() if at.kind not in ours}


@pytest.mark.parametrize("layout", LAYOUTS)
@given(actions=st.lists(st.tuples(st.integers(0, len(ACTIONS) - 1), st.integers(0, 5)), min_size=4, max_size=40))
@settings(max_examples=25)
def test_every_retained_version_is_unchanged_after_expiry_and_vacuum(
    layout: str, actions: list[tuple[int, int]]
) -> None:
    store = MemoryStore()
    lake = make(store, layout)
    act(lake, 0, 0)
    act(lake, 1, 0)
    for action, at in actions:
        act(lake, action, at)
    deltacat_before = seen_by_deltacat(store)
    before = {
        commit.version: everything(catalog_of(lake), commit.version) for commit in catalog_of(lake).list_retained()
    }
    lake.maintenance.expire(alone=True)
    lake.maintenance.vacuum(alone=True)
    fresh = reopen(store)
    kept = [commit.version for commit in catalog_of(fresh).list_retained()]
    assert len(kept) == 2
    assert {version: everything(catalog_of(fresh), version) for version in kept} == {
        version: before[version] for version in kept
    }
    assert not fresh.maintenance.check().problems
    changed = {one.locator for one in catalog_of(fresh).differences(*map(catalog_of(fresh).at_version, kept))}
    old, new = before[kept[0]], before[kept[1]]
    assert changed == {at for at in old.keys() | new.keys() if old.get(at) != new.get(at)}
    assert seen_by_deltacat(store) == deltacat_before
    assert fresh.maintenance.vacuum(alone=True).paths == ()
    for action, at in actions:
        act(fresh, action, at)
    assert not reopen(store, number=2).maintenance.check().problems


class DeletingStore(MemoryStore):
    """A store whose process dies after some deletions, which it makes one by one from either end."""

    deletions_left: int | None = None
    is_reversed = False

    def delete_many(self, paths: Iterable[str]) -> None:
        listed = list(paths)
        for path in listed[::-1] if self.is_reversed else listed:
            if self.deletions_left == 0:
                raise SimulatedCrash
            super().delete_many([path])
            if self.deletions_left is not None:
                self.deletions_left -= 1


def copy_objects(before: MemoryStore, store: StoreT) -> StoreT:
    """Return the store with the same objects, as old as they are."""
    store._objects.update(before._objects)
    return store


def dropped_and_renamed(store: Store, layout: str) -> Lakehouse:
    lake = make(store, layout)
    lake.create_namespace("n")
    lake.create_namespace("gone")
    for name in ("n.t", "n.old", "gone.u"):
        lake.create_table(name, "id int")
        add_rows(lake, name, name)
    lake.rename_table("n.old", "n.new")
    lake.drop_table("gone.u")
    lake.drop_namespace("gone")
    lake.table("n.t").alter({"a": "1"})
    lake.table("n.t").alter({"a": "2"})
    return lake


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_vacuum_that_crashes_after_any_deletion_restores_no_deleted_object(layout: str, is_reversed: bool) -> None:
    before = MemoryStore()
    lake = dropped_and_renamed(before, layout)
    expected = everything(catalog_of(lake))
    lake.maintenance.expire(alone=True)
    for deletions in range(200):
        store = copy_objects(before, DeletingStore())
        store.deletions_left, store.is_reversed = deletions, is_reversed
        try:
            reopen(store, number=2).maintenance.vacuum(alone=True)
            died = False
        except SimulatedCrash:
            died = True
        store.deletions_left = None
        fresh = reopen(store)
        assert everything(catalog_of(fresh)) == expected
        assert seen_by_deltacat(store) == without_views(expected)
        assert not fresh.maintenance.check().problems
        fresh.maintenance.vacuum(alone=True)
        assert not any("gone" in str(at) for at in seen_by_deltacat(store))
        if not died:
            assert deletions > 20
            return
    pytest.fail("more files were deleted than expected: interrupt each deletion")


@pytest.mark.parametrize("is_writer_interrupted", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_expiry_and_vacuum_between_any_requests_do_not_affect_writers(layout: str, is_writer_interrupted: bool) -> None:
    began = Clock(tick_millis=1)
    before = HookedStore("memory://bucket/", began)
    safe_millis = youngest_expirable_millis(dropped_and_renamed_at(before, layout, began).settings)
    for requests in range(1, REQUESTS_MAX):
        clock = Clock(began.now_millis + 10 * safe_millis, tick_millis=1)
        store = copy_objects(before, HookedStore("memory://bucket/", clock))
        interrupted: list[int] = []
        writer, cleaner = reopen(store, clock, 2), reopen(store, clock, 3)

        def write(writer: Lakehouse = writer) -> None:
            add_rows(writer, "n.t", "later")
            writer.table("n.t").alter({"a": "3"})
            writer.create_table("n.old", "id int")

        def clean_up(cleaner: Lakehouse = cleaner, grace_millis: int = safe_millis) -> None:
            cleaner.maintenance.expire()
            vacuum_files(cleaner.maintenance.context(), grace_millis=grace_millis)

        first, second = (write, clean_up) if is_writer_interrupted else (clean_up, write)

        def interrupt(second: Callable[[], None] = second, interrupted: list[int] = interrupted) -> None:
            interrupted.append(1)
            second()

        store.interrupt(requests, interrupt)
        first()
        store.settle()
        fresh = reopen(store, clock, 4)
        if interrupted or is_writer_interrupted:
            assert {table.name for table in fresh.tables("n")} == {"t", "new", "old"}
        assert not fresh.maintenance.check().problems
        clock.now_millis += 10 * safe_millis
        clean_up()
        fresh = reopen(store, clock, 5)
        assert not fresh.maintenance.check().problems
        assert seen_by_deltacat(store) == without_views(everything(catalog_of(fresh)))
        if not interrupted:
            return
    pytest.fail(f"more than {REQUESTS_MAX} requests were made: interrupt all of them")


def dropped_and_renamed_at(store: Store, layout: str, clock: Clock) -> Lakehouse:
    lake = make(store, layout, clock)
    lake.create_namespace("n")
    for name in ("n.t", "n.old", "n.u"):
        lake.create_table(name, "id int")
        add_rows(lake, name, name)
    lake.rename_table("n.old", "n.new")
    lake.drop_table("n.u")
    for number in range(3):
        lake.table("n.t").alter({"a": str(number)})
    return lake


def files_after(upserts: int, layout: str, folder: Path) -> int:
    """Return how many files are there but markers of versions, when so many upserts were compacted and expired."""
    lake = mangrove.create(str(folder), layout=layout)
    lake.create_namespace("shop")
    lake.alter(maximum_version_age_millis=1, minimum_versions_to_keep=2)
    table = lake.create_table("shop.orders", "id long, v long", keys=["id"])
    for number in range(upserts):
        rows = {"id": pa.array([number % 7], pa.int64()), "v": pa.array([number], pa.int64())}
        table.upsert(pa.table(rows))
    table.compact(full=True)
    table.alter({"a": "1"})
    table.alter({"a": "2"})
    expected = table.to_arrow().sort_by("id")
    lake.maintenance.expire(alone=True)
    lake.maintenance.vacuum(alone=True)
    assert not lake.maintenance.check().problems
    assert mangrove.open(str(folder)).table("shop.orders").to_arrow().sort_by("id") == expected
    return sum(not entry.path.startswith(VERSION_FOLDER) for entry in lake.effects.store.list())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_do_not_grow_with_the_upserts_that_expired(layout: str, tmp_path: Path) -> None:
    few, many = files_after(20, layout, tmp_path / "few"), files_after(200, layout, tmp_path / "many")
    assert many <= few + 10, "index nodes may be a few more"
    assert many < 50
