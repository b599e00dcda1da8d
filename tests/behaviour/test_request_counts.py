"""What each operation costs in requests, in a lakehouse that this process has read before, on both layouts."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from mangrove.effects import Effects
from mangrove.errors import ConflictError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.model.objects import Delta, DeltaType
from mangrove.storage.counting import CountingStore, StoreRequests
from mangrove.testing.effects import build_deterministic_effects
from mangrove.wiring import LocalEngines

VERSIONS = 20
"""How many versions the lakehouse of these tests has."""


def append_delta(lake: Lakehouse) -> None:
    with lake.transaction() as transaction:
        transaction.add_delta("n.big", (), Delta(DeltaType.APPEND))


LOOKING: dict[str, tuple[Callable[[Lakehouse], object], int]] = {
    "the newest version": (lambda lake: lake.version, 1),
    "the begin of a transaction": (lambda lake: lake.transaction(), 1),
    "the end of a transaction that wrote nothing": (lambda lake: lake.transaction().commit(), 1),
    "a rolled back transaction": (lambda lake: lake.transaction().rollback(), 1),
    "a table": (lambda lake: lake.table("n.t050"), 1),
    "a table's columns": (lambda lake: lake.table("n.t050").schema, 2),
    "a view": (lambda lake: lake.view("n.daily"), 1),
    "a page of a list": (lambda lake: list(lake.tables("n", limit=10)), 1),
    "a whole list": (lambda lake: list(lake.tables("n")), 1),
    "a list by prefix": (lambda lake: list(lake.tables("n", "t09")), 1),
    "the namespaces": (lambda lake: list(lake.namespaces()), 1),
    "what is not there": (lambda lake: lake.drop_table("n.none", if_exists=True), 1),
    "a page of the history": (lambda lake: list(lake.history(limit=10)), 1 + VERSIONS),
    "what the last version changed": (lambda lake: lake.diff(lake.version - 1), 4),
    "what many versions changed": (lambda lake: lake.diff(3, lake.version), 4),
    "a table in an earlier version": (lambda lake: lake.at(5).table("n.big"), 1),
    "a table as of a time": (lambda lake: lake.at(lake.at(5).created_at).table("n.big"), 2 + VERSIONS.bit_length()),
    "a table as of an export": (lambda lake: lake.at("kept").table("n.big"), 2),
    "the exports": (lambda lake: lake.maintenance.exports(), 1),
}


@dataclass(frozen=True)
class Cost:
    """A statement, with the most files that it puts in the tree layout and in DeltaCAT's; each creates one more."""

    run: Callable[[Lakehouse], object]
    tree_puts: int
    deltacat_puts: int
    reads: int = 1


CHANGING: dict[str, Cost] = {
    "create a namespace": Cost(lambda lake: lake.create_namespace("new"), 2, 4),
    "alter a namespace": Cost(lambda lake: lake.alter_namespace("n", {"a": "b"}), 2, 3),
    "rename a namespace without tables": Cost(lambda lake: lake.rename_namespace("m", "renamed"), 2, 5),
    "drop an empty namespace": Cost(lambda lake: lake.drop_namespace("m"), 2, 4),
    "create a table": Cost(lambda lake: lake.create_table("n.new", "id int", keys=["id"]), 3, 7),
    "alter a table": Cost(lambda lake: lake.alter_table("n.t050", {"a": "b"}), 2, 3),
    "rename a table": Cost(lambda lake: lake.rename_table("n.t050", "n.t999"), 2, 5),
    "rename a table with many deltas": Cost(lambda lake: lake.rename_table("n.big", "n.large"), 2, 5),
    "move an empty table": Cost(lambda lake: lake.rename_table("n.t050", "m.t050"), 2, 14),
    "drop a table": Cost(lambda lake: lake.drop_table("n.t050"), 3, 8),
    "create a view": Cost(lambda lake: lake.create_view("n.view", "select 1"), 2, 3),
    "alter a view": Cost(lambda lake: lake.alter_view("n.daily", {"a": "b"}), 2, 3),
    "rename a view": Cost(lambda lake: lake.rename_view("n.daily", "m.daily"), 2, 3),
    "drop a view": Cost(lambda lake: lake.drop_view("n.daily"), 2, 3),
    "add a delta": Cost(append_delta, 3, 4),
    "append rows": Cost(lambda lake: lake.table("n.rows").append([{"id": 1}]), 4, 5, reads=3),
    "upsert rows": Cost(lambda lake: lake.table("n.rows").upsert([{"id": 1}]), 4, 5, reads=3),
    "delete rows by key": Cost(lambda lake: lake.table("n.rows").delete_keys([{"id": 7}]), 4, 5, reads=3),
    "undo": Cost(lambda lake: lake.undo(lake.version), 2, 3, reads=6),
    "begin a shared transaction": Cost(lambda lake: lake.begin_shared("load"), 2, 3, reads=2),
    "new settings": Cost(lambda lake: lake.alter({"a": "b"}), 1, 2, reads=2),
}


