"""A merge opens the files alone that can hold a row of its source: the others may as well be gone."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove import expr
from mangrove.expressions.predicates import AllOf, ConstantPredicate
from mangrove.expressions.schema_text import parse_schema
from mangrove.spark.merge_pruning import build_values_predicate, find_equated_columns
from mangrove.tables.merge import MergePlan
from mangrove.tables.scan_plan import plan_scan

pytestmark = pytest.mark.interop

EVERYTHING = ConstantPredicate(holds=True)


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Make a table of five files, each with ten keys of its own."""
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    made = lake.create_table("s.t", "id bigint not null, v int, w string", keys=["id"])
    for first in range(0, 50, 10):
        made.append([{"id": number, "v": 0, "w": "kept"} for number in range(first, first + 10)])
    return made


def lose_all_but(table: Any, tmp_path: Path, *kept: int) -> None:
    """Delete all files but these; whoever opens another fails."""
    for number, file in enumerate(table.scan().files()):
        if number not in kept:
            (tmp_path / file.location).unlink()


def test_a_merge_reads_only_files_that_may_hold_a_key_of_its_source(
    spark: SparkSession, table: Any, tmp_path: Path
) -> None:
    lose_all_but(table, tmp_path, 0, 3)
    source = spark.createDataFrame([(5, 1), (35, 1), (99, 1)], "id int, v int")
    merge = table.merge(source, "t.id = s.id and s.v > 0", engine="spark")
    counts = merge.when_matched_update({"v": expr("s.v")}).when_not_matched_insert().execute()
    assert (counts.updated, counts.inserted) == (2, 1)
    assert table.to_spark(where="id = 35").collect()[0].asDict() == {"id": 35, "v": 1, "w": "kept"}


def test_an_upsert_of_some_columns_reads_only_files_that_may_hold_its_keys(
    spark: SparkSession, table: Any, tmp_path: Path
) -> None:
    lose_all_but(table, tmp_path, 2)
    table.upsert(spark.range(20, 30).selectExpr("id", "7 as v"), engine="spark")
    found = table.to_spark(where="id = 23").collect()
    assert [(row.v, row.w) for row in found] == [(7, "kept")]


def test_the_number_of_files_read_depends_on_the_source_keys(spark: SparkSession, table: Any) -> None:
    state = table.state()

    def opened(source: Any, on: str = "t.id = s.id") -> int:
        near = build_values_predicate(source, find_equated_columns(state, source, MergePlan(on)))
        return len(plan_scan(state, near).scans)

    assert opened(spark.sql("select 5L as id union all select 45L")) == 2
    assert opened(spark.range(0)) == 0
    assert opened(spark.range(15, 200)) == 4, "of many keys the ends count"
    both = spark.range(-200, 5).union(spark.range(45, 200))
    assert opened(both) == 2, "and the largest gaps between integers"
    assert opened(both.selectExpr("cast(id as decimal(20,0)) as id")) == 2
    assert opened(spark.sql("select cast(null as bigint) as id")) == 0
    assert opened(spark.range(1), "abs(t.id) = s.id") == 5


def test_source_values_prune_only_if_their_types_are_comparable(spark: SparkSession) -> None:
    schema = parse_schema("n bigint, d decimal(10,2), s string, m timestamp, f double, day date")
    rows = spark.sql(
        "select 1 as n, 1.5BD as d, '01' as s, timestamp'2026-01-02 03:04:05Z' as m, 1.0D as f, date'2026-01-02' as day"
    )

    def near(ours: str, theirs: str) -> str:
        found = build_values_predicate(rows, [(schema.column(ours), theirs)])
        assert isinstance(found, AllOf | ConstantPredicate)
        return "all" if found == EVERYTHING else repr(found)

    assert "values=(1,)" in near("n", "n")
    assert "Decimal('1.50')" in near("d", "d")
    assert "Decimal('1.00')" in near("d", "n")
    assert "'01'" in near("s", "s")
    assert "2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc" in near("m", "m")
    assert "date(2026, 1, 2)" in near("day", "day")
    assert [near(*pair) for pair in (("f", "f"), ("s", "n"), ("n", "s"), ("m", "day"))] == ["all"] * 4
