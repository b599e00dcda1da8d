"""What a lakehouse costs at 10⁶ to 10⁹ objects, 10² to 10⁴ writers and 10⁶ to 10⁸ commits.

    python -m benchmarks.scale [--objects 100000] [--picture docs/pictures/scale.svg]

The constants are counted on a small lakehouse in memory, and a model extrapolates them. It prints the tables
of `docs/scale.md`. `tests/benchmarks/test_scale.py` compares the model with counted requests.
"""

import argparse
import math
import random
import statistics
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from benchmarks.peers.parts.s3_cost import DOLLARS_PER_REQUEST
from benchmarks.peers.results import Curve
from benchmarks.peers.svg import render_curve

from benchmarks import many_writers, tree_costs
from mangrove.betree.node import NodeLimits
from mangrove.betree.search import measure_height
from mangrove.lakehouse.opening import create_on_store
from mangrove.layouts.tree.metastore import create_tree, open_tree
from mangrove.metastore import Changes
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import ObjectInfo
from mangrove.testing.effects import build_deterministic_effects
from mangrove.wiring import LocalEngines

OBJECTS = (10**6, 10**7, 10**9)
WRITERS = (10**2, 10**3, 10**4)
COMMITS = (10**6, 10**8)
REQUEST_SECONDS = 0.02
LISTED_PER_REQUEST = 1000
MEMBERS_MAX = 64
"""The intents that one version takes."""
DOLLARS_PER_GIGABYTE_MONTH = 0.023
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


@dataclass(frozen=True)
class TreeCosts:
    """What a tree of some size costs, counted or predicted."""

    objects: int
    height: int
    """The nodes on a path from the root to a leaf."""
    nodes: float
    open_requests: int
    lookup_reads: int
    """The nodes that a cold lookup reads, and the definition."""
    nodes_per_commit: float
    bytes_per_commit: float


