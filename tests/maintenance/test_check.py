"""The check of a whole lakehouse finds what is broken, names it, and mends what is safe to mend."""

import threading

import pytest

from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.tree.metastore import create_tree, open_tree
from mangrove.maintenance.check import CheckReport, build_parallel_row_counter, check_lakehouse, sample_versions
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.expiry import GRACE_MILLIS
from mangrove.maintenance.export import pin_version
from mangrove.maintenance.progress import Progress
from mangrove.metastore import Changes
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import Store
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.metastore_contract import (
    PARTITION,
    commit_objects,
    make_delta_locator,
    make_namespace,
    make_table,
)

SETTINGS = LakehouseSettings(order=4, properties={"tree.inline-definition-max-bytes": "0"})


class Lake:
    """A lakehouse with a few tables and data files, looked at by one who just opened it."""

    def __init__(self, settings: LakehouseSettings = SETTINGS) -> None:
        self.clock = Clock()
        self.below = MemoryStore(now_millis=lambda: self.clock.now_millis)
        self.metastore = create_tree(build_deterministic_effects(self.below, self.clock), settings, Changes("made"))
        commit_objects(self.metastore, self.metastore.latest(), make_namespace("sales"))
        self.append(1, "a", "b")
        self.append(2, "c")

    def append(self, position: int, *names: str) -> None:
        files = []
        for name in names:
            self.below.put(f"data/{name}", name.encode())
            files.append(DataFile(f"data/{name}", len(name), row_count=2))
        delta = Delta(DeltaType.APPEND, Manifest(tuple(files)))
        commit_objects(self.metastore, self.metastore.latest(), (make_delta_locator(PARTITION, position), delta))

    def opened(self, store: CountingStore | MemoryStore | None = None) -> MaintenanceContext:
        effects = build_deterministic_effects(store or self.below, self.clock, first_id=10**9)
        metastore = open_tree(effects)
        return MaintenanceContext(effects, metastore, metastore)


@pytest.fixture
def lake() -> Lake:
    return Lake()


def broken(report: CheckReport) -> list[tuple[str, str]]:
    return [(problem.path, problem.rule) for problem in report.problems]


def test_a_sound_lakehouse_has_no_problem(lake: Lake) -> None:
    report = check_lakehouse(lake.opened())
    assert report.is_sound
    assert report.problems == ()
    assert (report.versions, report.data_files, report.files_elsewhere) == ((0, 1, 2, 3), 3, 0)
    assert str(report) == "no problem in 4 of 4 versions, 3 data files"


def test_a_data_file_that_is_missing_or_of_another_size_is_named_once(lake: Lake) -> None:
    lake.below.delete_many(["data/a"])
    lake.below.put("data/c", b"longer")
    report = check_lakehouse(lake.opened())
    assert broken(report) == [
        ("data/a", "a referenced data file is missing"),
        ("data/c", "the data file has 6 bytes, but its manifest says 1"),
    ]
    assert str(report).splitlines()[-1] == "2 problems in 4 of 4 versions, 3 data files"
    assert "data/a: a referenced data file is missing" in str(report)


def test_rows_are_counted_if_a_row_counter_is_given(lake: Lake) -> None:
    def count(_: Store, file: DataFile) -> int:
        if file.location == "data/c":
            raise FormatError("data/c is no Parquet file")
        return 2 if file.location == "data/a" else 7

    assert broken(check_lakehouse(lake.opened(), count_rows=build_parallel_row_counter(count))) == [
        ("data/b", "the data file has 7 rows, but its manifest says 2"),
        ("data/c", "data/c is no Parquet file"),
    ]


def test_rows_of_several_files_are_counted_at_a_time(lake: Lake) -> None:
    together = threading.Barrier(3)

    def count(_: Store, file: DataFile) -> int:
        together.wait(60)
        return file.row_count

    seen: list[Progress] = []
    report = check_lakehouse(lake.opened(), count_rows=build_parallel_row_counter(count), watch=seen.append)
    assert report.is_sound
    counting = [(one.files_done, one.files_total) for one in seen if one.what == "counting rows"]
    assert counting == [(1, 3), (2, 3), (3, 3)]


def test_files_outside_the_root_are_counted_and_reported_but_not_read(lake: Lake) -> None:
    far = Delta(DeltaType.APPEND, Manifest((DataFile("s3://far/away.parquet", 1, row_count=1),)))
    commit_objects(lake.metastore, lake.metastore.latest(), (make_delta_locator(PARTITION, 3), far))
    report = check_lakehouse(lake.opened())
    assert broken(report) == [
        ("s3://far/away.parquet", "the data file is outside the lakehouse root and cannot be read")
    ]
    assert (report.data_files, report.files_elsewhere) == (3, 1)
    assert "(1 more are outside the root)" in str(report)
    assert check_lakehouse(lake.opened(), referenced_root="s3://far/").is_sound


def test_a_file_below_the_root_that_is_named_by_its_uri_is_reported_with_a_remedy(lake: Lake) -> None:
    own = Delta(DeltaType.APPEND, Manifest((DataFile(f"{lake.below.uri}data/a", 1, row_count=1),)))
    commit_objects(lake.metastore, lake.metastore.latest(), (make_delta_locator(PARTITION, 3), own))
    ((path, rule),) = broken(check_lakehouse(lake.opened()))
    assert path == f"{lake.below.uri}data/a"
    assert "convert" in rule


