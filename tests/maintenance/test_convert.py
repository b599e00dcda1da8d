"""A conversion tells every version again, goes on after a crash, and refuses what it cannot carry before it writes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import mangrove
from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, ConflictError, FormatError, InvalidInputError, StorageError
from mangrove.expressions.schema_text import parse_schema
from mangrove.lakehouse.maintenance import build_conversion_target
from mangrove.layouts.deltacat.metastore import create_catalog
from mangrove.layouts.tree.metastore import create_tree
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.convert.conversion import DataMode, HistoryMode, convert_lakehouse
from mangrove.maintenance.convert.replay import CONVERSION_PATH, MaintainedMetastore
from mangrove.maintenance.copy import copy_files
from mangrove.maintenance.progress import Progress, ProgressCallback
from mangrove.maintenance.vacuum import vacuum_files
from mangrove.metastore import Changes
from mangrove.model.locators import (
    Kind,
    NamespaceLocator,
    PartitionLocator,
    SharedTransactionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
)
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import (
    Delta,
    DeltaType,
    NamespaceEntry,
    Partition,
    SharedTransactionEntry,
    Stream,
    TableEntry,
    TableVersion,
)
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import ObjectInfo, Store
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.faulty_store import Faults, FaultyStore, SimulatedCrash
from mangrove.testing.metastore_contract import commit_objects, make_delta_locator

MAKERS: dict[str, Callable[[Effects, LakehouseSettings, Changes], MaintainedMetastore]] = {
    "tree": create_tree,
    "deltacat": create_catalog,
}
OTHER = {"tree": "deltacat", "deltacat": "tree"}
PARTITION = PartitionLocator("n", "t", 1, "s", "p")


class Lake:
    """A lakehouse with a table to which deltas are appended."""

    def __init__(self, layout: str, settings: LakehouseSettings | None = None) -> None:
        self.store = MemoryStore("memory://source/")
        self.clock = Clock(tick_millis=1000)
        self.effects = build_deterministic_effects(self.store, self.clock)
        self.metastore = MAKERS[layout](self.effects, settings or LakehouseSettings(), Changes("made", message="make"))
        self.maintained = MaintenanceContext(self.effects, self.metastore, self.metastore)
        commit_objects(
            self.metastore,
            self.metastore.latest(),
            (NamespaceLocator("sales"), NamespaceEntry("n", "sales")),
            (TableLocator("sales", "orders"), TableEntry("t", "n", "orders", latest_table_version=1)),
            (TableVersionLocator("n", "t", 1), TableVersion(1, None, latest_stream_id="s")),
            (StreamLocator("n", "t", 1, "s"), Stream("s")),
            (PARTITION, Partition("p")),
            message="create the table",
            author="ana",
            properties={"ticket": "7"},
        )

    def append(self, position: int, location: str | None = None) -> None:
        path = f"data/t/{position}.parquet"
        self.store.put(path, f"rows {position}".encode())
        file = DataFile(location or path, len(f"rows {position}"), 2)
        delta = Delta(DeltaType.APPEND, Manifest((file,), id=f"m{position}"))
        commit_objects(self.metastore, self.metastore.latest(), (make_delta_locator(PARTITION, position), delta))

    def rename(self, before: str, after: str) -> None:
        table = self.metastore.latest().get(TableLocator("sales", before))
        assert isinstance(table, TableEntry)
        commit_objects(
            self.metastore,
            self.metastore.latest(),
            (TableLocator("sales", after), replace(table, name=after)),
            deletes=frozenset([TableLocator("sales", before)]),
        )


@pytest.fixture(params=["tree", "deltacat"])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lake(layout: str) -> Lake:
    lake = Lake(layout)
    lake.append(1)
    lake.rename("orders", "purchases")
    lake.append(2)
    return lake


@pytest.fixture
def there() -> MemoryStore:
    return MemoryStore("memory://destination/")


def _files(store: Store) -> dict[str, bytes]:
    return {entry.path: store.read(entry.path) for entry in store.list() if isinstance(entry, ObjectInfo)}


def _opened(store: Store, layout: str) -> MaintenanceContext:
    effects = build_deterministic_effects(store, Clock(now_millis=2_000_000_000_000), first_id=10**6)
    found = build_conversion_target(store, layout).open(effects)
    assert found is not None
    return MaintenanceContext(effects, found, found)


def test_every_version_keeps_its_number_message_author_properties_and_time(
    lake: Lake, layout: str, there: MemoryStore
) -> None:
    report = convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]))
    assert report.is_sound, str(report)
    assert (report.versions, report.files_copied, report.notes) == (5, 2, ())
    assert report.comparison.objects["delta"] == 2
    assert report.comparison.rows == 4
    made = _opened(there, OTHER[layout])
    assert [(one.version, one.created_at_millis, one.transaction_id, one.message, one.author, dict(one.properties))
            for one in made.maintenance.list_retained()] == [
        (one.version, one.created_at_millis, one.transaction_id, one.message, one.author, dict(one.properties))
        for one in lake.metastore.list_retained()
    ]  # fmt: skip
    for version, name in ((1, "orders"), (4, "purchases")):
        assert made.metastore.at_version(version).get(TableLocator("sales", name)) is not None
    assert there.read("data/t/2.parquet") == b"rows 2"


def test_a_conversion_killed_at_any_request_is_resumed_and_writes_the_same_files(
    layout: str, there: MemoryStore
) -> None:
    lake = Lake(layout)
    lake.append(1)
    lake.rename("orders", "purchases")
    convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]))
    wanted = _files(there)
    writes = CountingStore(MemoryStore("memory://destination/"))
    convert_lakehouse(lake.maintained, build_conversion_target(writes, OTHER[layout]))
    made = writes.requests
    for operation, count in (("put", made.puts), ("create", made.creates)):
        for number in range(count):
            again = MemoryStore("memory://destination/")
            faulty = FaultyStore(_CrashingAt(again, operation, number), Faults(seed=number))
            with pytest.raises(SimulatedCrash):
                convert_lakehouse(lake.maintained, build_conversion_target(faulty, OTHER[layout]))
            report = convert_lakehouse(lake.maintained, build_conversion_target(again, OTHER[layout]))
            assert report.is_sound, str(report)
            assert _files(again) == wanted


def test_a_conversion_is_resumed_after_repeated_request_failures(lake: Lake, layout: str, there: MemoryStore) -> None:
    convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]))
    again = MemoryStore("memory://destination/")
    report = None
    for seed in range(200):
        # Less and less goes wrong, since a run must get through the whole comparison at its end.
        chance = 0.05 / (1 + seed)
        faulty = FaultyStore(again, Faults(seed, before=chance, after=chance, lost_answer=chance, crash=chance))
        try:
            report = convert_lakehouse(lake.maintained, build_conversion_target(faulty, OTHER[layout]))
        except (SimulatedCrash, StorageError):
            continue
        break
    assert report is not None
    assert seed, "nothing failed"
    assert report.is_sound, str(report)
    assert _files(again) == _files(there)


def test_repeating_a_conversion_adds_later_commits_of_the_source(lake: Lake, layout: str, there: MemoryStore) -> None:
    convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]))
    lake.append(3)
    report = convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]))
    assert report.is_sound, str(report)
    assert (report.versions, report.versions_there, report.files_copied, report.files_there) == (6, 5, 1, 2)


def test_a_destination_with_its_own_changes_is_rejected_and_unchanged(
    lake: Lake, layout: str, there: MemoryStore
) -> None:
    convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]))
    made = _opened(there, OTHER[layout])
    commit_objects(made.metastore, made.metastore.latest(), (NamespaceLocator("own"), NamespaceEntry("own", "own")))
    before = _files(there)
    with pytest.raises(AlreadyExistsError, match="other commits"):
        convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]))
    assert _files(there) == before


def test_a_destination_with_other_content_is_rejected(lake: Lake, layout: str, there: MemoryStore) -> None:
    there.put("notes.txt", b"mine")
    with pytest.raises(AlreadyExistsError, match=r"notes\.txt"):
        convert_lakehouse(lake.maintained, build_conversion_target(there, layout))
    assert _files(there) == {"notes.txt": b"mine"}


def test_another_conversion_to_the_same_destination_is_rejected(lake: Lake, layout: str, there: MemoryStore) -> None:
    convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]))
    before = _files(there)
    with pytest.raises(AlreadyExistsError, match="use another location"):
        convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]), history=HistoryMode.LATEST)
    assert _files(there) == before


@pytest.mark.parametrize("uri", ["memory://source/", "memory://source/inside/"])
def test_a_destination_inside_the_source_is_rejected(lake: Lake, layout: str, uri: str) -> None:
    with pytest.raises(InvalidInputError, match="are nested"):
        convert_lakehouse(lake.maintained, build_conversion_target(MemoryStore(uri), layout))


def test_the_newest_version_alone_becomes_version_0(lake: Lake, layout: str, there: MemoryStore) -> None:
    newest = lake.metastore.latest()
    shared = SharedTransactionEntry("load", newest.version, 1, 2)
    commit_objects(lake.metastore, newest, (SharedTransactionLocator("load"), shared))
    report = convert_lakehouse(
        lake.maintained, build_conversion_target(there, OTHER[layout]), history=HistoryMode.LATEST
    )
    assert report.is_sound, str(report)
    assert report.versions == 1
    assert any("load" in note and "dropped" in note for note in report.notes)
    made = _opened(there, OTHER[layout]).metastore.latest()
    assert (made.version, made.commit.created_at_millis) == (0, lake.metastore.latest().commit.created_at_millis)
    assert len(list(made.children(Kind.DELTA, PARTITION))) == 2


def test_data_files_can_be_referenced_in_the_source(lake: Lake, layout: str, there: MemoryStore) -> None:
    report = convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]), data=DataMode.REFERENCE)
    assert report.is_sound, str(report)
    assert (report.files_copied, report.files_elsewhere) == (0, 2)
    delta = _opened(there, OTHER[layout]).metastore.latest().get(make_delta_locator(PARTITION, 1))
    assert isinstance(delta, Delta)
    assert delta.manifest.entries[0].location == "memory://source/data/t/1.parquet"


@pytest.mark.parametrize("strict", [True, False])
def test_the_limit_of_paths_is_raised_where_a_path_of_the_source_is_longer(there: MemoryStore, *, strict: bool) -> None:
    lake = Lake("deltacat")
    path = f"data/{'x' * 240}.parquet"
    lake.store.put(path, b"rows")
    delta = Delta(DeltaType.APPEND, Manifest((DataFile(path, 4, 2),)))
    commit_objects(lake.metastore, lake.metastore.latest(), (make_delta_locator(PARTITION, 1), delta))
    report = convert_lakehouse(lake.maintained, build_conversion_target(there, "tree", strict))
    assert report.is_sound, str(report)
    assert report.notes == (
        f"file_path_max_size_bytes is raised from 200 to {len(path)}, the size of the longest path",
    )
    assert _opened(there, "tree").metastore.latest().settings.file_path_max_size_bytes == len(path)


def test_a_full_uri_below_the_source_becomes_a_path_of_the_destination(
    lake: Lake, layout: str, there: MemoryStore
) -> None:
    lake.append(3, "memory://source/data/t/3.parquet")
    assert convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout])).is_sound
    delta = _opened(there, OTHER[layout]).metastore.latest().get(make_delta_locator(PARTITION, 3))
    assert isinstance(delta, Delta)
    assert delta.manifest.entries[0].location == "data/t/3.parquet"


def test_a_missing_data_file_stops_the_conversion_before_anything_is_written(
    lake: Lake, layout: str, there: MemoryStore
) -> None:
    lake.store.delete_many(["data/t/1.parquet"])
    with pytest.raises(FormatError, match=r"data/t/1\.parquet"):
        convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]))
    assert _files(there) == {}


def test_an_id_invalid_in_deltacat_stops_the_conversion_before_anything_is_written(there: MemoryStore) -> None:
    lake = Lake("tree")
    commit_objects(
        lake.metastore, lake.metastore.latest(), (NamespaceLocator("odd"), NamespaceEntry("with.dot", "odd"))
    )
    with pytest.raises(InvalidInputError, match="namespace odd in version 2 is not supported"):
        convert_lakehouse(lake.maintained, build_conversion_target(there, "deltacat"))
    assert _files(there) == {}


def test_rollbacks_and_versions_without_changes_are_preserved(lake: Lake, layout: str, there: MemoryStore) -> None:
    lake.metastore.roll_back(lake.metastore.at_version(2), Changes("back", message="roll back"))
    commit_objects(lake.metastore, lake.metastore.latest(), settings=lake.metastore.latest().settings)
    report = convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]))
    assert report.is_sound, str(report)
    made = _opened(there, OTHER[layout]).metastore
    assert made.at_version(5).commit.rolled_back_from == 4
    assert made.latest().version == 6
    assert made.latest().get(TableLocator("sales", "orders")) is not None


@pytest.mark.parametrize("are_ids_preserved", [True, False])
def test_a_rollback_of_new_columns_is_converted_also_if_it_let_their_ids_be_assigned_again(
    lake: Lake, layout: str, there: MemoryStore, are_ids_preserved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for schema in ("id bigint", "id bigint, name string"):
        version = TableVersion(1, parse_schema(schema), latest_stream_id="s")
        commit_objects(lake.metastore, lake.metastore.latest(), (TableVersionLocator("n", "t", 1), version))
    narrow = lake.metastore.at_version(lake.metastore.latest().version - 1)
    if not are_ids_preserved:  # as in earlier releases
        monkeypatch.setattr(f"mangrove.layouts.{layout}.maintenance.rollback.restore_object", lambda newest, to: to)
    after = lake.metastore.roll_back(narrow, Changes("back"))
    monkeypatch.undo()
    report = convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]))
    assert report.is_sound, str(report)
    made = _opened(there, OTHER[layout]).metastore.at_version(after.version)
    assert (made.commit.rolled_back_from is not None) is are_ids_preserved
    restored = made.get(TableVersionLocator("n", "t", 1))
    assert isinstance(restored, TableVersion)
    assert restored.schema is not None
    assert restored.schema.last_column_id == (2 if are_ids_preserved else 1)


def test_expired_versions_are_not_converted_and_export_names_are_preserved(
    lake: Lake, layout: str, there: MemoryStore
) -> None:
    settings = lake.metastore.latest().settings
    named = replace(settings, exported_snapshots={"year-end": "#version=3"})
    commit_objects(lake.metastore, lake.metastore.latest(), settings=named)
    lake.metastore.expire([0, 1, 2])
    report = convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]))
    assert report.is_sound, str(report)
    assert report.versions == 3
    made = _opened(there, OTHER[layout]).metastore.latest()
    assert made.version == 2
    assert dict(made.settings.exported_snapshots) == {"year-end": "#version=0"}
    lake.metastore.expire([3])
    with pytest.raises(ConflictError, match="has expired"):
        convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]))


def test_vacuum_deletes_nothing_in_a_converted_lakehouse(lake: Lake, layout: str, there: MemoryStore) -> None:
    convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]))
    before = _files(there)
    assert vacuum_files(_opened(there, OTHER[layout]), alone=True).paths == ()
    assert _files(there) == before
    assert CONVERSION_PATH in before


def test_a_custom_copier_can_copy_the_files(lake: Lake, layout: str, there: MemoryStore) -> None:
    requested: list[list[str]] = []

    def copier(source: Store, destination: Store, sizes: Mapping[str, int], watch: ProgressCallback) -> None:
        requested.append(sorted(sizes))
        copy_files(source, destination, sizes, watch)

    seen: list[Progress] = []
    convert_lakehouse(lake.maintained, build_conversion_target(there, OTHER[layout]), copier=copier, watch=seen.append)
    assert requested == [["data/t/1.parquet", "data/t/2.parquet"]]
    assert {one.what for one in seen} >= {"scanning versions", "copying", "converting versions"}


def test_the_requests_per_version_are_independent_of_the_history_length(layout: str) -> None:
    costs = []
    for count in (20, 60):
        lake = Lake(layout)
        for position in range(1, count + 1):
            lake.append(position)
        lake.maintained = MaintenanceContext(lake.effects, lake.metastore, lake.metastore)
        counted = CountingStore(MemoryStore("memory://destination/"))
        assert convert_lakehouse(lake.maintained, build_conversion_target(counted, OTHER[layout])).is_sound
        costs.append(counted.requests.total / count)
    assert costs[1] <= costs[0]


class _CrashingAt(FaultyStore):
    """Crashes at the n-th request of a kind."""

    def __init__(self, store: Store, operation: str, number: int) -> None:
        super().__init__(store, Faults(seed=number))
        self._operation, self._left = operation, number

    def _meet(self, operation: str, path: str, effect: Callable[..., object]) -> None:
        if operation == self._operation:
            if not self._left:
                self.fail_next(operation, "crash")  # type: ignore[arg-type]
            self._left -= 1
        super()._meet(operation, path, effect)  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", ["deltacat", "deltacat-2"])
def test_a_table_that_moved_to_another_namespace_is_converted_without_a_difference(layout: str, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "source", layout=layout)
    lake.create_namespace("shop")
    lake.create_namespace("archive")
    lake.create_table("shop.orders", "id bigint").append([{"id": 1}])
    lake.rename_table("shop.orders", "archive.orders")
    lake.table("archive.orders").append([{"id": 2}])
    converted = lake.maintenance.convert(str(tmp_path / "tree"), layout="tree")
    assert converted.comparison.differences == ()
    assert mangrove.open(tmp_path / "tree").table("archive.orders").count() == 2
