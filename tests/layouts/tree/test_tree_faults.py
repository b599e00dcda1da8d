"""Commits on a store that fails: nothing is made twice, nothing half, nothing lost."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.effects import build_effects
from mangrove.errors import ConflictError, StorageError
from mangrove.layouts.tree.metastore import TreeMetastore, create_tree, open_tree
from mangrove.metastore import Changes
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.storage.opening import open_store
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.faulty_store import Faults, FaultyStore, SimulatedCrash
from mangrove.testing.metastore_contract import commit_objects, make_namespace, make_table

NO_FAULTS = Faults(seed=0)
PUT_APART = LakehouseSettings(order=4, properties={"tree.inline-definition-max-bytes": "0"})


class Lake:
    """A lakehouse on a store that fails when it is told to, and a reader on the store below."""

    def __init__(self, settings: LakehouseSettings = PUT_APART) -> None:
        self.below = MemoryStore()
        self.store = FaultyStore(self.below, NO_FAULTS)
        self.metastore = create_tree(build_deterministic_effects(self.store), settings, Changes("made"))
        commit_objects(self.metastore, self.metastore.latest(), make_namespace("sales"))

    def committed(self) -> TreeMetastore:
        return open_tree(build_deterministic_effects(self.below, first_id=10**9))

    def tables(self) -> list[str]:
        newest = self.committed().latest()
        return [str(way.parts[-1]) for way, _ in newest.children(Kind.TABLE, NamespaceLocator("sales"))]


@pytest.fixture
def lake() -> Lake:
    return Lake()


def test_a_commit_whose_response_was_lost_is_not_applied_twice(lake: Lake) -> None:
    lake.store.fail_next("create", "after", "_")
    after = commit_objects(lake.metastore, lake.metastore.latest(), make_table("sales", "orders")).snapshot
    assert after.version == 2
    assert lake.committed().latest().version == 2
    assert lake.tables() == ["orders"]


def test_a_commit_whose_create_failed_without_effect_is_tried_again(lake: Lake) -> None:
    lake.store.fail_next("create", "before", "_")
    assert commit_objects(lake.metastore, lake.metastore.latest(), make_table("sales", "orders")).snapshot.version == 2
    assert lake.tables() == ["orders"]


def test_a_concurrent_commit_that_won_is_detected_despite_a_lost_response(lake: Lake) -> None:
    base = lake.metastore.latest()
    concurrent_commit = lake.committed()
    commit_objects(concurrent_commit, concurrent_commit.latest(), make_table("sales", "orders"))
    lake.store.fail_next("create", "before", "_")
    with pytest.raises(ConflictError, match=r"sales\.orders"):
        commit_objects(lake.metastore, base, make_table("sales", "orders"))
    lake.store.fail_next("create", "before", "_")
    assert commit_objects(lake.metastore, base, make_table("sales", "other")).snapshot.version == 3


def test_a_permanently_failing_store_reports_that_nothing_was_committed(lake: Lake) -> None:
    for _ in range(3):
        lake.store.fail_next("create", "before", "_")
    with pytest.raises(StorageError, match="version 2 could not be committed"):
        commit_objects(lake.metastore, lake.metastore.latest(), make_table("sales", "orders"))
    assert lake.tables() == []
    assert lake.committed().latest().version == 1


def test_a_definition_that_could_not_be_written_stops_the_commit(lake: Lake) -> None:
    lake.store.fail_next("put", "before", "table-orders")
    with pytest.raises(StorageError):
        commit_objects(lake.metastore, lake.metastore.latest(), make_table("sales", "orders"))
    assert lake.committed().latest().version == 1
    assert commit_objects(lake.metastore, lake.metastore.latest(), make_table("sales", "orders")).snapshot.version == 2


def test_a_failed_hint_write_is_ignored(lake: Lake) -> None:
    for _ in range(5):
        lake.store.fail_next("put", "before", "_latest_hint")
    for number in range(5):
        commit_objects(lake.metastore, lake.metastore.latest(), make_table("sales", f"t{number}"))
    assert lake.committed().latest().version == 6


@given(st.integers(0, 2**32), st.integers(1, 25))
def test_after_a_crash_at_any_point_a_transaction_is_visible_completely_or_not_at_all(seed: int, commits: int) -> None:
    lake = Lake()
    crashing = FaultyStore(lake.below, Faults(seed=seed, crash=0.1))
    acknowledged: set[str] = set()
    try:
        writer = open_tree(build_deterministic_effects(crashing, first_id=10**6))
        for number in range(commits):
            pair = [make_table("sales", f"{number:03d}-{half}") for half in ("a", "b")]
            commit_objects(writer, writer.latest(), *pair)
            acknowledged |= {way.name for way, _ in pair}
    except SimulatedCrash:
        pass
    there = set(lake.tables())
    assert acknowledged <= there
    assert all((f"{name[:4]}a" in there) == (f"{name[:4]}b" in there) for name in there)
    survivor = lake.committed()
    commit_objects(survivor, survivor.latest(), make_table("sales", "later"))
    assert set(lake.tables()) == there | {"later"}


@given(st.integers(0, 2**32))
def test_acknowledged_commits_survive_random_storage_failures(seed: int) -> None:
    lake = Lake()
    failing = FaultyStore(lake.below, Faults(seed=seed, before=0.05, after=0.05, lost_answer=0.2))
    done: set[str] = set()
    unknown: set[str] = set()
    for number in range(30):
        name = f"t{number:02d}"
        try:
            writer = open_tree(build_deterministic_effects(failing, first_id=10**6 * (number + 1)))
            commit_objects(writer, writer.latest(), make_table("sales", name))
            done.add(name)
        except StorageError:
            unknown.add(name)
    there = lake.tables()
    assert done <= set(there) <= done | unknown
    assert len(there) == len(set(there))


def committer(uri: str, worker: int, count: int) -> "subprocess.Popen[bytes]":
    script = Path(__file__).with_name("append_tables.py")
    return subprocess.Popen([sys.executable, str(script), uri, str(worker), str(count)])


@pytest.fixture
def local_lake(tmp_path: Path) -> str:
    uri = f"{tmp_path}/lake"
    metastore = create_tree(build_effects(open_store(uri)), LakehouseSettings(order=16), Changes("made"))
    commit_objects(metastore, metastore.latest(), make_namespace("sales"))
    return uri


@pytest.mark.slow
def test_concurrent_commits_of_processes_on_local_disk_lose_nothing(local_lake: str) -> None:
    workers, count = 4, 40
    processes = [committer(local_lake, worker, count) for worker in range(workers)]
    assert [process.wait() for process in processes] == [0] * workers
    newest = open_tree(build_effects(open_store(local_lake))).latest()
    assert newest.version == 1 + workers * count
    assert len(list(newest.children(Kind.TABLE, NamespaceLocator("sales")))) == workers * count


def test_a_lakehouse_opens_and_commits_in_another_process(local_lake: str) -> None:
    assert committer(local_lake, 0, 3).wait() == 0
    newest = open_tree(build_effects(open_store(local_lake))).latest()
    assert newest.get(TableLocator("sales", "w0-002")) is not None
