"""A batch of a stream is committed once, however often it comes, whatever happens to the lakehouse meanwhile."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

import mangrove
from mangrove.errors import ConflictError, InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.transaction import Transaction
from mangrove.storage.counting import CountingStore
from mangrove.testing.effects import Clock


def names(lake: Lakehouse) -> list[str]:
    return [str(namespace) for namespace in lake.namespaces()]


def commit_batch(lake: Lakehouse, query: str, batch_id: int, *made: str) -> bool:
    with lake.transaction_once(query, batch_id) as transaction:
        for name in made if transaction is not None else ():
            assert transaction is not None
            transaction.create_namespace(name)
        return transaction is not None


def test_a_repeated_batch_changes_nothing(lake: Lakehouse) -> None:
    assert commit_batch(lake, "my stream / 1", 0, "a")
    version = lake.version
    assert not commit_batch(lake, "my stream / 1", 0, "b")
    assert lake.version == version
    assert commit_batch(lake, "my stream / 1", 1, "b")
    assert not commit_batch(lake, "my stream / 1", 0, "c")
    assert names(lake) == ["a", "b"]


def test_each_query_has_one_independent_idempotency_record(lake: Lakehouse) -> None:
    for batch_id in range(3):
        assert commit_batch(lake, "one", batch_id, f"one{batch_id}")
    assert commit_batch(lake, "two", 0, "two")
    assert {(done.query, done.batch_id) for done in lake.queries()} == {("one", 2), ("two", 0)}
    assert lake.shared_transactions() == []
    assert lake.forget_query("one")
    assert not lake.forget_query("one")
    assert commit_batch(lake, "one", 0, "again")


def test_a_batch_whose_transaction_failed_can_be_repeated(lake: Lakehouse) -> None:
    def fail() -> None:
        with lake.transaction_once("q", 4) as transaction:
            assert transaction is not None
            transaction.create_namespace("a")
            raise KeyError("the power went out")

    with pytest.raises(KeyError):
        fail()
    assert names(lake) == []
    assert lake.queries() == []
    assert commit_batch(lake, "q", 4, "a")


def test_only_concurrent_runs_of_the_same_query_conflict(lake: Lakehouse) -> None:
    with lake.transaction_once("one", 0) as first, lake.transaction_once("two", 0) as second:
        assert first is not None
        assert second is not None
        first.create_namespace("a")
        second.create_namespace("b")

    def overtaken() -> None:
        with lake.transaction_once("one", 1) as early:
            assert early is not None
            early.create_namespace("c")
            assert commit_batch(lake, "one", 1, "d")

    with pytest.raises(ConflictError):
        overtaken()
    assert names(lake) == ["a", "b", "d"]


def test_two_runs_of_a_batch_in_the_same_millisecond_conflict(lake: Lakehouse, clock: Clock) -> None:
    def overtaken() -> None:
        clock.now_millis = now_millis
        with lake.transaction_once("one", 0) as early:
            assert early is not None
            early.create_namespace("a")
            clock.now_millis = now_millis
            assert commit_batch(lake, "one", 0, "b")

    now_millis = clock.now_millis
    with pytest.raises(ConflictError):
        overtaken()
    assert names(lake) == ["b"]


def test_run_once_skips_a_batch_that_a_concurrent_run_committed(lake: Lakehouse) -> None:
    runs = []

    def work(transaction: Transaction) -> None:
        runs.append(1)
        transaction.create_namespace("mine")
        if len(runs) == 1:
            commit_batch(lake, "q", 7, "theirs")

    assert not lake.run_once("q", 7, work)
    assert names(lake) == ["theirs"]
    assert lake.run_once("q", 8, work)
    assert (names(lake), len(runs)) == (["mine", "theirs"], 2)


def test_the_cost_of_a_repeated_batch_is_independent_of_the_history_length(
    lake: Lakehouse, store: CountingStore, opened_again: Callable[[], Lakehouse]
) -> None:
    costs = []
    for upto in (2, 40):
        for batch_id in range(upto):
            commit_batch(lake, "q", batch_id, f"n{batch_id:02}")
        fresh = opened_again()
        before = store.requests
        assert not commit_batch(fresh, "q", upto - 1)
        costs.append((store.requests - before).total)
    assert costs[1] <= costs[0] + 2


def test_the_idempotency_record_survives_expiry_vacuum_and_undo(lake: Lakehouse, clock: Clock) -> None:
    commit_batch(lake, "q", 0, "a")
    commit_batch(lake, "q", 1, "b")
    lake.undo(lake.version - 1)
    assert names(lake) == ["b"]
    assert [done.batch_id for done in lake.queries()] == [1]
    clock.now_millis += 40 * 24 * 3600 * 1000
    for number in range(5):
        lake.create_namespace(f"later{number}")
    clock.now_millis += 40 * 24 * 3600 * 1000
    lake.maintenance.expire()
    lake.maintenance.vacuum()
    assert not commit_batch(lake, "q", 1)
    assert lake.maintenance.check().is_sound


def test_an_export_carries_the_record(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    commit_batch(lake, "q", 3, "a")
    lake.maintenance.export(tmp_path / "copy", name="now")
    assert not commit_batch(mangrove.open(tmp_path / "copy"), "q", 3)


@pytest.mark.parametrize("source", ["tree", "deltacat"])
@pytest.mark.parametrize("history", ["all", "latest"])
def test_a_conversion_carries_the_record(tmp_path: Path, source: str, history: Literal["all", "latest"]) -> None:
    lake = mangrove.create(tmp_path / "lake", layout=source)
    commit_batch(lake, "q", 3, "a")
    lake.create_namespace("b")
    lake.maintenance.convert(tmp_path / "copy", history=history)
    copy = mangrove.open(tmp_path / "copy")
    assert copy.layout != source
    assert not commit_batch(copy, "q", 3)
    assert commit_batch(copy, "q", 4, "c")


@pytest.mark.parametrize(("query", "batch_id"), [("", 0), ("  ", 0), ("q", -1), ("q", True), ("q", 2**70)])
def test_a_batch_without_a_name_or_a_number_is_refused(lake: Lakehouse, query: str, batch_id: int) -> None:
    version = lake.version
    with pytest.raises(InvalidInputError), lake.transaction_once(query, batch_id):
        pass
    assert lake.version == version
