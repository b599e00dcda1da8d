"""What operations on the tree layout cost, in storage requests: the figures that must not grow."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mangrove.betree.node import Entry
from mangrove.betree.search import measure_height
from mangrove.lakehouse.opening import create_on_store
from mangrove.layouts.tree.definitions import encode_definition
from mangrove.layouts.tree.keys import NEWER_KEYS, NameSizes
from mangrove.layouts.tree.metastore import TreeMetastore, create_tree, open_tree
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.metastore import Changes, MetastoreSnapshot
from mangrove.model.locators import DeltaLocator, Kind, NamespaceLocator, TableLocator
from mangrove.model.manifests import ColumnStatistics, DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType, NamespaceEntry, TableEntry
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.counting import CountingStore, StoreRequests
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import ObjectInfo
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.metastore_contract import commit_objects, make_table
from mangrove.wiring import LocalEngines

TABLES_PER_NAMESPACE = 100
SHARED = "1111/0000/1111/00000000-table-shared-by-all-11111111-1111-4111-8111-111111111111.binpb"
NAMELESS = encode_definition(TableEntry("id", "home", "x")).removeprefix(b"\n\x01x")
"""A definition that does not say the table's name, as other programs write it, can be shared by many tables."""

PUT_APART = LakehouseSettings(properties={"tree.inline-definition-max-bytes": "0"})


def entries(count: int) -> Iterator[Entry]:
    """Yield so many tables, whose definitions are all the same file."""
    sizes = NameSizes()
    yield Entry(NEWER_KEYS.key_of(Kind.NAMESPACE, ("n00000",), sizes), SHARED)
    for number in range(count - 1):
        names = (f"n{number // TABLES_PER_NAMESPACE:05d}", f"t{number % TABLES_PER_NAMESPACE:03d}")
        yield Entry(NEWER_KEYS.key_of(Kind.TABLE, names, sizes), SHARED)


class Lake:
    """A lakehouse of many objects on a store that counts."""

    def __init__(self, count: int, settings: LakehouseSettings) -> None:
        self.count = count
        self.store = CountingStore(MemoryStore())
        self.effects = build_deterministic_effects(self.store)
        self.store.put(SHARED, NAMELESS)
        create_tree(self.effects, settings, Changes("made"), entries=entries(count))

    def opened(self) -> TreeMetastore:
        return open_tree(build_deterministic_effects(self.store, first_id=10**9))

    def any_table(self, chance: random.Random) -> TableLocator:
        number = chance.randrange(self.count - 1)
        return TableLocator(f"n{number // TABLES_PER_NAMESPACE:05d}", f"t{number % TABLES_PER_NAMESPACE:03d}")


@pytest.fixture(scope="module", params=[1_000, 10_000, 100_000])
def lake(request: pytest.FixtureRequest) -> Lake:
    return Lake(request.param, PUT_APART)


def levels(snapshot: TreeSnapshot) -> int:
    return measure_height(snapshot.root.node, snapshot.read_nodes)


def test_a_warm_commit_of_one_object_is_one_definition_and_one_root_nine_times_in_ten(lake: Lake) -> None:
    metastore, chance = lake.opened(), random.Random(1)
    snapshot: TreeSnapshot = metastore.latest()
    list(itertools.islice(snapshot.children(Kind.TABLE, NamespaceLocator("n00000")), 5))
    costs: list[StoreRequests] = []
    for number in range(2_500):
        way = TableLocator(lake.any_table(chance).namespace, f"new{number}")
        before = lake.store.requests
        committed = commit_objects(metastore, snapshot, (way, TableEntry(f"id-{way.name}", "home", way.name)))
        costs.append(lake.store.requests - before)
        assert isinstance(committed.snapshot, TreeSnapshot)
        snapshot = committed.snapshot
    # The hint is written off the critical path; here it is one of the puts.
    definitions_and_hints = 2
    nodes = [cost.puts - definitions_and_hints + cost.creates for cost in costs]
    assert all(cost.creates == 1 for cost in costs)
    assert sum(count == 1 for count in nodes) >= 0.9 * len(nodes)
    assert sum(nodes) <= 1.2 * len(nodes)
    assert max(nodes) <= 6
    assert sum(cost.reads for cost in costs) <= 0.5 * len(costs)
    assert all(cost.sizes == cost.lists == cost.deletes == 0 for cost in costs)


