"""Updates and deletes that the driver makes without a Spark job, and those that it leaves to Spark."""

import decimal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove import InvalidInputError, expr
from mangrove.expressions.parse import parse_expression
from mangrove.expressions.schema_text import parse_schema
from mangrove.lakehouse.table import Table
from mangrove.local.evaluation import evaluate_expression
from mangrove.local.exact_types import find_exact_type, is_plain_text
from mangrove.local.row_changes import column_lookup_of
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.sql.session import SqlSession
from mangrove.tables.write_plan import RowCounts

pytestmark = pytest.mark.interop

MODES: dict[str, dict[str, Any]] = {
    "keys": {"keys": ["id"]},
    "position": {"keys": ["id"], "properties": {"write.delete-mode": "position"}},
    "partitions": {"keys": ["id", "v"], "partition_by": ["v"]},
}
SCHEMA = "id bigint not null, v int not null, d decimal(10,2), x double, w string"


@pytest.fixture(params=["tree", "deltacat"])
def create_table(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Table]:
    assert spark is not None
    lake = mangrove.create(tmp_path, layout=request.param)
    lake.create_namespace("s")

    def create(mode: str = "keys", **properties: Any) -> Table:
        table = lake.create_table(f"s.{mode}", SCHEMA, **MODES[mode], **properties)
        for first in (0, 10):
            table.append(
                [
                    {"id": first + number, "v": number, "d": decimal.Decimal(number), "x": number / 2, "w": "a"}
                    for number in range(10)
                ]
            )
        return table

    return create


@pytest.fixture
def count_jobs(spark: SparkSession) -> Callable[[], int]:
    context: Any = spark.sparkContext._jsc.sc()

    def count() -> int:
        context.listenerBus().waitUntilEmpty()
        return int(context.statusStore().jobsList(None).size())

    return count


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        assert before is not None
        spark.conf.set(name, before)


def read(table: Table, *names: str) -> dict[int, Any]:
    """Return the other columns of the rows by `id`."""
    return {row.pop("id"): tuple(row.values()) for row in table.to_arrow(["id", *names]).to_pylist()}


@pytest.mark.parametrize("mode", MODES)
def test_a_small_change_starts_no_job(
    create_table: Callable[..., Table], count_jobs: Callable[[], int], mode: str
) -> None:
    table = create_table(mode)
    before = count_jobs()
    assert table.delete("id % 5 = 3", engine="spark") == RowCounts(deleted=4)
    changed = table.update({"d": expr("d + 1"), "w": "b"}, "id + v > 20 and w = 'a'", engine="spark")
    assert changed == RowCounts(updated=3)
    assert table.update({"w": None}, "id = 4 or id = 19", engine="spark") == RowCounts(updated=2)
    assert table.delete("w = 'b' and -id < -16", engine="spark") == RowCounts(deleted=1)
    assert table.delete("d = 99", engine="spark") == RowCounts()
    assert count_jobs() == before
    expected: dict[int, Any] = {key: (key % 10, "a") for key in range(20) if key % 5 != 3 and key != 17}
    expected |= {4: (4, None), 16: (7, "b"), 19: (10, None)}
    assert read(table, "d", "w") == expected


def test_statements_of_the_sql_session_start_no_job(
    create_table: Callable[..., Table], count_jobs: Callable[[], int], tmp_path: Path
) -> None:
    table = create_table()
    session = SqlSession(mangrove.open(tmp_path), engine="spark")
    session.run("select 1").rows()
    before = count_jobs()
    session.run("delete from s.keys as k where k.v % 5 = 3")
    session.run("update s.keys set d = d + 1, x = 0 where v % 10 = 4 and w is not null")
    assert count_jobs() == before
    assert read(table, "d", "x")[14] == (decimal.Decimal(5), 0.0)
    assert len(read(table)) == 16


