"""Commits that crash at any request: whatever was on its way, readers see exactly the versions that were committed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mangrove.errors import ConflictError, StorageError
from mangrove.layouts.deltacat.metastore import DeltaCatMetastore, create_catalog, open_catalog
from mangrove.layouts.deltacat.paths import MANGROVE_FOLDER
from mangrove.layouts.deltacat.revision import DELTACAT_2, SEED, DeltaCatRevision
from mangrove.layouts.deltacat.transaction_log import parse_log_path
from mangrove.metastore import Changes, Isolation, MetastoreSnapshot
from mangrove.model.locators import Kind, Locator, NamespaceLocator, PartitionLocator, TableLocator
from mangrove.model.objects import Delta, NamespaceEntry, Object, Partition, TableEntry
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import ObjectInfo
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.faulty_store import Faults, FaultyStore, SimulatedCrash
from mangrove.testing.metastore_contract import commit_objects, make_delta, make_namespace, make_table

_PARTITION = PartitionLocator("n", "t", 1, "s", "p")
_NO_FAULTS = Faults(seed=0)


@pytest.fixture(params=[SEED, DELTACAT_2], ids=["seed", "deltacat-2"])
def revision(request: pytest.FixtureRequest) -> DeltaCatRevision:
    assert isinstance(request.param, DeltaCatRevision)
    return request.param


class Stopping(FaultyStore):
    """A store whose process dies at the `stops_after`-th write from now."""

    def __init__(self, below: MemoryStore) -> None:
        super().__init__(below, _NO_FAULTS)
        self.below = below
        self.writes_left: int | None = None

    def put(self, path: str, data: bytes) -> None:
        self._count()
        super().put(path, data)

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        for path, data in objects.items():
            self.put(path, data)

    def create(self, path: str, data: bytes) -> bool:
        self._count()
        return super().create(path, data)

    def _count(self) -> None:
        if self.writes_left is not None:
            if self.writes_left == 0:
                raise SimulatedCrash
            self.writes_left -= 1


def _state(snapshot: MetastoreSnapshot) -> dict[Locator, Object]:
    """Return everything that these tests write, as one version has it."""
    found: dict[Locator, Object] = {}
    for way, value in snapshot.children(Kind.NAMESPACE, None):
        found[way] = value
        assert isinstance(way, NamespaceLocator)
        found |= dict(snapshot.children(Kind.TABLE, way))
    return found | dict(snapshot.children(Kind.DELTA, _PARTITION))


class Commits(RuleBasedStateMachine):
    """Random transactions by writers that may die, against a dictionary for each version."""

    revision = SEED

    @initialize()
    def make(self) -> None:
        self.below = MemoryStore()
        self.clock = Clock()
        self.count = 0
        made = create_catalog(self._effects(self.below), LakehouseSettings(), Changes("made"), self.revision)
        puts: dict[Locator, Object] = {_PARTITION: Partition("p")}
        made.commit(made.latest(), Changes("partition", puts=puts), Isolation.SNAPSHOT)
        self.versions: list[dict[Locator, Object]] = [{}, {}]
        self.bases = {0: made.at_version(0), 1: made.latest()}
        self.writer = made

    @rule(
        names=st.dictionaries(st.sampled_from("abcde"), st.sampled_from("wxyz"), max_size=3),
        dropped=st.sets(st.sampled_from("abcde"), max_size=2),
        deltas=st.integers(0, 2),
        writes=st.none() | st.integers(0, 14),
        back_millis=st.sampled_from([0, 0, 50_000]),
        isolation=st.sampled_from(Isolation),
    )
    def commit(
        self,
        names: dict[str, str],
        dropped: set[str],
        deltas: int,
        writes: int | None,
        back_millis: int,
        isolation: Isolation,
    ) -> None:
        """Commit on the newest version through a store that may stop after so many writes."""
        self.clock.now_millis -= back_millis
        store = Stopping(self.below)
        writer = open_catalog(self._effects(store))
        base = writer.latest()
        before = self.versions[-1]
        changes = self._changes(before, names, dropped, deltas)
        store.writes_left = writes
        after = _applied(before, changes)
        try:
            committed = writer.commit(base, changes, isolation)
        except SimulatedCrash:
            # It is committed if the guard was created, and only then.
            if self._reader().latest().version == base.version + 1:
                self.versions.append(after)
            return
        if not changes.is_empty:
            assert committed.snapshot.version == base.version + 1
            self.versions.append(after)

    @rule(writer_is_kept=st.booleans(), deltas=st.integers(1, 3))
    def append_on_an_old_base(self, writer_is_kept: bool, deltas: int) -> None:
        """Append through a writer that has not looked since it was opened: the deltas go behind the others'."""
        writer = self.writer
        base = writer.at_version(min(1, writer.latest().version))
        ways = [make_delta(_PARTITION, place, number=str(self._next())) for place in range(1, deltas + 1)]
        committed = commit_objects(writer, base, *ways)
        assert committed.snapshot.version == len(self.versions)
        self.versions.append(_applied(self.versions[-1], committed.changes))
        if not writer_is_kept:
            self.writer = open_catalog(self._effects(self.below))

    @invariant()
    def readers_see_exactly_what_was_committed(self) -> None:
        if not hasattr(self, "versions"):
            return
        reader = self._reader()
        newest = reader.latest()
        assert newest.version == len(self.versions) - 1
        for version in {0, len(self.versions) // 2, len(self.versions) - 1}:
            assert _state(reader.at_version(version)) == self.versions[version]
        times = [line.created_at_millis for line in reader.history()]
        assert times == sorted(set(times), reverse=True)

    def teardown(self) -> None:
        if not hasattr(self, "versions"):
            return
        # The next commit completes what a crash left, and then DeltaCAT's own files say the same.
        last = self._reader()
        commit_objects(last, last.latest(), make_namespace("last"))
        bare = MemoryStore()
        for entry in self.below.list():
            if isinstance(entry, ObjectInfo) and not entry.path.startswith(MANGROVE_FOLDER):
                bare.put(entry.path, self.below.read(entry.path))
        assert _state(open_catalog(build_deterministic_effects(bare)).latest()) == _state(last.latest())

    def _changes(self, before: dict[Locator, Object], names: dict[str, str], dropped: set[str], deltas: int) -> Changes:
        """Return changes of namespaces `a` to `e`, tables `x` in them, and appended deltas."""
        puts: dict[Locator, Object] = {}
        deletes: set[Locator] = set()
        for space in dropped:
            way = NamespaceLocator(space)
            if way in before and not any(isinstance(at, TableLocator) and at.namespace == space for at in before):
                deletes.add(way)
        for space, name in names.items():
            way = NamespaceLocator(space)
            if way in deletes:
                continue
            there = before.get(way)
            space_id = there.id if isinstance(there, NamespaceEntry) else f"id-{self._next()}"
            puts[way] = NamespaceEntry(space_id, space, {"count": str(self._next())})
            at = TableLocator(space, name)
            old = next((one for one in before if isinstance(one, TableLocator) and one.namespace == space), None)
            value = None if old is None else before[old]
            if old is not None and old != at and isinstance(value, TableEntry) and old not in puts:
                deletes.add(old)
                puts[at] = TableEntry(value.id, value.namespace_id, name)
            elif at not in before:
                puts[at] = TableEntry(f"id-{self._next()}", space_id, name)
        last = max((at.parts[-1] for at in before if at.kind is Kind.DELTA), default=0)
        assert isinstance(last, int)
        puts |= dict(make_delta(_PARTITION, last + place, number=str(self._next())) for place in range(1, deltas + 1))
        return Changes(f"txn-{self._next()}", puts=puts, deletes=frozenset(deletes))

    def _next(self) -> int:
        self.count += 1
        return self.count

    def _reader(self) -> DeltaCatMetastore:
        return open_catalog(self._effects(self.below))

    def _effects(self, store: Any) -> Any:
        return build_deterministic_effects(store, self.clock, first_id=self._next() * 10**6)


def _applied(before: dict[Locator, Object], changes: Changes) -> dict[Locator, Object]:
    after = {way: value for way, value in before.items() if way not in changes.deletes}
    for way, value in changes.puts.items():
        placed = value
        if isinstance(value, Delta):
            position = way.parts[-1]
            assert isinstance(position, int)
            placed = Delta(value.type, properties=value.properties, position=position)
        if way.kind is not Kind.PARTITION:
            after[way] = placed
    return after


class CommitsOfRevision2(Commits):
    """The same in the form of DeltaCAT 2.x."""

    revision = DELTACAT_2


TestCommits = Commits.TestCase
TestCommitsOfRevision2 = CommitsOfRevision2.TestCase
TestCommits.settings = settings(max_examples=40, stateful_step_count=12)
TestCommitsOfRevision2.settings = settings(max_examples=40, stateful_step_count=12)


class Lake:
    """A catalog on a store that fails when it is told to, and a reader on the store below."""

    def __init__(self, revision: DeltaCatRevision) -> None:
        self.below = MemoryStore()
        self.store = FaultyStore(self.below, _NO_FAULTS)
        self.catalog = create_catalog(
            build_deterministic_effects(self.store), LakehouseSettings(), Changes("made"), revision
        )
        commit_objects(self.catalog, self.catalog.latest(), make_namespace("sales"))

    def committed(self) -> DeltaCatMetastore:
        return open_catalog(build_deterministic_effects(self.below, first_id=10**9))

    def tables(self) -> list[str]:
        newest = self.committed().latest()
        return [str(way.parts[-1]) for way, _ in newest.children(Kind.TABLE, NamespaceLocator("sales"))]


@pytest.fixture
def lake(revision: DeltaCatRevision) -> Lake:
    return Lake(revision)


def test_a_commit_whose_response_was_lost_is_not_applied_twice(lake: Lake) -> None:
    lake.store.fail_next("create", "after", "version")
    assert commit_objects(lake.catalog, lake.catalog.latest(), make_table("sales", "orders")).snapshot.version == 2
    assert lake.committed().latest().version == 2
    assert lake.tables() == ["orders"]


def test_a_commit_whose_create_failed_without_effect_is_tried_again(lake: Lake) -> None:
    lake.store.fail_next("create", "before", "version")
    assert commit_objects(lake.catalog, lake.catalog.latest(), make_table("sales", "orders")).snapshot.version == 2
    assert lake.tables() == ["orders"]


def test_a_concurrent_commit_that_won_is_detected_despite_a_lost_response(lake: Lake) -> None:
    base = lake.catalog.latest()
    concurrent_commit = lake.committed()
    commit_objects(concurrent_commit, concurrent_commit.latest(), make_table("sales", "orders"))
    lake.store.fail_next("create", "before", "version")
    with pytest.raises(ConflictError, match=r"sales\.orders"):
        commit_objects(lake.catalog, base, make_table("sales", "orders"))


def test_a_permanently_failing_store_reports_that_nothing_was_committed(lake: Lake) -> None:
    for _ in range(3):
        lake.store.fail_next("create", "before", "version")
    with pytest.raises(StorageError, match="version 2 could not be committed"):
        commit_objects(lake.catalog, lake.catalog.latest(), make_table("sales", "orders"))
    assert lake.tables() == []


def test_a_log_that_could_not_be_written_is_written_by_the_next_commit(lake: Lake) -> None:
    def logged() -> int:
        return sum(parse_log_path(entry.path) is not None for entry in lake.below.list("txn/"))

    lake.store.fail_next("put", "before", "txn/")
    assert commit_objects(lake.catalog, lake.catalog.latest(), make_table("sales", "orders")).snapshot.version == 2
    assert lake.tables() == ["orders"]
    assert logged() == 2
    other = lake.committed()
    commit_objects(other, other.latest(), make_table("sales", "users"))
    assert logged() == 4


def test_a_failed_hint_write_is_ignored(lake: Lake) -> None:
    lake.store.fail_next("put", "before", "mangrove/latest")
    commit_objects(lake.catalog, lake.catalog.latest(), make_table("sales", "orders"))
    assert lake.tables() == ["orders"]


def test_files_of_a_lost_race_are_deleted_without_background_work(lake: Lake) -> None:
    catalog = open_catalog(replace(build_deterministic_effects(lake.below, first_id=10**6), later=lambda _: None))
    base, concurrent_commit = catalog.latest(), lake.committed()
    commit_objects(concurrent_commit, concurrent_commit.latest(), make_delta(_PARTITION, 1, by="rival"))
    taken = [entry.path for entry in lake.below.list("n/")]
    moved = commit_objects(catalog, base, make_delta(_PARTITION, 1, by="me"))
    assert [way.parts[-1] for way in moved.changes.puts] == [2]
    assert [entry.path for entry in lake.below.list("n/") if entry.path not in taken] == [
        entry.path for entry in lake.below.list("n/t/1/s/p/2/")
    ]