def test_a_commit_writes_few_bytes(lake: Lake) -> None:
    metastore, chance = lake.opened(), random.Random(2)
    snapshot = metastore.latest()
    before = lake.store.requests
    for number in range(500):
        way = TableLocator(lake.any_table(chance).namespace, f"bytes{number}")
        after = commit_objects(metastore, snapshot, (way, TableEntry(f"id-{way.name}", "home", way.name))).snapshot
        assert isinstance(after, TreeSnapshot)
        snapshot = after
    assert (lake.store.requests - before).bytes_written / 500 <= 12_000


def test_a_commit_of_one_delta_writes_less_than_six_kilobytes_however_many_came_before() -> None:
    lake = Lake(1_000, LakehouseSettings())
    metastore = lake.opened()
    snapshot: MetastoreSnapshot = metastore.latest()
    written = []
    for number in range(1, 1_201):
        at = DeltaLocator("home", lake.effects.new_id(), 1, "s" * 36, "p" * 36, number)
        before = lake.store.requests
        one = replace(at, table_id="t" * 36)
        snapshot = commit_objects(metastore, snapshot, (one, delta_of(2, f"data/{at.table_id}.parquet"))).snapshot
        written.append((lake.store.requests - before).bytes_written)
    assert sum(written[-400:]) / 400 <= 6_000
    assert sum(written) / len(written) <= 6_000


def test_an_append_with_inline_rows_to_a_small_lakehouse_writes_less_than_six_kilobytes() -> None:
    store = CountingStore(MemoryStore())
    lake = create_on_store(build_deterministic_effects(store), engines=LocalEngines)
    lake.create_namespace("n")
    table = lake.create_table("n.t", "id bigint, name string", properties={"write.inline-rows-max-bytes": "4096"})
    before = store.requests
    for number in range(150):
        table.append([{"id": number, "name": f"name {number}"}])
    assert (store.requests - before).bytes_written / 150 <= 6_000
    assert table.to_arrow().num_rows == 150


@pytest.mark.parametrize(("properties", "is_compressed"), [({}, True), ({"tree.strict": "true"}, False)])
def test_node_files_are_compressed_unless_the_tree_is_strict(
    properties: dict[str, str], *, is_compressed: bool
) -> None:
    store = MemoryStore()
    metastore = create_tree(
        build_deterministic_effects(store), LakehouseSettings(properties=properties), Changes("made")
    )
    way, value = make_table("n00000", "t" * 90)
    commit_objects(metastore, metastore.latest(), (NamespaceLocator("n00000"), NamespaceEntry("i", "n00000")))
    snapshot = commit_objects(metastore, metastore.latest(), (way, value)).snapshot
    assert isinstance(snapshot, TreeSnapshot)
    root = store.read_many([snapshot.root.path])[0]
    assert root is not None
    assert (b"t" * 90 not in root) is is_compressed
    assert open_tree(build_deterministic_effects(store, first_id=10**9)).latest().get(way) == value


def test_a_cold_lookup_reads_no_more_than_the_height_and_two(lake: Lake) -> None:
    chance = random.Random(3)
    for _ in range(20):
        metastore = lake.opened()
        before = lake.store.requests
        assert metastore.at_version(metastore.latest().version).get(lake.any_table(chance)) is not None
        assert (lake.store.requests - before).total <= levels(metastore.latest()) + 2


def test_listing_a_namespace_reads_its_leaves_and_no_others(lake: Lake) -> None:
    metastore = lake.opened()
    snapshot = metastore.latest()
    tall = levels(snapshot)
    newest = lake.opened().latest()
    before = lake.store.requests
    listed = list(newest.children(Kind.TABLE, NamespaceLocator("n00003")))
    cost = lake.store.requests - before
    definitions = len({value.id for _, value in listed if isinstance(value, TableEntry)})
    assert len(listed) >= TABLES_PER_NAMESPACE
    assert cost.reads - definitions <= tall + len(listed) / 60


