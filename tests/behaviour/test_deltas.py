"""Deltas in transactions: where they go, with what they commute, and what stops them."""

import datetime
import decimal
from collections.abc import Callable
from dataclasses import replace

import pytest

from mangrove.errors import ConflictError, InvalidInputError
from mangrove.expressions.schema_text import parse_column
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType
from mangrove.model.schema import Schema
from mangrove.model.values import Value
from mangrove.transaction.catalog import scan_objects_below
from mangrove.transaction.deltas import partition_id_of

DAY = datetime.date(2026, 11, 15)


def delta(name: str, kind: DeltaType = DeltaType.APPEND, rows: int = 10) -> Delta:
    return Delta(kind, Manifest((DataFile(f"data/{name}.parquet", 1000, rows),)))


@pytest.fixture
def sales(lake: Lakehouse) -> Lakehouse:
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id bigint, ts timestamp", keys=["id", "ts"], partition_by=["days(ts)"])
    lake.create_table("sales.plain", "id bigint")
    return lake


def add(lake: Lakehouse, name: str, *values: Value | None) -> None:
    with lake.transaction() as transaction:
        transaction.add_delta("sales.orders" if values else "sales.plain", values, delta(name))


def files(lake: Lakehouse, table: str = "sales.plain") -> list[tuple[int, str]]:
    return [
        (locator.position, value.manifest.entries[0].location.removeprefix("data/").removesuffix(".parquet"))
        for locator, value in lake.table(table).deltas()
    ]


def test_a_delta_is_read_from_its_position(sales: Lakehouse, opened_again: Callable[[], Lakehouse]) -> None:
    add(sales, "one", DAY)
    add(sales, "two", DAY)
    add(sales, "null", None)
    table = opened_again().table("sales.orders")
    assert sorted(str(partition.values) for _, partition in table.partitions()) == sorted([str((DAY,)), str((None,))])
    assert sorted(files(opened_again(), "sales.orders")) == [(1, "null"), (1, "one"), (2, "two")]


def test_a_transaction_reads_its_own_deltas(sales: Lakehouse) -> None:
    add(sales, "before")
    with sales.transaction() as transaction:
        assert transaction.add_delta("sales.plain", (), delta("first")).position == 2
        assert transaction.add_delta("sales.plain", (), delta("second")).position == 3
        transaction.add_delta("sales.orders", (DAY,), delta("other"))
        assert [value.position for _, value in transaction.table("sales.plain").deltas()] == [1, 2, 3]
        assert len(list(transaction.table("sales.orders").partitions())) == 1
        assert files(sales) == [(1, "before")]
    assert files(sales) == [(1, "before"), (2, "first"), (3, "second")]


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
@pytest.mark.parametrize("kind", [DeltaType.APPEND, DeltaType.ADD, DeltaType.UPSERT, DeltaType.DELETE])
def test_deltas_of_concurrent_transactions_get_consecutive_positions(
    sales: Lakehouse, kind: DeltaType, isolation: str
) -> None:
    one, two = sales.transaction(isolation), sales.transaction(isolation)
    for transaction, name in ((one, "one"), (two, "two")):
        transaction.add_delta("sales.orders", (DAY,), delta(name, kind))
        transaction.add_delta("sales.orders", (DAY,), delta(f"{name} more", kind))
    one.commit()
    two.commit()
    assert files(sales, "sales.orders") == [(1, "one"), (2, "one more"), (3, "two"), (4, "two more")]
    assert two.committed_as is not None
    moved = [locator.parts[-1] for locator in two.committed_as.changes.puts if locator.kind.word == "delta"]
    assert sorted(moved) == [3, 4]


def test_an_append_follows_a_rename_new_properties_and_a_new_column(sales: Lakehouse) -> None:
    transaction = sales.transaction()
    transaction.add_delta("sales.plain", (), delta("rows"))
    sales.alter_table("sales.plain", {"a": "b"})
    with sales.transaction() as other:
        version = other.table("sales.plain").opened().version
        assert version.schema is not None
        wider = Schema((*version.schema.columns, parse_column("note string", after=1)), schema_id=1)
        changed = replace(version, schema=wider, earlier_schemas=(version.schema,))
        other.put_table_version("sales.plain", changed, stops_writers=False)
    sales.rename_table("sales.plain", "sales.renamed")
    transaction.commit()
    assert files(sales, "sales.renamed") == [(1, "rows")]
    schema = sales.table("sales.renamed").schema
    assert schema is not None
    assert schema.names == ("id", "note")


def test_an_append_to_a_concurrently_dropped_or_recreated_table_conflicts(sales: Lakehouse) -> None:
    dropped, anew = sales.transaction(), sales.transaction()
    dropped.add_delta("sales.plain", (), delta("lost"))
    anew.add_delta("sales.plain", (), delta("lost"))
    sales.drop_table("sales.plain")
    with pytest.raises(ConflictError, match=r"stream \S+ of sales\.plain\.version_1"):
        dropped.commit()
    sales.create_table("sales.plain", "id string")
    with pytest.raises(ConflictError, match=r"stream \S+ of sales\.plain\.version_1"):
        anew.commit()
    assert files(sales) == []


