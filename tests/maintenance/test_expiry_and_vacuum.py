"""Expiry and vacuum on a tree, with others at work at the worst moment."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from mangrove.effects import Effects
from mangrove.errors import FormatError, InvalidInputError, NotFoundError, StorageError
from mangrove.layouts.deltacat.metastore import create_catalog, open_catalog
from mangrove.layouts.tree.metastore import create_tree, open_tree
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.expiry import GRACE_MILLIS, expire_versions
from mangrove.maintenance.export import drop_export, pin_version
from mangrove.maintenance.progress import Progress
from mangrove.maintenance.reachability import visit_reachable_files
from mangrove.maintenance.vacuum import vacuum_files
from mangrove.maintenance.version_files import find_version_file, is_version_file
from mangrove.metastore import Changes, Metastore, MetastoreMaintenance
from mangrove.model.locators import SharedTransactionLocator
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType, Partition, SharedTransactionEntry, Stream, TableType, TableVersion
from mangrove.model.paths import TEMPORARY_PREFIX
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.storage.opening import open_store
from mangrove.storage.port import ListEntry, ObjectInfo, Store
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.faulty_store import Faults, FaultyStore
from mangrove.testing.metastore_contract import (
    PARTITION,
    commit_objects,
    make_delta_locator,
    make_namespace,
    make_table,
)
from mangrove.transaction.transaction import youngest_expirable_millis

LIMIT_MILLIS = 1_000
AGE_MILLIS = 10_000_000
SETTINGS = LakehouseSettings(
    order=4,
    properties={"tree.inline-definition-max-bytes": "0", "transaction.time-limit-millis": str(LIMIT_MILLIS)},
    maximum_version_age_millis=AGE_MILLIS,
    minimum_versions_to_keep=2,
)
SAFE_MILLIS = youngest_expirable_millis(SETTINGS)


class MetastoreWithMaintenance(Metastore, MetastoreMaintenance, Protocol):
    """A metastore that is its own upkeep, as those of both layouts are."""


class Layout(NamedTuple):
    """How a lakehouse of a layout is made and opened."""

    create: Callable[[Effects, LakehouseSettings, Changes], MetastoreWithMaintenance]
    open: Callable[[Effects], MetastoreWithMaintenance]


TREE = Layout(create_tree, open_tree)
CATALOG = Layout(create_catalog, open_catalog)
LAYOUTS = {"tree": TREE, "deltacat": CATALOG}


class Lake:
    """A lakehouse of one table, whose deltas have data files of a few bytes."""

    def __init__(
        self, store: Store, clock: Clock, settings: LakehouseSettings = SETTINGS, layout: Layout = TREE
    ) -> None:
        self.layout = layout
        self.store = store
        self.clock = clock
        effects = build_deterministic_effects(store, clock)
        self.metastore = layout.create(effects, settings, Changes("made"))
        self.maintained = MaintenanceContext(effects, self.metastore, self.metastore)
        self.position = 0
        sales = make_namespace("sales")
        commit_objects(
            self.metastore,
            self.metastore.latest(),
            sales,
            make_table("sales", "orders"),
            (PARTITION.parent.parent, TableVersion(1, None)),
            (PARTITION.parent, Stream("stream-id")),
            (PARTITION, Partition("partition-id")),
        )

    def write(self, *names: str) -> Delta:
        """Write data files, and return the delta that nobody has committed yet."""
        files = [DataFile(f"data/{name}.parquet", len(name), row_count=1) for name in names]
        self.store.put_many({file.location: name.encode() for file, name in zip(files, names, strict=True)})
        return Delta(DeltaType.APPEND, Manifest(tuple(files)))

    def append(self, *names: str) -> int:
        """Commit a delta with these data files, and return the version."""
        self.position += 1
        return self.commit(self.write(*names))

    def commit(self, delta: Delta) -> int:
        way = make_delta_locator(PARTITION, max(1, self.position))
        return commit_objects(self.metastore, self.metastore.latest(), (way, delta)).snapshot.version

    def wait(self, millis: int) -> None:
        self.clock.now_millis += millis

    def list_retained(self) -> list[int]:
        return [commit.version for commit in self.maintained.maintenance.list_retained()]

    def paths(self) -> set[str]:
        return {entry.path for entry in self.store.list() if isinstance(entry, ObjectInfo)}

    def needed(self, *versions: int) -> set[str]:
        """Return what the versions need, as one who opens the lakehouse anew sees it."""
        fresh = self.layout.open(build_deterministic_effects(self.store, Clock(), first_id=10**9))
        lake = MaintenanceContext(build_deterministic_effects(self.store), fresh, fresh)
        found: set[str] = set()
        visit_reachable_files(
            lake, [fresh.at_version(version) for version in versions or self.list_retained()], found.add
        )
        return found


@pytest.fixture
def clock() -> Clock:
    return Clock(tick_millis=1)


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> Layout:
    return LAYOUTS[request.param]


@pytest.fixture
def lake(clock: Clock, layout: Layout) -> Lake:
    return Lake(MemoryStore(now_millis=lambda: clock.now_millis), clock, layout=layout)


def change_settings(lake: Lake, **fields: object) -> None:
    newest = lake.metastore.latest()
    commit_objects(lake.metastore, newest, settings=replace(newest.settings, **fields))  # type: ignore[arg-type]


def test_old_versions_expire_and_retained_ones_remain_readable(lake: Lake) -> None:
    lake.append("a")
    lake.wait(AGE_MILLIS + 1)
    lake.append("b")
    newest = lake.append("c")
    lake.wait(SAFE_MILLIS)
    report = expire_versions(lake.maintained)
    assert report.versions == (0, 1, 2)
    assert lake.list_retained() == [newest - 1, newest]
    assert str(report) == "3 versions expired, from 0 to 2; 2 are kept"
    with pytest.raises(NotFoundError):
        lake.metastore.at_version(1)
    vacuum_files(lake.maintained, alone=True)
    assert lake.needed() <= lake.paths()
    assert {"data/a.parquet", "data/b.parquet", "data/c.parquet"} <= lake.needed()


def test_a_version_that_was_recently_the_newest_is_retained(lake: Lake) -> None:
    lake.wait(10 * AGE_MILLIS)
    change_settings(lake, minimum_versions_to_keep=1)
    assert expire_versions(lake.maintained).versions == (0,)
    lake.wait(SAFE_MILLIS)
    assert expire_versions(lake.maintained).versions == (1,)


def test_a_dry_run_lists_the_files_to_delete_and_changes_nothing(lake: Lake) -> None:
    lake.append("a")
    lake.append("b")
    lake.write("orphan")
    lake.wait(AGE_MILLIS + GRACE_MILLIS)
    before = lake.paths()
    expiry = expire_versions(lake.maintained, dry_run=True)
    assert expiry.versions == (0, 1)
    assert str(expiry) == "2 versions would expire, from 0 to 1; 2 are kept"
    garbage = vacuum_files(lake.maintained, dry_run=True)
    assert garbage.paths == ("data/orphan.parquet",)
    assert garbage.size_bytes == len("orphan")
    assert str(garbage) == f"1 of {len(before)} files (6 bytes) would be deleted"
    assert lake.paths() == before


def test_a_named_version_stays_until_its_name_is_dropped(lake: Lake) -> None:
    named = lake.append("a")
    pin_version(lake.maintained, "year-end")
    lake.append("b")
    lake.append("c")
    lake.wait(AGE_MILLIS + 1)
    expire_versions(lake.maintained)
    assert named in lake.list_retained()
    vacuum_files(lake.maintained, alone=True)
    assert lake.needed(named) <= lake.paths()
    assert lake.metastore.latest().version not in (named, named + 1)
    drop_export(lake.maintained, "year-end")
    expire_versions(lake.maintained, alone=True)
    assert named not in lake.list_retained()


def test_a_shared_transaction_retains_its_base_version_and_staged_files(lake: Lake) -> None:
    base = lake.metastore.latest()
    now = lake.clock.now_millis
    shared = SharedTransactionEntry("load", base.version, now, now + 10 * AGE_MILLIS)
    commit_objects(lake.metastore, base, (SharedTransactionLocator("load"), shared))
    lake.write("staged")
    lake.append("a")
    lake.append("b")
    lake.wait(5 * AGE_MILLIS)
    expire_versions(lake.maintained)
    vacuum_files(lake.maintained, alone=True)
    assert base.version in lake.list_retained()
    assert "data/staged.parquet" in lake.paths()
    lake.wait(5 * AGE_MILLIS + LIMIT_MILLIS)
    expire_versions(lake.maintained)
    vacuum_files(lake.maintained, alone=True)
    assert base.version not in lake.list_retained()
    assert "data/staged.parquet" not in lake.paths()


def test_files_of_an_aborted_transaction_are_deleted_only_after_the_grace_period(lake: Lake) -> None:
    lake.write("aborted")
    lake.wait(GRACE_MILLIS - 1)
    assert vacuum_files(lake.maintained).paths == ()
    lake.wait(2)
    assert vacuum_files(lake.maintained).paths == ("data/aborted.parquet",)
    assert "data/aborted.parquet" not in lake.paths()


def test_data_files_of_a_deleted_delta_are_deleted_only_when_no_version_references_them(lake: Lake) -> None:
    lake.append("a")
    way = make_delta_locator(PARTITION, lake.position)
    commit_objects(lake.metastore, lake.metastore.latest(), deletes=frozenset({way}))
    assert vacuum_files(lake.maintained, alone=True).paths == ()
    lake.append("b")
    lake.wait(AGE_MILLIS + 1)
    expire_versions(lake.maintained)
    gone = vacuum_files(lake.maintained, alone=True).paths
    assert "data/a.parquet" in gone
    assert "data/b.parquet" not in gone


def test_vacuum_without_concurrent_writers_leaves_only_referenced_files(lake: Lake) -> None:
    for number in range(12):
        lake.append(f"f{number}")
    lake.wait(AGE_MILLIS + 1)
    expire_versions(lake.maintained)
    vacuum_files(lake.maintained, alone=True)
    # The names of expired versions stay taken for a while; the files themselves are small.
    left = {path for path in lake.paths() - lake.needed() if not is_version_file(path)}
    assert all(path.startswith("txn/") for path in left)
    assert lake.layout.open(build_deterministic_effects(lake.store)).latest().version == lake.metastore.latest().version


def test_vacuum_never_deletes_foreign_files(clock: Clock) -> None:
    lake = Lake(MemoryStore(now_millis=lambda: clock.now_millis), clock)
    others = {
        "notes.txt": b"",
        "_notes.txt": b"",
        "other/0000/1111/0000/file.binpb": b"",
        "database/data/file.parquet": b"",
        "data/external/part-0.csv": b"",
    }
    lake.store.put_many(others)
    lake.store.put("data/externally.csv", b"")
    external = make_table("sales", "elsewhere", table_type=TableType.EXTERNAL, location="data/external")
    commit_objects(lake.metastore, lake.metastore.latest(), external)
    assert vacuum_files(lake.maintained, alone=True).paths == ("data/externally.csv",)
    assert others.keys() <= lake.paths()


def test_a_file_named_by_its_full_uri_is_needed_too(lake: Lake) -> None:
    lake.store.put_many({"data/a.parquet": b"", "data/b c.parquet": b"", "data/d.parquet": b""})
    locations = [
        f"{lake.store.uri}data/a.parquet",
        f"{lake.store.uri}data/b%20c.parquet",
        "memory://else/data/d.parquet",
    ]
    lake.position = 1
    lake.commit(Delta(DeltaType.APPEND, Manifest(tuple(DataFile(one, 0, row_count=0) for one in locations))))
    assert vacuum_files(lake.maintained, alone=True).paths == ("data/d.parquet",)


def test_a_grace_period_shorter_than_the_transaction_time_limit_is_rejected(lake: Lake) -> None:
    with pytest.raises(InvalidInputError, match=f"at least {SAFE_MILLIS} ms"):
        vacuum_files(lake.maintained, grace_millis=SAFE_MILLIS - 1)
    assert vacuum_files(lake.maintained, grace_millis=SAFE_MILLIS).paths == ()


def test_the_grace_period_grows_with_the_transaction_time_limit(lake: Lake) -> None:
    change_settings(lake, properties={"transaction.time-limit-millis": str(GRACE_MILLIS)})
    lake.write("slow")
    lake.wait(2 * GRACE_MILLIS)
    assert vacuum_files(lake.maintained).paths == ()
    lake.wait(GRACE_MILLIS)
    assert vacuum_files(lake.maintained).paths == ("data/slow.parquet",)


def test_an_unreadable_version_stops_the_vacuum(lake: Lake) -> None:
    before = lake.needed()
    lake.append("a")
    added = sorted(lake.needed() - before)
    definition = next(path for path in added if "-delta-" in path or "/rev/" in path)
    lake.store.delete_many([definition])
    lake.write("orphan")
    fresh = lake.layout.open(build_deterministic_effects(lake.store))
    with pytest.raises(FormatError, match="missing"):
        vacuum_files(MaintenanceContext(build_deterministic_effects(lake.store), fresh, fresh), alone=True)
    assert "data/orphan.parquet" in lake.paths()


class Interrupting(MemoryStore):
    """A store that does something else once, when a listing of everything has come to its end."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(now_millis=lambda: clock.now_millis)
        self.after_listing: Callable[[], object] | None = None

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[ListEntry]:
        yield from super().list(prefix, start_after=start_after, delimiter=delimiter)
        if not prefix and self.after_listing is not None:
            task, self.after_listing = self.after_listing, None
            task()