def test_the_first_page_of_a_long_listing_does_not_read_the_rest(lake: Lake) -> None:
    snapshot = lake.opened().latest()
    before = lake.store.requests
    page = list(itertools.islice(snapshot.children(Kind.TABLE, NamespaceLocator("n00000")), 10))
    definitions_max = 16
    assert len(page) == 10
    assert (lake.store.requests - before).reads - definitions_max <= levels(snapshot)


def test_the_cost_of_opening_is_independent_of_the_content(lake: Lake) -> None:
    before = lake.store.requests
    lake.opened()
    # Two hints, the root with the two names that must be free, and the definition of the lakehouse.
    assert (lake.store.requests - before).total <= 6


def test_requesting_the_latest_version_is_one_request_without_concurrent_commits(lake: Lake) -> None:
    metastore = lake.opened()
    before = lake.store.requests
    metastore.latest()
    assert (lake.store.requests - before).total == 1


def test_the_cost_of_a_namespace_rename_is_independent_of_its_tables(lake: Lake) -> None:
    metastore = lake.opened()
    base = metastore.latest()
    named = NamespaceEntry("id-of-n00000", "n00000")
    base = metastore.latest()
    way = NamespaceLocator("n00000")
    written = commit_objects(metastore, base, (way, named)).snapshot
    before = lake.store.requests
    renamed = commit_objects(
        metastore,
        written,
        (NamespaceLocator("renamed"), NamespaceEntry("id-of-n00000", "renamed")),
        deletes=frozenset([way]),
    ).snapshot
    assert (lake.store.requests - before).total <= 8
    assert len(list(renamed.children(Kind.TABLE, NamespaceLocator("renamed")))) >= TABLES_PER_NAMESPACE
    back = commit_objects(metastore, renamed, (way, named), deletes=frozenset([NamespaceLocator("renamed")])).snapshot
    assert len(list(back.children(Kind.TABLE, way))) >= TABLES_PER_NAMESPACE


def test_a_small_definition_travels_inside_its_pointer_and_costs_no_request_of_its_own() -> None:
    lake = Lake(1_000, LakehouseSettings())
    metastore = lake.opened()
    snapshot = metastore.latest()
    way, value = make_table("n00000", "small")
    before = lake.store.requests
    commit_objects(metastore, snapshot, (way, value))
    cost = lake.store.requests - before
    hints = 1
    assert (cost.creates, cost.puts - hints, cost.reads) == (1, 0, 0)


def delta_of(columns: int, place: str = f"data/{'a' * 36}/{'b' * 36}.parquet") -> Delta:
    """Return a delta of one file with bounds of so many columns."""
    bounds = tuple(ColumnStatistics(number, 0, None, 100, 800, 10**9, 10**10) for number in range(1, columns + 1))
    return Delta(DeltaType.APPEND, Manifest((DataFile(place, 12_345, 100, statistics=bounds),)))


def test_a_delta_of_one_file_with_bounds_of_ten_columns_costs_no_request_of_its_own() -> None:
    lake = Lake(1_000, LakehouseSettings())
    metastore = lake.opened()
    snapshot = metastore.latest()
    before = lake.store.requests
    commit_objects(metastore, snapshot, (DeltaLocator("home", "t", 1, "s", "p", 1), delta_of(10)))
    cost = lake.store.requests - before
    hints = 1
    assert (cost.creates, cost.puts - hints, cost.reads) == (1, 0, 0)


def test_nodes_with_inline_definitions_respect_the_size_limit() -> None:
    settings = LakehouseSettings(order=16, node_file_max_size_bytes=60_000)
    store = MemoryStore()
    metastore = create_tree(build_deterministic_effects(store), settings, Changes("made"))
    snapshot: MetastoreSnapshot = metastore.latest()
    ids = iter(range(3_000))
    while batch := list(itertools.islice(ids, settings.order // 2)):
        ways = [DeltaLocator("home", "t" * 36, 1, "s" * 36, "p" * 36, 1 + number * 7_919 % 9_973) for number in batch]
        snapshot = commit_objects(metastore, snapshot, *((way, delta_of(9)) for way in ways)).snapshot
    sizes = [entry.size for entry in store.list() if isinstance(entry, ObjectInfo) and "-node-" in entry.path]
    assert len(sizes) > 20
    assert max(sizes) <= settings.node_file_max_size_bytes
    assert list(metastore.problems(snapshot)) == []
