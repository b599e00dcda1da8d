"""Exports of a tree to other stores, and what they hold in the source."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest
from tests.support.s3_server import S3Server

import mangrove
from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError, StorageError
from mangrove.layouts.deltacat.metastore import create_catalog, open_catalog
from mangrove.layouts.tree.metastore import create_tree, open_tree
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.expiry import expire_versions
from mangrove.maintenance.export import ExportMode, drop_export, export_version, pin_version
from mangrove.maintenance.export_records import find_export, list_exports, open_export
from mangrove.maintenance.progress import Progress, ProgressCallback
from mangrove.maintenance.reachability import visit_reachable_files
from mangrove.maintenance.vacuum import vacuum_files
from mangrove.maintenance.version_files import HINT_PATHS, find_version_file
from mangrove.metastore import Changes, Metastore, MetastoreMaintenance, MetastoreSnapshot
from mangrove.model.locators import Kind, NamespaceLocator, PartitionLocator, TableLocator
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType, Partition, Stream, TableVersion
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.storage.opening import open_store
from mangrove.storage.port import ObjectInfo, Store
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.faulty_store import Faults, FaultyStore, SimulatedCrash
from mangrove.testing.metastore_contract import commit_objects, make_delta_locator, make_namespace, make_table

AGE_MILLIS = 100_000_000
SETTINGS = LakehouseSettings(
    order=4,
    properties={"tree.inline-definition-max-bytes": "0"},
    maximum_version_age_millis=AGE_MILLIS,
    minimum_versions_to_keep=1,
)
TABLES = ("sales.orders", "sales.returns", "hr.people")


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
    """A lakehouse of three tables in two namespaces, each with data files of a few bytes."""

    def __init__(self, store: Store, layout: Layout = TREE) -> None:
        self.store = store
        self.layout = layout
        self.clock = Clock()
        effects = build_deterministic_effects(store, self.clock)
        self.metastore = layout.create(effects, SETTINGS, Changes("made"))
        self.maintained = MaintenanceContext(effects, self.metastore, self.metastore)
        self.partitions: dict[str, PartitionLocator] = {}
        commit_objects(self.metastore, self.metastore.latest(), make_namespace("sales"), make_namespace("hr"))
        for name in TABLES:
            way, value = make_table(*name.split("."))
            below = PartitionLocator("home", value.id, 1, "stream-id", "partition-id")
            self.partitions[name] = below
            commit_objects(
                self.metastore,
                self.metastore.latest(),
                (way, value),
                (below.parent.parent, TableVersion(1, None)),
                (below.parent, Stream("stream-id")),
                (below, Partition("partition-id")),
            )
        for position in (1, 2):
            for name in TABLES:
                self.append(name, position)

    def append(self, name: str, position: int) -> int:
        path = f"data/{name}/{position}.parquet"
        self.store.put(path, path.encode())
        delta = Delta(DeltaType.APPEND, Manifest((DataFile(path, len(path), row_count=1),)))
        way = make_delta_locator(self.partitions[name], position)
        return commit_objects(self.metastore, self.metastore.latest(), (way, delta)).snapshot.version

    def opened(self, store: Store) -> MetastoreWithMaintenance:
        """Open a copy, or the lakehouse itself anew."""
        return self.layout.open(build_deterministic_effects(store, first_id=10**9))

    def needed(self, version: int) -> set[str]:
        found: set[str] = set()
        visit_reachable_files(self.maintained, [self.metastore.at_version(version)], found.add)
        return found


@pytest.fixture(params=LAYOUTS)
def lake(request: pytest.FixtureRequest) -> Lake:
    return Lake(MemoryStore("memory://source/"), LAYOUTS[request.param])


def destination(name: str = "copy") -> MemoryStore:
    return MemoryStore(f"memory://{name}/")


def paths(store: Store) -> set[str]:
    return {entry.path for entry in store.list() if isinstance(entry, ObjectInfo)}


def rows(snapshot: MetastoreSnapshot, store: Store, lake: Lake) -> dict[str, list[bytes | None]]:
    """Return what each table's files hold."""
    return {
        name: [
            store.read_many([file.location])[0]
            for _, delta in snapshot.children(Kind.DELTA, below)
            if isinstance(delta, Delta)
            for file in delta.manifest.entries
        ]
        for name, below in lake.partitions.items()
    }