def count_tree(objects: int, commits: int = 300) -> TreeCosts:
    """Build a tree in memory, and count what opening, lookups and commits of one object cost."""
    store = CountingStore(MemoryStore())
    store.put(tree_costs.SHARED, tree_costs.encode_shared_definition())
    effects = build_deterministic_effects(store)
    create_tree(effects, LakehouseSettings(), Changes("made"), entries=tree_costs.entries(objects))
    files = [one for one in store.list() if isinstance(one, ObjectInfo) and one.path.endswith(".ipc")]
    before = store.requests
    metastore = open_tree(build_deterministic_effects(store, first_id=10**9))
    opened = store.requests - before
    snapshot = metastore.latest()
    before = store.requests
    assert snapshot.get(tree_costs.locate(objects // 2)) is not None
    looked_up = store.requests - before
    costs, _ = tree_costs.committed(metastore, store, objects, commits)
    return TreeCosts(
        objects,
        measure_height(snapshot.root.node, snapshot.read_nodes),
        len(files),
        opened.total,
        looked_up.reads,
        statistics.mean(cost.puts - 1 + cost.creates for cost in costs),  # the hint is one of the puts
        statistics.mean(cost.bytes_written for cost in costs),
    )


def predict_tree(counted: TreeCosts, objects: int, limits: NodeLimits | None = None) -> TreeCosts:
    """Return the costs of a tree of another size than the counted one.

    A bulk load fills nodes to nine tenths. Every node but the root has so many entries or
    children, and each level above is smaller by that factor.
    """
    fan_out = int((limits or NodeLimits()).order * 0.9)
    level, height, nodes = math.ceil(objects / fan_out), 1, 1.0
    while level > 1:
        nodes += level
        level = math.ceil(level / fan_out)
        height += 1
    return TreeCosts(
        objects,
        height,
        nodes,
        counted.open_requests,
        counted.lookup_reads + height - counted.height,
        counted.nodes_per_commit,
        counted.bytes_per_commit,
    )


@dataclass(frozen=True)
class CommitCosts:
    """What one small append of a single writer costs."""

    puts: float
    bytes_written: float
    files: float
    """The data files that it leaves."""
    live_bytes: float
    """The bytes of metadata of the newest version, for each append."""


def count_commits(inline_bytes: int, commits: int = 300) -> CommitCosts:
    """Append three rows many times to one table in memory, and count."""
    store = CountingStore(MemoryStore())
    chance = random.Random(1)
    # Consecutive ids would be compressed to almost nothing.
    effects = replace(
        build_deterministic_effects(store), new_id=lambda: str(uuid.UUID(int=chance.getrandbits(128), version=4))
    )
    lake = create_on_store(effects, engines=LocalEngines)
    lake.create_namespace("n")
    table = lake.create_table(
        "n.t", "id bigint, name string", properties={"write.inline-rows-max-bytes": str(inline_bytes)}
    )
    table.append(ROWS)
    before = store.requests
    for _ in range(commits):
        table.append(ROWS)
    made = store.requests - before
    hints = commits
    files = sum(1 for _ in store.list("data/"))
    metastore = open_tree(build_deterministic_effects(store))
    live = sum(store.size(path) or 0 for path in metastore.files_of([metastore.latest()]))
    puts = made.puts - hints + made.creates
    return CommitCosts(puts / commits, made.bytes_written / commits, files / commits, live / commits)


@dataclass(frozen=True)
class GroupCosts:
    """What writers that wait for each commit cost together, simulated or predicted."""

    writers: int
    rate: float
    requests: float
    """Requests per commit."""


def simulate_group(writers: int, seconds: float = 4.0) -> GroupCosts:
    """Let simulated processes append to one table with group commit across processes."""
    found = many_writers.simulate(
        writers, seconds, group="intents", is_shared=True, inline_bytes="0", latency_seconds=REQUEST_SECONDS
    )
    return GroupCosts(writers, found.rate, found.requests / len(found.latencies))


def predict_group(simulated: GroupCosts, writers: int) -> GroupCosts:
    """Return the costs of more writers: rounds of the same length, with up to 64 commits each.

    A writer reads every version until its own: one for each 64 writers before it.
    """
    round_seconds = simulated.writers / simulated.rate
    rounds_waited = max(1.0, writers / MEMBERS_MAX)
    return GroupCosts(writers, min(writers, MEMBERS_MAX) / round_seconds, simulated.requests + rounds_waited - 1)


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def format_bytes(count: float) -> str:
    """Return a size with a decimal unit.

    >>> format_bytes(2_500_000)
    '2.5 MB'
    """
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:,.3g} {unit}"
        count /= 1000
    raise AssertionError("the loop always returns")


def format_seconds(seconds: float) -> str:
    """Return a duration.

    >>> format_seconds(0.14), format_seconds(7200)
    ('140 ms', '2 h')
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"


def describe_objects(counted: TreeCosts, live_bytes: float) -> Iterator[Sequence[str]]:
    """Yield the rows of the table of objects, one cost per row."""
    trees = [predict_tree(counted, objects) for objects in OBJECTS]
    yield "nodes on the path to an object", *(str(one.height) for one in trees)
    yield (
        "requests to open and look up an object, cold",
        *(f"{one.open_requests + one.lookup_reads}" for one in trees),
    )
    yield (
        "the same in time, three round trips to open",
        *(format_seconds((3 + one.lookup_reads) * REQUEST_SECONDS) for one in trees),
    )
    yield "nodes", *(f"{one.nodes:,.0f}" for one in trees)
    sizes = [objects * live_bytes for objects in OBJECTS]
    yield "bytes of metadata of the newest version", *map(format_bytes, sizes)
    yield "their storage, $ per month", *(f"{size / 1e9 * DOLLARS_PER_GIGABYTE_MONTH:,.2f}" for size in sizes)
    yield "nodes written by a commit, mean", *(f"{one.nodes_per_commit:.2f}" for one in trees)
    yield "bytes of these nodes", *(format_bytes(one.bytes_per_commit) for one in trees)
    listings = [math.ceil(objects / LISTED_PER_REQUEST) for objects in OBJECTS]
    yield "vacuum, one file per object: listings", *(f"{count:,}" for count in listings)
    yield "time of the listings, one after the other", *(format_seconds(count * REQUEST_SECONDS) for count in listings)
    yield "their price, $", *(f"{count * DOLLARS_PER_REQUEST['LIST']:,.3g}" for count in listings)
    per_path = sys.getsizeof("data/12345678-1234-1234-1234-123456789012/12345678-1234-1234-1234-123456789012.parquet")
    yield "memory for the paths", *(format_bytes(objects * (per_path + 100)) for objects in OBJECTS)


def describe_writers(simulated: GroupCosts, one_rate: float) -> Iterator[Sequence[str]]:
    """Yield the rows of the table of writers."""
    groups = [predict_group(simulated, writers) for writers in WRITERS]
    yield "commits per second of all writers", *(f"{one.rate:,.0f}" for one in groups)
    yield "ratio to one writer", *(f"{one.rate / one_rate:.0f} ×" for one in groups)
    yield "requests per commit", *(f"{one.requests:.0f}" for one in groups)
    yield "latency of a commit", *(format_seconds(one.writers / one.rate) for one in groups)
    yield "reads of versions per second", *(f"{one.writers * one.rate / MEMBERS_MAX:,.0f}" for one in groups)
    prices = (2 * DOLLARS_PER_REQUEST["PUT"] + (one.requests - 2) * DOLLARS_PER_REQUEST["GET"] for one in groups)
    yield "price of a million commits, $", *(f"{price * 1e6:,.0f}" for price in prices)


def describe_commits(alone: CommitCosts, inline: CommitCosts) -> Iterator[Sequence[str]]:
    """Yield the rows of the table of commits."""
    for what, one in (("data files", alone), ("inline rows", inline)):
        yield f"bytes written, {what}", *(format_bytes(one.bytes_written * commits) for commits in COMMITS)
        yield (
            f"price of the puts, {what}, $",
            *(f"{one.puts * commits * DOLLARS_PER_REQUEST['PUT']:,.0f}" for commits in COMMITS),
        )
        yield f"data files left, {what}", *(f"{one.files * commits:,.0f}" for commits in COMMITS)
    yield "time of one writer", *(format_seconds(2 * REQUEST_SECONDS * commits) for commits in COMMITS)
    yield "reads to find the version of a time", *(f"{math.ceil(math.log2(commits))}" for commits in COMMITS)
    yield (
        "listings of all versions, if none has expired",
        *(f"{math.ceil(commits / LISTED_PER_REQUEST):,}" for commits in COMMITS),
    )


def draw_writers(simulated: GroupCosts, one_rate: float) -> str:
    """Return the plot of the rates of many writers as SVG."""
    sizes = (16, 32, 64, *WRITERS)
    curve = Curve("Commits of all writers", "writers that wait for each commit; 20 ms per request", "commits/s")
    curve.points = {
        "group": [(1, one_rate), *((size, predict_group(simulated, size).rate) for size in sizes)],
        "alone": [(1, one_rate), (WRITERS[-1], one_rate)],
    }
    return render_curve(curve, {"group": "with intents", "alone": "without intents"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=100_000, help="the size of the counted tree")
    parser.add_argument("--picture", type=Path, default=None, help="write the plot of writers to this file")
    given = parser.parse_args()
    counted, alone, inline = count_tree(given.objects), count_commits(0), count_commits(4096)
    objects = describe_objects(counted, alone.live_bytes)
    print(format_table(["objects", *(f"{one:,}" for one in OBJECTS)], objects), end="\n\n")
    group, one_rate = simulate_group(16), simulate_group(1).rate
    print(format_table(["writers", *(f"{one:,}" for one in WRITERS)], describe_writers(group, one_rate)), end="\n\n")
    print(format_table(["commits", *(f"{one:,}" for one in COMMITS)], describe_commits(alone, inline)))
    if given.picture is not None:
        given.picture.write_text(draw_writers(group, one_rate))


if __name__ == "__main__":
    main()
