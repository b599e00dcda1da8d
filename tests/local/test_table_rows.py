"""Rows in a whole lakehouse, in either layout: transactions, time travel, rivals, compaction."""

import datetime
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from tests.maintenance.test_maintenance_machine import HookedStore
from tests.support.table_properties import DATA_FILES_ONLY

from mangrove import expr
from mangrove.effects import Effects, build_effects
from mangrove.errors import ConflictError, InvalidInputError
from mangrove.lakehouse.catalog import compact_tables, list_managed_tables
from mangrove.lakehouse.engine_port import LocalRowEngine, RowReader, SparkRowEngine
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.local.engine import LocalEngine
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.storage.opening import open_store
from mangrove.tables.write_plan import RowCounts
from mangrove.testing.effects import Clock, build_deterministic_effects

DAY = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ORDERS = "order_id bigint not null, customer string, amount decimal(10,2), ts timestamp"


class OnlyLocal:
    """The engine in this process, and no other."""

    def __init__(self, effects: Effects) -> None:
        self._engine = LocalEngine(effects.store, effects.new_id)

    def reader(self) -> RowReader:
        return self._engine

    def local(self) -> LocalRowEngine:
        return self._engine

    def can_spark_open(self, *others: str) -> bool:
        return False

    def spark(self, *, jars: bool = False) -> SparkRowEngine:
        raise AssertionError("no test here needs Spark")


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest) -> Lakehouse:
    effects = build_deterministic_effects(MemoryStore())
    lake = create_on_store(effects, layout=request.param, engines=OnlyLocal)
    lake.create_namespace("sales")
    return lake


def ids(table: Any, **requested: Any) -> list[int]:
    return sorted(row["order_id"] for row in table.to_arrow(**requested).to_pylist())


def rows_of(table: Any) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=lambda row: int(row["order_id"]))


def orders(*numbers: int, day: int = 0, customer: str = "x") -> list[dict[str, Any]]:
    ts = DAY + datetime.timedelta(days=day)
    return [{"order_id": number, "customer": customer, "amount": number, "ts": ts} for number in numbers]


def test_an_upsert_by_key_moves_a_row_to_another_partition(lake: Lakehouse) -> None:
    table = lake.create_table("sales.orders", ORDERS, keys=["order_id"], partition_by=["days(ts)"])
    table.append(orders(1, 2, day=0))
    table.upsert(orders(2, 3, day=1, customer="moved"))
    assert ids(table) == [1, 2, 3]
    assert ids(table, where="days(ts) = '2026-01-01'") == [1]
    assert [scan.file.partition_values for scan in table.scan("days(ts) = '2026-01-02'").plan.scans] == [
        (datetime.date(2026, 1, 2),)
    ]
    table.delete_keys([{"order_id": 3}])
    table.delete("customer = 'x'")
    assert table.to_arrow(["order_id", "customer"]).to_pylist() == [{"order_id": 2, "customer": "moved"}]
    table.overwrite(orders(7))
    assert ids(table) == [7]


def test_rows_without_keys_are_divided_by_partition(lake: Lakehouse) -> None:
    table = lake.create_table("sales.events", "day date, n int", partition_by=["day"])
    days = [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2), None]
    table.append([{"day": day, "n": number} for number, day in enumerate(days)])
    assert sorted((partition.values for _, partition in table.partitions()), key=str) == [
        (None,),
        (days[0],),
        (days[1],),
    ]
    table.delete("n = 1")
    table.overwrite([{"day": days[0], "n": 10}], where="day = '2026-01-01'")
    assert sorted(row["n"] for row in table.to_arrow().to_pylist()) == [2, 10]
    table.overwrite([])
    assert table.to_arrow().num_rows == 0