@contextmanager
def in_memory(_: Path) -> Iterator[Store]:
    yield destination()


@contextmanager
def in_folder(folder: Path) -> Iterator[Store]:
    yield open_store(folder / "copy")


@contextmanager
def in_bucket(_: Path) -> Iterator[Store]:
    with S3Server() as server:
        yield open_store(f"s3://{server.bucket}/copy", server.options)


@pytest.mark.parametrize("place", [in_memory, in_folder, in_bucket])
def test_a_full_export_opens_as_a_lakehouse_of_its_own_on_any_store(
    lake: Lake, place: Callable[[Path], AbstractContextManager[Store]], tmp_path: Path
) -> None:
    version = lake.metastore.latest().version
    with place(tmp_path) as store:
        report = export_version(lake.maintained, store, "year-end")
        lake.append("hr.people", 3)
        copy = lake.opened(store)
        assert copy.latest().version == report.export.version == version
        assert rows(copy.latest(), store, lake) == rows(lake.metastore.at_version(version), lake.store, lake)
        assert [commit.version for commit in copy.history()] == [version]
        commit_objects(copy, copy.latest(), make_namespace("own"))
        assert lake.opened(store).latest().version == version + 1
        assert lake.metastore.latest().get(NamespaceLocator("own")) is None


def test_an_unrecorded_export_only_reads_the_lakehouse_and_can_be_resumed(lake: Lake) -> None:
    before, version = paths(lake.store), lake.metastore.latest().version
    store = destination()
    with pytest.raises(StorageError, match="is gone"):
        export_version(lake.maintained, store, "year-end", keep=False, copier=_interrupted)
    assert paths(lake.store) == before
    lake.append("hr.people", 3)
    report = export_version(lake.maintained, store, "year-end", keep=False)
    assert (report.export.version, report.is_kept) == (version, False)
    assert "the name is not recorded" in str(report)
    assert list_exports(lake.metastore.latest().settings) == []
    assert lake.opened(store).latest().version == version
    with pytest.raises(InvalidInputError, match="nothing pins them; use a full export"):
        export_version(lake.maintained, destination("other"), "part", mode=ExportMode.MINIMAL, keep=False)


def _interrupted(
    source: Store, destination: Store, sizes: Mapping[str, int], watch: ProgressCallback, *, last: str | None = None
) -> None:
    raise StorageError(f"{source.uri} is gone")


def test_a_full_export_copies_exactly_the_referenced_files(lake: Lake) -> None:
    lake.store.put("data/orphan.parquet", b"")
    old = lake.metastore.latest().version
    lake.append("hr.people", 3)
    store = destination()
    report = export_version(lake.maintained, store, "year-end", version=old)
    copied = paths(store) - {"_mangrove_export.json"} - HINT_PATHS
    assert copied == lake.needed(old) - HINT_PATHS
    assert report.files_copied == len(copied)
    assert report.bytes_copied == sum(len(store.read(path)) for path in copied)
    assert f"version {old} at memory://copy/" in str(report)


def test_an_export_is_recorded_under_its_name_with_the_location_of_its_root(lake: Lake) -> None:
    version = lake.metastore.latest().version
    export_version(lake.maintained, destination(), "year-end")
    settings = lake.metastore.latest().settings
    root = find_version_file(lake.store, version)
    assert settings.exported_snapshots == {"year-end": f"memory://copy/{root}"}
    assert find_export(settings, "year-end").version == version
    assert lake.metastore.latest().commit.message == f"Export version {version} as year-end"