@pytest.mark.parametrize(
    "limit",
    [
        "driver_changes._FILES_MAX",
        "driver_changes._BYTES_MAX",
        "driver_changes._CHANGED_BYTES_MAX",
        "row_changes.LOCAL_ROWS_MAX",
    ],
)
def test_spark_makes_a_change_beyond_a_limit(
    create_table: Callable[..., Table], count_jobs: Callable[[], int], limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_table()
    monkeypatch.setattr(f"mangrove.spark.{limit}", 0)
    before = count_jobs()
    assert table.update({"w": "b"}, "v % 5 = 3", engine="spark") == RowCounts(updated=4)
    assert table.delete("v % 5 = 3", engine="spark") == RowCounts(deleted=4)
    assert count_jobs() > before
    assert len(read(table)) == 16


def test_spark_rounds_values_with_more_digits_than_the_column(
    create_table: Callable[..., Table], count_jobs: Callable[[], int]
) -> None:
    table = create_table()
    before = count_jobs()
    table.update({"d": expr("d * 0.125")}, "id = 3", engine="spark")
    assert count_jobs() > before
    assert read(table, "d")[3] == (decimal.Decimal("0.38"),)


def test_spark_reports_the_values_that_the_driver_cannot_compute(
    create_table: Callable[..., Table], count_jobs: Callable[[], int]
) -> None:
    table = create_table(checks={"small": "d < 100"})
    rows = read(table, "v", "d", "x", "w")
    before = count_jobs()
    changes: list[Callable[[], RowCounts]] = [
        lambda: table.update({"v": expr("v + 2147483640")}, engine="spark"),
        lambda: table.update({"d": expr("d + 99999999.5")}, "v = 9", engine="spark"),
        lambda: table.update({"d": expr("d + 95")}, engine="spark"),
        lambda: table.update({"v": None}, "v = 1", engine="spark"),
        lambda: table.update({"v": expr("w")}, engine="spark"),
        lambda: table.update({"d": 10**50}, engine="spark"),
        lambda: table.delete("10 % v = 3", engine="spark"),
        lambda: table.delete("v + 1", engine="spark"),
        lambda: table.delete("nothing = 1 + v", engine="spark"),
    ]
    for change in changes:
        with pytest.raises(InvalidInputError):
            change()
    assert count_jobs() > before
    assert read(table, "v", "d", "x", "w") == rows
    assert table.delete("v <> 0 and 10 % v = 1", engine="spark") == RowCounts(deleted=4), "Spark skips the rest"


def test_settings_of_the_session_count(create_table: Callable[..., Table], spark: SparkSession) -> None:
    table = create_table()
    with setting(spark, "spark.sql.ansi.enabled", "false"):
        assert table.update({"d": expr("d + v + 2147483647")}, "v + 2147483647 < 0", engine="spark").updated == 18
        assert table.delete("10 % v is null", engine="spark") == RowCounts(deleted=2)
    with (
        setting(spark, "spark.sql.caseSensitive", "true"),
        pytest.raises(InvalidInputError, match="Spark rejected"),
    ):
        table.delete("ID % 2 = 0", engine="spark")
    with setting(spark, "spark.sql.ansi.doubleQuotedIdentifiers", "true"):
        assert table.update({"w": expr('"w"')}, "v % 5 = 3", engine="spark") == RowCounts(updated=4)
    assert set(read(table, "w").values()) == {("a",)}


def test_spark_decides_about_numbers_without_a_negative_of_their_type(
    create_table: Callable[..., Table], spark: SparkSession
) -> None:
    table = create_table()
    for condition in ("v + 0 < -(-2147483648)", "v + 0 < - -2147483648", "v + 0 = 100Y + 100Y"):
        with pytest.raises(InvalidInputError, match="OVERFLOW"):
            table.delete(condition, engine="spark")
        with setting(spark, "spark.sql.ansi.enabled", "false"):
            assert table.delete(condition, engine="spark") == RowCounts()


def test_spark_makes_a_change_with_more_terms_than_python_evaluates(create_table: Callable[..., Table]) -> None:
    table = create_table()
    many = " or ".join(["v % 7 = 100"] * 600)
    assert table.delete(f"{many} or v % 5 = 3", engine="spark") == RowCounts(deleted=4)


def test_rows_that_share_a_key_are_changed_one_by_one(create_table: Callable[..., Table]) -> None:
    table = create_table()
    table.append([{"id": 1, "v": 100, "w": "x"}, {"id": 1, "v": 101, "w": "y"}])
    assert table.update({"w": "z"}, "v % 100 = 0 and v > 0", engine="spark") == RowCounts(updated=1)
    assert table.delete("v % 100 = 1 and id + v > 10", engine="spark") == RowCounts(deleted=2)
    ones = [(row["v"], row["w"]) for row in table.to_arrow(where="id = 1").to_pylist()]
    assert sorted(ones) == [(1, "a"), (100, "z")]


EXACT = [
    "a + b", "a - b * 2", "-a % 4", "b % a", "a * a", "s + s", "s % 7", "a / 4", "b / a", "d + 1", "d - b", "d * 3",
    "d * a", "-d", "x + 1", "x * a", "x / 2", "x - x", "-x", "a = b", "a <> 7", "a < b + 1", "a <=> n", "x = x",
    "x > 1", "x >= x", "x < a", "d = 1.25", "d > a", "d <= 1.250", "t = 'Abc'", "t < 'b'", "day > date '2026-01-01'",
    "a in (7, null)", "a not in (1, 2)", "not (a between 1 and 6)", "a > 3 and n is null", "n > 1 or a = 7",
    "f and a = 7", "not f", "t is null", "m is not null", "case when a > 3 then a when n = 1 then n end",
    "case when f then 'yes' else t end", "cast(a as bigint) * 1000000", "10000000000 + a", "null", "+a - +5", "+x",
    "-(a - -3)", "-d * -(5)", "a in (1 + 2, b, 7)", "a % -1", "b % -1", "smallest % -1", "smallest64 % -1",
]  # fmt: skip
INEXACT = [
    "abs(a)", "a = '7'", "d / 3", "d % 2", "x % 2", "d * x", "d = x", "w38 * d", "w38 + 1", "y + y", "c = 'a'",
    "m > n", "m = '2026-01-01'", "t = \"Abc\"", "t = '\\t'", "t = '${x}'", "!f", "A + 1", "f = true",
    "a = b is null", "t like 'A%'", "t || 'x'", "cast(t as int)", "cast(d as int)", "current_date", "e.a = 1",
    "case when a > 3 then 1 else 2.5 end", "case when f then a else b end", "unknown = 1", "rand() < 1", "b'x' = 1",
    "+t = 'Abc'", "+f", "cast(s as tinyint)", "100Y + a", "1e3", "x <> 1e3", "a * .5E1", "t = 'it''s'", "-w38",
    "day = date '20260101'", f"a in ({', '.join(map(str, range(101)))})",
]  # fmt: skip


def is_exact(text: str, schema: Any) -> bool:
    try:
        return is_plain_text(text) and find_exact_type(parse_expression(text), schema) is not None
    except InvalidInputError:
        return False


def test_expressions_of_the_driver_have_the_values_of_spark_with_and_without_ansi_mode(spark: SparkSession) -> None:
    schema = parse_schema(
        "a int, b bigint, s smallint, n int, d decimal(10,2), w38 decimal(38,2), x double, y float, t string, "
        "f boolean, c char(3), day date, m timestamp, e struct<a: int>, smallest int, smallest64 bigint"
    )
    assert [text for text in EXACT if not is_exact(text, schema)] == []
    assert [text for text in INEXACT if is_exact(text, schema)] == []
    numbers = [7, -7, 3, 1, -3, 11]
    floats = [0.5, float("nan"), -0.0, float("inf"), 7.0, -1e300]
    texts = ["Abc", "a", "ä", "", "Z", "\U0001f600"]
    rows: list[dict[str, Any]] = [
        {"a": number, "b": number * 10**10 + 3, "s": number, "d": decimal.Decimal(number) / 4, "x": x, "t": text}
        | {"f": number > 0, "n": None if number < 0 else number - 6, "day": None}
        | {"smallest": -(2**31), "smallest64": -(2**63)}
        for number, x, text in zip(numbers, floats, texts, strict=True)
    ]
    table = pa.Table.from_pylist([*rows, {}], schema=schema_to_arrow(schema))
    frame = spark.createDataFrame(table.drop_columns(["e"]).replace_schema_metadata(None))
    for mode in ("true", "false"):
        with setting(spark, "spark.sql.ansi.enabled", mode):
            found = frame.selectExpr(*(f"{text} as c{place}" for place, text in enumerate(EXACT))).toArrow()
        for place, text in enumerate(EXACT):
            here = evaluate_expression(parse_expression(text), table, column_lookup_of(schema))
            assert repr(here.to_pylist()) == repr(found.column(place).to_pylist()), (text, mode)