def test_participants_that_change_the_same_rows_conflict(lake: Lakehouse) -> None:
    lake.create_table("sales.orders", "order_id int, amount int").append([{"order_id": 1, "amount": 0}])
    lake.begin_shared("rise")
    one, two = lake.join_shared("rise"), lake.join_shared("rise")
    for each in (one, two):
        each.table("sales.orders").update({"amount": expr("amount + 1")})
    one.save()
    with pytest.raises(ConflictError, match=r"rows of table sales\.orders: another participant"):
        two.save()
    one.publish()
    assert rows_of(lake.table("sales.orders")) == [{"order_id": 1, "amount": 1}]


def test_a_single_use_reader_is_written_completely(lake: Lakehouse) -> None:
    rows = pa.table({"order_id": [1, 2]})

    def reader() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches())

    made = lake.create_table("sales.made", as_=reader())
    evolved = lake.create_table("sales.evolved", "other int")
    evolved.append(reader(), evolve=True)
    assert (ids(made), ids(evolved)) == ([1, 2], [1, 2])


def test_a_table_evolves_by_rows_whose_lists_are_all_empty(lake: Lakehouse) -> None:
    table = lake.create_table("sales.tagged", "id int, tags array<string>, place struct<city: string>")
    table.append([{"id": 1, "tags": [], "place": {"city": None}, "more": 7}], evolve=True)
    assert table.to_arrow().to_pylist() == [{"id": 1, "tags": [], "place": {"city": None}, "more": 7}]


def test_a_single_use_reader_is_written_completely_after_a_lost_race() -> None:
    rows, raced = pa.table({"order_id": [1, 2]}), 0
    for requests in range(1, 20):
        clock = Clock()
        store = HookedStore("memory://raced/", clock)
        lake = create_on_store(build_deterministic_effects(store, clock), engines=OnlyLocal)
        lake.create_namespace("sales")
        table = lake.create_table("sales.orders", "order_id bigint")
        concurrent_commit = open_on_store(
            build_deterministic_effects(store, clock, first_id=10**6), engines=OnlyLocal
        ).table("sales.orders")
        store.interrupt(requests, partial(concurrent_commit.overwrite, [{"order_id": 9}]))
        table.overwrite(pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches()))
        store.settle()
        raced += sum(line.message.startswith("overwrite") for line in lake.history()) - 1
        assert ids(table) in ([1, 2], [9])
    assert raced


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_rows_restored_by_an_undo_stay_older_than_later_rows_after_a_lost_race(layout: str) -> None:
    raced = 0
    for requests in range(1, 20):
        clock = Clock()
        store = HookedStore("memory://raced/", clock)
        lake = create_on_store(build_deterministic_effects(store, clock), layout=layout, engines=OnlyLocal)
        lake.create_namespace("sales")
        table = lake.create_table("sales.orders", "order_id int not null, amount int", keys=["order_id"])
        table.upsert([{"order_id": 1, "amount": 1}])
        table.upsert([{"order_id": 1, "amount": 2}])
        table.compact()
        compacted = lake.version
        table.upsert([{"order_id": 1, "amount": 3}])
        concurrent_commit = open_on_store(build_deterministic_effects(store, clock, first_id=10**6))
        store.interrupt(requests, partial(concurrent_commit.create_namespace, "rival"))
        undone = lake.undo(compacted)
        store.settle()
        raced += undone - compacted - 2
        assert rows_of(table) == [{"order_id": 1, "amount": 3}]
    assert raced


def test_uncommitted_rows_are_visible_only_in_their_transaction(lake: Lakehouse) -> None:
    table = lake.create_table("sales.orders", ORDERS, keys=["order_id"])
    other = lake.create_table("sales.other", ORDERS)
    with lake.transaction() as transaction:
        inside = transaction.table("sales.orders")
        inside.append(orders(1, 2))
        inside.upsert(orders(2, 3))
        inside.delete("order_id = 1")
        transaction.table("sales.other").append(orders(9))
        assert ids(inside) == [2, 3]
        assert ids(table) == ids(other) == []
    assert (ids(table), ids(other)) == ([2, 3], [9])


