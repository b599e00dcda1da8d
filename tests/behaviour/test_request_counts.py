"""What each operation costs in requests, in a lakehouse that this process has read before."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from mangrove.effects import Effects
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on
from mangrove.model.objects import Delta, DeltaType
from mangrove.storage.counting import CountingStore, Requests


def append(lake: Lakehouse) -> None:
    with lake.transaction() as transaction:
        transaction.add_delta("n.big", (), Delta(DeltaType.APPEND))


LOOKING: dict[str, tuple[Callable[[Lakehouse], object], int]] = {
    "the newest version": (lambda lake: lake.version, 1),
    "a table": (lambda lake: lake.table("n.t050"), 1),
    "a table's columns": (lambda lake: lake.table("n.t050").schema, 2),
    "a page of a list": (lambda lake: list(lake.tables("n", limit=10)), 1),
    "a whole list": (lambda lake: list(lake.tables("n")), 1),
    "a list by prefix": (lambda lake: list(lake.tables("n", "t09")), 1),
    "the namespaces": (lambda lake: list(lake.namespaces()), 1),
    "what is not there": (lambda lake: lake.drop_table("n.none", if_exists=True), 1),
    "the end of a transaction that wrote nothing": (lambda lake: lake.transaction().rollback(), 1),
    "ten lines of history": (lambda lake: list(lake.history(limit=10)), 33),
    "what the last version changed": (lambda lake: lake.diff(lake.version - 1), 4),
}
CHANGING: dict[str, Callable[[Lakehouse], object]] = {
    "create a namespace": lambda lake: lake.create_namespace("new"),
    "create a table": lambda lake: lake.create_table("n.new", "id int", keys=["id"]),
    "create a view": lambda lake: lake.create_view("n.view", "select 1"),
    "alter a namespace": lambda lake: lake.alter_namespace("n", {"a": "b"}),
    "alter a table": lambda lake: lake.alter_table("n.t050", {"a": "b"}),
    "rename a table": lambda lake: lake.rename_table("n.t050", "m.t050"),
    "rename a table with many deltas": lambda lake: lake.rename_table("n.big", "m.big"),
    "rename a namespace with many tables": lambda lake: lake.rename_namespace("n", "renamed"),
    "drop a table": lambda lake: lake.drop_table("n.t050"),
    "drop an empty namespace": lambda lake: lake.drop_namespace("m"),
    "append": append,
}


@pytest.fixture
def layout() -> str:
    """Return the default; other layouts hold themselves to their own counts."""
    return "tree"


@pytest.fixture
def lake(effects: Effects, layout: str) -> Lakehouse:
    lake = create_on(replace(effects, later=lambda _: None), layout=layout)
    lake.create_namespace("n")
    lake.create_namespace("m")
    lake.create_table("n.big", "id int")
    for number in range(0, 100, 10):
        with lake.transaction() as transaction:
            for place in range(number, number + 10):
                transaction.create_table(f"n.t{place:03d}", "id int")
                transaction.add_delta("n.big", (), Delta(DeltaType.APPEND))
    lake.alter_namespace("m", {"warm": "yes"})
    return lake


def cost(store: CountingStore, work: Callable[[], object]) -> Requests:
    before = store.requests
    work()
    return store.requests - before


@pytest.mark.parametrize("what", LOOKING)
def test_looking_costs_the_question_for_a_newer_version_and_little_else(
    lake: Lakehouse, store: CountingStore, what: str
) -> None:
    look, reads_max = LOOKING[what]
    look(lake)
    spent = cost(store, lambda: look(lake))
    assert spent.reads <= reads_max
    assert spent.total == spent.reads


@pytest.mark.parametrize("what", CHANGING)
def test_each_statement_is_one_read_one_create_and_at_most_a_node_and_a_definition(
    lake: Lakehouse, store: CountingStore, what: str
) -> None:
    spent = cost(store, lambda: CHANGING[what](lake))
    assert (spent.creates, spent.lists, spent.sizes, spent.deletes) == (1, 0, 0, 0)
    assert spent.reads == 1
    assert spent.puts <= 3


def test_new_settings_are_read_back_once(lake: Lakehouse, store: CountingStore) -> None:
    spent = cost(store, lambda: lake.alter({"a": "b"}))
    assert (spent.creates, spent.puts, spent.reads) == (1, 1, 2)


def test_a_transaction_of_many_statements_costs_as_many_creates_as_one(lake: Lakehouse, store: CountingStore) -> None:
    def many() -> None:
        with lake.transaction() as transaction:
            for number in range(20):
                transaction.create_table(f"m.t{number}", "id int")
                transaction.alter_table(f"n.t{number:03d}", {"a": "b"})

    spent = cost(store, many)
    assert (spent.creates, spent.reads) == (1, 1)
    assert spent.puts <= 6


def test_a_conflict_costs_the_rivals_and_writes_no_version(lake: Lakehouse, store: CountingStore) -> None:
    loser, version = lake.transaction(), lake.version
    loser.alter_table("n.t050", {"by": "loser"})
    lake.alter_table("n.t050", {"by": "rival"})

    def lose() -> None:
        with pytest.raises(Exception, match=r"n\.t050"):
            loser.commit()

    spent = cost(store, lose)
    assert spent.creates == 1
    assert spent.reads <= 4
    assert lake.version == version + 1
