"""Group commit: what goes together, what does not, and what the history says about it."""

import linecache
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

import pytest
from tests.support.threads import wait_until

from mangrove.errors import ConflictError, MangroveError, StorageError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import EnginesFactory, create_on_store, open_on_store
from mangrove.lakehouse.transaction import Transaction
from mangrove.metastore import Isolation
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.transaction import group_commit
from mangrove.transaction.group_commit import (
    GroupCommitRequest,
    GroupCommitter,
    merge_changes,
    select_group,
    split_commit_result,
)
from mangrove.wiring import LocalEngines


def get_committer(lake: Lakehouse) -> GroupCommitter:
    """Return what groups the commits of a lakehouse."""
    assert isinstance(lake._commits, GroupCommitter)
    return lake._commits


class Gate(MemoryStore):
    """A store whose creates wait while the gate is shut, and fail once if they are asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()
        self.opened.set()
        self.reached = threading.Event()
        self.failures: list[BaseException] = []
        self.before_creates: list[Callable[[], object]] = []
        """What happens before each of the next creates."""

    def create(self, path: str, data: bytes) -> bool:
        self.reached.set()
        assert self.opened.wait(60)
        if self.before_creates:
            self.before_creates.pop(0)()
        if self.failures:
            raise self.failures.pop()
        return super().create(path, data)


class Threads:
    """A lakehouse on which one transaction is held in its commit while others come."""

    def __init__(self, engines: EnginesFactory | None = None) -> None:
        self.gate = Gate()
        self.store = CountingStore(self.gate)
        self.lake = create_on_store(build_deterministic_effects(self.store), engines=engines)
        self.lake.create_namespace("n")
        self.lake.create_table("n.rows", "id int")
        self.lake.create_table("n.other", "id int")
        self.outcomes: dict[str, object] = {}

    def commit_behind(self, first: Transaction, others: dict[str, Transaction]) -> None:
        """Commit `first`, and all others while it is under way, in their order."""
        grouped = get_committer(self.lake)
        self.gate.reached.clear()
        self.gate.opened.clear()
        threads = [self._committing("first", first)]
        assert self.gate.reached.wait(60)
        for number, (name, transaction) in enumerate(others.items(), 1):
            threads.append(self._committing(name, transaction))
            wait_until(lambda count=number: len(grouped._waiting) == 1 + count)  # type: ignore[misc]
        self.gate.opened.set()
        for thread in threads:
            thread.join(60)

    def _committing(self, name: str, transaction: Transaction) -> threading.Thread:
        def run() -> None:
            try:
                self.outcomes[name] = transaction.commit(name)
            except (MangroveError, KeyboardInterrupt) as error:
                self.outcomes[name] = error

        thread = threading.Thread(target=run)
        thread.start()
        return thread


@pytest.fixture
def threads() -> Threads:
    return Threads()


def delta(name: str) -> Delta:
    return Delta(DeltaType.APPEND, Manifest((DataFile(name, 1, 1),)))


def files(lake: Lakehouse) -> list[str]:
    return [value.manifest.entries[0].location for _, value in lake.table("n.rows").deltas()]


def test_transactions_waiting_for_a_commit_become_one_version(threads: Threads) -> None:
    lake = threads.lake
    first = lake.transaction()
    first.create_table("n.first", "id int")
    others = {f"t{number}": lake.transaction(author=f"author {number}") for number in range(5)}
    for name, transaction in others.items():
        transaction.create_table(f"n.{name}", "id int")
        transaction.add_delta("n.rows", (), delta(name))
    threads.commit_behind(first, others)
    assert threads.outcomes == {"first": 4} | dict.fromkeys(others, 5)
    fresh = open_on_store(build_deterministic_effects(threads.store, first_id=10**6))
    assert [table.name for table in fresh.tables("n")] == ["first", "other", "rows", "t0", "t1", "t2", "t3", "t4"]
    assert files(fresh) == list(others)
    newest = fresh.history()[0]
    assert [(record.id, record.message, record.author) for record in newest.transactions] == [
        (transaction.id, name, f"author {number}") for number, (name, transaction) in enumerate(others.items())
    ]


def test_each_member_gets_the_positions_of_its_deltas(threads: Threads) -> None:
    lake = threads.lake
    first = lake.transaction()
    first.add_delta("n.rows", (), delta("first"))
    others = {f"t{number}": lake.transaction() for number in range(3)}
    for name, transaction in others.items():
        transaction.add_delta("n.rows", (), delta(f"{name}a"))
        transaction.add_delta("n.rows", (), delta(f"{name}b"))
    threads.commit_behind(first, others)
    assert files(lake) == ["first", "t0a", "t0b", "t1a", "t1b", "t2a", "t2b"]
    got = []
    for transaction in others.values():
        assert transaction.committed_as is not None
        got.append([way.parts[-1] for way in transaction.committed_as.changes.puts if way.kind.word == "delta"])
    assert got == [[2, 3], [4, 5], [6, 7]]


def test_a_member_that_conflicts_with_an_earlier_one_is_rejected_and_the_others_commit(threads: Threads) -> None:
    lake = threads.lake
    first, winner, loser, other = (lake.transaction() for _ in range(4))
    first.create_table("n.first", "id int")
    winner.alter_table("n.rows", {"by": "winner"})
    loser.alter_table("n.rows", {"by": "loser"})
    other.alter_table("n.other", {"by": "other"})
    threads.commit_behind(first, {"winner": winner, "loser": loser, "other": other})
    assert (threads.outcomes["winner"], threads.outcomes["other"]) == (5, 5)
    assert isinstance(threads.outcomes["loser"], ConflictError)
    assert "table n.rows" in str(threads.outcomes["loser"])
    assert [table.properties.get("by") for table in lake.tables("n")] == [None, "other", "winner"]


@pytest.mark.parametrize("isolation", list(Isolation))
def test_members_are_isolated_from_each_other_like_other_transactions(threads: Threads, isolation: Isolation) -> None:
    lake = threads.lake
    first, one, two = lake.transaction(), lake.transaction(isolation), lake.transaction(isolation)
    first.create_table("n.first", "id int")
    for transaction, read, written in ((one, "n.rows", "n.other"), (two, "n.other", "n.rows")):
        assert transaction.table(read).properties == {}
        transaction.alter_table(written, {"off": "yes"})
    threads.commit_behind(first, {"one": one, "two": two})
    assert threads.outcomes["one"] == 5
    if isolation is Isolation.SNAPSHOT:
        assert threads.outcomes["two"] == 5
    else:
        assert isinstance(threads.outcomes["two"], ConflictError)


READS: dict[str, Callable[[Transaction], object]] = {
    "an object": lambda transaction: transaction.table("n.rows").properties,
    "a range": lambda transaction: list(transaction.table("n.rows").deltas()),
    "rows": lambda transaction: transaction.table("n.rows").state(),
}


@pytest.mark.parametrize("read", READS)
def test_a_group_does_not_commit_over_what_a_serializable_member_read(threads: Threads, read: str) -> None:
    lake = threads.lake
    first, reader, other = lake.transaction(), lake.transaction("serializable"), lake.transaction()
    READS[read](reader)
    reader.alter_table("n.other", {"by": "reader"})
    other.create_table("n.more", "id int")
    if read == "an object":
        first.alter_table("n.rows", {"by": "first"})
    else:
        first.add_delta("n.rows", (), delta("first"))
    threads.commit_behind(first, {"reader": reader, "other": other})
    assert isinstance(threads.outcomes["reader"], ConflictError)
    assert first.id in str(threads.outcomes["reader"])
    assert threads.outcomes["other"] == 5


@pytest.mark.parametrize("read", [*READS, "a guarded namespace"])
def test_a_group_validates_its_members_against_commits_of_other_processes(threads: Threads, read: str) -> None:
    lake = threads.lake
    lake.create_namespace("m")
    process = open_on_store(build_deterministic_effects(threads.gate, first_id=10**6))
    first, reader, other = lake.transaction(), lake.transaction("serializable"), lake.transaction()
    first.create_table("n.first", "id int")
    other.create_table("n.more", "id int")

    def commit_elsewhere() -> None:
        if read == "an object":
            process.alter_table("n.rows", {"by": "process"})
        elif read == "a guarded namespace":
            process.drop_namespace("m")
        else:
            with process.transaction() as transaction:
                transaction.add_delta("n.rows", (), delta("process"))

    if read == "a guarded namespace":
        reader = lake.transaction()
        reader.create_table("m.made", "id int")
    else:
        READS[read](reader)
        reader.alter_table("n.other", {"by": "reader"})
    # The version after that of `first` is taken by another process when the group is about to create it.
    threads.gate.before_creates = [lambda: None, commit_elsewhere]
    threads.commit_behind(first, {"reader": reader, "other": other})
    assert isinstance(threads.outcomes["reader"], ConflictError)
    assert threads.outcomes["other"] == lake.version
    assert threads.gate.before_creates == []


def test_a_group_has_the_earliest_deadline_of_its_members(threads: Threads) -> None:
    patient, urgent = threads.lake.transaction(), threads.lake.transaction()
    patient.create_table("n.patient", "id int")
    urgent.create_table("n.urgent", "id int")
    requests = [
        replace(request, changes=replace(request.changes, commit_before_millis=millis))
        for request, millis in ((_request(patient), 2_000), (_request(urgent), 1_000))
    ]
    assert select_group(requests)[0] == requests
    assert merge_changes(requests, "merged").commit_before_millis == 1_000


@pytest.mark.parametrize("isolation", list(Isolation))
def test_members_of_a_group_do_not_lose_updates(isolation: Isolation) -> None:
    threads = Threads(LocalEngines)
    lake = threads.lake
    table = lake.create_table("n.accounts", "owner varchar not null, balance bigint", keys=["owner"])
    table.append([{"owner": owner, "balance": 100} for owner in "ab"])

    def add(transaction: Transaction, owner: str) -> None:
        accounts = transaction.table("n.accounts")
        (row,) = accounts.to_arrow(where=f"owner = '{owner}'").to_pylist()
        accounts.upsert([{"owner": owner, "balance": row["balance"] + 1}])

    first, *others = (lake.transaction(isolation) for _ in range(5))
    blind = others.pop()
    add(first, "a")
    for transaction, owner in zip(others, "abb", strict=True):
        add(transaction, owner)
    blind.table("n.accounts").upsert([{"owner": "c", "balance": 1}])
    threads.commit_behind(first, {"a": others[0], "b1": others[1], "b2": others[2], "blind": blind})
    refused = {name for name, outcome in threads.outcomes.items() if isinstance(outcome, ConflictError)}
    assert refused == {"a", "b2"}
    assert {row["owner"]: row["balance"] for row in table.to_arrow().to_pylist()} == {"a": 101, "b": 101, "c": 1}


def test_a_concurrent_commit_that_conflicts_with_one_member_does_not_affect_the_others(threads: Threads) -> None:
    lake = threads.lake
    one, two, first = (lake.transaction() for _ in range(3))
    one.alter_table("n.rows", {"by": "one"})
    two.alter_table("n.other", {"by": "two"})
    first.alter_table("n.rows", {"by": "first"})
    threads.commit_behind(first, {"one": one, "two": two})
    assert isinstance(threads.outcomes["one"], ConflictError)
    assert first.id in str(threads.outcomes["one"])
    assert threads.outcomes["two"] == 5


def test_changes_of_namespaces_or_settings_are_not_grouped(threads: Threads) -> None:
    lake = threads.lake
    first, renaming, setting, plain, another = (lake.transaction() for _ in range(5))
    first.create_table("n.first", "id int")
    renaming.create_namespace("m")
    setting.alter_settings({"a": "b"})
    plain.create_table("n.plain", "id int")
    another.create_table("n.another", "id int")
    others = {"plain": plain, "renaming": renaming, "setting": setting, "another": another}
    threads.commit_behind(first, others)
    # Tables are created together, in the version of the first of them.
    assert threads.outcomes == {"first": 4, "plain": 5, "another": 5, "renaming": 6, "setting": 7}


@pytest.mark.parametrize("failure", [StorageError("the network is gone"), KeyboardInterrupt()])
def test_a_store_failure_is_reported_to_every_member(threads: Threads, failure: BaseException) -> None:
    lake = threads.lake
    first, *others = (lake.transaction() for _ in range(4))
    first.create_table("n.first", "id int")
    for number, transaction in enumerate(others):
        transaction.create_table(f"n.t{number}", "id int")
    fail_after_first: Callable[[], None] = lambda: threads.gate.failures.extend([failure] * 5)  # noqa: E731
    original = lake.metastore.commit
    calls = 0

    def counted(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 2:
            fail_after_first()
        return original(*arguments)  # type: ignore[arg-type]

    get_committer(lake).metastore.commit = counted  # type: ignore[method-assign, assignment]
    threads.commit_behind(first, {f"t{number}": one for number, one in enumerate(others)})
    assert threads.outcomes["first"] == 4
    assert all(isinstance(threads.outcomes[f"t{number}"], (StorageError, KeyboardInterrupt)) for number in range(3))
    threads.gate.failures.clear()
    lake.create_table("n.after", "id int")
    assert [table.name for table in lake.tables("n")] == ["after", "first", "other", "rows"]


class Interrupted(threading.Condition):
    """A condition on which the main thread does not wait, because Ctrl-C comes."""

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return super().wait_for(predicate, timeout)


def test_a_transaction_interrupted_while_waiting_is_never_committed(threads: Threads) -> None:
    lake = threads.lake
    first, stopped = lake.transaction(), lake.transaction()
    first.create_table("n.first", "id int")
    stopped.create_table("n.stopped", "id int")
    grouped = get_committer(lake)
    grouped.new_condition = Interrupted
    threads.gate.reached.clear()
    threads.gate.opened.clear()
    held = threads._committing("first", first)
    assert threads.gate.reached.wait(60)
    with pytest.raises(KeyboardInterrupt):
        stopped.commit()
    threads.gate.opened.set()
    held.join(60)
    grouped.new_condition = threading.Condition
    lake.create_table("n.after", "id int")
    assert [table.name for table in lake.tables("n")] == ["after", "first", "other", "rows"]


def test_a_commit_waits_for_as_many_threads_as_were_there_at_the_last_one(threads: Threads) -> None:
    lake = threads.lake
    one, two = lake.transaction(), lake.transaction()
    one.create_table("n.one", "id int")
    two.create_table("n.two", "id int")
    grouped = get_committer(lake)
    grouped._expected, grouped._gather_millis = 2, 60_000
    first = threads._committing("one", one)
    wait_until(lambda: grouped._leader is not None)
    second = threads._committing("two", two)
    first.join(60)
    second.join(60)
    assert threads.outcomes == {"one": 4, "two": 4}
    assert grouped._expected == 2


def interrupt_at_line(number: int, code: Callable[[], object]) -> bool:
    """Run the code, and raise KeyboardInterrupt before this line of group commits; return whether it was reached.

    The end of a `with` block is not counted: Python itself raises nothing before it has released the lock.
    """
    lines, entered = 0, set[FrameType]()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != group_commit.__file__:
            return None
        is_with = linecache.getline(group_commit.__file__, frame.f_lineno).strip().startswith("with ")
        if event == "line" and is_with and frame in entered:
            entered.remove(frame)
        elif event == "line":
            if is_with:
                entered.add(frame)
            lines += 1
            if lines == number:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        code()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_a_thread_that_is_interrupted_at_any_line_stops_no_other_and_leaves_no_request() -> None:
    lake = create_on_store(build_deterministic_effects(MemoryStore()), engines=LocalEngines)
    lake.create_namespace("n")
    table = lake.create_table("n.rows", "id int")
    expected: list[int] = []
    number = 0
    while True:
        number += 1
        is_interrupted = interrupt_at_line(number, partial(table.append, [{"id": number}]))
        expected += [number] * table.count(where=f"id = {number}") + [-number]
        following = threading.Thread(target=table.append, args=([{"id": -number}],), daemon=True)
        following.start()
        following.join(60)
        assert not following.is_alive()
        assert sorted(row["id"] for row in table.to_arrow().to_pylist()) == sorted(expected)
        assert get_committer(lake)._waiting == []
        if not is_interrupted:
            break
    assert number > 20


class CountedCondition(threading.Condition):
    """A condition that counts how often a thread that waits is woken."""

    is_used = False
    wakes = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.is_used = True
        is_notified = super().wait(timeout)
        self.wakes += 1
        return is_notified


def test_a_thread_that_gathers_a_group_is_woken_once(threads: Threads) -> None:
    lake = threads.lake
    transactions = {name: lake.transaction() for name in ("one", "two", "three", "four")}
    for name, transaction in transactions.items():
        transaction.create_table(f"n.{name}", "id int")
    grouped = get_committer(lake)
    grouped._gathered = condition = CountedCondition(grouped._lock)
    grouped._expected, grouped._gather_millis = len(transactions), 60_000
    committing = []
    for number, (name, transaction) in enumerate(transactions.items(), 1):
        committing.append(threads._committing(name, transaction))
        if number < len(transactions):
            wait_until(lambda count=number: condition.is_used and len(grouped._waiting) == count)  # type: ignore[misc]
    for thread in committing:
        thread.join(60)
    assert threads.outcomes == dict.fromkeys(transactions, 4)
    assert condition.wakes == 1


def test_a_conflict_in_a_group_leaves_the_others_together(threads: Threads) -> None:
    lake = threads.lake
    first = lake.transaction()
    first.add_delta("n.rows", (), delta("first"))
    others = {f"t{number}": lake.transaction() for number in range(4)}
    for name, transaction in others.items():
        transaction.add_delta("n.rows", (), delta(name))
    others["t2"].alter_table("n.other", {"by": "t2"})
    other = open_on_store(build_deterministic_effects(threads.store, first_id=10**6))
    grouped = get_committer(lake)
    original = grouped.metastore.commit

    def overtake(*arguments: Any) -> Any:
        if "members" in str(arguments[1].properties):
            grouped.metastore.commit = original  # type: ignore[method-assign]
            other.alter_table("n.other", {"by": "another process"})
        return original(*arguments)

    grouped.metastore.commit = overtake  # type: ignore[method-assign, assignment]
    threads.commit_behind(first, others)
    assert isinstance(threads.outcomes.pop("t2"), ConflictError)
    assert threads.outcomes == {"first": 4, "t0": 6, "t1": 7, "t3": 7}


def test_a_lone_commit_is_not_changed_by_grouping(threads: Threads) -> None:
    before = threads.store.requests
    threads.lake.create_table("n.lone", "id int")
    assert (threads.store.requests - before).creates == 1
    (record,) = threads.lake.history()[0].transactions
    assert record.message == "create table n.lone"


def test_transactions_with_different_base_versions_become_one_version(threads: Threads) -> None:
    lake = threads.lake
    others = {}
    for number in range(4):
        others[f"t{number}"] = lake.transaction("serializable")
        lake.create_table(f"n.between{number}", "id int")
    first = lake.transaction()
    first.add_delta("n.rows", (), delta("first"))
    for name, transaction in others.items():
        transaction.create_table(f"n.{name}", "id int")
        transaction.add_delta("n.rows", (), delta(name))
    before = threads.store.requests
    threads.commit_behind(first, others)
    assert threads.outcomes == {"first": 8} | dict.fromkeys(others, 9)
    assert (threads.store.requests - before).creates == 2
    assert files(lake) == ["first", *others]


def test_a_transaction_with_an_older_base_version_is_refused_without_a_create(threads: Threads) -> None:
    lake = threads.lake
    stale = lake.transaction()
    stale.alter_table("n.rows", {"by": "stale"})
    lake.alter_table("n.rows", {"by": "newer"})
    before = threads.store.requests
    with pytest.raises(ConflictError, match=r"n\.rows"):
        stale.commit()
    assert (threads.store.requests - before).creates == 0
    assert lake.table("n.rows").properties == {"by": "newer"}


def test_only_transactions_with_the_same_base_version_are_grouped() -> None:
    lake = create_on_store(build_deterministic_effects(MemoryStore()))
    lake.create_namespace("n")
    older = lake.transaction()
    older.create_table("n.older", "id int")
    lake.create_table("n.between", "id int")
    newer = lake.transaction()
    newer.create_table("n.newer", "id int")
    requests = [_request(older), _request(newer)]
    assert select_group(requests) == ([requests[0]], [requests[1]])


def test_members_that_create_the_same_partition_are_merged_except_one_that_listed_partitions() -> None:
    lake = create_on_store(build_deterministic_effects(MemoryStore()))
    lake.create_namespace("n")
    lake.create_table("n.rows", "id int")
    one, two, reader = lake.transaction(), lake.transaction(), lake.transaction("serializable")
    assert list(reader.table("n.rows").partitions()) == []
    for transaction in (one, two, reader):
        transaction.add_delta("n.rows", (), delta(transaction.id))
    requests = [_request(transaction) for transaction in (one, two, reader)]
    members, others = select_group(requests)
    assert (members, others) == (requests[:2], requests[2:])
    merged = merge_changes(members, "merged")
    assert sorted(way.kind.word for way in merged.puts) == ["delta", "delta", "partition"]
    committed = lake.metastore.commit(members[0].base, merged, Isolation.SNAPSHOT)
    assert [len(outcome.changes.puts) for outcome in split_commit_result(members, committed)] == [2, 2]


def _request(transaction: Transaction) -> GroupCommitRequest:
    workspace = transaction._reading()
    return GroupCommitRequest(workspace.snapshot, workspace.changes(transaction.id), transaction.isolation)


def test_concurrent_commits_of_threads_lose_nothing() -> None:
    lake = create_on_store(build_deterministic_effects(MemoryStore()))
    lake.create_namespace("n")
    lake.create_table("n.rows", "id int")

    def work(worker: int) -> None:
        for number in range(15):
            with lake.transaction() as transaction:
                transaction.create_table(f"n.w{worker}-{number:02d}", "id int")
                transaction.add_delta("n.rows", (), delta(f"{worker}-{number}"))

    workers = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(list(lake.tables("n", "w"))) == 120
    assert len(set(files(lake))) == 120
    transactions = [record.id for line in lake.history() for record in line.transactions]
    assert len(transactions) == len(set(transactions)) == 123
    assert isinstance(lake._commits, GroupCommitter)
