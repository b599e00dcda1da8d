"""What a table of very many partitions costs, and that it holds what each of them does, on both layouts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import pytest

import mangrove
from mangrove.errors import ConflictError
from mangrove.expressions.parse import parse_predicate
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.table_staging import stage_write
from mangrove.metastore import Parent
from mangrove.model.locators import Kind, Locator
from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta, Object
from mangrove.model.values import Value
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import load_opened_table_state
from mangrove.tables.write_plan import build_append_delta, build_compaction_delta, build_overwrite_delta, plan_write
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.transaction.deltas import build_partition_locator, open_table
from mangrove.transaction.workspace import Workspace
from mangrove.wiring import LocalEngines

PARTITIONS = 300
"""More than a node of the tree holds, so that no request answers everything by chance."""


class RoundTripCountingStore(CountingStore):
    """Counts how often somebody waits for an answer to a read, whether it is for one object or for many."""

    answers = 0

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self.answers += 1
        return super().read(path, start, length)

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        self.answers += 1
        return super().read_many(paths)


@pytest.fixture(params=["tree", "deltacat", "deltacat-2"])
def layout(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def store() -> RoundTripCountingStore:
    return RoundTripCountingStore(MemoryStore("memory://partitions/"))


@pytest.fixture
def reopened(store: RoundTripCountingStore, layout: str, strict: bool | None, clock: Clock) -> Callable[[], Lakehouse]:
    """Return how another process opens a lakehouse with a table of two files in each of many partitions."""
    made = create_on_store(
        build_deterministic_effects(store, clock), layout=layout, strict=strict, engines=LocalEngines
    )
    made.create_namespace("n")
    made.create_table("n.t", "day int, name varchar", partition_by=["day"])
    for name in ("first", "second"):
        add(made, range(PARTITIONS), name)
    first_id = 10**6

    def opened() -> Lakehouse:
        nonlocal first_id
        first_id += 10**6
        return open_on_store(build_deterministic_effects(store, clock, first_id), engines=LocalEngines)

    return opened


def add(lake: Lakehouse, days: Iterable[int], name: str) -> None:
    """Append a file to the partition of each day, as engines do, without its rows."""
    deltas: dict[tuple[Value | None, ...], Delta] = {
        (day,): build_append_delta([DataFile(f"data/t/{name}-{day}.parquet", 100, 1)]) for day in days
    }
    with lake.transaction() as transaction:
        stage_write(transaction.core.workspace, lake.table("n.t").locator, plan_write(deltas), transaction.id)


def files_by_day(table: Table) -> dict[Value | None, list[str]]:
    found: dict[Value | None, list[str]] = {}
    for scan in table.scan().plan.scans:
        found.setdefault(scan.log_values[0], []).append(scan.file.location)
    return found


def answers(store: RoundTripCountingStore, work: Callable[[], object]) -> int:
    before = store.answers
    work()
    return store.answers - before


def test_a_scan_of_many_partitions_takes_few_round_trips(
    reopened: Callable[[], Lakehouse], store: RoundTripCountingStore
) -> None:
    lake = reopened()
    before = store.requests
    assert answers(store, lambda: lake.table("n.t").scan()) <= 30
    spent = store.requests - before
    # The bodies of all partitions and deltas in DeltaCAT's layout, the nodes of the index or the tree, and a few more.
    assert spent.reads <= 3 * PARTITIONS + 40


def test_listing_all_deltas_takes_few_round_trips(
    reopened: Callable[[], Lakehouse], store: RoundTripCountingStore
) -> None:
    table = reopened().table("n.t")
    assert answers(store, lambda: list(table.deltas())) <= 30
    listed = list(table.deltas())
    assert listed == sorted(listed)
    assert len(listed) == 2 * PARTITIONS


def test_a_write_to_all_partitions_takes_few_round_trips(
    reopened: Callable[[], Lakehouse], store: RoundTripCountingStore
) -> None:
    lake = reopened()
    assert answers(store, lambda: add(lake, range(PARTITIONS), "third")) <= 30
    assert files_by_day(lake.table("n.t")) == {
        day: [f"data/t/{name}-{day}.parquet" for name in ("first", "second", "third")] for day in range(PARTITIONS)
    }


def test_replacing_and_dropping_all_partitions_take_few_round_trips(
    reopened: Callable[[], Lakehouse], store: RoundTripCountingStore
) -> None:
    lake = reopened()
    table = lake.table("n.t")

    def replace_all() -> None:
        deltas: dict[tuple[Value | None, ...], Delta] = {
            (day,): build_overwrite_delta([DataFile(f"data/t/new-{day}.parquet", 100, 1)]) for day in range(PARTITIONS)
        }
        with lake.transaction() as transaction:
            stage_write(transaction.core.workspace, table.locator, plan_write(deltas), transaction.id)

    assert answers(store, replace_all) <= 40
    assert files_by_day(table) == {day: [f"data/t/new-{day}.parquet"] for day in range(PARTITIONS)}
    assert sum(1 for _ in table.deltas()) == PARTITIONS
    other = reopened()
    assert answers(store, lambda: other.drop_table("n.t")) <= 40
    assert list(other.tables("n")) == []


def test_a_replace_through_a_position_drops_earlier_deltas_of_its_partition_only(
    reopened: Callable[[], Lakehouse],
) -> None:
    lake = reopened()
    table = lake.table("n.t")
    deltas: dict[tuple[Value | None, ...], Delta] = {
        (day,): build_compaction_delta([DataFile(f"data/t/merged-{day}.parquet", 100, 1)], through=1 + day % 2)
        for day in range(4)
    }
    with lake.transaction() as transaction:
        stage_write(transaction.core.workspace, table.locator, plan_write(deltas), transaction.id)
    found = files_by_day(table)
    assert [found[day] for day in range(5)] == [
        ["data/t/merged-0.parquet", "data/t/second-0.parquet"],
        ["data/t/merged-1.parquet"],
        ["data/t/merged-2.parquet", "data/t/second-2.parquet"],
        ["data/t/merged-3.parquet"],
        ["data/t/first-4.parquet", "data/t/second-4.parquet"],
    ]


def test_a_transaction_sees_its_own_deltas_among_those_of_many_partitions(reopened: Callable[[], Lakehouse]) -> None:
    lake = reopened()
    with lake.transaction() as transaction:
        table = transaction.table("n.t")
        for days, name in ((range(5, PARTITIONS + 5, 10), "third"), (range(5, 40, 5), "fourth")):
            deltas: dict[tuple[Value | None, ...], Delta] = {
                (day,): build_append_delta([DataFile(f"data/t/{name}-{day}.parquet", 100, 1)]) for day in days
            }
            stage_write(transaction.core.workspace, table.locator, plan_write(deltas), transaction.id)
        inside = files_by_day(table)
        positions = [way.position for way, _ in table.deltas()]
    assert inside[5] == [f"data/t/{name}-5.parquet" for name in ("first", "second", "third", "fourth")]
    assert inside[10] == [f"data/t/{name}-10.parquet" for name in ("first", "second", "fourth")]
    assert len(inside) == PARTITIONS
    assert files_by_day(lake.table("n.t")) == inside
    assert [way.position for way, _ in lake.table("n.t").deltas()] == positions


def test_a_rebase_over_many_partitions_takes_few_round_trips(
    reopened: Callable[[], Lakehouse], store: RoundTripCountingStore
) -> None:
    loser, concurrent_commit = reopened(), reopened()
    transaction = loser.transaction()
    deltas: dict[tuple[Value | None, ...], Delta] = {
        (day,): build_append_delta([DataFile(f"data/t/late-{day}.parquet", 100, 1)]) for day in range(PARTITIONS)
    }
    stage_write(transaction.core.workspace, loser.table("n.t").locator, plan_write(deltas), transaction.id)
    add(concurrent_commit, range(PARTITIONS), "rival")
    assert answers(store, transaction.commit) <= 40
    found = files_by_day(reopened().table("n.t"))
    assert found == {
        day: [f"data/t/{name}-{day}.parquet" for name in ("first", "second", "rival", "late")]
        for day in range(PARTITIONS)
    }


class ListingWorkspace(Workspace):
    """Counts how often partitions are listed."""

    listings = 0

    def children(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> Iterator[tuple[Locator, Object]]:
        self.listings += kind is Kind.PARTITION
        return super().children(kind, parent, prefix=prefix, after=after)


def test_the_partitions_of_a_table_of_deltacat_are_listed_once_for_many_values(
    reopened: Callable[[], Lakehouse],
) -> None:
    lake = reopened()
    workspace = ListingWorkspace(lake._reading())
    opened = open_table(workspace, lake.table("n.t").locator)
    ours = build_partition_locator(workspace, opened)
    assert workspace.listings == 0
    theirs = build_partition_locator(workspace, replace(opened, table=replace(opened.table, table_format="DELTACAT")))
    assert [theirs((day,)) for day in range(-1, PARTITIONS)] == [ours((day,)) for day in range(-1, PARTITIONS)]
    assert workspace.listings == 1


PREDICATES = {
    "day = 7": (1, False),
    "day in (7, 250, 9999)": (3, False),
    "day = 7 and name = 'x' or day = 8": (2, False),
    "day = 9999": (1, False),
    "day >= 290": (10, True),
    "day is null": (0, True),
}
"""How many partitions such rows can lie in, and whether they are found by listing all: what is named is looked up."""


@pytest.mark.parametrize("where", PREDICATES)
def test_a_scan_by_partition_reads_the_deltas_of_those_partitions_alone(
    reopened: Callable[[], Lakehouse], store: RoundTripCountingStore, layout: str, where: str
) -> None:
    meant, is_listed = PREDICATES[where]
    table = reopened().table("n.t")
    before = store.requests
    plan = table.scan(where).plan
    spent = store.requests - before
    whole = table.state()
    assert plan.scans == plan_scan(whole, parse_predicate(where, whole.schema)).scans
    assert plan.skipped == ()
    assert plan.partitions == len(plan.scans) // 2
    nodes = 20 if is_listed else 10
    bodies = 0 if layout == "tree" else (PARTITIONS if is_listed else meant) + 2 * meant
    assert spent.reads <= nodes + meant + bodies


@pytest.mark.parametrize("where", PREDICATES)
def test_partition_pruning_of_a_table_of_deltacat_finds_the_same_rows_as_a_full_scan(
    reopened: Callable[[], Lakehouse], where: str
) -> None:
    lake = reopened()
    opened = open_table(lake._reading(), lake.table("n.t").locator)
    theirs = replace(opened, table=replace(opened.table, table_format="DELTACAT"))
    assert opened.version.schema is not None
    predicate = parse_predicate(where, opened.version.schema)
    found = load_opened_table_state(lake._reading(), theirs, predicate=predicate)
    assert found.logs == load_opened_table_state(lake._reading(), opened, predicate=predicate).logs
    assert found.is_part


@pytest.mark.parametrize("day", [7, PARTITIONS + 7])
def test_a_scan_of_one_partition_conflicts_only_with_appends_to_this_partition(
    reopened: Callable[[], Lakehouse], day: int
) -> None:
    lake, concurrent_commit = reopened(), reopened()
    careful = [lake.transaction(isolation="serializable") for _ in range(2)]
    for transaction in careful:
        transaction.table("n.t").scan(f"day = {day}")
        transaction.create_namespace(f"after-{transaction.id}")
    add(concurrent_commit, [8, PARTITIONS + 8], "elsewhere")
    careful[0].commit()
    concurrent_commit.table("n.t").append([{"day": day, "name": "there"}])
    with pytest.raises(ConflictError):
        careful[1].commit()


def test_explain_reports_the_number_of_partitions_read(reopened: Callable[[], Lakehouse]) -> None:
    assert reopened().table("n.t").scan("day = 7").explain().splitlines() == [
        "reads 2 of 2 files: 2 of 2 rows, 200 bytes",
        "partitions read: 1; the others are pruned",
    ]


@pytest.mark.parametrize("to", ["tree", "deltacat"])
def test_partitions_are_found_by_their_values_after_a_conversion_a_rename_and_a_widening(
    to: str, layout: str, strict: bool | None
) -> None:
    lake = mangrove.create(f"memory://named-{layout}-{strict}-{to}/", layout=layout, strict=strict)
    lake.create_namespace("n")
    rows = [{"day": day, "kind": kind, "v": day} for day in range(4) for kind in ("a", "b", None)]
    made = lake.create_table("n.t", "day int, kind varchar, v int", partition_by=["day", "truncate(1, kind)"])
    made.append(rows)
    made.update_schema().rename_column("day", "days_since").commit()
    made.update_schema().widen("days_since", "bigint").commit()
    made.append([{"days_since": 2, "kind": "b", "v": 100}])
    lake.maintenance.convert(f"memory://named-{layout}-{to}-converted/", to)
    there = mangrove.open(f"memory://named-{layout}-{to}-converted/")
    for table in (made, there.table("n.t")):
        plan = table.scan("days_since = 2 and kind in ('b', 'none')").plan
        assert (plan.partitions, len(plan.scans)) == (1, 2)
        assert table.to_arrow(where="days_since = 2 and kind = 'b'").column("v").to_pylist() == [2, 100]
        assert table.to_arrow(where="days_since = 2").num_rows == 4
        assert table.to_arrow(where="kind is null").num_rows == 4