def test_an_exported_version_stays_in_the_source_until_its_name_is_dropped(lake: Lake) -> None:
    version = lake.metastore.latest().version
    export_version(lake.maintained, destination(), "year-end")
    lake.append("hr.people", 3)
    lake.clock.now_millis += 2 * AGE_MILLIS
    expire_versions(lake.maintained)
    vacuum_files(lake.maintained, alone=True)
    assert rows(lake.metastore.at_version(version), lake.store, lake)["hr.people"][0] is not None
    assert drop_export(lake.maintained, "year-end").version == version
    assert list_exports(lake.metastore.latest().settings) == []
    expire_versions(lake.maintained, alone=True)
    with pytest.raises(NotFoundError):
        lake.metastore.at_version(version)


def test_a_minimal_export_copies_the_root_alone_and_is_read_through_its_source(lake: Lake) -> None:
    version = lake.metastore.latest().version
    store = destination()
    export_version(lake.maintained, store, "now", mode=ExportMode.MINIMAL)
    assert paths(store) - HINT_PATHS == {find_version_file(lake.store, version), "_mangrove_export.json"}
    lake.append("hr.people", 3)
    layered = open_export(store, lambda uri: {lake.store.uri: lake.store}[uri])
    copy = lake.opened(layered)
    assert copy.latest().version == version
    assert rows(copy.latest(), layered, lake) == rows(lake.metastore.at_version(version), lake.store, lake)
    commit_objects(copy, copy.latest(), make_namespace("own"))
    assert lake.opened(layered).latest().get(NamespaceLocator("own")) is not None
    assert lake.metastore.latest().get(NamespaceLocator("own")) is None


@pytest.mark.parametrize(
    ("chosen", "held"),
    [
        (["sales.orders"], {"sales.orders"}),
        (["sales"], {"sales.orders", "sales.returns"}),
        (["hr", "sales.returns"], {"hr.people", "sales.returns"}),
    ],
)
def test_a_partial_export_lists_every_table_and_contains_the_rows_of_the_selected_ones(
    lake: Lake, chosen: list[str], held: set[str]
) -> None:
    store = destination()
    export_version(lake.maintained, store, "some", mode=ExportMode.PARTIAL, tables=chosen)
    copy = lake.opened(store).latest()
    assert all(copy.get(TableLocator(*name.split("."))) is not None for name in TABLES)
    for name, found in rows(copy, store, lake).items():
        assert len(found) == 2
        assert all((data is not None) == (name in held) for data in found)
    layered = open_export(store, lambda uri: {lake.store.uri: lake.store}[uri])
    assert all(None not in found for found in rows(lake.opened(layered).latest(), layered, lake).values())


def test_an_interrupted_export_is_resumed(lake: Lake) -> None:
    lake.store.put_many({f"data/many/{number}": b"x" * number for number in range(600)})
    files = tuple(DataFile(f"data/many/{number}", number, row_count=0) for number in range(600))
    way = make_delta_locator(lake.partitions["hr.people"], 3)
    commit_objects(lake.metastore, lake.metastore.latest(), (way, Delta(DeltaType.APPEND, Manifest(files))))
    version = lake.metastore.latest().version
    below = destination()
    failing = FaultyStore(below, Faults(seed=7))
    failing.fail_next("put", "crash", "data/many/500")
    with pytest.raises(SimulatedCrash):
        export_version(lake.maintained, failing, "year-end")
    there = len(paths(below)) - 1
    assert there > 0
    with pytest.raises(NotFoundError):
        lake.opened(below)
    lake.append("hr.people", 4)
    seen: list[Progress] = []
    report = export_version(lake.maintained, below, "year-end", watch=seen.append)
    assert report.export.version == version
    assert report.files_there == there
    record_and_hint = 2
    assert report.files_copied == len(paths(below)) - record_and_hint - there
    assert seen[0].files_done == 0
    assert seen[-1].bytes_total == report.bytes_copied
    assert lake.opened(below).latest().version == version
    assert export_version(lake.maintained, below, "year-end", version=version).files_copied == 0


