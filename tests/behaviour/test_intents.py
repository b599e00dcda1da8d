"""Group commit across processes: every intent is committed once or refused, whoever crashes in between."""

import hashlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from mangrove.effects import Effects
from mangrove.errors import ConflictError, StorageError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.lakehouse.transaction import Transaction
from mangrove.metastore import ObjectRange
from mangrove.model.locators import Kind
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType
from mangrove.model.settings import INTENTS_PROPERTY, LakehouseSettings, time_limit_millis
from mangrove.storage.counting import CountingStore
from mangrove.storage.port import Store
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.faulty_store import Faults, FaultyStore, SimulatedCrash
from mangrove.transaction import process_group_commit as intents_module
from mangrove.transaction.intents import INTENTS_FOLDER, VERSIONS_MAX
from mangrove.wiring import LocalEngines


@pytest.fixture
def lake(effects: Effects, layout: str, strict: bool | None) -> Lakehouse:
    settings = LakehouseSettings(order=4, properties={INTENTS_PROPERTY: "true"})
    is_tree = layout.startswith("tree")
    lake = create_on_store(effects, layout=layout, strict=bool(strict) if is_tree else None, settings=settings)
    lake.create_namespace("shop")
    lake.create_table("shop.orders", "id int")
    lake.create_table("shop.other", "id int")
    append(lake, "first")
    return lake