def test_every_earlier_version_keeps_its_rows_after_a_compaction(lake: Lakehouse) -> None:
    table = lake.create_table("sales.orders", ORDERS, keys=["order_id"])
    wanted = {lake.version: list[int]()}
    steps: list[Callable[[], object]] = [
        lambda: table.append(orders(1, 2, 3)),
        lambda: table.upsert(orders(3, 4)),
        lambda: table.delete_keys([{"order_id": 1}]),
        table.compact,
        lambda: table.append(orders(5)),
        lambda: table.overwrite(orders(6)),
    ]
    for step in steps:
        step()
        wanted[lake.version] = ids(table)
    assert list(wanted.values()) == [[], [1, 2, 3], [1, 2, 3, 4], [2, 3, 4], [2, 3, 4], [2, 3, 4, 5], [6]]
    reopened = open_on_store(lake.effects, engines=OnlyLocal)
    assert {version: ids(reopened.at(version).table("sales.orders")) for version in wanted} == wanted
    assert not hasattr(lake.at(lake.version).table("sales.orders"), "append")


def test_concurrent_upserts_both_commit_and_the_later_one_wins(lake: Lakehouse) -> None:
    table = lake.create_table("sales.orders", ORDERS, keys=["order_id"])
    first, second = lake.transaction(), lake.transaction()
    first.table("sales.orders").upsert(orders(1, 2, customer="first"))
    second.table("sales.orders").upsert(orders(2, 3, customer="second"))
    second.commit()
    first.commit()
    rows = {row["order_id"]: row["customer"] for row in table.to_arrow().to_pylist()}
    assert rows == {1: "first", 2: "first", 3: "second"}


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_blind_writes_never_conflict(lake: Lakehouse, isolation: str) -> None:
    table = lake.create_table("sales.orders", ORDERS, keys=["order_id"])
    table.append(orders(1))
    first, second = lake.transaction(isolation), lake.transaction(isolation)
    for number, concurrent_commit in ((2, first), (3, second)):
        concurrent_commit.table("sales.orders").append(orders(number))
        concurrent_commit.table("sales.orders").delete_keys([{"order_id": 1}])
    first.commit()
    second.commit()
    assert ids(table) == [2, 3]


def test_a_delete_by_predicate_conflicts_with_a_concurrent_upsert_of_its_row(lake: Lakehouse) -> None:
    table = lake.create_table("sales.orders", ORDERS, keys=["order_id"])
    table.append(orders(1))
    late = lake.transaction()
    late.table("sales.orders").delete("customer = 'x'")
    table.upsert(orders(1, customer="saved"))
    with pytest.raises(ConflictError):
        late.commit()
    assert ids(table, where="customer = 'saved'") == [1]


def test_a_compaction_commits_beside_writers_and_leaves_one_delta(lake: Lakehouse) -> None:
    table = lake.create_table("sales.orders", ORDERS, keys=["order_id"])
    for number in range(4):
        table.upsert(orders(number, number + 1, customer=str(number)))
    before = [row for row in rows_of(table) if row["order_id"] != 2]
    compaction = lake.transaction()
    compaction.table("sales.orders").compact()
    table.upsert(orders(2, customer="meanwhile"))
    compaction.commit()
    assert ids(table) == [0, 1, 2, 3, 4]
    assert ids(table, where="customer = 'meanwhile'") == [2]
    table.compact()
    assert len(list(table.deltas())) == 1
    assert [row for row in rows_of(table) if row["order_id"] != 2] == before
    version = lake.version
    lake.maintenance.compact("sales.orders")
    assert lake.version == version