@pytest.mark.parametrize("mode", [ExportMode.FULL, ExportMode.MINIMAL])
def test_an_export_has_a_hint_to_its_version_that_later_commits_replace(lake: Lake, mode: ExportMode) -> None:
    copy = destination()
    version = lake.metastore.latest().version
    export_version(lake.maintained, copy, "year-end", mode=mode)
    (hint,) = paths(copy) & HINT_PATHS
    assert copy.read(hint) == str(version).encode()
    copy.put(hint, b"99")
    export_version(lake.maintained, copy, "year-end", mode=mode, version=version)
    assert copy.read(hint) == b"99"


@pytest.mark.parametrize("keep", [True, False])
def test_repeating_a_complete_export_of_an_older_version_is_rejected(lake: Lake, keep: bool) -> None:
    store, version = destination(), lake.metastore.latest().version
    export_version(lake.maintained, store, "year-end", keep=keep)
    assert export_version(lake.maintained, store, "year-end", keep=keep).files_copied == 0
    lake.append("hr.people", 3)
    newest, there = lake.metastore.latest().version, paths(store)
    told = f"is complete with version {version}, but the newest is {newest}; export to another location"
    with pytest.raises(AlreadyExistsError, match=told):
        export_version(lake.maintained, store, "year-end", keep=keep)
    assert (lake.metastore.latest().version, paths(store)) == (newest, there)
    assert export_version(lake.maintained, store, "year-end", version=version, keep=keep).export.version == version
    if keep:
        drop_export(lake.maintained, "year-end")
    assert export_version(lake.maintained, destination("next"), "year-end", keep=keep).export.version >= newest


def test_a_rejected_export_does_not_record_a_dropped_name_again(lake: Lake) -> None:
    store = destination()
    export_version(lake.maintained, store, "year-end")
    drop_export(lake.maintained, "year-end")
    with pytest.raises(AlreadyExistsError, match="is complete"):
        export_version(lake.maintained, store, "year-end")
    assert list_exports(lake.metastore.latest().settings) == []


def test_a_file_that_arrived_with_another_size_is_copied_again(lake: Lake) -> None:
    store = destination()
    export_version(lake.maintained, store, "year-end")
    store.put("data/hr.people/1.parquet", b"half")
    report = export_version(lake.maintained, store, "year-end")
    assert (report.files_copied, store.read("data/hr.people/1.parquet")) == (1, b"data/hr.people/1.parquet")


