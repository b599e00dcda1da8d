"""Whatever commits, expires, vacuums, exports, crashes and waits, no live version ever misses a file.

Each rule may run with another actor's work in its middle, and on a store that
crashes. Everything is compared with what each version held when it was first seen.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, Protocol

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mangrove.effects import Effects
from mangrove.errors import ConflictError, NotFoundError
from mangrove.layouts.deltacat.metastore import create_catalog, open_catalog
from mangrove.layouts.tree.metastore import create_tree, open_tree
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.expiry import expire_versions
from mangrove.maintenance.export import ExportMode, drop_export, export_version
from mangrove.maintenance.export_records import list_exports, open_export
from mangrove.maintenance.reachability import visit_reachable_files
from mangrove.maintenance.vacuum import vacuum_files
from mangrove.maintenance.version_files import is_version_file
from mangrove.metastore import Changes, Metastore, MetastoreMaintenance, MetastoreSnapshot
from mangrove.model.locators import Kind, SharedTransactionLocator
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType, SharedTransactionEntry
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import ListEntry, ObjectInfo, Store
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.faulty_store import Faults, FaultyStore, SimulatedCrash
from mangrove.testing.metastore_contract import PARTITION, commit_objects, make_delta_locator
from mangrove.transaction.transaction import youngest_expirable_millis

LIMIT_MILLIS = 1_000
AGE_MILLIS = 1_000_000
SETTINGS = LakehouseSettings(
    order=4,
    properties={"tree.inline-definition-max-bytes": "40", "transaction.time-limit-millis": str(LIMIT_MILLIS)},
    maximum_version_age_millis=AGE_MILLIS,
    minimum_versions_to_keep=2,
)
SAFE_MILLIS = youngest_expirable_millis(SETTINGS)
WAITS = st.sampled_from([1, LIMIT_MILLIS // 2, SAFE_MILLIS - 1, SAFE_MILLIS, AGE_MILLIS, 3 * AGE_MILLIS])
FOREIGN = "notes.txt"

Action = Callable[[], object]


class HookedStore(MemoryStore):
    """A store that lets somebody else act in the middle of somebody's work: before the n-th request from now."""

    def __init__(self, uri: str, clock: Clock) -> None:
        super().__init__(uri, now_millis=lambda: clock.now_millis)
        self._requests_left = 0
        self._action: Action | None = None

    def interrupt(self, requests: int, action: Action) -> None:
        self._requests_left, self._action = requests, action

    def _meet(self) -> None:
        if self._action is None:
            return
        self._requests_left -= 1
        if self._requests_left <= 0:
            action, self._action = self._action, None
            action()

    def settle(self) -> None:
        """Forget an interruption that did not come about."""
        self._action = None

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        self._meet()
        return super().read_many(paths)

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[ListEntry]:
        yield from super().list(prefix, start_after=start_after, delimiter=delimiter)
        self._meet()

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        self._meet()
        super().put_many(objects)

    def create(self, path: str, data: bytes) -> bool:
        self._meet()
        return super().create(path, data)

    def delete_many(self, paths: Iterable[str]) -> None:
        self._meet()
        super().delete_many(paths)


class MetastoreWithMaintenance(Metastore, MetastoreMaintenance, Protocol):
    """A metastore that is its own upkeep, as those of both layouts are."""


class Layout(NamedTuple):
    """How a lakehouse of a layout is made and opened."""

    create: Callable[[Effects, LakehouseSettings, Changes], MetastoreWithMaintenance]
    open: Callable[[Effects], MetastoreWithMaintenance]


TREE = Layout(create_tree, open_tree)
CATALOG = Layout(create_catalog, open_catalog)


@dataclass(frozen=True)
class Writer:
    """A transaction that wrote its files and has yet to commit."""

    metastore: MetastoreWithMaintenance
    base: MetastoreSnapshot
    began_at_millis: int
    delta: Delta


@dataclass
class Model:
    """What is known to be true of the lakehouse."""

    seen: dict[int, tuple[str, frozenset[str]]] = field(default_factory=dict)
    """The transaction that made each version, and the data files it held, when it was first seen."""
    copies: dict[str, tuple[MemoryStore, int]] = field(default_factory=dict)
    """The exports that were finished, with their version."""
    shared: dict[str, tuple[int, int, Delta]] = field(default_factory=dict)
    """The shared transactions: their base, when they expire, and what they staged."""


