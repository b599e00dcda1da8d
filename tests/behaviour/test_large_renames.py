"""A rename costs the same, whatever is stored below: a million deltas in the tree, thousands in DeltaCAT's layout."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import merge

import pytest

from mangrove.betree.node import Entry
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.layouts.tree.metastore import TreeMetastore, create_tree
from mangrove.layouts.tree.revision import NEWER
from mangrove.layouts.tree.staging import scan_entries
from mangrove.metastore import Changes
from mangrove.model.locators import DeltaLocator, Kind, PartitionLocator
from mangrove.model.objects import Delta, DeltaType
from mangrove.storage.counting import CountingStore, StoreRequests
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects

MILLION = 1_000_000
RENAMES: dict[str, Callable[[Lakehouse], object]] = {
    "table": lambda lake: lake.rename_table("n.big", "m.big"),
    "namespace": lambda lake: lake.rename_namespace("n", "renamed"),
}


def small(layout: str, deltas: int) -> tuple[CountingStore, Lakehouse, PartitionLocator]:
    """Return a lakehouse whose table `n.big` has so many deltas in one partition."""
    store = CountingStore(MemoryStore("memory://small/"))
    lake = create_on_store(build_deterministic_effects(store), layout=layout)
    lake.create_namespace("n")
    lake.create_namespace("m")
    lake.create_table("n.big", "id int")
    with lake.transaction() as transaction:
        for _ in range(deltas):
            added = transaction.add_delta("n.big", (), Delta(DeltaType.APPEND))
    return store, lake, added.parent


def with_a_million_deltas() -> CountingStore:
    """Return the store of a lakehouse in the tree layout whose tree was built at once, with a million keys."""
    _, lake, partition = small("tree", 1)
    assert isinstance(lake.metastore, TreeMetastore)
    snapshot = lake.metastore.latest()
    (pointer,) = {
        value for key, value in scan_entries(NEWER, snapshot) if key == snapshot.keys.key_of(_at(partition, 1))
    }

    def deltas() -> Iterator[Entry]:
        for position in range(2, MILLION + 1):
            yield Entry(snapshot.keys.key_of(_at(partition, position)), pointer)

    store = CountingStore(MemoryStore("memory://large/"))
    entries = merge(scan_entries(NEWER, snapshot), deltas(), key=lambda entry: entry.key)
    create_tree(build_deterministic_effects(store), snapshot.settings, Changes("built"), entries=entries)
    return store


def _at(partition: PartitionLocator, position: int) -> DeltaLocator:
    namespace_id, table_id, version, stream_id, partition_id = partition.parts
    return DeltaLocator(str(namespace_id), str(table_id), int(version), str(stream_id), str(partition_id), position)


def cost(store: CountingStore, work: Callable[[], object]) -> StoreRequests:
    before = store.requests
    work()
    return store.requests - before


@pytest.mark.slow
def test_renaming_a_table_of_a_million_deltas_reads_one_tree_path_and_writes_one_root() -> None:
    store = with_a_million_deltas()
    for rename in RENAMES.values():
        lake = open_on_store(replace(build_deterministic_effects(store, first_id=10**6), later=lambda _: None))
        spent = cost(store, lambda rename=rename, lake=lake: rename(lake))  # type: ignore[misc]
        assert (spent.creates, spent.puts, spent.lists, spent.sizes, spent.deletes) == (1, 0, 0, 0, 0)
        assert spent.reads <= 12
        assert spent.bytes_written <= 100_000
        assert spent.bytes_read <= 1_000_000
        if rename is RENAMES["table"]:
            lake.rename_table("m.big", "n.big")
    reader = open_on_store(build_deterministic_effects(store))
    (partition,) = reader.table("renamed.big").partitions()
    last = reader._reading().last_child(Kind.DELTA, partition[0])
    assert isinstance(last, DeltaLocator)
    assert last.position == MILLION


WITHIN_THE_NAMESPACE: dict[str, tuple[Callable[[Lakehouse], object], Callable[[Lakehouse], object]]] = {
    "table": (lambda lake: lake.rename_table("n.big", "n.new"), lambda lake: lake.rename_table("n.new", "n.big")),
    "namespace": (RENAMES["namespace"], lambda lake: lake.rename_namespace("renamed", "n")),
}


@pytest.mark.parametrize("layout", ["deltacat", "deltacat-2"])
@pytest.mark.parametrize("rename", WITHIN_THE_NAMESPACE)
def test_the_cost_of_a_rename_in_the_deltacat_layout_is_independent_of_the_delta_count(
    layout: str, rename: str
) -> None:
    there, back = WITHIN_THE_NAMESPACE[rename]
    spent = []
    for deltas in (3, 3000):
        store, _, _ = small(layout, deltas)
        lake = open_on_store(replace(build_deterministic_effects(store, first_id=10**6), later=lambda _: None))
        there(lake)  # the first one reads what this process has not seen
        back(lake)
        spent.append(cost(store, lambda lake=lake: there(lake)))  # type: ignore[misc]
    few, many = spent
    assert (few.creates, few.puts, few.reads) == (many.creates, many.puts, many.reads)
    assert many.total <= 8 + (2 if layout == "deltacat" else 0)
    assert many.bytes_written <= few.bytes_written + 50_000


@pytest.mark.parametrize("layout", ["deltacat", "deltacat-2"])
def test_a_move_to_another_namespace_in_deltacats_layout_writes_two_files_for_each_delta(layout: str) -> None:
    puts = []
    for deltas in (3, 103):
        store, lake, _ = small(layout, deltas)
        spent = cost(store, lambda lake=lake: RENAMES["table"](lake))  # type: ignore[misc]
        assert spent.creates == 1
        puts.append(spent.puts)
    few, many = puts
    assert 200 <= many - few <= 220
