"""Bits tell which rows of files are hidden, exactly as the other engine does, and nothing is joined."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import mangrove

_KINDS: Mapping[str, str] = {
    "id": "n",
    "code": "concat('né-', cast(n as string))",
    "far": "xxhash64(n)",
    "day": "date_add(date'2026-01-01', cast(n as int) % 7)",
    "price": "cast(n as decimal(9,2))",
}


def rows_of(spark: SparkSession, names: list[str], numbers: list[int], what: str) -> DataFrame:
    rows = spark.createDataFrame([(one,) for one in numbers], "n bigint").coalesce(1)
    return rows.selectExpr(*(f"{_KINDS[name]} as {name}" for name in names), f"'{what}' as what", "n")


def assert_same(table: Any, where: str | None = None, *, is_joined: bool = False) -> None:
    """The rows are those of the engine in this process, whose keys are joined."""
    frame = table.to_spark(where=where)
    expected = sorted((tuple(row.values()) for row in table.to_arrow(where=where).to_pylist()), key=repr)
    assert sorted(map(tuple, frame.collect()), key=repr) == expected
    assert expected, "nothing would be compared"
    assert ("Join" in frame._jdf.queryExecution().optimizedPlan().toString()) == is_joined


@pytest.mark.interop
@pytest.mark.parametrize("keys", ["id bigint", "code string", "far bigint", "day date, price decimal(9,2)"])
def test_overlapping_upserts_appends_and_deletes_are_applied_without_a_join(
    spark: SparkSession, tmp_path: Path, keys: str
) -> None:
    names = [column.split()[0] for column in keys.split(", ")]
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", f"{keys}, what string, n bigint", keys=names)
    chosen = random.Random(7)
    table.append(rows_of(spark, names, list(range(100)), "old"))
    for number in range(3):
        table.upsert(rows_of(spark, names, chosen.sample(range(120), 70), f"new {number}"))
    table.append(rows_of(spark, names, list(range(200, 270)), "added"))
    table.delete_keys(rows_of(spark, names, [3, 205, 119], "").select(*names))
    table.upsert(rows_of(spark, names, [3, 4, 206, 300], "last"))
    assert_same(table)
    assert_same(table, "n > 60 and what <> 'old'")
    # What is asked about keys narrows both sides of a join, so all keys need not be read.
    assert_same(table, f"{names[0]} is not null and n > 60", is_joined=True)


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["keys", "position"])
@pytest.mark.parametrize("key", ["id bigint", "code string"])
def test_files_with_and_without_deleted_rows_are_one_scan(
    spark: SparkSession, tmp_path: Path, key: str, mode: str
) -> None:
    """Spark compiles no operator above a union together with the scans below it."""
    names = [key.split()[0]]
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table(
        "s.t", f"{key}, what string, n bigint", keys=names, properties={"write.delete-mode": mode}
    )
    table.append(rows_of(spark, names, list(range(100)), "old"))
    table.append(rows_of(spark, names, list(range(100, 200)), "old"))
    for numbers in (range(50, 90), range(80, 95)):
        table.upsert(rows_of(spark, names, list(numbers), "new"))
    table.delete("n % 10 = 1", engine="spark")
    table.append(rows_of(spark, names, list(range(200, 300)), "whole"))
    assert_same(table)
    plan = table.to_spark()._jdf.queryExecution().optimizedPlan().toString()
    assert "Union" not in plan
    assert plan.count("] parquet") == 1
    assert table.update({"what": "last"}, "n in (60, 85, 100, 250)", engine="spark").updated == 4
    assert_same(table)


@pytest.mark.interop
def test_deletion_vectors_use_file_row_numbers_under_filters(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "code string, what string, n bigint", keys=["code"])
    spark.conf.set("parquet.block.row.count.limit", "100")
    try:
        table.append(rows_of(spark, ["code"], list(range(1000)), "old"))
    finally:
        spark.conf.unset("parquet.block.row.count.limit")
    table.upsert(rows_of(spark, ["code"], list(range(0, 1000, 3)), "new"))
    for where in ("n = 501", "n = 502", "n between 640 and 660", "what = 'old' and n > 990"):
        assert_same(table, where)


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["position", "keys"])
def test_position_and_equality_deletes_are_applied_together(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table(
        "s.t", "id bigint, what string, n bigint", keys=["id"], properties={"write.delete-mode": mode}
    )
    table.append(rows_of(spark, ["id"], list(range(100)), "old"))
    table.append(rows_of(spark, ["id"], list(range(100, 110)), "old"))
    table.upsert(rows_of(spark, ["id"], list(range(50, 105)), "new"))
    table.delete("n % 10 = 1")
    table.upsert(rows_of(spark, ["id"], [1, 2, 51], "again"))
    assert_same(table)


@pytest.mark.interop
def test_a_column_named_like_the_spark_metadata_column_is_read(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "code string, _metadata string", keys=["code"])
    table.append([{"code": str(one), "_metadata": "old"} for one in range(10)])
    table.upsert([{"code": str(one), "_metadata": "new"} for one in (2, 3)])
    table.upsert([{"code": str(one), "_metadata": "newer"} for one in (3, 4)])
    assert_same(table)


@pytest.mark.interop
def test_deletion_vectors_apply_to_a_wide_table_read_row_by_row(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    wide = [f"c{number}" for number in range(120)]
    table = lake.create_table("s.t", ", ".join(["code string", *(f"{name} int" for name in wide)]), keys=["code"])
    for upserted, count in ((range(30), 0), (range(0, 40, 2), 1), (range(0, 50, 3), 2)):
        rows = [{"code": str(one), **dict.fromkeys(wide, count)} for one in upserted]
        (table.upsert if count else table.append)(rows)
    assert_same(table)


@pytest.mark.interop
def test_deletes_of_more_rows_than_the_limit_use_a_join(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "code string, what string, n bigint", keys=["code"])
    table.append(rows_of(spark, ["code"], list(range(100)), "old"))
    table.upsert(rows_of(spark, ["code"], list(range(20)), "new"))
    table.upsert(rows_of(spark, ["code"], list(range(10, 30)), "newer"))
    engine: Any = lake.engines
    row_bits = engine.spark()._lists.row_bits
    for rows_max, is_joined in ((39, True), (40, True), (140, False)):
        monkeypatch.setattr(row_bits, "rows_max", rows_max)
        assert_same(table, is_joined=is_joined)
