"""Group commit of the processes of one machine: every queued transaction is committed once or refused."""

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.behaviour.test_intents import StoppedStore, append, begin, messages, names
from tests.support.commit_queue import MemoryQueue
from tests.support.threads import wait_until

from mangrove.effects import Effects
from mangrove.errors import ConflictError, StorageError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.lakehouse.transaction import Transaction
from mangrove.model.settings import INTENTS_PROPERTY, LakehouseSettings
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import ObjectInfo, Store
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.faulty_store import Faults, FaultyStore, SimulatedCrash
from mangrove.transaction.group_commit import GroupCommitter
from mangrove.transaction.intents import VERSIONS_MAX
from mangrove.wiring import LocalEngines

Open = Callable[..., Lakehouse]


@pytest.fixture
def order() -> int:
    """Return the number of children of a node: so few that each commit writes nodes."""
    return 4


@pytest.fixture
def lake(effects: Effects, layout: str, order: int) -> Lakehouse:
    """Return a lakehouse of a process of another machine."""
    # A version of a strict tree has one transaction.
    is_strict = False if layout.startswith("tree") else None
    lake = create_on_store(effects, layout=layout, strict=is_strict, settings=LakehouseSettings(order=order))
    lake.create_namespace("shop")
    lake.create_table("shop.orders", "id int")
    lake.create_table("shop.other", "id int")
    append(lake, "first")
    return lake


@pytest.fixture
def queue() -> MemoryQueue:
    return MemoryQueue()


@pytest.fixture
def open_process(lake: Lakehouse, store: CountingStore, clock: Clock, queue: MemoryQueue) -> Open:
    """Return how a process of the machine opens the lakehouse."""
    numbers = iter(range(1, 1000))

    def open_process(
        through: Store | None = None, uses: MemoryQueue = queue, pause: Callable[[float], None] | None = None
    ) -> Lakehouse:
        effects = build_deterministic_effects(through or store, clock, next(numbers) * 10**6)
        return open_on_store(replace(effects, queue=uses, pause=pause or effects.pause), engines=LocalEngines)

    return open_process


class CrashingQueue:
    """The queue as a process sees it that is killed when it asks for the lock."""

    def __init__(self, queue: MemoryQueue) -> None:
        self._queue = queue

    def __getattr__(self, name: str) -> object:
        return getattr(self._queue, name)

    def try_lock(self) -> bool:
        raise SimulatedCrash("killed")

    def remove(self, _: object) -> None:
        """Do nothing: the process does not exist any more."""


def read_all(store: Store) -> dict[str, bytes]:
    return {entry.path: store.read(entry.path) for entry in store.list() if isinstance(entry, ObjectInfo)}


def leave_entry(lake: Lakehouse, open_process: Open, queue: MemoryQueue, name: str, table: str = "") -> None:
    """Leave the transaction of a process in the queue that was killed while it waited."""
    transaction = begin(open_process(uses=CrashingQueue(queue)), name)
    if table:
        transaction.alter_table(table, {"by": name})
    append(lake, f"before {name}")
    with pytest.raises(SimulatedCrash):
        transaction.commit()


def lose_race(lake: Lakehouse, open_process: Open, name: str) -> Transaction:
    """Return a transaction whose first attempt to commit will be refused."""
    transaction = begin(open_process(), name)
    append(lake, f"before {name}")
    return transaction