def test_a_commit_between_the_listing_and_the_deletion_keeps_its_files(clock: Clock, layout: Layout) -> None:
    store = Interrupting(clock)
    lake = Lake(store, clock, layout=layout)
    delta = lake.write("late")
    store.after_listing = lambda: lake.commit(delta)
    assert vacuum_files(lake.maintained, alone=True).paths == ()
    assert "data/late.parquet" in lake.paths()


def test_a_concurrent_expiry_does_not_affect_vacuum(clock: Clock, layout: Layout) -> None:
    store = Interrupting(clock)
    lake = Lake(store, clock, layout=layout)
    lake.append("a")
    newest = lake.append("b")
    lake.write("orphan")
    lake.wait(AGE_MILLIS + 1)
    store.after_listing = lambda: expire_versions(lake.maintained)
    assert "data/orphan.parquet" in vacuum_files(lake.maintained, alone=True).paths
    assert lake.list_retained() == [newest - 1, newest]
    assert lake.needed() <= lake.paths()


class Pinning(MemoryStore):
    """A store that does something else before its next answers to whether an object exists."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(now_millis=lambda: clock.now_millis)
        self.before_exists: list[Callable[[], object]] = []

    def exists(self, path: str) -> bool:
        if self.before_exists:
            self.before_exists.pop()()
        return super().exists(path)


def test_a_version_pinned_after_the_expiry_was_planned_is_retained(clock: Clock, layout: Layout) -> None:
    store = Pinning(clock)
    lake = Lake(store, clock, layout=layout)
    old = lake.append("a")
    lake.append("b")
    lake.append("c")
    lake.wait(AGE_MILLIS + 1)
    # An exporter that found the version retained a little earlier records its name now.
    location = find_version_file(store, old)
    store.before_exists = [lambda: change_settings(lake, exported_snapshots={"year-end": location})]
    assert old not in expire_versions(lake.maintained).versions
    assert store.before_exists == []
    assert old in lake.list_retained()
    assert lake.needed(old) <= lake.paths()


def test_an_interrupted_vacuum_is_simply_run_again(clock: Clock) -> None:
    below = MemoryStore(now_millis=lambda: clock.now_millis)
    lake = Lake(below, clock)
    lake.append("kept")
    lake.write(*(f"orphan-{number}" for number in range(50)))
    failing = FaultyStore(below, Faults(seed=1))
    failing.fail_next("delete", "after")
    effects = build_deterministic_effects(failing, clock, first_id=10**6)
    metastore = open_tree(effects)
    broken = MaintenanceContext(effects, metastore, metastore)
    with pytest.raises(StorageError):
        vacuum_files(broken, alone=True)
    left = {path for path in lake.paths() if "orphan" in path}
    assert 0 < len(left) < 50
    assert set(vacuum_files(broken, alone=True).paths) == left
    assert lake.needed() <= lake.paths()


def test_vacuum_deletes_temporary_files_of_killed_writers(tmp_path: Path, clock: Clock) -> None:
    lake = Lake(open_store(tmp_path / "lake"), clock)
    left = tmp_path / "lake" / "data" / f"{TEMPORARY_PREFIX}1234"
    left.parent.mkdir()
    left.write_bytes(b"half")
    assert vacuum_files(lake.maintained, dry_run=True, alone=True).paths == (f"data/{left.name}",)
    assert left.exists()
    report = vacuum_files(lake.maintained, alone=True)
    assert report.size_bytes == 4
    assert not left.exists()
    assert lake.needed() <= lake.paths()


def test_dry_runs_cost_few_requests_for_each_thousand_files(clock: Clock) -> None:
    store = CountingStore(MemoryStore(now_millis=lambda: clock.now_millis))
    lake = Lake(store, clock, replace(SETTINGS, order=32))
    for number in range(10):
        lake.append(*(f"{number}-{file}" for file in range(300)))
    lake.write(*(f"orphan-{number}" for number in range(1_000)))
    versions, files = len(lake.list_retained()), len(lake.paths())
    before = store.requests
    vacuum_files(lake.maintained, dry_run=True, alone=True)
    made = store.requests - before
    assert made.lists <= files // 1000 + 3
    assert made.reads + made.sizes <= 3 * versions + 30
    assert made.total == made.lists + made.reads + made.sizes
    before = store.requests
    expire_versions(lake.maintained, dry_run=True)
    made = store.requests - before
    assert made.total <= versions + 5


def test_progress_is_reported_and_ends_at_the_total(lake: Lake) -> None:
    lake.write(*(f"orphan-{number}" for number in range(1_500)))
    seen: list[Progress] = []
    vacuum_files(lake.maintained, alone=True, watch=seen.append)
    assert [progress.what for progress in seen] == ["listing", "deleting", "deleting"]
    last = seen[-1]
    assert (last.files_done, last.bytes_done) == (last.files_total, last.bytes_total)
    assert last.files_total == 1_500