@pytest.fixture(params=["tree", "deltacat", "deltacat-2"])
def layout(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def lake(effects: Effects, layout: str) -> Lakehouse:
    lake = create_on_store(replace(effects, later=lambda _: None), layout=layout, engines=LocalEngines)
    lake.create_namespace("n")
    lake.create_namespace("m")
    lake.create_table("n.big", "id int")
    lake.create_table("n.rows", "id int", keys=["id"]).append([{"id": 7}])
    lake.create_view("n.daily", "select 1")
    for number in range(0, 100, 10):
        with lake.transaction() as transaction:
            for place in range(number, number + 10):
                transaction.create_table(f"n.t{place:03d}", "id int")
                transaction.add_delta("n.big", (), Delta(DeltaType.APPEND))
    lake.maintenance.export(f"memory://kept-{lake._new_id()}-{id(lake)}/", "kept", "minimal")
    while lake.version < VERSIONS - 1:
        lake.alter_namespace("m", {"warm": str(lake.version)})
    return lake


def cost(store: CountingStore, work: Callable[[], object]) -> StoreRequests:
    before = store.requests
    work()
    return store.requests - before


@pytest.mark.parametrize("what", LOOKING)
def test_a_read_costs_one_check_for_a_newer_version_and_few_more_requests(
    lake: Lakehouse, store: CountingStore, what: str
) -> None:
    look, reads_max = LOOKING[what]
    look(lake)
    spent = cost(store, lambda: look(lake))
    assert spent.reads <= reads_max
    assert spent.total == spent.reads


@pytest.mark.parametrize("what", CHANGING)
def test_each_statement_is_few_reads_one_create_and_a_known_number_of_files(
    lake: Lakehouse, store: CountingStore, layout: str, what: str
) -> None:
    stated = CHANGING[what]
    spent = cost(store, lambda: stated.run(lake))
    assert (spent.creates, spent.lists, spent.sizes, spent.deletes) == (1, 0, 0, 0)
    assert spent.reads <= stated.reads
    assert spent.puts <= (stated.tree_puts if layout == "tree" else stated.deltacat_puts)


def test_a_rename_of_a_namespace_writes_files_for_its_tables_only_if_their_names_contain_its_name(
    lake: Lakehouse, store: CountingStore, layout: str
) -> None:
    spent = cost(store, lambda: lake.rename_namespace("n", "renamed"))
    assert (spent.creates, spent.lists, spent.sizes, spent.deletes) == (1, 0, 0, 0)
    tables = len(list(lake.tables("renamed")))
    assert spent.puts <= {"tree": 2, "deltacat": 5 + 2 * tables + 10, "deltacat-2": 5}[layout]


def test_a_rollback_costs_one_create_in_the_tree_and_only_the_differences_in_the_deltacat_layout(
    lake: Lakehouse, store: CountingStore, layout: str
) -> None:
    target = lake.version
    for number in range(5):
        lake.alter_namespace("m", {"number": str(number)})
    lake.create_namespace("later")
    spent = cost(store, lambda: lake.rollback(to=target))
    assert (spent.creates, spent.lists, spent.sizes, spent.deletes) == (1, 0, 0, 0)
    assert spent.reads <= 4
    # DeltaCAT knows no versions: a revision of `m`, of `later` and of its name, the log, and an index node.
    assert spent.puts <= (0 if layout == "tree" else 6)


def test_opening_reads_the_hint_the_newest_version_and_the_settings(store: CountingStore, layout: str) -> None:
    made = create_on_store(build_deterministic_effects(store), layout=layout)
    for number in range(30):
        made.create_namespace(f"n{number}")
    spent = cost(store, lambda: open_on_store(build_deterministic_effects(store)))
    assert (spent.creates, spent.puts, spent.deletes) == (0, 0, 0)
    # Whether it is the tree layout is asked first, and answered by listing the roots that are not there.
    assert spent.lists <= (0 if layout == "tree" else 2)
    assert spent.reads <= 8
    assert spent.sizes <= 4


def test_a_transaction_of_many_statements_costs_as_many_creates_as_one(
    lake: Lakehouse, store: CountingStore, layout: str
) -> None:
    def many() -> None:
        with lake.transaction() as transaction:
            for number in range(20):
                transaction.create_table(f"m.t{number}", "id int")
                transaction.alter_table(f"n.t{number:03d}", {"a": "b"})

    spent = cost(store, many)
    assert (spent.creates, spent.reads) == (1, 1)
    assert spent.puts <= (6 if layout == "tree" else 20 * 7 + 6)


def test_a_conflict_reads_only_the_concurrent_commit_and_writes_no_version(
    lake: Lakehouse, store: CountingStore, opened_again: Callable[[], Lakehouse]
) -> None:
    loser, version = lake.transaction(), lake.version
    loser.alter_table("n.t050", {"by": "loser"})
    opened_again().alter_table("n.t050", {"by": "rival"})

    def lose() -> None:
        with pytest.raises(ConflictError, match=r"n\.t050"):
            loser.commit()

    spent = cost(store, lose)
    assert spent.creates == 1
    assert spent.reads <= 4
    assert lake.version == version + 1


def test_a_conflict_with_a_commit_of_the_same_process_costs_no_request(lake: Lakehouse, store: CountingStore) -> None:
    loser, version = lake.transaction(), lake.version
    loser.alter_table("n.t050", {"by": "loser"})
    lake.alter_table("n.t050", {"by": "rival"})

    def lose() -> None:
        with pytest.raises(ConflictError, match=r"n\.t050"):
            loser.commit()

    assert cost(store, lose).total == 0
    assert lake.version == version + 1