@pytest.fixture(autouse=True)
def publish_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let writers publish after one lost race, lead groups of any size and delete intents at once."""
    for name in ("_DIRECT_ATTEMPTS_MAX", "_FOLLOWERS_MIN", "_DELETES_MIN"):
        monkeypatch.setattr(intents_module, name, 1)


Open = Callable[..., Lakehouse]


@pytest.fixture
def open_process(lake: Lakehouse, store: CountingStore, clock: Clock) -> Open:
    """Return how another process opens the lakehouse, perhaps through a faulty store."""
    numbers = iter(range(1, 1000))

    def open_process(through: Store | None = None) -> Lakehouse:
        return open_on_store(build_deterministic_effects(through or store, clock, next(numbers) * 10**6))

    return open_process


def add(transaction: Transaction, name: str) -> None:
    transaction.add_delta("shop.orders", (), Delta(DeltaType.APPEND, Manifest((DataFile(f"data/{name}", 1, 1),))))


def append(lake: Lakehouse, name: str) -> None:
    with lake.transaction(message=name) as transaction:
        add(transaction, name)


def names(lake: Lakehouse) -> list[str]:
    deltas = list(lake.table("shop.orders").deltas())
    assert [way.position for way, _ in deltas] == list(range(1, 1 + len(deltas)))
    return [value.manifest.entries[0].location.removeprefix("data/") for _, value in deltas]


def messages(lake: Lakehouse) -> dict[int, list[str]]:
    return {line.version: [one.message for one in line.transactions] for line in lake.history()}


def intents(store: Store) -> list[str]:
    return [entry.path for entry in store.list(INTENTS_FOLDER)]


def leave_intent(lake: Lakehouse, open_process: Open, store: Store, name: str, table: str = "") -> None:
    """Publish an intent by a process that loses a race and crashes right after the put."""
    faulty = FaultyStore(store, Faults(0))
    crashing = open_process(faulty)
    transaction = crashing.transaction(message=name)
    add(transaction, name)
    if table:
        transaction.alter_table(table, {"by": name})
    append(lake, f"before {name}")
    faulty.fail_next("list", "crash", INTENTS_FOLDER)
    with pytest.raises(SimulatedCrash):
        transaction.commit()


def begin(process: Lakehouse, name: str) -> Transaction:
    transaction = process.transaction(message=name)
    add(transaction, name)
    return transaction


def lose_race(lake: Lakehouse, open_process: Open, name: str) -> Transaction:
    """Return a transaction whose first attempt to commit will be refused."""
    transaction = begin(open_process(), name)
    append(lake, f"before {name}")
    return transaction


@pytest.fixture
def published(lake: Lakehouse) -> None:
    if lake.settings.is_strict_tree:
        pytest.skip("a strict tree has no intents")


def test_a_writer_without_competitors_publishes_nothing(lake: Lakehouse, store: CountingStore) -> None:
    append(lake, "second")
    before = store.requests
    append(lake, "third")
    made = store.requests - before
    assert (made.lists, made.creates, made.deletes) == (0, 1, 0)
    assert names(lake) == ["first", "second", "third"]


def test_a_writer_that_lost_a_race_commits_and_leaves_no_intent(
    lake: Lakehouse, open_process: Open, store: CountingStore
) -> None:
    transaction = lose_race(lake, open_process, "late")
    assert transaction.commit() == lake.version
    assert names(lake) == ["first", "before late", "late"]
    assert intents(store) == []


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("races", [1, 2, 3])
def test_a_writer_publishes_only_after_several_lost_races(
    lake: Lakehouse, store: CountingStore, clock: Clock, monkeypatch: pytest.MonkeyPatch, races: int
) -> None:
    monkeypatch.setattr(intents_module, "_DIRECT_ATTEMPTS_MAX", 3)
    effects = build_deterministic_effects(store, clock, 10**9)
    process = open_on_store(effects)
    late = begin(process, "late")
    lost: list[str] = []
    original = process.metastore.commit_next

    def commit_next(*arguments: Any) -> Any:
        if len(lost) < races:
            lost.append(f"race {len(lost)}")
            append(lake, lost[-1])
        return original(*arguments)

    monkeypatch.setattr(process.metastore, "commit_next", commit_next)
    published: list[str] = []
    put = store.put

    def record_put(path: str, data: bytes) -> None:
        published.extend([path] if path.startswith(INTENTS_FOLDER) else [])
        put(path, data)

    monkeypatch.setattr(store, "put", record_put)
    late.commit()
    assert names(lake) == ["first", *lost, "late"]
    assert len(published) == (1 if races == 3 else 0)
    assert intents(store) == []


@pytest.mark.usefixtures("published")
def test_a_writer_without_races_commits_intents_that_wait_since_many_versions(
    lake: Lakehouse, open_process: Open, store: CountingStore
) -> None:
    process = open_process()
    append(process, "begin")
    leave_intent(process, open_process, store, "one")
    for number in range(32):
        append(process, f"filler {number}")
    assert "one" in names(lake)
    assert intents(store) == []


@pytest.mark.usefixtures("published")
def test_the_intents_of_others_are_committed_in_one_version(
    lake: Lakehouse, open_process: Open, store: CountingStore
) -> None:
    leader = begin(open_process(), "leader")
    leave_intent(lake, open_process, store, "one")
    leave_intent(lake, open_process, store, "two")
    leader.commit()
    assert messages(lake)[lake.version] == ["leader", "one", "two"]
    assert names(lake) == ["first", "before one", "before two", "leader", "one", "two"]
    assert intents(store) == []
    for name in names(lake):
        store.put(f"data/{name}", b"1")
    assert lake.maintenance.check().is_sound


@pytest.mark.usefixtures("published")
def test_an_intent_is_moved_behind_later_deltas_although_another_member_guards_their_positions(
    lake: Lakehouse, open_process: Open, store: CountingStore
) -> None:
    leave_intent(lake, open_process, store, "one")
    append(lake, "later")
    leader = open_process().transaction(message="leader")
    leader.alter_table("shop.other", {"by": "leader"})
    (partition,) = {locator.parent for locator, _ in leader.table("shop.orders").deltas()}
    leader.core.workspace.guard(ObjectRange(Kind.DELTA, partition))
    lake.create_table("shop.third", "id int")
    leader.commit()
    assert messages(lake)[lake.version] == ["leader", "one"]
    assert names(lake) == ["first", "before one", "later", "one"]


@pytest.mark.usefixtures("published")
def test_a_waiting_writer_learns_its_version_and_positions_from_the_version_of_another(
    lake: Lakehouse, open_process: Open, store: CountingStore, clock: Clock
) -> None:
    leader = begin(open_process(), "leader")
    paused: list[int] = []

    def lead(_: float) -> None:
        paused.append(leader.commit())

    counted = build_deterministic_effects(store, clock, 10**9)
    follower = begin(open_on_store(replace(counted, pause=lead)), "follower")
    leave_intent(lake, open_process, store, "older")
    assert [follower.commit()] == paused
    assert messages(lake)[lake.version] == ["leader", "older", "follower"]
    assert names(lake) == ["first", "before older", "leader", "older", "follower"]
    assert follower.committed_as is not None
    (place,) = follower.committed_as.changes.puts
    assert place.parts[-1] == 5


@pytest.mark.usefixtures("published")
def test_the_leader_of_the_last_version_commits_the_next_intents_without_publishing_its_own(
    lake: Lakehouse, open_process: Open, store: CountingStore
) -> None:
    faulty = FaultyStore(store, Faults(0))
    process = open_process(faulty)
    first = begin(process, "first lead")
    leave_intent(lake, open_process, store, "one")
    first.commit()
    leave_intent(lake, open_process, store, "two")
    second = begin(process, "second lead")
    faulty.fail_next("put", "crash", INTENTS_FOLDER)
    before = store.requests
    second.commit()
    assert messages(lake)[lake.version] == ["second lead", "two"]
    made = store.requests - before
    assert (made.lists, made.creates, made.deletes) == (1, 1, 1)
    assert intents(store) == []


@pytest.mark.usefixtures("published")
def test_a_follower_of_the_last_version_only_polls_the_next_one(
    lake: Lakehouse, open_process: Open, store: CountingStore, clock: Clock
) -> None:
    process, counted = open_process(), CountingStore(store)
    waiting: list[Transaction] = []
    effects = build_deterministic_effects(counted, clock, 10**9)

    def lead(_: float) -> None:
        if waiting:
            waiting.pop().commit()

    follower = open_on_store(replace(effects, pause=lead))
    waiting.append(begin(process, "leader 1"))
    followed = begin(follower, "follower 1")
    leave_intent(lake, open_process, store, "older")
    followed.commit()
    waiting.append(begin(process, "leader 2"))
    followed = begin(follower, "follower 2")
    before = counted.requests
    followed.commit()
    made = counted.requests - before
    assert messages(lake)[lake.version] == ["leader 2", "follower 2"]
    assert (made.lists, made.creates, made.puts, made.deletes) == (0, 0, 1, 0)


@pytest.mark.usefixtures("published")
def test_a_writer_that_loses_no_race_finds_the_intents_of_those_that_lose_all(
    lake: Lakehouse, open_process: Open, store: CountingStore
) -> None:
    for number in range(33):
        leave_intent(lake, open_process, store, f"loser {number}")
    assert any(len(members) > 1 for members in messages(lake).values())


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("inline_bytes", ["0", "4096"])
def test_rows_of_an_intent_are_those_that_its_writer_appended(
    lake: Lakehouse, store: CountingStore, clock: Clock, inline_bytes: str
) -> None:
    properties = {"write.inline-rows-max-bytes": inline_bytes}
    lake.create_table("shop.rows", "id int, note string", properties=properties)
    faulty = FaultyStore(store, Faults(0))
    leader, crashing = (
        open_on_store(build_deterministic_effects(one, clock, first_id), engines=LocalEngines)
        for one, first_id in ((store, 10**9), (faulty, 2 * 10**9))
    )
    led, lost = leader.transaction(), crashing.transaction()
    led.table("shop.rows").append([{"id": 1, "note": "leader"}])
    lost.table("shop.rows").append([{"id": 2, "note": "crashed"}])
    append(lake, "before both")
    faulty.fail_next("list", "crash", INTENTS_FOLDER)
    with pytest.raises(SimulatedCrash):
        lost.commit()
    led.commit()
    found = leader.table("shop.rows").to_arrow().to_pylist()
    assert found == [{"id": 1, "note": "leader"}, {"id": 2, "note": "crashed"}]
    assert intents(store) == []


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("name", ["", "00000000-0000-4000-8000-00000000ffff"])
def test_an_intent_that_is_already_committed_is_not_committed_again(
    lake: Lakehouse, open_process: Open, store: CountingStore, name: str
) -> None:
    leader, later = begin(open_process(), "leader"), begin(open_process(), "later")
    leave_intent(lake, open_process, store, "one")
    ((path, data),) = [(path, store.read(path)) for path in intents(store)]
    leader.commit()
    assert names(lake).count("one") == 1
    # As if its deletion had been lost; other releases name intents by another id.
    store.put(f"{path[: -len('.intent') - 36]}{name}.intent" if name else path, data)
    later.commit()
    assert names(lake).count("one") == 1
    assert intents(store) == []


@pytest.mark.usefixtures("published")
def test_a_copy_of_an_intent_is_not_committed(lake: Lakehouse, open_process: Open, store: CountingStore) -> None:
    leader = begin(open_process(), "leader")
    leave_intent(lake, open_process, store, "one")
    (path,) = intents(store)
    store.put(path.replace(".intent", "").rpartition("-")[0] + "-00000000000f.intent", store.read(path))
    assert len(intents(store)) == 2
    leader.commit()
    assert messages(lake)[lake.version] == ["leader", "one"]
    assert names(lake).count("one") == 1


def test_a_transaction_that_is_too_large_or_has_little_time_left_publishes_nothing(
    lake: Lakehouse, open_process: Open, store: CountingStore
) -> None:
    for limit, count in (("30s", 1), ("1h", 300)):
        faulty = FaultyStore(store, Faults(0))
        faulty.fail_next("put", "crash", INTENTS_FOLDER)
        transaction = open_process(faulty).transaction(time_limit=limit)
        for number in range(count):
            add(transaction, f"{limit} {number}")
        append(lake, f"before {limit}")
        transaction.commit()
    assert len(names(lake)) == 304


@pytest.mark.usefixtures("published")
def test_an_intent_that_conflicts_with_a_later_version_is_not_committed(
    lake: Lakehouse, open_process: Open, store: CountingStore
) -> None:
    leader = begin(open_process(), "leader")
    leave_intent(lake, open_process, store, "one", table="shop.other")
    lake.alter_table("shop.other", {"by": "lake"})
    leader.commit()
    assert "one" not in names(lake)
    assert lake.table("shop.other").properties["by"] == "lake"
    assert intents(store) == []


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("change", ["none", "rollback", "namespace", "age"])
def test_an_intent_does_not_survive_a_rollback_a_change_of_namespaces_or_many_versions(
    lake: Lakehouse, open_process: Open, store: CountingStore, change: str
) -> None:
    leave_intent(lake, open_process, store, "one")
    match change:
        case "none":
            append(lake, "another")
        case "rollback":
            lake.rollback(lake.version - 1)
        case "namespace":
            lake.create_namespace("another")
        case _:
            for number in range(VERSIONS_MAX):
                append(open_process(), f"filler {number}")
    lose_race(lake, open_process, "leader").commit()
    assert ("one" in names(lake)) == (change == "none")
    assert intents(store) == []


@pytest.mark.usefixtures("published")
def test_an_intent_is_not_committed_after_its_deadline(
    lake: Lakehouse, open_process: Open, store: CountingStore, clock: Clock
) -> None:
    leave_intent(lake, open_process, store, "one")
    clock.now_millis += time_limit_millis(lake.settings) + 1
    lose_race(lake, open_process, "leader").commit()
    assert "one" not in names(lake)


@pytest.mark.usefixtures("published")
def test_members_of_one_version_that_conflict_with_each_other_are_not_committed_together(
    lake: Lakehouse, open_process: Open, store: CountingStore
) -> None:
    leader = begin(open_process(), "leader")
    leave_intent(lake, open_process, store, "one", table="shop.other")
    leader.alter_table("shop.other", {"by": "leader"})
    leader.commit()
    assert messages(lake)[lake.version] == ["leader"]
    append(lake, "next")
    assert "one" not in names(lake)


def test_the_owner_of_a_conflicting_intent_gets_its_own_conflict(lake: Lakehouse, open_process: Open) -> None:
    transaction = lose_race(lake, open_process, "late")
    transaction.alter_table("shop.other", {"by": "late"})
    lake.alter_table("shop.other", {"by": "lake"})
    with pytest.raises(ConflictError, match=r"shop\.other"):
        transaction.commit()
    assert "late" not in names(lake)


@pytest.mark.usefixtures("published")
def test_a_damaged_intent_is_skipped_and_reported(lake: Lakehouse, open_process: Open, store: CountingStore) -> None:
    leader = begin(open_process(), "leader")
    leave_intent(lake, open_process, store, "one")
    (path,) = intents(store)
    store.put(path, store.read(path).replace(b"data/one", b"data/two"))
    leader.commit()
    assert names(lake)[-1] == "leader"
    (problem,) = [one for one in lake.maintenance.check().problems if one.path == path]
    assert "checksum" in problem.rule


@pytest.mark.usefixtures("published")
def test_an_intent_of_another_history_is_not_committed(
    lake: Lakehouse, open_process: Open, store: CountingStore
) -> None:
    leader = begin(open_process(), "leader")
    leave_intent(lake, open_process, store, "one")
    (path,) = intents(store)
    data = store.read(path)
    # The version on which it is based is replaced, as in a new lakehouse at the same place.
    other = data.replace(b'"base_transaction": "0', b'"base_transaction": "f')
    assert other != data
    body = other.partition(b"\n")[2]
    store.put(path, hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    leader.commit()
    assert names(lake)[-1] == "leader"
    assert intents(store) == []


@pytest.mark.usefixtures("published")
def test_vacuum_without_other_writers_deletes_intents_before_their_data(
    lake: Lakehouse, open_process: Open, store: CountingStore
) -> None:
    leave_intent(lake, open_process, store, "one")
    store.put("data/one", b"1")
    lake.maintenance.vacuum()
    (path,) = intents(store)  # its writer may be alive
    stopped = StoppedStore(store, "crash after")
    process = open_process(stopped)
    stopped.stops_at = "delete_many"
    with pytest.raises(SimulatedCrash):
        process.maintenance.vacuum(alone=True)
    assert not store.exists(path)
    assert store.exists("data/one")
    lake.maintenance.vacuum(alone=True)
    assert not store.exists("data/one")


class StoppedStore:
    """A store that stops at the request with a number: the process crashes, or the request is delayed."""

    def __init__(self, store: Store, mode: str) -> None:
        self._store = store
        self._mode = mode
        self._is_crashed = False
        self.requests_left: int | None = None
        self.stops_at = ""
        self.delayed: list[Callable[[], object]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if callable(found) and name == self.stops_at:
            self.requests_left = 1
        return partial(self._request, found) if callable(found) else found

    def _request(self, function: Callable[..., object], *arguments: object, **options: object) -> object:
        request = partial(function, *arguments, **options)
        if self._is_crashed:
            raise SimulatedCrash("after the crash")
        if self.requests_left is None:
            return request()
        self.requests_left -= 1
        if self.requests_left != 0:
            return request()
        if self._mode == "delayed":
            self.delayed.append(request)
            raise StorageError("the response was lost")
        self._is_crashed = True
        if self._mode == "crash after":
            request()
        raise SimulatedCrash("at this request")


@pytest.mark.parametrize("mode", ["crash before", "crash after", "delayed"])
def test_a_process_that_stops_at_any_request_commits_once_or_not_at_all(
    lake: Lakehouse, open_process: Open, store: CountingStore, mode: str
) -> None:
    acknowledged = set()
    for number in range(1, 60):
        stopped = StoppedStore(store, mode)
        transaction = begin(open_process(stopped), f"stopped {number}")
        if lake.settings.has_intents:
            leave_intent(lake, open_process, store, f"waiting {number}")
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