def test_a_writer_without_competitors_does_not_use_the_queue(
    open_process: Open, store: CountingStore, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = open_process()
    append(process, "second")
    monkeypatch.setattr(queue, "put", None)
    before = store.requests
    append(process, "third")
    made = store.requests - before
    assert (made.lists, made.creates, made.deletes) == (0, 1, 0)
    assert names(process) == ["first", "second", "third"]


def test_a_writer_that_lost_a_race_commits_and_leaves_nothing_in_the_queue(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue
) -> None:
    transaction = lose_race(lake, open_process, "late")
    assert transaction.commit() == lake.version
    assert names(lake) == ["first", "before late", "late"]
    assert queue.entries == {}
    assert not queue.is_locked


def test_waiting_transactions_of_other_processes_are_committed_in_one_version(
    lake: Lakehouse, open_process: Open, store: CountingStore, queue: MemoryQueue
) -> None:
    leader = begin(open_process(), "leader")
    leave_entry(lake, open_process, queue, "one")
    leave_entry(lake, open_process, queue, "two")
    leader.commit()
    assert messages(lake)[lake.version] == ["leader", "one", "two"]
    assert names(lake) == ["first", "before one", "before two", "leader", "one", "two"]
    assert queue.entries == {}
    for name in names(lake):
        store.put(f"data/{name}", b"1")
    assert lake.maintenance.check().is_sound


def test_a_leader_waits_for_the_writers_of_the_last_version_once(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue
) -> None:
    late: list[str] = []
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if late:
            leave_entry(lake, open_process, queue, late.pop())

    process = open_process(pause=pause)
    leave_entry(lake, open_process, queue, "one")
    queue.groups = 1
    append(process, "leader 1")
    assert not pauses  # the writers of the version before are not known
    late.append("two")
    append(process, "leader 2")
    assert messages(lake)[lake.version] == ["leader 2", "two"]
    pauses.clear()
    append(process, "leader 3")
    assert len(pauses) > 1
    pauses.clear()
    append(process, "leader 4")
    assert not pauses
    written = ["first", "leader 1", "one", "leader 2", "two", "leader 3", "leader 4"]
    assert [name for name in names(lake) if not name.startswith("before")] == written


def test_a_process_whose_transaction_another_one_commits_only_looks_for_a_later_version(
    lake: Lakehouse, layout: str, open_process: Open, store: CountingStore, queue: MemoryQueue
) -> None:
    waiting: list[Transaction] = []

    def lead(_: float) -> None:
        if waiting:
            queue.is_locked = False
            waiting.pop().commit()

    counted = CountingStore(store)
    follower = open_process(counted, pause=lead)
    leader = open_process()
    for number in range(3):
        append(leader, f"leader {number}")
    follower.version  # noqa: B018 - reads the newest version
    queue.groups = 1
    for number in range(3):
        waiting.append(begin(leader, f"led {number}"))
        before = counted.requests
        followed = begin(follower, f"followed {number}")
        queue.is_locked = True
        version = followed.commit()
        made = counted.requests - before
        assert messages(lake)[version] == [f"led {number}", f"followed {number}"]
        if number:  # a process that joins reads the newest version
            # It looks for a later version as it begins. DeltaCAT has a file for the number of the last delta.
            assert made.total <= (1 if layout.startswith("tree") else 2)
    assert names(lake)[-2:] == ["led 2", "followed 2"]
    assert followed.committed_as is not None
    (place,) = followed.committed_as.changes.puts
    assert place.parts[-1] == len(names(lake))


@pytest.mark.parametrize("inline_bytes", ["0", "4096"])
def test_rows_of_a_queued_transaction_are_those_that_its_writer_appended(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue, inline_bytes: str
) -> None:
    lake.create_table("shop.rows", "id int", properties={"write.inline-rows-max-bytes": inline_bytes})
    leader, killed = open_process(), open_process(uses=CrashingQueue(queue))
    led, lost = leader.transaction(), killed.transaction()
    led.table("shop.rows").append([{"id": 1}])
    lost.table("shop.rows").append([{"id": 2}])
    append(lake, "before both")
    with pytest.raises(SimulatedCrash):
        lost.commit()
    led.commit()
    assert leader.table("shop.rows").to_arrow().to_pylist() == [{"id": 1}, {"id": 2}]


def test_an_entry_that_is_already_committed_is_not_committed_again(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue
) -> None:
    leader, later = begin(open_process(), "leader"), begin(open_process(), "later")
    leave_entry(lake, open_process, queue, "one")
    entries = dict(queue.entries)
    leader.commit()
    assert names(lake).count("one") == 1
    queue.entries |= entries
    later.commit()
    assert names(lake).count("one") == 1
    assert queue.entries == {}


@pytest.mark.parametrize("change", ["none", "rollback", "namespace", "age", "conflict"])
def test_an_entry_that_a_version_concerns_is_not_committed(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue, change: str
) -> None:
    leave_entry(lake, open_process, queue, "one", table="shop.other")
    process = open_process()
    process.version  # noqa: B018 - reads the newest version
    match change:
        case "none":
            append(lake, "another")
        case "rollback":
            lake.rollback(lake.version - 1)
        case "namespace":
            lake.create_namespace("another")
        case "conflict":
            lake.alter_table("shop.other", {"by": "lake"})
        case _:
            for number in range(VERSIONS_MAX):
                append(lake, f"filler {number}")
    late = begin(process, "leader")
    append(lake, "before leader")
    late.commit()
    assert ("one" in names(lake)) == (change == "none")


def test_the_owner_of_a_conflicting_entry_gets_its_own_conflict(lake: Lakehouse, open_process: Open) -> None:
    transaction = lose_race(lake, open_process, "late")
    transaction.alter_table("shop.other", {"by": "late"})
    lake.alter_table("shop.other", {"by": "lake"})
    with pytest.raises(ConflictError, match=r"shop\.other"):
        transaction.commit()
    assert "late" not in names(lake)


def test_threads_whose_group_another_process_commits_commit_once_although_no_request_works_afterwards(
    lake: Lakehouse, open_process: Open, store: CountingStore, queue: MemoryQueue
) -> None:
    faulty, threads = FaultyStore(store, Faults(0)), ThreadPoolExecutor(2)
    committing: list[Future[int]] = []

    def lead(_: float) -> None:
        """Commit the first transaction while two threads arrive, and then the group of both."""
        if not committing:
            commits = follower._commits
            assert isinstance(commits, GroupCommitter)
            for one in group:
                committing.append(threads.submit(one.commit))
                wait_until(lambda: len(commits._waiting) == 1 + len(committing))
        else:
            faulty.fail_next("read", "before")
        queue.is_locked = False
        if leaders:
            leaders.pop().commit()
        queue.is_locked = True

    follower = open_process(faulty, pause=lead)
    leaders = [begin(open_process(), name) for name in ("leader 2", "leader 1")]
    first, *group = (begin(follower, name) for name in ("alone", "one", "two"))
    append(lake, "before")
    queue.is_locked, queue.groups = True, 1
    first.commit()
    assert {one.result(60) for one in committing} == {lake.version}
    assert messages(lake)[lake.version] == ["leader 2", "one", "two"]
    assert names(lake) == ["first", "before", "leader 1", "alone", "leader 2", "one", "two"]
    with pytest.raises(StorageError, match="on purpose"):
        faulty.read("_never")  # nothing was read since the commit
    places = [place for one in group if one.committed_as for place in one.committed_as.changes.puts]
    assert places == [place for place, _ in lake.table("shop.orders").deltas()][-2:]
    threads.shutdown()


def test_a_damaged_entry_is_skipped(lake: Lakehouse, open_process: Open, queue: MemoryQueue) -> None:
    leader = begin(open_process(), "leader")
    leave_entry(lake, open_process, queue, "one")
    ((name, data),) = queue.entries.items()
    queue.entries[name] = data.replace(b"data/one", b"data/two")
    leader.commit()
    assert names(lake)[-1] == "leader"


@pytest.mark.parametrize(
    "kind", ["of another history", "without a head", "infinitely late", "without its file", "damaged"]
)
def test_a_version_of_another_history_or_a_damaged_one_is_not_used(
    lake: Lakehouse,
    open_process: Open,
    store: CountingStore,
    queue: MemoryQueue,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    newest = lake.metastore.latest()
    copied = MemoryStore(store.uri)
    for path, data in read_all(store).items():
        copied.put(path, data)
    elsewhere = open_process(copied, uses=MemoryQueue())
    append(elsewhere, "elsewhere")
    files = dict(elsewhere.metastore.encode_version(elsewhere.metastore.latest()))
    parent = newest.commit.transaction_id
    if kind == "of another history":
        parent = "00000000-0000-4000-8000-fffffffffff0"
    elif kind == "without its file":
        files = {}
    elif kind == "damaged":
        files = {path: data[:-1] for path, data in files.items()}

    def put(name: str, entry: bytes) -> bool:
        """Add an entry; then somebody shows the version."""
        at_millis = float("inf") if kind == "infinitely late" else clock.read()
        head = json.dumps([parent, at_millis, 20, 1, {path: len(data) for path, data in files.items()}])
        shown = b"".join((b"" if kind == "without a head" else head.encode(), b"\n", *files.values()))
        queue.put_version(newest.version + 1, shown, is_group=True)
        return MemoryQueue.put(queue, name, entry)

    monkeypatch.setattr(queue, "put", put)
    queue.groups = 1
    append(open_process(), "second")
    assert names(lake) == ["first", "second"]
    assert lake.version == newest.version + 1


def test_a_version_that_was_shown_before_a_copy_was_restored_is_not_used(
    lake: Lakehouse, open_process: Open, store: CountingStore, queue: MemoryQueue
) -> None:
    copy, version = read_all(store), lake.version
    queue.groups = 1
    append(open_process(), "lost")
    assert [*queue.versions] == [version + 1]
    store.delete_many([*read_all(store).keys() - copy.keys()])
    for path, data in copy.items():
        store.put(path, data)
    process = open_process()
    append(process, "second")
    append(process, "third")
    assert names(open_process()) == ["first", "second", "third"]
    assert open_process().version == version + 2


def test_a_process_that_waits_too_long_commits_without_the_lock(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue, clock: Clock
) -> None:
    queue.is_locked = True
    clock.tick_millis = 500
    lose_race(lake, open_process, "late").commit()
    assert names(lake) == ["first", "before late", "late"]
    assert queue.entries == {}


@pytest.mark.parametrize("is_in_use", [True, False])
def test_a_process_that_joins_waits_longer_where_commits_are_slow(
    lake: Lakehouse,
    open_process: Open,
    queue: MemoryQueue,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    is_in_use: bool,
) -> None:
    def pause(_: float) -> None:
        clock.now_millis += 100

    monkeypatch.setattr("mangrove.transaction.machine_group_commit._COMMITS_WITHOUT", 0)
    process, waited_millis = open_process(pause=pause), []
    queue.is_locked, queue.groups, clock.tick_millis = True, int(is_in_use), 100
    for number in range(2):
        transaction = begin(process, f"late {number}")
        append(lake, f"before late {number}")
        began_at_millis = clock.now_millis
        transaction.commit()
        waited_millis.append(clock.now_millis - began_at_millis)
    # A process that joins a queue in use knows it only after its first attempt.
    assert waited_millis[0] > 5_000 or is_in_use
    assert waited_millis[1] > 5_000
    assert names(lake)[1:] == ["before late 0", "late 0", "before late 1", "late 1"]


@pytest.mark.parametrize("is_released", [True, False])
def test_a_transaction_that_nobody_else_may_commit_waits_for_the_lock(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue, clock: Clock, is_released: bool
) -> None:
    def lead(_: float) -> None:
        if is_released and queue.is_locked:
            append(lake, "of another machine")
            queue.is_locked = False

    process = open_process(pause=lead)
    queue.groups, queue.is_locked = 1, True
    clock.tick_millis = 500 * (not is_released)
    process.create_namespace("another")
    assert "another" in [one.name for one in lake.namespaces()]
    assert names(lake) == (["first", "of another machine"] if is_released else ["first"])
    assert queue.entries == {}
    assert queue.is_locked == (not is_released)
    assert (lake.version in queue.versions) == is_released


def test_a_transaction_that_nobody_else_may_commit_waits_longer_where_commits_are_slow(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue, clock: Clock
) -> None:
    def pause(_: float) -> None:
        clock.now_millis += 100

    process = open_process(pause=pause)
    queue.groups = 1
    clock.tick_millis = 100
    process.create_namespace("slow")
    clock.tick_millis, queue.is_locked, began_at_millis = 0, True, clock.now_millis
    process.create_namespace("waits")
    assert clock.now_millis - began_at_millis > 4_000
    assert {one.name for one in lake.namespaces()} == {"shop", "slow", "waits"}


def test_a_transaction_that_waited_for_the_lock_in_vain_lets_the_next_ones_not_wait(
    open_process: Open, queue: MemoryQueue, clock: Clock
) -> None:
    pauses: list[float] = []
    process = open_process(pause=pauses.append)
    queue.groups, queue.is_locked, clock.tick_millis = 1, True, 500
    process.create_namespace("waits")
    assert pauses
    pauses.clear()
    process.create_namespace("does_not_wait")
    assert not pauses


def test_a_transaction_that_nobody_else_may_commit_does_not_wait_until_its_deadline(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue, clock: Clock
) -> None:
    process = open_process()
    queue.groups, queue.is_locked, clock.tick_millis = 1, True, 100
    with process.transaction(time_limit="2s") as transaction:
        transaction.alter_table("shop.orders", {"by": "in time"})
    assert lake.table("shop.orders").properties["by"] == "in time"


def test_a_transaction_that_waits_for_the_lock_is_added_again_to_a_queue_that_was_removed(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue
) -> None:
    seen: list[int] = []

    def remove_once(_: float) -> None:
        seen.append(len(queue.entries))
        queue.is_locked = len(seen) < 2
        queue.entries.clear()

    process = open_process(pause=remove_once)
    queue.groups, queue.is_locked = 1, True
    process.create_namespace("another")
    assert seen == [1, 1]
    assert lake.version in queue.versions


@pytest.mark.parametrize("step", ["remove", "read_version"])
def test_a_transaction_that_is_interrupted_when_it_got_the_lock_releases_it(
    open_process: Open, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def interrupt(_: object, __: object) -> None:
        raise KeyboardInterrupt

    process = open_process()
    queue.groups = 1
    monkeypatch.setattr(MemoryQueue, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        process.create_namespace("interrupted")
    assert not queue.is_locked


def test_one_process_at_a_time_moves_inline_rows(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mangrove.tables.inline_flush._INLINE_FILES_MAX", 4)
    monkeypatch.setattr("mangrove.tables.inline_flush._FLUSH_CHECK_INTERVAL", 1)
    lake.create_table("shop.rows", "id int", properties={"write.inline-rows-max-bytes": "4096"})
    rows = open_process().table("shop.rows")
    queue.is_maintained = True
    for number in range(8):
        rows.append([{"id": number}])
    assert len(list(rows.deltas())) == 8
    queue.is_maintained = False
    rows.append([{"id": 8}])
    assert len(list(rows.deltas())) == 1
    assert not queue.is_maintained


def lead_with_copied_entries(open_process: Open, queue: MemoryQueue) -> MemoryQueue:
    """Let another process commit all entries, which stay in the queue; return what it made of them."""
    copied = MemoryQueue()
    copied.entries, copied.groups = dict(queue.entries), 1
    begin(open_process(uses=copied), "leader").commit()
    return copied


def test_a_leader_does_not_commit_what_another_process_has_committed(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue
) -> None:
    led: list[MemoryQueue] = []

    def lead(_: float) -> None:
        if not led:
            led.append(lead_with_copied_entries(open_process, queue))
            queue.versions |= led[0].versions
            queue.is_locked = False

    transaction = begin(open_process(pause=lead), "late")
    append(lake, "before late")
    queue.is_locked = True
    assert transaction.commit() == lake.version
    assert messages(lake)[lake.version] == ["leader", "late"]
    assert names(lake).count("late") == 1


def test_a_process_that_waited_in_vain_does_not_commit_what_another_process_has_committed(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue, clock: Clock
) -> None:
    clock.tick_millis = 500
    led: list[MemoryQueue] = []

    def lead(_: float) -> None:
        if not led:
            led.append(lead_with_copied_entries(open_process, queue))

    transaction = begin(open_process(pause=lead), "late")
    append(lake, "before late")
    queue.is_locked = True
    assert transaction.commit() == lake.version
    assert messages(lake)[lake.version] == ["leader", "late"]
    assert names(lake).count("late") == 1


def test_an_error_while_a_transaction_is_in_the_queue_is_reported_as_an_unknown_outcome(
    lake: Lakehouse, open_process: Open, store: CountingStore, queue: MemoryQueue
) -> None:
    faulty = FaultyStore(store, Faults(0))

    def fail_in_queue(_: float) -> None:
        queue.is_locked = False
        append(lake, "meanwhile")
        faulty.fail_next("read", "before")

    transaction = begin(open_process(faulty, pause=fail_in_queue), "late")
    append(lake, "before late")
    queue.is_locked = True
    with pytest.raises(StorageError, match="unknown whether it is committed; check the history"):
        transaction.commit()
    assert queue.entries == {}


def test_a_queue_that_cannot_be_used_changes_nothing(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "put", lambda *_: False)
    lose_race(lake, open_process, "late").commit()
    assert names(lake) == ["first", "before late", "late"]


def test_a_transaction_whose_entry_was_removed_does_not_wait_in_a_queue_without_room(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def remove_entry(seconds: float) -> None:
        pauses.append(seconds)
        queue.entries.clear()
        monkeypatch.setattr(queue, "put", lambda *_: False)

    transaction = begin(open_process(pause=remove_entry), "late")
    append(lake, "before late")
    queue.is_locked = True
    transaction.commit()
    assert len(pauses) == 1
    assert names(lake) == ["first", "before late", "late"]


def test_a_transaction_that_is_interrupted_while_it_is_added_is_not_left_in_the_queue(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(name: str, data: bytes) -> bool:
        queue.entries[name] = data
        raise KeyboardInterrupt

    transaction = lose_race(lake, open_process, "late")
    monkeypatch.setattr(queue, "put", put)
    with pytest.raises(KeyboardInterrupt):
        transaction.commit()
    assert queue.entries == {}


def test_a_lakehouse_with_intents_does_not_use_the_queue(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.alter({INTENTS_PROPERTY: "true"})
    monkeypatch.setattr(queue, "put", None)
    lose_race(lake, open_process, "late").commit()
    assert names(lake)[-1] == "late"


def test_a_process_that_is_alone_again_leaves_the_queue(
    lake: Lakehouse, open_process: Open, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = open_process()
    late = begin(process, "late")
    append(lake, "before late")
    late.commit()
    for number in range(8):
        append(process, f"alone {number}")
    monkeypatch.setattr(queue, "put", None)
    append(process, "direct")
    assert names(lake)[-1] == "direct"


@pytest.mark.parametrize("mode", ["crash before", "crash after", "delayed"])
@pytest.mark.parametrize("has_lock", [True, False])
def test_a_process_that_stops_at_any_request_commits_once_or_not_at_all(
    lake: Lakehouse,
    open_process: Open,
    store: CountingStore,
    queue: MemoryQueue,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    has_lock: bool,
) -> None:
    if not has_lock:  # it decides nothing
        monkeypatch.setattr(queue, "try_lock", lambda: True)
    acknowledged = set()
    for number in range(1, 60):
        stopped = StoppedStore(store, mode)
        transaction = begin(open_process(stopped), f"stopped {number}")
        leave_entry(lake, open_process, queue, f"waiting {number}")
        stopped.requests_left = number
        with suppress(StorageError, SimulatedCrash):
            transaction.commit()
            acknowledged.add(f"stopped {number}")
        is_last = stopped.requests_left > 0
        stopped.requests_left = None
        lose_race(lake, open_process, f"leader {number}").commit()
        for request in stopped.delayed:
            request()
        lose_race(lake, open_process, f"later {number}").commit()
        if is_last:
            break
    assert is_last
    found = Counter(names(lake))
    assert set(found.values()) == {1}
    assert acknowledged <= found.keys()
    assert found == Counter(name for members in messages(lake).values() for name in members if name in found)