def test_compaction_of_all_tables_reports_the_compacted_tables(lake: Lakehouse) -> None:
    for name in ("sales.a", "sales.b", "sales.c", "sales.d"):
        lake.create_table(name, ORDERS, keys=["order_id"])
    lake.create_table("sales.far", table_type="external", location="s3://b/far/", table_format="parquet")
    for name in ("sales.a", "sales.c", "sales.d"):
        for number in range(3):
            lake.table(name).upsert(orders(number))
    before = lake.version

    def drop_the_last(*_: object) -> None:
        lake.drop_table("sales.d", if_exists=True)

    reports = lake.maintenance.compact(watch=drop_the_last)
    assert {name: report.files_read for name, report in reports.items()} == {"sales.a": 3, "sales.c": 3}
    assert lake.version == before + 3
    assert [len(list(lake.table(name).deltas())) for name in ("sales.a", "sales.b", "sales.c")] == [1, 0, 1]
    assert lake.maintenance.compact() == {}
    assert lake.version == before + 3


def test_compaction_of_all_tables_in_a_transaction_is_one_commit(lake: Lakehouse) -> None:
    for name in ("sales.a", "sales.b"):
        table = lake.create_table(name, ORDERS)
        table.append(orders(1))
        table.append(orders(2))
    before = lake.version
    with lake.transaction() as transaction:
        assert [*compact_tables(list_managed_tables(transaction), files_max=2)] == ["sales.a", "sales.b"]
    assert lake.version == before + 1
    with pytest.raises(InvalidInputError, match="at least 1"):
        lake.maintenance.compact(files_max=0)


def test_concurrent_compactions_do_not_duplicate_rows(lake: Lakehouse) -> None:
    table = lake.create_table("sales.orders", ORDERS, keys=["order_id"])
    for number in range(3):
        table.append(orders(number))
    first, second = lake.transaction(), lake.transaction()
    first.table("sales.orders").compact()
    second.table("sales.orders").compact()
    first.commit()
    with pytest.raises(ConflictError):
        second.commit()
    assert ids(table) == [0, 1, 2]


def changes(table: Any, since: int) -> list[tuple[str, int, str]]:
    found = table.changes(since).to_pylist()
    return sorted((row["_change_type"], row["order_id"], row["customer"]) for row in found)


def test_changes_are_inserts_updates_and_deletes(lake: Lakehouse) -> None:
    table = lake.create_table("sales.orders", ORDERS, keys=["order_id"], partition_by=["days(ts)"])
    empty = lake.version
    table.append(orders(1, 2, 3))
    full = lake.version
    table.upsert(orders(2, 4, day=1, customer="new"))
    table.upsert(orders(3))
    table.delete_keys([{"order_id": 1}])
    wanted = [("delete", 1, "x"), ("insert", 4, "new"), ("update_after", 2, "new"), ("update_before", 2, "x")]
    assert changes(table, full) == wanted
    table.compact()
    assert changes(table, full) == wanted
    assert changes(table, lake.version - 1) == changes(table, lake.version) == []
    assert changes(table, empty) == [("insert", 2, "new"), ("insert", 3, "x"), ("insert", 4, "new")]
    with pytest.raises(InvalidInputError, match="from the lakehouse only"), lake.transaction() as transaction:
        transaction.table("sales.orders").changes(full)


def test_changes_without_keys_are_inserts_and_deletes(lake: Lakehouse) -> None:
    table = lake.create_table("sales.events", "order_id int, customer string")
    table.append([{"order_id": 1, "customer": "a"}, {"order_id": 1, "customer": "a"}])
    since = lake.version
    table.overwrite([{"order_id": 1, "customer": "a"}, {"order_id": 1, "customer": "b"}])
    assert changes(table, since) == [("delete", 1, "a"), ("insert", 1, "b")]


def test_a_lakehouse_without_engines_names_the_package_to_install() -> None:
    lake = create_on_store(build_deterministic_effects(MemoryStore()))
    lake.create_namespace("s")
    with pytest.raises(InvalidInputError, match=r"mangrove\.open"):
        lake.create_table("s.t", "id int").append([])


