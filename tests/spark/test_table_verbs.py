"""What the verbs of a table mean: the same in this process and on Spark, in both layouts, inside a transaction."""

import datetime
import decimal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mangrove
from mangrove import expr
from mangrove.errors import ConflictError, InvalidInputError
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.tables.write_plan import RowCounts

ORDERS = "id bigint not null, customer string, amount decimal(10,2), day date"
DAY = datetime.date(2026, 1, 1)
DESIGNS: dict[str, dict[str, Any]] = {
    "keyed": {"keys": ["id"]},
    "bare": {},
    "by position": {"properties": {"write.delete-mode": "position"}},
    "copied": {"properties": {"write.delete-mode": "copy"}, "partition_by": ["day"]},
}
# Spark takes its time, so each design meets it in one of the layouts.
ON_SPARK = [("spark", "tree", "keyed"), ("spark", "deltacat", "bare"), ("spark", "deltacat", "by position")]
EVERYWHERE = [
    *(("local", layout, design) for layout in ("tree", "deltacat") for design in DESIGNS),
    *(pytest.param(case, marks=pytest.mark.interop) for case in [*ON_SPARK, ("spark", "tree", "copied")]),
]
KEYED = ["local", pytest.param("spark", marks=pytest.mark.interop)]


class Bench:
    """An empty table in a lakehouse, and the engine that shall change it."""

    def __init__(self, folder: Path, request: pytest.FixtureRequest, engine: str, layout: str, design: str) -> None:
        if engine == "spark":
            request.getfixturevalue("spark")
        self.engine = engine
        self.lake = mangrove.create(folder / "lake", layout=layout)
        self.lake.create_namespace("s")
        self.table = self.lake.create_table("s.orders", ORDERS, **DESIGNS[design])


@pytest.fixture(params=EVERYWHERE, ids=" ".join)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, request, *request.param)
    yield made
    assert made.lake.maintenance.check().problems == ()


@pytest.fixture(params=KEYED)
def keyed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, request, request.param, "tree", "keyed")
    yield made
    assert made.lake.maintenance.check().problems == ()


def order(number: int, customer: str | None = "x", amount: object = None, day: datetime.date = DAY) -> dict[str, Any]:
    value = decimal.Decimal(number) if amount is None else decimal.Decimal(str(amount))
    return {"id": number, "customer": customer, "amount": value, "day": day}


def rows_of(table: TableSnapshot) -> list[tuple[Any, ...]]:
    found = table.to_arrow(["id", "customer", "amount"]).to_pylist()
    return sorted((row["id"], row["customer"], float(row["amount"])) for row in found)


def test_rows_are_updated_and_deleted_by_any_condition(bench: Bench) -> None:
    lake, table, engine = bench.lake, bench.table, bench.engine
    table.append([order(1), order(2, None), order(3, "y")])
    table.append([order(4, "y", day=DAY + datetime.timedelta(days=1)), order(5)])
    counts = table.update(
        {"amount": expr("amount * 1.1"), "customer": expr("upper(customer)")}, "amount % 2 = 1", engine=engine
    )
    assert counts == RowCounts(updated=3)
    assert rows_of(table) == [(1, "X", 1.1), (2, None, 2.0), (3, "Y", 3.3), (4, "y", 4.0), (5, "X", 5.5)]
    assert table.delete("amount * 2 > 10 or customer is null", engine=engine) == RowCounts(deleted=2)
    seven = {"customer": None, "amount": decimal.Decimal("7.5")}
    assert table.update(seven, "id = 4", engine=engine) == RowCounts(updated=1)
    assert table.delete("id = 99", engine=engine) == RowCounts()
    wanted = [(1, "X", 1.1), (3, "Y", 3.3), (4, None, 7.5)]
    assert rows_of(table) == wanted
    version = lake.version
    lake.maintenance.compact("s.orders")
    assert rows_of(table) == rows_of(lake.at(version).table("s.orders")) == wanted
    assert table.overwrite([order(3), order(9)], "id >= 3", engine=engine) == RowCounts(inserted=2, deleted=2)
    assert rows_of(table) == [(1, "X", 1.1), (3, "x", 3.0), (9, "x", 9.0)]
    with pytest.raises(InvalidInputError, match=r"(do not match|not what) `where`.*'id': 2"):
        table.overwrite([order(2)], "id >= 3", engine=engine)


