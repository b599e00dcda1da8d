"""Isolation levels by rows: which anomalies of the literature each level allows, and which writes never conflict.

P0 to P4, A5A and A5B are the phenomena of Berenson et al. (A Critique of ANSI SQL Isolation Levels, 1995); G-single
and G2 those of Adya (Weak Consistency, 1999).
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mangrove import expr
from mangrove.effects import Effects
from mangrove.errors import ConflictError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.transaction import Transaction
from mangrove.storage.counting import CountingStore, StoreRequests
from mangrove.wiring import LocalEngines

LEVELS = ("snapshot", "serializable")
DAYS = "day int not null, id bigint not null, v bigint"


@pytest.fixture
def lake(effects: Effects, layout: str) -> Lakehouse:
    """A bank with the accounts a, b and c, of 100 each."""
    made = create_on_store(effects, layout=layout, engines=LocalEngines)
    made.create_namespace("bank")
    table = made.create_table("bank.accounts", "owner varchar not null, balance bigint", keys=["owner"])
    table.append([{"owner": owner, "balance": 100} for owner in "abc"])
    return made


def balances(catalog: Lakehouse | Transaction, where: str | None = None) -> dict[str, int]:
    return {row["owner"]: row["balance"] for row in catalog.table("bank.accounts").to_arrow(where=where).to_pylist()}


def put(catalog: Lakehouse | Transaction, **accounts: int) -> object:
    rows = [{"owner": owner, "balance": balance} for owner, balance in accounts.items()]
    return catalog.table("bank.accounts").upsert(rows)


def add(transaction: Transaction, owner: str, amount: int) -> None:
    put(transaction, **{owner: balances(transaction, f"owner = '{owner}'").get(owner, 0) + amount})


def is_refused(transaction: Transaction) -> bool:
    try:
        transaction.commit()
    except ConflictError:
        return True
    return False


# The anomalies, by their names in the literature.


@pytest.mark.parametrize("level", LEVELS)
def test_p0_dirty_write_two_blind_writes_are_ordered_by_their_commits(lake: Lakehouse, level: str) -> None:
    one, two = lake.transaction(level), lake.transaction(level)
    put(one, a=1, b=1)
    put(two, a=2, b=2)
    assert not is_refused(two)
    assert not is_refused(one)
    assert balances(lake) == {"a": 1, "b": 1, "c": 100}


@pytest.mark.parametrize("level", LEVELS)
def test_p1_dirty_read_uncommitted_rows_are_never_read(lake: Lakehouse, level: str) -> None:
    writer, reader = lake.transaction(level), lake.transaction(level)
    put(writer, a=1)
    assert balances(reader)["a"] == 100
    writer.rollback()


@pytest.mark.parametrize("level", LEVELS)
def test_p2_and_g_single_a_transaction_reads_one_version(lake: Lakehouse, level: str) -> None:
    reader = lake.transaction(level)
    assert balances(reader)["a"] == 100
    put(lake, a=1)
    assert balances(reader)["a"] == 100


@pytest.mark.parametrize("level", LEVELS)
def test_p3_phantom_rows_do_not_appear_while_a_transaction_reads(lake: Lakehouse, level: str) -> None:
    reader = lake.transaction(level)
    assert balances(reader, "balance > 50").keys() == set("abc")
    put(lake, d=100)
    assert balances(reader, "balance > 50").keys() == set("abc")


@pytest.mark.parametrize(("level", "expected"), [("snapshot", False), ("serializable", True)])
@pytest.mark.parametrize("phantom", [{"d": 100}, {"c": 30}], ids=["comes", "goes"])
def test_p3_phantom_a_write_that_depends_on_a_predicate(
    lake: Lakehouse, level: str, expected: bool, phantom: dict[str, int]
) -> None:
    counting = lake.transaction(level)
    put(counting, count=len(balances(counting, "balance > 50")))
    put(lake, **phantom)
    assert is_refused(counting) is expected


@pytest.mark.parametrize("level", LEVELS)
def test_p4_lost_update_is_refused(lake: Lakehouse, level: str) -> None:
    one, two = lake.transaction(level), lake.transaction(level)
    add(one, "a", 10)
    add(two, "a", 20)
    assert not is_refused(one)
    with pytest.raises(ConflictError, match=r"rows of table bank\.accounts: .*changed it first, in version"):
        two.commit()
    lake.run(lambda txn: add(txn, "a", 20), level)
    assert balances(lake)["a"] == 130


@pytest.mark.parametrize("level", LEVELS)
def test_a5a_read_skew_a_transaction_never_sees_half_of_another(lake: Lakehouse, level: str) -> None:
    reader = lake.transaction(level)
    first = balances(reader, "owner = 'a'")["a"]
    put(lake, a=50, b=150)
    assert first + balances(reader, "owner = 'b'")["b"] == 200


@pytest.mark.parametrize(("level", "expected"), [("snapshot", False), ("serializable", True)])
def test_a5b_write_skew_and_g2_are_possible_at_snapshot_only(lake: Lakehouse, level: str, expected: bool) -> None:
    def withdraw(transaction: Transaction, owner: str) -> None:
        if sum(balances(transaction, "owner in ('a', 'b')").values()) >= 200:
            put(transaction, **{owner: -100})

    one, two = lake.transaction(level), lake.transaction(level)
    withdraw(one, "a")
    withdraw(two, "b")
    assert not is_refused(one)
    assert is_refused(two) is expected


@pytest.mark.parametrize("level", LEVELS)
def test_a_read_only_transaction_is_never_refused(lake: Lakehouse, level: str) -> None:
    reader = lake.transaction(level)
    balances(reader)
    put(lake, a=1)
    assert not is_refused(reader)


# What is compared: rows, not deltas.


@pytest.mark.parametrize("level", LEVELS)
def test_transactions_that_read_and_write_different_rows_both_commit(lake: Lakehouse, level: str) -> None:
    one, two = lake.transaction(level), lake.transaction(level)
    add(one, "a", 10)
    add(two, "b", 20)
    assert not is_refused(one)
    assert not is_refused(two)
    assert balances(lake) == {"a": 110, "b": 120, "c": 100}


FIRST: dict[str, Callable[[Lakehouse], object]] = {
    "upsert": lambda lake: put(lake, a=1),
    "append": lambda lake: lake.table("bank.accounts").append([{"owner": "a", "balance": 1}]),
    "delete by key": lambda lake: lake.table("bank.accounts").delete_keys([{"owner": "a"}]),
    "delete": lambda lake: lake.table("bank.accounts").delete("owner = 'a'"),
    "update": lambda lake: lake.table("bank.accounts").update({"balance": 1}, where="owner = 'a'"),
    "overwrite": lambda lake: lake.table("bank.accounts").overwrite([{"owner": "a", "balance": 1}]),
    "many versions": lambda lake: [put(lake, a=1), put(lake, z=1), put(lake, y=1)],
    "written and compacted": lambda lake: [put(lake, a=1), lake.table("bank.accounts").compact()],
    "compacted and written": lambda lake: [lake.table("bank.accounts").compact(), put(lake, a=1)],
}
SECOND: dict[str, Callable[[Transaction], object]] = {
    "upsert": lambda txn: add(txn, "a", 10),
    "delete by key": lambda txn: [balances(txn), txn.table("bank.accounts").delete_keys([{"owner": "a"}])],
    "append": lambda txn: [balances(txn), txn.table("bank.accounts").append([{"owner": "a", "balance": 5}])],
    "overwrite": lambda txn: [balances(txn), txn.table("bank.accounts").overwrite([{"owner": "a", "balance": 5}])],
    "upsert of some columns": lambda txn: txn.table("bank.accounts").update({"balance": expr("balance + 1")}),
}


@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("first", FIRST)
def test_a_write_of_a_row_that_was_read_is_refused_if_it_was_changed_first(
    lake: Lakehouse, first: str, second: str
) -> None:
    late = lake.transaction()
    SECOND[second](late)
    FIRST[first](lake)
    assert is_refused(late)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("mode", ["auto", "position"])
def test_a_compaction_does_not_conflict_with_reads_of_the_same_rows(lake: Lakehouse, level: str, mode: str) -> None:
    lake.table("bank.accounts").alter({"write.delete-mode": mode})
    put(lake, a=99)
    lake.table("bank.accounts").delete("owner = 'c'")
    late = lake.transaction(level)
    add(late, "a", 1)
    balances(late)
    lake.table("bank.accounts").compact()
    assert not is_refused(late)
    assert balances(lake) == {"a": 100, "b": 100}


def test_a_write_before_the_read_is_blind(lake: Lakehouse) -> None:
    late = lake.transaction()
    put(late, a=1)
    balances(late)
    put(lake, a=2)
    assert not is_refused(late)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("second", ["upsert", "append", "delete"])
def test_blind_writes_never_conflict_with_any_concurrent_change(lake: Lakehouse, level: str, second: str) -> None:
    late = lake.transaction(level)
    table = late.table("bank.accounts")
    match second:
        case "upsert":
            put(late, a=5)
        case "append":
            table.append([{"owner": "d", "balance": 5}])
        case _:
            table.delete_keys([{"owner": "a"}])
    for act in FIRST.values():
        act(lake)
    assert not is_refused(late)


def test_reads_of_another_table_do_not_guard_the_written_table(lake: Lakehouse) -> None:
    lake.create_table("bank.log", "id bigint not null, owner varchar", keys=["id"])
    late = lake.transaction()
    late.table("bank.log").upsert([{"id": 1, "owner": max(balances(late))}])
    put(lake, a=5)
    lake.table("bank.log").upsert([{"id": 1, "owner": "x"}])
    assert not is_refused(late)


# Predicates and partitions.


@pytest.fixture(params=["keys", "no keys", "partitioned keys", "partitioned"])
def days(lake: Lakehouse, request: pytest.FixtureRequest) -> Lakehouse:
    keys: dict[str, Any] = {"keys": ["day", "id"]} if "keys" in request.param.replace("no keys", "") else {}
    parts: dict[str, Any] = {"partition_by": ["day"]} if "partitioned" in request.param else {}
    table = lake.create_table("bank.days", DAYS, **keys, **parts)
    for day in (1, 2):
        table.append([{"day": day, "id": number, "v": number} for number in range(3)])
    return lake


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("statement", ["delete", "update", "overwrite"])
@pytest.mark.parametrize(("day", "expected"), [(1, True), (2, False), (3, False)])
def test_an_append_conflicts_with_a_predicate_write_only_if_it_adds_matching_rows(
    days: Lakehouse, level: str, statement: str, day: int, expected: bool
) -> None:
    late = days.transaction(level)
    table = late.table("bank.days")
    match statement:
        case "delete":
            table.delete("day = 1")
        case "update":
            table.update({"v": expr("v + 1")}, where="day = 1")
        case _:
            table.overwrite([{"day": 1, "id": 7, "v": 7}], where="day = 1")
    days.table("bank.days").append([{"day": day, "id": 9, "v": 9}])
    assert is_refused(late) is expected
    if not expected:
        found = days.table("bank.days").to_arrow().to_pylist()
        assert [row for row in found if row["id"] == 9] == [{"day": day, "id": 9, "v": 9}]
        assert sum(row["day"] == 2 for row in found) == (4 if day == 2 else 3)


CHANGES: dict[str, Callable[[Table, str], object]] = {
    "delete": lambda table, where: table.delete(where),
    "update": lambda table, where: table.update({"v": expr("v + 10")}, where=where),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("statement", CHANGES)
def test_changes_of_different_days_both_commit(days: Lakehouse, level: str, statement: str) -> None:
    one, two, three = (days.transaction(level) for _ in range(3))
    for transaction, day in ((one, 1), (two, 2), (three, 1)):
        CHANGES[statement](transaction.table("bank.days"), f"day = {day}")
    assert not is_refused(one)
    assert not is_refused(two)
    assert is_refused(three)
    found = sorted((row["day"], row["v"]) for row in days.table("bank.days").to_arrow().to_pylist())
    updated = [(day, number + 10) for day in (1, 2) for number in range(3)]
    assert found == ([] if statement == "delete" else updated)
    assert not days.maintenance.check().problems


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("statement", CHANGES)
@pytest.mark.parametrize(("keys", "mode"), [([], "position"), (["id"], "position"), (["id"], "auto"), ([], "auto")])
def test_changes_of_different_rows_of_one_file_both_commit_unless_both_rewrite_the_file(
    lake: Lakehouse, level: str, statement: str, keys: list[str], mode: str
) -> None:
    table = lake.create_table("bank.days", DAYS, keys=keys, properties={"write.delete-mode": mode})
    table.append([{"day": 1, "id": number, "v": number} for number in range(4)])
    one, two, three = (lake.transaction(level) for _ in range(3))
    for transaction, number in ((one, 1), (two, 2), (three, 1)):
        CHANGES[statement](transaction.table("bank.days"), f"id = {number}")
    assert not is_refused(one)
    is_rewritten = not keys and mode == "auto"
    assert is_refused(two) is is_rewritten
    assert is_refused(three)
    changed = {1} if is_rewritten else {1, 2}
    found = {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}
    expected = {number: number + 10 * (number in changed) for number in range(4)}
    assert found == ({key: expected[key] for key in expected.keys() - changed} if statement == "delete" else expected)
    assert not lake.maintenance.check().problems


@pytest.mark.parametrize("first", ["rewrite", "deletion"])
def test_a_rewrite_of_a_file_conflicts_with_deletions_of_other_rows_in_it(lake: Lakehouse, first: str) -> None:
    table = lake.create_table("bank.days", DAYS, properties={"write.delete-mode": "auto"})
    table.append([{"day": 1, "id": number, "v": number} for number in range(4)])
    transactions = {"rewrite": lake.transaction()}
    transactions["rewrite"].table("bank.days").delete("id = 1")
    table.alter({"write.delete-mode": "position"})
    transactions["deletion"] = lake.transaction()
    transactions["deletion"].table("bank.days").delete("id = 2")
    assert not is_refused(transactions.pop(first))
    (second,) = transactions.values()
    assert is_refused(second)
    assert len(table.to_arrow()) == 3


@pytest.mark.parametrize("level", LEVELS)
def test_overlapping_statistics_are_resolved_by_comparing_rows(days: Lakehouse, level: str) -> None:
    late = days.transaction(level)
    late.table("bank.days").delete("v = 1")
    days.table("bank.days").append([{"day": 1, "id": 5, "v": 0}, {"day": 1, "id": 6, "v": 2}])
    assert not is_refused(late)
    late = days.transaction(level)
    late.table("bank.days").delete("v = 2")
    days.table("bank.days").append(
        [{"day": 1, "id": 7, "v": 1}, {"day": 1, "id": 8, "v": 2}, {"day": 1, "id": 9, "v": 3}]
    )
    assert is_refused(late)


@pytest.mark.parametrize("level", LEVELS)
def test_overwrites_of_different_partitions_both_commit(lake: Lakehouse, level: str) -> None:
    table = lake.create_table("bank.days", DAYS, partition_by=["day"])
    table.append([{"day": day, "id": 0, "v": 0} for day in (1, 2)])
    one, two = lake.transaction(level), lake.transaction(level)
    one.table("bank.days").overwrite_partitions([{"day": 1, "id": 1, "v": 1}])
    two.table("bank.days").overwrite_partitions([{"day": 2, "id": 2, "v": 2}])
    assert not is_refused(one)
    assert not is_refused(two)
    assert sorted(row["id"] for row in table.to_arrow().to_pylist()) == [1, 2]
    three, four = lake.transaction(level), lake.transaction(level)
    three.table("bank.days").overwrite_partitions([{"day": 1, "id": 3, "v": 3}])
    four.table("bank.days").overwrite_partitions([{"day": 1, "id": 4, "v": 4}])
    assert not is_refused(three)
    assert is_refused(four)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("keys", "expected"), [((1, 3), False), ((2, 3), True)])
def test_concurrent_merges_of_different_keys_both_commit(
    lake: Lakehouse, level: str, keys: tuple[int, ...], expected: bool
) -> None:
    table = lake.create_table("bank.rows", "id bigint not null, v bigint", keys=["id"])
    table.append([{"id": number, "v": 0} for number in range(10)])

    def merge(transaction: Transaction, numbers: tuple[int, ...], v: int) -> None:
        source = [{"id": number, "v": v} for number in (*numbers, 100 + numbers[0])]
        found = transaction.table("bank.rows").merge(source, on="t.id = s.id")
        found.when_matched_update({"v": expr("t.v + s.v")}).when_not_matched_insert().execute()

    one, two = lake.transaction(level), lake.transaction(level)
    merge(one, (2, 4), 1)
    merge(two, keys, 5)
    assert not is_refused(one)
    assert is_refused(two) is expected
    if not expected:
        found = {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}
        assert found == dict.fromkeys(range(10), 0) | {2: 1, 4: 1, 102: 1, 1: 5, 3: 5, 101: 5}


@pytest.mark.parametrize("level", LEVELS)
def test_a_retried_commit_is_compared_with_all_versions_in_between(lake: Lakehouse, level: str) -> None:
    late = lake.transaction(level)
    add(late, "a", 1)
    for number in range(5):
        put(lake, c=number)
    put(lake, a=7)
    for number in range(5):
        put(lake, c=number)
    with pytest.raises(ConflictError, match=f"in version {lake.version - 5}"):
        late.commit()


def test_a_concurrently_renamed_column_is_compared_by_its_id(lake: Lakehouse) -> None:
    late, other = lake.transaction(), lake.transaction()
    late.table("bank.accounts").delete("balance = 100 and owner = 'a'")
    other.table("bank.accounts").delete("balance = 100 and owner = 'b'")
    lake.table("bank.accounts").update_schema().rename_column("balance", "amount").commit()
    lake.table("bank.accounts").upsert([{"owner": "a", "amount": 5}])
    assert is_refused(late)
    assert not is_refused(other)


@pytest.mark.parametrize("level", LEVELS)
def test_a_shared_transaction_is_published_if_other_rows_were_changed(lake: Lakehouse, level: str) -> None:
    for owner, expected in (("b", False), ("a", True)):
        with lake.begin_shared(f"work-{owner}", isolation=level) as shared:
            found = shared.table("bank.accounts").to_arrow(where="owner = 'a'").to_pylist()
        with shared:
            # It was read before the last save.
            shared.table("bank.accounts").upsert([{"owner": "a", "balance": found[0]["balance"] + 1}])
        put(lake, **{owner: 0})
        if expected:
            with pytest.raises(ConflictError, match=r"rows of table bank\.accounts"):
                shared.publish()
        else:
            shared.publish()
            assert balances(lake)["a"] == 101


def test_participants_of_a_shared_transaction_change_different_rows(lake: Lakehouse) -> None:
    lake.begin_shared("work").save()
    one, two, three = (lake.join_shared("work") for _ in range(3))
    one.table("bank.accounts").delete("owner = 'a'")
    two.table("bank.accounts").update({"balance": 5}, where="owner = 'b'")
    three.table("bank.accounts").update({"balance": 7}, where="owner = 'a'")
    one.save()
    two.save()
    with pytest.raises(ConflictError, match="another participant changed it"):
        three.save()
    lake.join_shared("work").publish()
    assert balances(lake) == {"b": 5, "c": 100}


# Cost.


def cost_of(store: CountingStore, act: Callable[[], object]) -> StoreRequests:
    before = store.requests
    act()
    return store.requests - before


def test_an_uncontended_commit_after_reads_costs_as_much_as_a_blind_one(lake: Lakehouse, store: CountingStore) -> None:
    blind = lake.transaction()
    put(blind, a=1)
    first = cost_of(store, blind.commit)
    reading = lake.transaction("serializable")
    put(reading, a=balances(reading)["a"] + 1)
    second = cost_of(store, reading.commit)
    assert (second.reads, second.creates, second.puts) == (first.reads, first.creates, first.puts)


@pytest.mark.parametrize("level", LEVELS)
def test_a_blind_write_to_a_concurrently_changed_table_costs_at_most_one_more_read(
    lake: Lakehouse, store: CountingStore, level: str
) -> None:
    lake.create_table("bank.other", "id int")
    costs = []
    for table in ("bank.other", "bank.accounts"):
        late = lake.transaction(level)
        put(late, a=1)
        lake.table(table).append([{"id": 1}] if table == "bank.other" else [{"owner": "z", "balance": 1}])
        costs.append(cost_of(store, late.commit))
    # A commit after one to the same partition reads its last position.
    assert costs[1].reads - costs[0].reads <= 1


@pytest.mark.parametrize("level", LEVELS)
def test_conflict_detection_uses_statistics_before_it_opens_data_files(
    lake: Lakehouse, store: CountingStore, level: str
) -> None:
    table = lake.create_table("bank.days", DAYS, keys=["day", "id"])
    for day in (1, 2):
        table.append([{"day": day, "id": number, "v": number} for number in range(3)])
    opened_files: list[str] = []
    read, read_many = store.read, store.read_many

    def noting_read(path: str, start: int = 0, length: int | None = None) -> bytes:
        opened_files.append(path)
        return read(path, start, length)

    def noting_read_many(paths: Sequence[str]) -> list[bytes | None]:
        opened_files.extend(paths)
        return read_many(paths)

    late = lake.transaction(level)
    rows = late.table("bank.days").to_arrow(where="day = 1").to_pylist()
    late.table("bank.days").upsert([{**rows[0], "v": 7}])
    late.table("bank.days").delete("day = 1 and id = 2")
    table.upsert([{"day": 2, "id": 1, "v": 5}])
    table.append([{"day": 3, "id": 1, "v": 5}])
    store.read, store.read_many = noting_read, noting_read_many  # type: ignore[method-assign]
    late.commit()
    assert not [path for path in opened_files if path.startswith("data/")]