def test_columns_are_added_and_dropped_while_others_write(lake: Lakehouse) -> None:
    table = lake.create_table("sales.orders", "order_id int not null, customer string", keys=["order_id"])
    table.append([{"order_id": 1, "customer": "a"}])
    old = lake.version
    late = lake.transaction()
    late.table("sales.orders").append([{"order_id": 2, "customer": "b"}])
    table.update_schema().add_column("note", "string").commit()
    table.update_schema().rename_column("customer", "client").commit()
    table.update_schema().widen("order_id", "bigint").commit()
    late.commit()
    table.upsert([{"order_id": 2**40, "client": "c", "note": "n"}])
    table.update_schema().drop_column("client").commit()
    table.update_schema().add_column("client", "int").commit()
    assert table.to_arrow(where="order_id < 9 or note = 'n'").sort_by("order_id").to_pylist() == [
        {"order_id": 1, "note": None, "client": None},
        {"order_id": 2, "note": None, "client": None},
        {"order_id": 2**40, "note": "n", "client": None},
    ]
    assert lake.at(old).table("sales.orders").to_arrow().to_pylist() == [{"order_id": 1, "customer": "a"}]


@pytest.mark.parametrize("partition", ["k0", "bucket(3, k0)"])
def test_a_key_column_of_the_partitioning_and_sort_order_can_be_renamed(lake: Lakehouse, partition: str) -> None:
    table = lake.create_table(
        "sales.t", "k0 bigint not null, a int", keys=["k0"], partition_by=[partition], sort_by=["k0"]
    )
    table.upsert([{"k0": 1, "a": 1}, {"k0": 2, "a": 2}])
    table.update_schema().rename_column("k0", "k1").commit()
    table.upsert([{"k1": 2, "a": 3}])
    again = lake.table("sales.t")
    assert (again.keys, again.partition_by) == (("k1",), (partition.replace("k0", "k1"),))
    assert again.sort_by == ("k1 asc nulls first",)
    assert sorted(again.to_arrow().to_pylist(), key=lambda row: row["k1"]) == [{"k1": 1, "a": 1}, {"k1": 2, "a": 3}]


def test_a_schema_update_without_changes_creates_no_version(lake: Lakehouse) -> None:
    table = lake.create_table("sales.same", "a int comment 'c', b int")
    before = lake.version
    table.update_schema().widen("a", "int").commit()
    table.update_schema().set_comment("a", "c").commit()
    table.update_schema().rename_column("b", "b").commit()
    table.update_schema().drop_not_null("b").commit()
    assert lake.version == before


def test_columns_with_spaces_and_dots_in_their_names_can_be_changed(lake: Lakehouse) -> None:
    table = lake.create_table("sales.odd", "`sel ect` int, `x.y z` int, id int")
    table.append([{"sel ect": 1, "x.y z": 2, "id": 3}])
    table.update_schema().widen("sel ect", "bigint").commit()
    table.update_schema().widen("`x.y z`", "bigint").commit()
    table.update_schema().set_comment("sel ect", "odd").commit()
    table.update_schema().set_default("`x.y z`", "7").commit()
    table.update_schema().set_not_null("sel ect").commit()
    table.update_schema().drop_not_null("sel ect").commit()
    table.update_schema().add_column("an other", "string").commit()
    table.update_schema().move_column("an other", after="sel ect").commit()
    table.update_schema().rename_column("an other", "a third").commit()
    table.alter({"write.cluster-by": "`x.y z`, sel ect"})
    table.append([{"sel ect": 2**40, "id": 4}])
    table.compact()
    table.update_schema().drop_column("a third").commit()
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"sel ect": 1, "x.y z": 2, "id": 3},
        {"sel ect": 2**40, "x.y z": 7, "id": 4},
    ]


@pytest.mark.parametrize("keys", [["order_id"], []])
def test_each_write_reports_its_row_counts(lake: Lakehouse, keys: list[str]) -> None:
    table = lake.create_table("sales.orders", ORDERS, keys=keys)
    assert table.append(orders(1, 2, 3, 3)) == RowCounts(inserted=4)
    assert table.delete("order_id = 2") == RowCounts(deleted=1)
    assert table.delete("order_id = 99") == RowCounts()
    assert table.overwrite(orders(3), where="order_id = 3") == RowCounts(inserted=1, deleted=2)
    if keys:
        assert table.upsert(orders(3, 4)) == RowCounts(None, None, 0, upserted=2)
        assert table.delete_keys([{"order_id": 4}]) == RowCounts(deleted=None)
    assert table.overwrite(orders(5)) == RowCounts(inserted=1, deleted=2)