def test_an_append_planned_before_the_keys_changed_is_refused(sales: Lakehouse) -> None:
    late = sales.transaction()
    late.add_delta("sales.orders", (DAY,), delta("late"))
    with sales.transaction() as transaction:
        version = transaction.table("sales.orders").opened().version
        transaction.put_table_version("sales.orders", replace(version, keys=()), stops_writers=True)
    with pytest.raises(ConflictError, match=r"stream \S+ of sales\.orders\.version_1"):
        late.commit()


def test_dropping_a_table_conflicts_with_a_concurrent_append(sales: Lakehouse) -> None:
    add(sales, "before")
    transaction = sales.transaction()
    transaction.drop_table("sales.plain")
    add(sales, "meanwhile")
    with pytest.raises(ConflictError, match=r"^rows of table sales\.plain: "):
        transaction.commit()
    sales.drop_table("sales.plain")
    assert [table.name for table in sales.tables("sales")] == ["orders"]


def test_a_compaction_does_not_conflict_with_appends(sales: Lakehouse) -> None:
    add(sales, "one")
    add(sales, "two")
    compaction, append = sales.transaction(), sales.transaction()
    append.add_delta("sales.plain", (), delta("three"))
    compacted = replace(delta("both", DeltaType.REPLACE), replaces_through=2)
    compaction.add_delta("sales.plain", (), compacted)
    append.commit()
    compaction.commit()
    assert files(sales) == [(1, "one"), (2, "two"), (3, "three"), (4, "both")]
    late = sales.transaction()
    late.add_delta("sales.plain", (), delta("four"))
    with sales.transaction() as again:
        again.add_delta("sales.plain", (), replace(delta("all", DeltaType.REPLACE), replaces_through=4))
    late.commit()
    assert files(sales)[-2:] == [(5, "all"), (6, "four")]


@pytest.mark.parametrize("first", [DeltaType.REPLACE, DeltaType.POSITION_DELETE])
@pytest.mark.parametrize("second", [DeltaType.REPLACE, DeltaType.POSITION_DELETE])
def test_concurrent_rewrites_conflict_only_in_the_same_partition(
    sales: Lakehouse, first: DeltaType, second: DeltaType
) -> None:
    other_day = DAY + datetime.timedelta(days=1)
    add(sales, "rows", DAY)
    add(sales, "rows", other_day)
    one, two, three = sales.transaction(), sales.transaction(), sales.transaction()
    one.add_delta("sales.orders", (DAY,), delta("one", first))
    two.add_delta("sales.orders", (DAY,), delta("two", second))
    three.add_delta("sales.orders", (other_day,), delta("three", second))
    one.commit()
    with pytest.raises(ConflictError, match=r"^rows of table sales\.orders: "):
        two.commit()
    three.commit()


def test_an_append_conflicts_with_a_read_of_the_rows_only_at_serializable(sales: Lakehouse) -> None:
    add(sales, "before")
    careless, careful = sales.transaction(), sales.transaction("serializable")
    for transaction in (careless, careful):
        assert len(list(transaction.table("sales.plain").deltas())) == 1
        transaction.create_namespace(transaction.isolation.value)
    add(sales, "meanwhile")
    careless.commit()
    with pytest.raises(ConflictError, match=r"^rows of table sales\.plain: "):
        careful.commit()


def test_two_writers_of_a_new_partition_agree_on_its_id(sales: Lakehouse) -> None:
    one, two = sales.transaction(), sales.transaction()
    one.add_delta("sales.orders", (DAY,), delta("one"))
    two.add_delta("sales.orders", (DAY,), delta("two"))
    one.commit()
    two.commit()
    ((_, partition),) = sales.table("sales.orders").partitions()
    stream = sales.table("sales.orders").opened().stream
    assert partition.id == partition_id_of(stream.id, stream.partition_scheme_id, (DAY,))


def test_equal_values_in_other_forms_are_one_partition(lake: Lakehouse) -> None:
    lake.create_namespace("sales")
    lake.create_table("sales.priced", "price decimal(10,2), weight double", partition_by=["price", "weight"])
    with lake.transaction() as transaction:
        for price, weight in (("1.5", 0.0), ("1.50", -0.0)):
            transaction.add_delta("sales.priced", (decimal.Decimal(price), weight), delta(price))
    assert len(list(lake.table("sales.priced").partitions())) == 1


def test_invalid_partition_values_are_rejected(sales: Lakehouse) -> None:
    transaction = sales.transaction()
    for values in ((), (DAY, DAY), ("2026-11-15",), (7,), (True,)):
        with pytest.raises(InvalidInputError, match="partition"):
            transaction.add_delta("sales.orders", values, delta("x"))
    assert transaction._reading().is_empty


def test_adding_a_delta_to_an_external_table_is_rejected(sales: Lakehouse) -> None:
    sales.create_table("sales.raw", table_type="external", table_format="csv", location="s3://elsewhere/raw/")
    with pytest.raises(InvalidInputError, match="external"):
        sales.transaction().add_delta("sales.raw", (), delta("x"))


def test_dropping_a_table_leaves_nothing_below_it(sales: Lakehouse) -> None:
    for number in range(3):
        add(sales, f"f{number}", DAY + datetime.timedelta(days=number))
    identity = sales.table("sales.orders").opened().version_locator.parent
    assert len(list(scan_objects_below(sales._reading(), identity))) == 8
    sales.drop_table("sales.orders")
    assert list(scan_objects_below(sales._reading(), identity)) == []
    assert len(list(scan_objects_below(sales.at(sales.version - 1)._reading(), identity))) == 8
