"""Compaction on Spark: merged and clustered by the executors, beside writers, in bounded pieces."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import mangrove
from mangrove.expressions.parse import bind_predicate
from mangrove.maintenance.progress import Progress
from mangrove.spark.compaction import compute_split_points, write_compacted_files
from mangrove.spark.engine import SparkEngine
from mangrove.spark.file_lists import FileLists
from mangrove.spark.write import write_natively
from mangrove.tables.compaction import CompactionBounds, plan_table_compaction
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import TableState
from mangrove.testing.table_model import apply_write

pytestmark = pytest.mark.interop


def engine_of(lake: Any, spark: SparkSession, file_size_bytes: int) -> SparkEngine:
    return SparkEngine(lake.effects.store, lake._new_id, session=spark, file_size_bytes=file_size_bytes)


def opened(state: TableState, where: str) -> int:
    return len(plan_scan(state, bind_predicate(where, state.schema)).files())


def test_a_key_is_looked_up_in_at_most_two_files_after_a_compaction(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint not null, v int", keys=["id"])
    table.append(spark.range(0, 3000, 1, 3).selectExpr("id * 7919 % 3000 as id", "1 as v"))
    table.upsert(spark.range(0, 3000, 100).selectExpr("id", "2 as v"))
    engine = engine_of(lake, spark, 6000)
    assert opened(table.state(), "id = 1517") >= 3
    state = apply_write(table.state(), engine.compact(table.state()))
    assert len(plan_scan(state).scans) >= 4
    assert all(opened(state, f"id = {wanted}") <= 2 for wanted in range(0, 3000, 101))
    totals = engine.read(state).selectExpr("count(*)", "sum(v)", "count(distinct id)").collect()[0]
    assert tuple(totals) == (3000, 3030, 3000)


def test_a_z_order_prunes_by_each_of_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "a bigint, b string", properties={"write.cluster-by": "a, b"})
    table.append(spark.range(4096).selectExpr("id div 64 as a", "format_string('%02d', id % 64) as b"))
    table.append(spark.sql("select cast(null as bigint) as a, '07' as b"))
    engine = engine_of(lake, spark, 4096 * 40 // 16)
    state = apply_write(table.state(), engine.compact(table.state(), CompactionBounds(is_full=True)))
    total = len(plan_scan(state).scans)
    assert total >= 16
    for where in ("a = 17", "b = '17'"):
        assert opened(state, where) <= total * 2 // 3


def test_bounded_work_and_late_writers_leave_every_row_once(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint not null, v int", keys=["id"])
    for number in range(5):
        table.upsert([{"id": key, "v": number} for key in range(number, number + 4)])
    engine = engine_of(lake, spark, 10**6)
    state = table.state()
    wanted = {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}
    compaction = engine.compact(state, CompactionBounds(files_max=3))
    state = apply_write(state, engine.upsert(state, spark.sql("select 0L as id, 9 as v")))
    state = apply_write(state, compaction)
    assert len(plan_scan(state).scans) == 4
    found = engine.read(state).collect()
    assert {row.id: row.v for row in found} == {**wanted, 0: 9}
    assert len(found) == len(wanted)


def test_a_lakehouse_compacts_on_spark_and_in_a_sort_order(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint, v int", sort_by=["v desc"])
    for number in range(3):
        table.append([{"id": number, "v": 5 - number}, {"id": 10 + number, "v": number}])
    before = lake.version
    group = spark.sparkContext.getLocalProperty("spark.jobGroup.id")
    seen: list[Progress] = []
    report = table.compact(engine="spark", watch=seen.append)
    assert (report.files_read, report.files_written, report.files_left) == (3, 1, 0)
    assert (seen[0].files_done, seen[-1].files_done, seen[-1].files_total) == (0, 3, 3)
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == group
    assert [row["v"] for row in table.to_arrow().to_pylist()] == [5, 4, 3, 2, 1, 0]
    assert len(list(table.deltas())) == 1
    assert len(lake.at(before).table("s.t").scan().files()) == 3


def test_a_compaction_into_one_file_reads_in_parallel(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    context: Any = spark.sparkContext._jsc.sc()
    for name, keys in (("keyed", ["id"]), ("plain", [])):
        table = lake.create_table(f"s.{name}", "id bigint not null", keys=keys)
        for number in range(4):
            table.append([{"id": number}, {"id": 10 - number}])
        context.listenerBus().waitUntilEmpty()
        before = context.statusStore().jobsList(None).size()
        assert table.compact(engine="spark").files_written == 1
        context.listenerBus().waitUntilEmpty()
        jobs = context.statusStore().jobsList(None)  # the newest ones first
        assert max(jobs.apply(place).numTasks() for place in range(jobs.size() - before)) > 1


@pytest.mark.parametrize(
    ("data_type", "value", "is_sampled"),
    [
        ("bigint", "id", True),
        ("string", "format_string('%04d', id)", True),
        ("timestamp", "timestamp_seconds(id * 86400)", True),
        ("decimal(10,2)", "id", False),
    ],
)
def test_ranges_of_one_column_are_found_without_reading_the_others(
    spark: SparkSession, tmp_path: Path, data_type: str, value: str, *, is_sampled: bool
) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", f"c {data_type}, other string", sort_by=["c desc"])
    table.append(spark.range(0, 400, 1, 2).selectExpr(f"cast({value} as {data_type}) as c", "'x' as other"))
    table.append(spark.sql(f"select cast(null as {data_type}) as c, 'null' as other"))
    state = table.state()
    (compaction,) = plan_table_compaction(state, 2000, CompactionBounds(is_full=True)).of_logs
    plans: list[str] = []

    def write(rows: DataFrame, _: TableState) -> list[Any]:
        plans.append(rows._jdf.queryExecution().executedPlan().toString())
        return [((), file) for file in write_natively(rows, state, lake.uri, lake._new_id, 4000)]

    lists = FileLists(spark, root_uri=lake.uri)
    files = write_compacted_files(lists, lake.uri, compaction, write, 2000)
    assert ("rangepartitioning" in plans[0]) != is_sampled
    assert len(files) > 2
    assert sum(file.row_count for file in files) == 401
    assert max(file.row_count for file in files) < 200


def test_split_points_leave_nothing_below_the_first() -> None:
    assert compute_split_points([None, None], 4) == []
    assert compute_split_points([1.0, float("nan"), 2.0], 2) == [2.0]
    assert compute_split_points([3] * 10, 4) == []