@pytest.mark.parametrize("is_frame", [False, True])
def test_text_that_is_not_unicode_is_refused_and_nothing_is_written(lake: Lakehouse, is_frame: bool) -> None:
    table = lake.create_table("sales.orders", ORDERS, keys=["order_id"])
    before, rows = lake.version, [{"order_id": 1, "customer": "\ud800"}]
    with pytest.raises(InvalidInputError, match="not Unicode"):
        table.append(pd.DataFrame(rows) if is_frame else rows)
    assert lake.version == before


def test_a_read_opens_each_file_once_regardless_of_the_number_of_equality_deletes() -> None:
    store = CountingStore(MemoryStore())
    lake = create_on_store(build_deterministic_effects(store), engines=OnlyLocal)
    lake.create_namespace("sales")
    table: Any = lake.create_table("sales.orders", ORDERS, keys=["order_id"], properties=DATA_FILES_ONLY)
    for number in range(10):
        table.upsert(orders(1, 100 + number, 200, customer=f"c{number}"))
    table.delete_keys([{"order_id": 105}, {"order_id": 300}])
    state = table.state()
    before = store.requests.reads
    found = LocalEngine(store, lake._new_id).read(state, ["order_id", "customer"])
    assert store.requests.reads - before == 11
    rest = [(100 + number, f"c{number}") for number in range(10) if number != 5]
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == [(1, "c9"), *rest, (200, "c9")]


@pytest.mark.skipif(sys.platform == "darwin", reason="there a file is made durable by another call")
@pytest.mark.parametrize(("properties", "syncs"), [({"write.inline-rows-max-bytes": "2000"}, 2), (DATA_FILES_ONLY, 4)])
def test_a_small_append_syncs_only_the_root_and_the_data_file_and_their_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], syncs: int
) -> None:
    effects = replace(build_effects(open_store(tmp_path)), later=lambda _: None)
    lake = create_on_store(effects, engines=OnlyLocal)
    lake.create_namespace("sales")
    table: Any = lake.create_table("sales.orders", ORDERS, keys=["order_id"], properties=properties)
    table.append(orders(1))
    waits: list[int] = []
    to_disk = os.fsync

    def counted(descriptor: int) -> None:
        waits.append(descriptor)
        to_disk(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    for write in (table.append, table.upsert):
        waits.clear()
        write(orders(2))
        # Each is a file and the folder that names it; inline rows are in the root.
        assert len(waits) == syncs


def test_a_schema_update_is_atomic(lake: Lakehouse) -> None:
    table = lake.create_table("sales.schema", "a int, b int")
    table.append([{"a": 1, "b": None}])
    before = lake.version
    with table.update_schema() as schema:
        schema.add_column("note", "string").rename_column("a", "c").move_column("note")
        schema.widen("c", "bigint")
        assert lake.version == before
    assert lake.version == before + 1
    assert table.schema is not None
    assert table.schema.names == ("note", "c", "b")
    with pytest.raises(InvalidInputError, match="no such note"), table.update_schema() as schema:
        _fail_after(schema.drop_column("note"))
    with pytest.raises(InvalidInputError, match="no value in 'b'"), table.update_schema() as schema:
        schema.drop_column("note").set_not_null("b")
    with table.update_schema():
        pass
    assert lake.version == before + 1
    transaction = lake.transaction()
    transaction.table("sales.schema").update_schema().drop_column("note").commit()
    transaction.rollback()
    assert table.schema.names == ("note", "c", "b")


def _fail_after(_: object) -> None:
    raise InvalidInputError("no such note")
