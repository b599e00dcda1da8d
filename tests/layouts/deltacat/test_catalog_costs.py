"""Requests per operation: they do not grow with the history, whatever it holds."""

import pytest

from mangrove.layouts.deltacat.metastore import DeltaCatMetastore, create_catalog, open_catalog
from mangrove.layouts.deltacat.revision import DELTACAT_2, SEED, DeltaCatRevision
from mangrove.metastore import Changes, Isolation
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
)
from mangrove.model.objects import NamespaceEntry, Object, Partition, Stream, TableEntry, TableVersion
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.metastore_contract import make_delta

_HISTORY = 1500
_WARM_MAX, _COLD_MAX = 12, 30
_PARTITION = PartitionLocator("n", "t", 1, "s", "p")


@pytest.fixture(params=[SEED, DELTACAT_2], ids=["seed", "deltacat-2"])
def revision(request: pytest.FixtureRequest) -> DeltaCatRevision:
    assert isinstance(request.param, DeltaCatRevision)
    return request.param


class Counted:
    """A catalog with one table, on a store that counts."""

    def __init__(self, revision: DeltaCatRevision) -> None:
        self.store = CountingStore(MemoryStore())
        self.catalog = create_catalog(
            build_deterministic_effects(self.store), LakehouseSettings(), Changes("made"), revision
        )
        puts: dict[Locator, Object] = {
            NamespaceLocator("sales"): NamespaceEntry("n", "sales"),
            TableLocator("sales", "orders"): TableEntry("t", "n", "orders"),
            TableVersionLocator("n", "t", 1): TableVersion(1, None, latest_stream_id="s"),
            StreamLocator("n", "t", 1, "s"): Stream("s"),
            _PARTITION: Partition("p"),
        }
        self.catalog.commit(self.catalog.latest(), Changes("table", puts=puts), Isolation.SNAPSHOT)

    def append(self, catalog: DeltaCatMetastore, first_id: int) -> int:
        """Append one delta as a writer does, and return how many requests it took."""
        before = self.store.requests
        base = catalog.latest()
        assert base.get(TableLocator("sales", "orders")) is not None
        last = base.last_child(Kind.DELTA, _PARTITION)
        position = last.position + 1 if isinstance(last, DeltaLocator) else 1
        changes = Changes(f"append {first_id}", puts=dict([make_delta(_PARTITION, position)]))
        catalog.commit(base, changes, Isolation.SNAPSHOT)
        return (self.store.requests - before).total

    def reopened(self, first_id: int) -> DeltaCatMetastore:
        return open_catalog(build_deterministic_effects(self.store, first_id=first_id))


def test_the_requests_of_an_append_are_independent_of_the_number_of_commits(revision: DeltaCatRevision) -> None:
    counted = Counted(revision)
    warm: list[int] = []
    cold: list[int] = []
    for number in range(_HISTORY):
        warm.append(counted.append(counted.catalog, number))
        if number % 100 == 99:
            before = counted.store.requests
            reopened = counted.reopened(10**6 * number)
            counted.append(reopened, number)
            cold.append((counted.store.requests - before).total)
    assert max(warm) <= _WARM_MAX
    assert max(cold) <= _COLD_MAX
    early, late = warm[50:550], warm[-500:]
    assert sum(late) <= sum(early) * 1.1
    assert sorted(warm)[len(warm) // 2] <= 6


def test_a_stale_hint_costs_logarithmically_many_requests(revision: DeltaCatRevision) -> None:
    counted = Counted(revision)
    for number in range(300):
        counted.append(counted.catalog, number)
    for hint in (b"1", b"", b"x", b"999999", b"\xff"):
        counted.store.put("mangrove/latest", hint)
        before = counted.store.requests
        reopened = counted.reopened(10**9)
        assert reopened.latest().version == 301
        assert (counted.store.requests - before).total <= 25
        counted.store.delete_many(["mangrove/latest"])
        assert counted.reopened(10**9).latest().version == 301


def test_listing_cached_tables_takes_at_most_one_request_per_hundred(revision: DeltaCatRevision) -> None:
    counted = Counted(revision)
    count = 1000
    tables: dict[Locator, Object] = {
        TableLocator("sales", f"t{number:04d}"): TableEntry(f"id-{number}", "n", f"t{number:04d}")
        for number in range(count)
    }
    counted.catalog.commit(counted.catalog.latest(), Changes("many", puts=tables), Isolation.SNAPSHOT)
    for number in range(20):
        counted.append(counted.catalog, number)
    for catalog in (counted.catalog, counted.reopened(10**9)):
        assert len(list(catalog.latest().children(Kind.TABLE, NamespaceLocator("sales")))) == count + 1
        before = counted.store.requests
        assert len(list(catalog.latest().children(Kind.TABLE, NamespaceLocator("sales")))) == count + 1
        assert (counted.store.requests - before).total <= count / 100 + 20


def test_the_requests_of_a_rename_are_independent_of_the_content(revision: DeltaCatRevision) -> None:
    counted = Counted(revision)
    tables: dict[Locator, Object] = {
        TableLocator("sales", f"t{number:04d}"): TableEntry(f"id-{number}", "n", f"t{number:04d}")
        for number in range(300)
    }
    counted.catalog.commit(counted.catalog.latest(), Changes("many", puts=tables), Isolation.SNAPSHOT)
    for number in range(100):
        counted.append(counted.catalog, number)
    before = counted.store.requests
    puts: dict[Locator, Object] = {NamespaceLocator("shop"): NamespaceEntry("n", "shop")}
    gone = frozenset([NamespaceLocator("sales")])
    counted.catalog.commit(counted.catalog.latest(), Changes("rename", puts=puts, deletes=gone), Isolation.SNAPSHOT)
    # In the seed's format the canonical string of a table contains the name of its namespace.
    mappings = 2 * 301 if revision is SEED else 0
    assert (counted.store.requests - before).total <= _WARM_MAX + mappings
    before = counted.store.requests
    new: dict[Locator, Object] = {TableLocator("shop", "purchases"): TableEntry("t", "n", "purchases")}
    old = frozenset([TableLocator("shop", "orders")])
    counted.catalog.commit(counted.catalog.latest(), Changes("again", puts=new, deletes=old), Isolation.SNAPSHOT)
    flushed_nodes = 8 if revision is SEED else 0
    assert (counted.store.requests - before).total <= _WARM_MAX + flushed_nodes
    newest = counted.catalog.latest()
    assert len(list(newest.children(Kind.DELTA, _PARTITION))) == 100
    assert len(list(newest.children(Kind.TABLE, NamespaceLocator("shop")))) == 301


def test_time_travel_takes_as_many_requests_as_reading_the_newest_version(revision: DeltaCatRevision) -> None:
    counted = Counted(revision)
    for number in range(600):
        counted.append(counted.catalog, number)
    for version in (2, 100, 400, 601):
        reopened = counted.reopened(10**9)
        before = counted.store.requests
        then = reopened.at_version(version)
        last = then.last_child(Kind.DELTA, _PARTITION)
        assert last == DeltaLocator("n", "t", 1, "s", "p", version - 1)
        assert then.get(last) is not None
        assert (counted.store.requests - before).total <= 8