def test_a_merge_applies_the_first_matching_clause(bench: Bench) -> None:
    table, engine = bench.table, bench.engine
    table.append([order(1), order(2), order(3), order(4, "keep")])
    source = [
        {"key": 1, "customer": "new", "amount": 10},
        {"key": 2, "customer": None, "amount": 20},
        {"key": 7, "customer": "z", "amount": 70},
        {"key": 8, "customer": "no", "amount": 80},
    ]
    counts = (
        table.merge(source, "t.id = s.key", engine=engine)
        .when_matched_delete("s.customer is null")
        .when_matched_update({"customer": expr("s.customer"), "amount": expr("t.amount + s.amount")})
        .when_not_matched_insert(
            {"id": expr("key"), "customer": expr("s.customer"), "amount": expr("s.amount")}, "s.customer <> 'no'"
        )
        .when_not_matched_by_source_update({"amount": 0}, "t.customer = 'keep'")
        .when_not_matched_by_source_delete()
        .execute()
    )
    assert counts == RowCounts(inserted=1, updated=2, deleted=2)
    assert rows_of(table) == [(1, "new", 11.0), (4, "keep", 0.0), (7, "z", 70.0)]


PERIODS = {
    "days": (
        "ts timestamp",
        "days(ts)",
        ["2026-01-31T23:59:59Z", "2026-02-01T00:00:00Z", "2026-02-01T23:59:59.999999Z"],
    ),
    "months": ("ts date", "months(ts)", ["1969-11-30", "1969-12-01", "1969-12-31"]),
    "years": ("ts timestamp_ntz", "years(ts)", ["2025-12-31T23:00:00", "2026-01-01T00:00:00", "2026-12-31T01:00:00"]),
    "hours": ("ts timestamp", "hours(ts)", ["1969-12-31T22:59:59Z", "1969-12-31T23:00:00Z", "1969-12-31T23:59:59Z"]),
    "itself": ("ts string", "ts", ["x", "y", "y"]),
}
"""Columns, how they partition a table, and three values of which the last two lie in one partition."""
SOME_PERIODS = [("days", "tree"), ("hours", "deltacat")]
PLACES = [
    *((period, "local", layout) for period in PERIODS for layout in ("tree", "deltacat")),
    *(pytest.param(period, "spark", layout, marks=pytest.mark.interop) for period, layout in SOME_PERIODS),
]