def test_a_file_of_mangrove_outside_the_data_folder_is_checked(lake: Lake) -> None:
    other = Delta(DeltaType.APPEND, Manifest((DataFile("elsewhere/x.parquet", 1, row_count=1),)))
    commit_objects(lake.metastore, lake.metastore.latest(), (make_delta_locator(PARTITION, 3), other))
    assert [path for path, _ in broken(check_lakehouse(lake.opened()))] == ["elsewhere/x.parquet"]


def test_a_definition_that_is_missing_or_damaged_is_found(lake: Lake) -> None:
    definitions = sorted(entry.path for entry in lake.below.list() if "-delta-" in entry.path)
    lake.below.delete_many(definitions[:1])
    assert not check_lakehouse(lake.opened()).is_sound
    assert any(definitions[0] in path + rule for path, rule in broken(check_lakehouse(lake.opened())))
    lake.below.put(definitions[0], b"\xff\xff")
    assert any(definitions[0] in path + rule for path, rule in broken(check_lakehouse(lake.opened())))


def test_a_damaged_root_is_found_and_the_other_versions_are_still_checked(lake: Lake) -> None:
    lake.below.delete_many(["data/c"])
    lake.below.put("_10000000000000000000000000000000.ipc", b"damaged")
    effects = build_deterministic_effects(lake.below, lake.clock)
    report = check_lakehouse(MaintenanceContext(effects, lake.metastore, lake.metastore))
    assert any("_1000" in path + rule for path, rule in broken(report))
    assert any(path == "data/c" for path, _ in broken(report))


def test_an_export_whose_version_is_missing_is_found(lake: Lake) -> None:
    pin_version(lake.opened(), "year-end", 1)
    lake.below.delete_many(["_10000000000000000000000000000000.ipc"])
    assert [rule for _, rule in broken(check_lakehouse(lake.opened()))] == [
        "the export 'year-end' names version 1, which does not exist"
    ]


def test_repair_deletes_and_reports_unreferenced_files(lake: Lake) -> None:
    lake.below.put("data/orphan", b"12345")
    lake.clock.now_millis += GRACE_MILLIS + 1
    assert check_lakehouse(lake.opened()).repaired == ()
    assert lake.below.exists("data/orphan")
    report = check_lakehouse(lake.opened(), repair=True)
    assert not lake.below.exists("data/orphan")
    assert any("(5 bytes) were deleted" in what for what in report.repaired)
    assert report.is_sound
    assert check_lakehouse(lake.opened(), repair=True).repaired == ()


def test_a_sample_of_versions_is_spread_from_the_oldest_to_the_newest(lake: Lake) -> None:
    assert check_lakehouse(lake.opened(), sample=2).versions == (0, 3)
    assert check_lakehouse(lake.opened(), sample=1).versions == (3,)
    assert sample_versions(list(range(100)), 4) == [0, 33, 66, 99]
    with pytest.raises(InvalidInputError):
        check_lakehouse(lake.opened(), sample=0)


@pytest.mark.parametrize("commits", [20, 60])
def test_files_shared_by_versions_are_read_once(lake: Lake, commits: int) -> None:
    for number in range(commits):
        commit_objects(lake.metastore, lake.metastore.latest(), make_table("sales", f"t{number:02d}"))
    store = CountingStore(lake.below)
    opened = lake.opened(store)
    files = sum("/" in entry.path and not entry.path.startswith("data/") for entry in lake.below.list())
    versions = len(opened.maintenance.list_retained())
    before = store.requests
    assert check_lakehouse(opened).is_sound
    made = store.requests - before
    assert made.reads + made.sizes <= 4 * files + 2 * versions + 10
    assert made.lists <= 4
    assert made.total == made.reads + made.sizes + made.lists


def test_a_thorough_check_looks_at_every_rule_in_every_version(lake: Lake) -> None:
    store = CountingStore(lake.below)
    opened = lake.opened(store)
    before = store.requests
    check_lakehouse(opened)
    usual = store.requests - before
    before = store.requests
    assert check_lakehouse(opened, thorough=True).is_sound
    assert (store.requests - before).reads > usual.reads


def test_progress_is_reported_for_each_version(lake: Lake) -> None:
    seen: list[Progress] = []
    check_lakehouse(lake.opened(), watch=seen.append)
    assert [(progress.what.split()[0], progress.files_done) for progress in seen] == [
        ("checking", 1),
        *(("walking", number) for number in range(1, 5)),
    ]


def test_versions_that_expire_during_the_check_are_not_a_problem(lake: Lake) -> None:
    opened = lake.opened()

    class Expiring:
        """A metastore of which a version disappears after it was counted."""

        def at_version(self, version: int) -> object:
            if version == 0:
                lake.below.delete_many(["_00000000000000000000000000000000.ipc"])
            return opened.metastore.at_version(version)

        def __getattr__(self, name: str) -> object:
            return getattr(opened.metastore, name)

    report = check_lakehouse(MaintenanceContext(opened.effects, Expiring(), opened.maintenance))  # type: ignore[arg-type]
    assert report.is_sound
