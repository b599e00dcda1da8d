"""What the tree layout costs from a thousand objects to ten million: requests, bytes and time.

    python benchmarks/tree_costs.py --objects 1000 100000 10000000

A lakehouse of tables is built at once in memory, with pointers as long as real
ones; then one table at a time is committed, looked up cold, and listed.
"""

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mangrove.betree.node import Entry
from mangrove.betree.search import measure_height, scan
from mangrove.layouts.tree.definitions import encode_definition
from mangrove.layouts.tree.keys import NEWER_KEYS, NameSizes
from mangrove.layouts.tree.metastore import TreeMetastore, create_tree, open_tree
from mangrove.metastore import Changes, Isolation, ObjectRange
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator
from mangrove.model.objects import TableEntry
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.counting import CountingStore, StoreRequests
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects

PER_NAMESPACE = 1000
SHARED = "1111/0000/1111/00000000-table-t000000-n00000-11111111-1111-4111-8111-111111111111.binpb"


def entries(count: int) -> Iterator[Entry]:
    sizes = NameSizes()
    for number in range(count):
        names = (f"n{number // PER_NAMESPACE:05d}", f"t{number % PER_NAMESPACE:06d}")
        yield Entry(NEWER_KEYS.key_of(Kind.TABLE, names, sizes), SHARED)


def locate(number: int) -> TableLocator:
    """Return the locator of the entry with a number."""
    return TableLocator(f"n{number // PER_NAMESPACE:05d}", f"t{number % PER_NAMESPACE:06d}")


def encode_shared_definition() -> bytes:
    """Return a definition without a name of its own, as other programs write it, which serves every table."""
    return encode_definition(TableEntry("id", "home", "x")).removeprefix(b"\n\x01x")


@dataclass(frozen=True)
class Row:
    """One line of the result."""

    objects: int
    height: int
    one_node: float
    nodes_mean: float
    nodes_max: int
    reads_mean: float
    kilobytes: float
    commit_micros: float
    lookup_reads: int
    cold_lookup_micros: float
    warm_lookup_micros: float
    list_reads_per_60: float


def measured(count: int, commits: int, compression: str, *, inline: bool) -> Row:
    properties = {"tree.node-compression": compression}
    if not inline:
        properties["tree.inline-definition-max-bytes"] = "0"
    store = CountingStore(MemoryStore())
    effects = build_deterministic_effects(store)
    store.put(SHARED, encode_shared_definition())
    create_tree(effects, LakehouseSettings(properties=properties), Changes("made"), entries=entries(count))
    metastore = open_tree(build_deterministic_effects(store, first_id=10**9))
    warm_up = max(200, commits // 4)
    costs, micros = committed(metastore, store, count, commits + warm_up)
    costs, micros = costs[warm_up:], micros[warm_up:]
    nodes = [cost.puts - (1 if inline else 2) + cost.creates for cost in costs]  # the hint is one of the puts
    snapshot = metastore.latest()
    lookup_reads, cold_micros, warm_micros = looked_up(store, count)
    return Row(
        count,
        measure_height(snapshot.root.node, snapshot.read_nodes),
        sum(written == 1 for written in nodes) / len(nodes),
        statistics.mean(nodes),
        max(nodes),
        statistics.mean(cost.reads for cost in costs),
        statistics.mean(cost.bytes_written for cost in costs) / 1000,
        statistics.median(micros),
        lookup_reads,
        cold_micros,
        warm_micros,
        listed(store, count),
    )


def committed(
    metastore: TreeMetastore, store: CountingStore, count: int, commits: int
) -> tuple[list[StoreRequests], list[float]]:
    chance, snapshot = random.Random(1), metastore.latest()
    costs, micros = [], []
    for number in range(commits):
        way = TableLocator(
            f"n{chance.randrange(count) // PER_NAMESPACE:05d}", f"t{chance.randrange(10**6):06d}x{number}"
        )
        value = TableEntry("6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8", "home", way.name)
        changes = Changes(f"6fcb514b-b878-4c9d-95b7-{number:012d}", puts={way: value})
        before, began = store.requests, time.perf_counter()
        done = metastore.commit(snapshot, changes, Isolation.SNAPSHOT)
        micros.append((time.perf_counter() - began) * 1e6)
        costs.append(store.requests - before)
        snapshot = done.snapshot  # type: ignore[assignment]
    return costs, micros


class Distant(CountingStore):
    """A store that answers each request for reads after ten milliseconds, as a bucket does at best."""

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        time.sleep(0.01)
        return super().read_many(paths)


def looked_up(store: CountingStore, count: int) -> tuple[int, float, float]:
    """Return the most reads of a cold lookup, its time from opening a distant lakehouse on, and that of a repeat."""
    chance, reads, cold, warm = random.Random(2), [], [], []
    for _ in range(30):
        number = chance.randrange(count)
        way = locate(number)
        began = time.perf_counter()
        metastore = open_tree(build_deterministic_effects(Distant(store), first_id=2 * 10**9))
        snapshot = metastore.latest()
        before = store.requests
        assert snapshot.get(way) is not None
        cold.append((time.perf_counter() - began) * 1e6)
        reads.append((store.requests - before).reads + 1)  # and the root, which opening read
        began = time.perf_counter()
        assert snapshot.get(way) is not None
        warm.append((time.perf_counter() - began) * 1e6)
    return max(reads), statistics.median(cold), statistics.median(warm)


def listed(store: CountingStore, count: int) -> float:
    """Return how many nodes are read for each 60 objects of a listing, the way down not counted."""
    snapshot = open_tree(build_deterministic_effects(store, first_id=3 * 10**9)).latest()
    tall = measure_height(snapshot.root.node, snapshot.read_nodes)
    namespace = NamespaceLocator(f"n{count // PER_NAMESPACE // 2:05d}")
    found = list(snapshot.children(Kind.TABLE, namespace))  # now the definitions are known, and the nodes too
    again = open_tree(build_deterministic_effects(store, first_id=5 * 10**9)).latest()
    first, end = again.keys.range_of(ObjectRange(Kind.TABLE, namespace))
    before = store.requests
    assert sum(1 for _ in scan(again.root.node, first, end, again.read_nodes)) == len(found)
    return ((store.requests - before).reads - tall) / (len(found) / 60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--commits", type=int, default=3_000)
    chosen = parser.parse_args()
    for compression, inline in itertools.product(("none", "lz4"), (False, True)):
        where = "inside the pointer" if inline else "files of their own"
        print(f"\nnode files: {compression}; small definitions: {where}")
        print(
            f"{'objects':>10} {'height':>6} {'1 node':>7} {'mean':>6} {'worst':>5} {'reads':>6} {'KB':>7} "
            f"{'commit µs':>10} {'lookup reads':>12} {'opened µs':>9} {'warm µs':>8} {'list reads/60':>13}"
        )
        for count in chosen.objects:
            row = measured(count, chosen.commits, compression, inline=inline)
            print(
                f"{row.objects:>10} {row.height:>6} {row.one_node:>7.1%} {row.nodes_mean:>6.3f} {row.nodes_max:>5} "
                f"{row.reads_mean:>6.2f} {row.kilobytes:>7.1f} {row.commit_micros:>10.0f} {row.lookup_reads:>12} "
                f"{row.cold_lookup_micros:>9.0f} {row.warm_lookup_micros:>8.0f} {row.list_reads_per_60:>13.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