class Shortening(MemoryStore):
    """A store that says that it wrote what it did not."""

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write nothing."""


def test_an_incomplete_destination_is_detected(lake: Lake) -> None:
    with pytest.raises(StorageError, match="incomplete in memory://bad/"):
        export_version(lake.maintained, Shortening("memory://bad/"), "year-end")


def test_a_destination_with_other_content_is_rejected_and_nothing_is_recorded(lake: Lake) -> None:
    used = destination()
    used.put("something", b"")
    with pytest.raises(AlreadyExistsError, match="something"):
        export_version(lake.maintained, used, "year-end")
    for place in ("memory://source/", "memory://source/data/copy/"):
        with pytest.raises(InvalidInputError, match="are nested"):
            export_version(lake.maintained, MemoryStore(place), "year-end")
    assert lake.metastore.latest().settings.exported_snapshots == {}
    other = destination("other")
    export_version(lake.maintained, other, "first")
    with pytest.raises(AlreadyExistsError, match="'first'"):
        export_version(lake.maintained, other, "second")
    with pytest.raises(AlreadyExistsError, match="recorded"):
        export_version(lake.maintained, destination("third"), "first")


@pytest.mark.parametrize(
    ("mode", "tables", "error"),
    [
        (ExportMode.FULL, ["sales"], InvalidInputError),
        (ExportMode.PARTIAL, [], InvalidInputError),
        (ExportMode.PARTIAL, ["nowhere"], NotFoundError),
        (ExportMode.PARTIAL, ["sales.nothing"], NotFoundError),
        (ExportMode.PARTIAL, ["a.b.c"], InvalidInputError),
    ],
)
def test_invalid_table_selections_are_rejected(
    lake: Lake, mode: ExportMode, tables: list[str], error: type[Exception]
) -> None:
    store = destination()
    with pytest.raises(error):
        export_version(lake.maintained, store, "some", mode=mode, tables=tables)
    assert paths(store) == set()
    assert lake.metastore.latest().settings.exported_snapshots == {}


def test_a_version_that_may_expire_cannot_be_pinned_but_can_be_copied_completely(lake: Lake) -> None:
    old = lake.append("hr.people", 3)
    lake.append("hr.people", 4)
    lake.clock.now_millis += 2 * AGE_MILLIS
    with pytest.raises(ConflictError, match="at any time"):
        pin_version(lake.maintained, "old", old)
    with pytest.raises(ConflictError, match="at any time"):
        export_version(lake.maintained, destination(), "old", version=old, mode=ExportMode.MINIMAL)
    store = destination()
    export_version(lake.maintained, store, "old", version=old)
    assert lake.opened(store).latest().version == old


class Racing(MemoryStore):
    """A store on which a rival comes first, once, when a root is about to be created."""

    concurrent_commit: Callable[[], object] | None = None

    def create(self, path: str, data: bytes) -> bool:
        if self.concurrent_commit is not None:
            task, self.concurrent_commit = self.concurrent_commit, None
            task()
        return super().create(path, data)


def test_two_exports_at_the_same_time_are_both_recorded() -> None:
    store = Racing("memory://source/")
    lake = Lake(store)
    effects = build_deterministic_effects(store, first_id=10**8)
    other = open_tree(effects)
    store.concurrent_commit = lambda: pin_version(MaintenanceContext(effects, other, other), "first")
    pin_version(lake.maintained, "second")
    assert [one.name for one in list_exports(lake.opened(store).latest().settings)] == ["first", "second"]


def test_a_version_that_expires_while_it_is_pinned_is_reported() -> None:
    store = Racing("memory://source/")
    lake = Lake(store)
    effects = build_deterministic_effects(store, first_id=10**8)
    other = open_tree(effects)
    old = lake.metastore.latest().version
    lake.append("hr.people", 3)
    # A process without readers or writers beside it, as it believes, does not wait for the safety period.
    store.concurrent_commit = lambda: other.expire([old])
    with pytest.raises(NotFoundError, match=f"version {old} "):
        pin_version(lake.maintained, "old", old)


def test_the_cost_of_a_minimal_export_is_independent_of_the_lakehouse_size() -> None:
    store = CountingStore(MemoryStore("memory://source/"))
    lake = Lake(store)
    small = lake.metastore.latest().version
    before = store.requests
    export_version(lake.maintained, destination("a"), "small", version=small, mode=ExportMode.MINIMAL)
    first = store.requests - before
    for position in range(3, 23):
        lake.append("hr.people", position)
    before = store.requests
    export_version(lake.maintained, destination("b"), "large", mode=ExportMode.MINIMAL)
    more = store.requests - before
    assert more.total - first.total <= 20 + 5
    assert more.lists == first.lists


def test_an_export_into_storage_of_the_same_kind_takes_the_options_of_the_lakehouse(tmp_path: Path) -> None:
    with S3Server() as server:
        lake = mangrove.create("s3://bucket/lake", storage_options=server.options)
        lake.create_namespace("a")
        lake.maintenance.export("s3://bucket/copy", "kept")
        copied = mangrove.open("s3://bucket/copy", storage_options=server.options)
        assert [space.name for space in copied.namespaces()] == ["a"]
        # A folder takes no options, and gets none.
        lake.maintenance.export(tmp_path / "copy", "here")
        assert mangrove.open(tmp_path / "copy").version == lake.at("here").version
        lake.maintenance.convert("s3://bucket/other")
        assert mangrove.open("s3://bucket/other", storage_options=server.options).layout == "deltacat"