def files_in(metastore: MetastoreWithMaintenance, snapshot: MetastoreSnapshot) -> frozenset[str]:
    deltas = (value for _, value in metastore.objects(snapshot, Kind.DELTA) if isinstance(value, Delta))
    return frozenset(file.location for delta in deltas for file in delta.manifest.entries)


class MaintenanceMachine(RuleBasedStateMachine):
    """One lakehouse, many actors, one clock."""

    layout: ClassVar[Layout] = TREE

    @initialize(age_millis=st.sampled_from([0, AGE_MILLIS]))
    def make(self, age_millis: int) -> None:
        self.clock = Clock()
        self.store = HookedStore("memory://source/", self.clock)
        self.openings = 0
        self.names = 0
        self.model = Model()
        self.writers: list[Writer] = []
        self.rolled_back = 0
        self.layout.create(
            self.effects(self.store), replace(SETTINGS, maximum_version_age_millis=age_millis), Changes("made")
        )
        self.store.put(FOREIGN, b"not ours")
        self.look()

    def effects(self, store: Store) -> Effects:
        self.openings += 1
        return build_deterministic_effects(store, self.clock, first_id=10**6 * self.openings)

    def opened(self, store: Store | None = None) -> MaintenanceContext:
        effects = self.effects(store or self.store)
        metastore = self.layout.open(effects)
        return MaintenanceContext(effects, metastore, metastore)

    def metastore(self) -> MetastoreWithMaintenance:
        return self.layout.open(self.effects(self.store))

    def written(self) -> Delta:
        self.names += 1
        path = f"data/{self.names}.parquet"
        self.store.put(path, path.encode())
        return Delta(DeltaType.APPEND, Manifest((DataFile(path, len(path), row_count=1),)))

    def look(self) -> None:
        """Note what versions hold that nobody has seen before."""
        metastore = self.metastore()
        for commit in metastore.list_retained():
            if commit.version not in self.model.seen:
                files = files_in(metastore, metastore.at_version(commit.version))
                self.model.seen[commit.version] = (commit.transaction_id, files)

    def commit(self, metastore: MetastoreWithMaintenance, base: MetastoreSnapshot, delta: Delta) -> None:
        last = base.last_child(Kind.DELTA, PARTITION)
        position = 1 if last is None else int(last.parts[-1]) + 1
        committed = commit_objects(metastore, base, (make_delta_locator(PARTITION, position), delta))
        self.look()
        assert {file.location for file in delta.manifest.entries} <= self.model.seen[committed.snapshot.version][1]

    def append(self) -> None:
        metastore = self.metastore()
        self.commit(metastore, metastore.latest(), self.written())

    def finish(self) -> None:
        if not self.writers:
            return
        writer = self.writers.pop(0)
        if self.clock.now_millis - writer.began_at_millis > LIMIT_MILLIS:
            return
        try:
            self.commit(writer.metastore, writer.base, writer.delta)
        except ConflictError:
            assert self.rolled_back > writer.base.version

    def actions(self) -> list[Action]:
        return [self.append, self.finish, self.delete, self.plain_expire]

    def plain_expire(self) -> None:
        expire_versions(self.opened())

    @rule(count=st.integers(1, 3))
    def commit_some(self, count: int) -> None:
        for _ in range(count):
            self.append()

    @rule()
    def delete(self) -> None:
        metastore = self.metastore()
        newest = metastore.latest()
        first = next(iter(newest.children(Kind.DELTA, PARTITION)), None)
        if first is not None:
            commit_objects(metastore, newest, deletes=frozenset({first[0]}))
            self.look()

    @rule(back=st.integers(0, 5))
    def roll_back(self, back: int) -> None:
        metastore = self.metastore()
        kept = metastore.list_retained()
        to = kept[max(0, len(kept) - 1 - back)].version
        after = metastore.roll_back(metastore.at_version(to), Changes(f"rollback-{self.openings}"))
        self.look()
        assert self.model.seen[after.version][1] == self.model.seen[to][1]
        self.rolled_back = after.version
        self.model.shared.clear()

    @rule(back=st.integers(0, 9), requests=st.integers(1, 20), millis=st.sampled_from([0, LIMIT_MILLIS]))
    def roll_back_with_others(self, back: int, requests: int, millis: int) -> None:
        """Roll back to a version that somebody forgets, with all that only it needs, at that very moment."""
        metastore = self.metastore()
        kept = metastore.list_retained()
        to = kept[max(0, len(kept) - 1 - back)].version
        target = metastore.at_version(to)
        self.store.interrupt(requests, lambda: self.clean_up(millis, 1))
        try:
            after = metastore.roll_back(target, Changes(f"rollback-{self.openings}"))
        except NotFoundError:
            return
        finally:
            self.store.settle()
            self.look()
        assert self.model.seen[after.version][1] == self.model.seen[to][1]
        self.rolled_back = after.version
        self.model.shared.clear()

    @rule()
    def begin(self) -> None:
        metastore = self.metastore()
        self.writers.append(Writer(metastore, metastore.latest(), self.clock.now_millis, self.written()))

    @rule()
    def finish_writer(self) -> None:
        self.finish()

    @rule(life=st.sampled_from([SAFE_MILLIS, 10 * AGE_MILLIS]))
    def begin_shared(self, life: int) -> None:
        name = f"shared-{self.openings}"
        metastore = self.metastore()
        base = metastore.latest()
        now = self.clock.now_millis
        commit_objects(
            metastore,
            base,
            (SharedTransactionLocator(name), SharedTransactionEntry(name, base.version, now, now + life)),
        )
        self.look()
        self.model.shared[name] = (base.version, now + life, self.written())

    @precondition(lambda self: self.model.shared)
    @rule()
    def publish_shared(self) -> None:
        name, (base, expires_at, delta) = self.model.shared.popitem()
        if self.clock.now_millis >= expires_at:
            return
        metastore = self.metastore()
        assert metastore.at_version(base).version == base
        newest = metastore.latest()
        self.commit(metastore, newest, delta)
        commit_objects(metastore, metastore.latest(), deletes=frozenset({SharedTransactionLocator(name)}))
        self.look()

    @rule(millis=WAITS)
    def wait(self, millis: int) -> None:
        self.clock.now_millis += millis

    @rule(requests=st.integers(1, 40), who=st.integers(0, 3))
    def expire_with_others(self, requests: int, who: int) -> None:
        lake = self.opened()
        self.store.interrupt(requests, self.actions()[who])
        expire_versions(lake)
        self.store.settle()

    @rule(requests=st.integers(1, 40), who=st.integers(0, 3))
    def vacuum_with_others(self, requests: int, who: int) -> None:
        lake = self.opened()
        self.store.interrupt(requests, self.actions()[who])
        vacuum_files(lake, grace_millis=SAFE_MILLIS)
        self.store.settle()

    @rule(millis=st.sampled_from([0, SAFE_MILLIS, AGE_MILLIS]), count=st.integers(0, 3))
    def clean_up(self, millis: int, count: int) -> None:
        """Let some commits and some time pass, and forget and delete all that may go."""
        for _ in range(count):
            self.append()
        self.clock.now_millis += millis
        expire_versions(self.opened())
        vacuum_files(self.opened(), grace_millis=SAFE_MILLIS)

    @rule(requests=st.integers(1, 40), who=st.integers(0, 3), full=st.booleans())
    def export_with_others(self, requests: int, who: int, full: bool) -> None:
        name = f"export-{self.openings}"
        destination = MemoryStore(f"memory://{name}/")
        lake = self.opened()
        self.store.interrupt(requests, self.actions()[who])
        mode = ExportMode.FULL if full else ExportMode.MINIMAL
        made = export_version(lake, destination, name, mode=mode).export
        self.store.settle()
        self.model.copies[name] = (destination, made.version)
        self.look()

    @precondition(lambda self: len(self.model.copies) > 1)
    @rule()
    def drop(self) -> None:
        name, _ = self.model.copies.popitem()
        drop_export(self.opened(), name)
        self.look()

    @rule(seed=st.integers(0, 2**32), what=st.integers(0, 3))
    def crash(self, seed: int, what: int) -> None:
        """Let somebody die in the middle of something."""
        crashing = FaultyStore(self.store, Faults(seed=seed, crash=0.08))
        name = f"export-{self.openings}"
        destination = MemoryStore(f"memory://{name}/")
        try:
            lake = self.opened(crashing)
            if what == 0:
                expire_versions(lake)
            elif what == 1:
                vacuum_files(lake, grace_millis=SAFE_MILLIS)
            elif what == 2:
                export_version(lake, destination, name)
            else:
                latest = lake.metastore.latest()
                commit_objects(
                    lake.metastore, latest, (make_delta_locator(PARTITION, 10**6 + self.openings), self.written())
                )
        except SimulatedCrash:
            pass
        self.look()
        if name in self.metastore().latest().settings.exported_snapshots:
            export_version(self.opened(), destination, name)
            self.look()
            version = next(one.version for one in list_exports(self.metastore().latest().settings) if one.name == name)
            self.model.copies[name] = (destination, version)

    @invariant()
    def retained_versions_are_unchanged_and_every_file_exists(self) -> None:
        metastore = self.metastore()
        lake = MaintenanceContext(self.effects(self.store), metastore, metastore)
        kept = metastore.list_retained()
        assert kept[-1].version == metastore.latest().version == max(self.model.seen)
        assert len(kept) >= min(len(self.model.seen), SETTINGS.minimum_versions_to_keep)
        there = self.paths()
        for commit in kept:
            snapshot = metastore.at_version(commit.version)
            assert (commit.transaction_id, files_in(metastore, snapshot)) == self.model.seen[commit.version]
            assert self.needed(lake, [snapshot]) <= there
        assert FOREIGN in there

    @invariant()
    def exports_open_with_everything(self) -> None:
        kept = {commit.version for commit in self.metastore().list_retained()}
        for destination, version in self.model.copies.values():
            assert version in kept
            store = open_export(destination, lambda uri: {self.store.uri: self.store}[uri])
            copy = self.layout.open(self.effects(store))
            assert copy.latest().version == version
            files = files_in(copy, copy.latest())
            assert files == self.model.seen[version][1]
            assert None not in store.read_many(sorted(files))

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        self.clock.now_millis += 100 * AGE_MILLIS
        expire_versions(self.opened(), alone=True)
        vacuum_files(self.opened(), alone=True)
        self.retained_versions_are_unchanged_and_every_file_exists()
        lake = self.opened()
        kept = lake.maintenance.list_retained()
        held = {version for _, version in self.model.copies.values()}
        assert {commit.version for commit in kept} >= held
        assert len(kept) <= SETTINGS.minimum_versions_to_keep + len(lake.metastore.latest().settings.exported_snapshots)
        needed = self.needed(lake, [lake.metastore.at_version(commit.version) for commit in kept])
        assert {path for path in self.paths() - needed if not is_advice(path)} == {FOREIGN}

    def paths(self) -> set[str]:
        return {entry.path for entry in self.store.list() if isinstance(entry, ObjectInfo)}

    def needed(self, lake: MaintenanceContext, snapshots: list[MetastoreSnapshot]) -> set[str]:
        found: set[str] = set()
        visit_reachable_files(lake, snapshots, found.add)
        return found


def is_advice(path: str) -> bool:
    """Return whether the file may stay without being needed: hints, names of expired versions, DeltaCAT's log."""
    return is_version_file(path) or path.startswith("txn/")


class CatalogMaintenanceMachine(MaintenanceMachine):
    """The same on the other layout."""

    layout = CATALOG


# Each example is a life of its own, so a tenth of what simpler properties get; the thorough profile still makes 500.
EFFORT = hypothesis_settings(max_examples=max(12, hypothesis_settings().max_examples // 10), stateful_step_count=25)
TestTreeMaintenance = pytest.mark.slow(MaintenanceMachine.TestCase)
TestTreeMaintenance.settings = EFFORT
TestCatalogMaintenance = pytest.mark.slow(CatalogMaintenanceMachine.TestCase)
TestCatalogMaintenance.settings = EFFORT