@pytest.mark.parametrize(("period", "engine", "layout"), PLACES)
def test_a_dynamic_overwrite_replaces_only_partitions_with_new_rows(
    period: str, engine: str, layout: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if engine == "spark":
        request.getfixturevalue("spark")
    column, by, texts = PERIODS[period]
    first, second, last = (_parsed(column, text) for text in texts)
    lake = mangrove.create(tmp_path / "lake", layout=layout)
    lake.create_namespace("s")
    table = lake.create_table("s.t", f"{column}, v int", partition_by=[by])
    table.append([{"ts": first, "v": 1}, {"ts": second, "v": 2}, {"ts": last, "v": 3}, {"ts": None, "v": 4}])
    assert table.overwrite_partitions([{"ts": last, "v": 30}], engine=engine) == RowCounts(inserted=1, deleted=2)
    assert sorted(table.to_arrow(["v"]).column("v").to_numpy().tolist()) == [1, 4, 30]
    assert table.overwrite_partitions([{"ts": None, "v": 40}], engine=engine) == RowCounts(inserted=1, deleted=1)
    before = lake.version
    assert table.overwrite_partitions([], engine=engine) == RowCounts()
    assert lake.version == before
    assert sorted(table.to_arrow(["v"]).column("v").to_numpy().tolist()) == [1, 30, 40]
    assert lake.maintenance.check().problems == ()


def test_a_dynamic_overwrite_replaces_the_same_keys_in_other_partitions(keyed: Bench) -> None:
    lake, engine = keyed.lake, keyed.engine
    table = lake.create_table("s.moving", ORDERS, keys=["id"], partition_by=["days(day)", "customer"])
    later = DAY + datetime.timedelta(days=1)
    table.append([order(1, "x"), order(2, "x"), order(3, "y"), order(4, "x", day=later)])
    counts = table.overwrite_partitions([order(3, "x", 9), order(5, "x", 5)], engine=engine)
    assert counts == RowCounts(inserted=2, deleted=3)
    assert rows_of(table) == [(3, "x", 9.0), (4, "x", 4.0), (5, "x", 5.0)]
    with pytest.raises(InvalidInputError, match="more than once"):
        table.overwrite_partitions([order(6), order(6)], engine=engine)
    for by in ([], ["bucket(4, id)"]):
        other = lake.create_table("s.other", ORDERS, partition_by=by, replace=True)
        version = lake.version
        with pytest.raises(InvalidInputError, match="not partitioned by columns or periods"):
            other.overwrite_partitions([order(1)], engine=engine)
        assert lake.version == version


def _parsed(column: str, text: str) -> object:
    match column.split()[1]:
        case "string":
            return text
        case "date":
            return datetime.date.fromisoformat(text)
        case _:
            return datetime.datetime.fromisoformat(text)


def test_an_unqualified_name_in_a_merge_refers_to_the_only_visible_row(keyed: Bench) -> None:
    table, engine = keyed.table, keyed.engine
    table.append([order(1, "old"), order(2, "old", 7)])
    merge = (
        table.merge([order(1, "new", 50), order(3, "new", 30), order(4, "new", -4)], "t.id = s.id", engine=engine)
        .when_matched_update({"amount": expr("s.amount + t.amount")}, where="t.customer = 'old'")
        .when_not_matched_insert(
            {"id": expr("id"), "amount": expr("amount * 2"), "customer": expr("concat(s.customer, 'er')")}, "amount > 0"
        )
        .when_not_matched_by_source_update(
            {"amount": expr("amount - 1"), "customer": expr("t.customer")}, where="amount > 5"
        )
    )
    assert merge.execute() == RowCounts(1, 2, 0)
    assert rows_of(table) == [(1, "old", 51.0), (2, "old", 6.0), (3, "newer", 60.0)]
    unclear = table.merge([order(1)], "t.id = s.id", engine=engine).when_matched_update({"amount": expr("amount")})
    with pytest.raises(InvalidInputError, match="amount"):
        unclear.execute()


def test_a_merge_that_is_ambiguous_is_refused_before_anything_changes(keyed: Bench) -> None:
    table, engine = keyed.table, keyed.engine
    table.append([order(1), order(2)])
    version = keyed.lake.version
    twice = table.merge([order(1), order(1)], "t.id = s.id", engine=engine)
    with pytest.raises(InvalidInputError, match=r"matched by several (source )?rows.*'id': 1"):
        twice.when_matched_update().execute()
    with pytest.raises(InvalidInputError, match="more than once"):
        table.merge([order(3), order(3)], "t.id = s.id", engine=engine).when_not_matched_insert().execute()
    with pytest.raises(InvalidInputError, match=r"'id': 2"):
        table.update({"id": 2}, "id = 1", engine=engine)
    with pytest.raises(InvalidInputError, match="did you mean 'amount'"):
        table.update({"amuont": 2}, engine=engine)
    with pytest.raises(InvalidInputError, match=r"cast\(… as …\)"):
        table.update({"amount": "much"}, engine=engine)
    with pytest.raises(InvalidInputError, match="never apply"):
        table.merge([], "t.id = s.id").when_matched_delete().when_matched_update().execute()
    with pytest.raises(InvalidInputError, match="has no clause"):
        table.merge([], "t.id = s.id").execute()
    assert keyed.lake.version == version
    assert twice.when_not_matched_insert().execute() == RowCounts()


def test_a_delete_mode_that_contradicts_the_keys_is_rejected(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    for number, (keys, mode) in enumerate([(["id"], "copy"), ([], "keys"), ([], "magic")]):
        table = lake.create_table(f"s.t{number}", ORDERS, keys=keys)
        for refused in (
            lambda keys=keys, mode=mode: lake.create_table(
                "s.new", ORDERS, keys=keys, properties={"write.delete-mode": mode}
            ),
            lambda table=table, mode=mode: table.alter({"write.delete-mode": mode}),
        ):
            version = lake.version
            with pytest.raises(InvalidInputError, match=r"write\.delete-mode"):
                refused()
            assert lake.version == version


def test_a_partial_upsert_keeps_the_other_columns(keyed: Bench) -> None:
    table, engine = keyed.table, keyed.engine
    table.append([order(1, "a"), order(2, "b")])
    assert table.upsert([{"ID": 2, "amount": 5}, {"ID": 3, "amount": 6}], engine=engine) == RowCounts(1, 1, 0)
    assert rows_of(table) == [(1, "a", 1.0), (2, "b", 5.0), (3, None, 6.0)]
    full = [{**order(1, "c"), "amount": 9}]
    assert table.upsert(full, columns=["id", "customer"], engine=engine) == RowCounts(0, 1, 0)
    assert rows_of(table)[0] == (1, "c", 1.0)
    assert table.upsert(full, engine=engine) == RowCounts(None, None, 0, upserted=len(full))
    assert rows_of(table)[0] == (1, "c", 9.0)
    with pytest.raises(InvalidInputError, match="lack key column 'id'"):
        table.upsert([{"amount": 5}], engine=engine)


def test_row_changes_belong_to_their_transaction_and_conflict_with_concurrent_changes(keyed: Bench) -> None:
    lake, table, engine = keyed.lake, keyed.table, keyed.engine
    table.append([order(1), order(2)])
    late = lake.transaction()
    inside = late.table("s.orders")
    inside.append([order(3)], ordered=False, engine=engine)
    assert inside.update({"amount": expr("amount + 1")}, engine=engine) == RowCounts(updated=3)
    third = inside.merge([order(3)], "t.id = s.id", engine=engine)
    assert third.when_matched_delete().execute() == RowCounts(deleted=1)
    assert rows_of(inside) == [(1, "x", 2.0), (2, "x", 3.0)]
    assert rows_of(table) == [(1, "x", 1.0), (2, "x", 2.0)]
    table.append([order(4)])
    with pytest.raises(ConflictError):
        late.commit()
    assert rows_of(table) == [(1, "x", 1.0), (2, "x", 2.0), (4, "x", 4.0)]


@pytest.mark.interop
def test_the_change_feed_on_spark_equals_the_local_one(spark: Any, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    table = lake.create_table("s.orders", ORDERS, keys=["id"])
    table.append([order(1), order(2), order(3)])
    since = lake.version
    table.upsert([order(2, "new"), order(4)])
    table.delete_keys([{"id": 1}])
    lake.maintenance.compact("s.orders")
    here = table.changes(since)
    there = table.changes(since, engine="spark").toArrow().select(here.column_names).cast(here.schema)
    assert sorted(map(str, there.to_pylist())) == sorted(map(str, here.to_pylist()))
    assert here.num_rows == 4
    assert spark.version


def test_a_condition_that_is_empty_is_refused_with_a_reason(keyed: Bench) -> None:
    with pytest.raises(InvalidInputError, match=r"(?i)empty|end"):
        keyed.table.delete("", engine=keyed.engine)


@pytest.mark.parametrize("values", ["amount", ["amount"], {1: "2"}])
def test_update_requires_a_dict_of_column_names(tmp_path: Path, values: Any) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    table = lake.create_table("s.orders", ORDERS, keys=["id"])
    table.append([order(1)])
    before = lake.version
    with pytest.raises(InvalidInputError, match="expected a dict such as"):
        table.update(values)
    assert lake.version == before
