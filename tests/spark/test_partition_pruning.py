"""Spark prunes the partitions of tables by filters, joins and subqueries, with its own Parquet reader."""

import datetime
import decimal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import mangrove
from mangrove import Lakehouse
from mangrove.lakehouse.table import Table
from mangrove.model.settings import LakehouseSettings
from mangrove.spark.file_lists import FileLists
from mangrove.spark.scan import run_scan
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import load_table_state
from mangrove.transaction.deltas import parse_table_target

pytestmark = pytest.mark.interop

DAYS = 10


def iterate_scans(plan: Any) -> Iterator[Any]:
    """Yield the file scans of an executed plan, also below adaptive stages."""
    kind = plan.getClass().getSimpleName()
    if kind == "FileSourceScanExec":
        yield plan
    elif kind == "AdaptiveSparkPlanExec":
        yield from iterate_scans(plan.executedPlan())
    elif kind.endswith("QueryStageExec"):
        yield from iterate_scans(plan.plan())
    children = plan.children()
    for place in range(children.size()):
        yield from iterate_scans(children.apply(place))


def count_opened_files(frame: DataFrame) -> int:
    """Run a query, and return the number of files that its scans opened."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    return sum(int(scan.metrics().apply("numFiles").value()) for scan in iterate_scans(plan))


def create_sales(folder: Path, layout: str = "tree", columns: str = "id bigint, day int, city string") -> Table:
    """Return a table with ten days, one file each; `s.dim` has one file with their names."""
    lake = mangrove.create(folder / "lake", layout=layout)
    lake.create_namespace("s")
    sales = lake.create_table("s.sales", columns, partition_by=["day"])
    sales.append([{"id": day * 10 + n, "day": day, "city": f"c{n}"} for day in range(DAYS) for n in range(3)])
    lake.create_table("s.dim", "day int, name string").append([{"day": n, "name": f"d{n}"} for n in range(DAYS)])
    return sales


@pytest.fixture(scope="module", params=["tree", "deltacat"])
def sales(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Table:
    assert spark is not None
    return create_sales(tmp_path_factory.mktemp("sales"), request.param)


@contextmanager
def set_conf(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set a setting of the session until the end of the block."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name) if before is None else spark.conf.set(name, before)


def lake_of(table: Table) -> Lakehouse:
    assert isinstance(table.catalog, Lakehouse)
    return table.catalog


def test_a_filter_on_a_frame_opens_only_the_files_of_its_partition(sales: Table) -> None:
    frame = sales.to_spark()
    assert frame.columns == ["id", "day", "city"]
    assert count_opened_files(frame) == DAYS
    rows = frame.where("day = 3")
    assert count_opened_files(rows) == 1
    assert sorted(row.id for row in rows.collect()) == [30, 31, 32]
    assert count_opened_files(sales.to_spark(columns=["id"]).where("id < 0")) == DAYS
    assert count_opened_files(sales.to_spark(columns=["city", "day"]).where("day > 7")) == 2


def test_joins_and_subqueries_open_only_the_files_of_matching_partitions(sales: Table) -> None:
    lake = lake_of(sales)
    dim = lake.table("s.dim").to_spark().where("name = 'd4'")
    joined = sales.to_spark().join(dim, "day")
    assert count_opened_files(joined) == 2, "one of each table"
    assert sorted(row.id for row in joined.collect()) == [40, 41, 42]
    lake.sql("create or replace view s.big as select id, day as d from s.sales where id >= 0")
    for text in (
        "select id from s.sales where day in (select day from s.dim where name = 'd4')",
        "select id from s.sales join s.dim using (day) where name = 'd4'",
        "select id from s.big join s.dim on d = day where name = 'd4'",
    ):
        assert count_opened_files(lake.sql(text)) == 2, text
        assert sorted(row.id for row in lake.sql(text).collect()) == [40, 41, 42]


@pytest.mark.parametrize("mode", ["keys", "position", "auto"])
def test_partitions_with_deleted_rows_are_pruned(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    table = lake.create_table(
        "s.t",
        "id bigint, day int, city string",
        keys=["id"] if mode == "position" else ["id", "day"],
        partition_by=["day"],
        properties={"write.delete-mode": mode},
    )
    table.append([{"id": day * 10 + n, "day": day} for day in range(DAYS) for n in range(3)])
    table.delete("id % 10 = 1")
    table.upsert([{"id": 42, "day": 4, "city": "new"}])
    frame = table.to_spark().where("day = 4")
    expected = table.to_arrow(where="day = 4").sort_by("id").to_pylist()
    assert sorted((row.asDict() for row in frame.collect()), key=lambda row: row["id"]) == expected
    assert expected == [{"id": 40, "day": 4, "city": None}, {"id": 42, "day": 4, "city": "new"}]
    scans = list(iterate_scans(frame._jdf.queryExecution().executedPlan()))
    opened = [int(scan.metrics().apply("numFiles").value()) for scan in scans]
    names = spark.createDataFrame([(4,)], "day int").hint("broadcast")
    assert sum(opened) < DAYS
    assert sorted(row.id for row in table.to_spark().join(names, "day").collect()) == [40, 42]


def test_null_and_special_values_are_read_as_they_were_written(spark: SparkSession, tmp_path: Path) -> None:
    assert spark is not None
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    texts = [
        None,
        "",
        "a",
        "007",
        "New York",
        "a=b",
        "a/b",
        "%41",
        "ü",
        "..",
        "__HIVE_DEFAULT_PARTITION__",
        "null",
        "-",
    ]
    table = lake.create_table("s.t", "id int, city string", partition_by=["city"])
    table.append([{"id": number, "city": text} for number, text in enumerate(texts)])
    frame = table.to_spark()
    assert {row.id: row.city for row in frame.collect()} == dict(enumerate(texts))
    for number, text in enumerate(texts):
        found = frame.where("city is null") if text is None else frame.where(frame.city == text)
        assert [row.id for row in found.collect()] == [number], text
    assert count_opened_files(frame.where("city = '007'")) <= 1 + sum(
        "city=" not in file.location for file in table.files()
    )


@pytest.mark.parametrize(
    ("data_type", "values", "literal"),
    [
        ("boolean", [True, False, None], "true"),
        ("smallint", [-1, 5, None], "-1"),
        ("bigint", [-(2**63), 2**63 - 1], "-9223372036854775808"),
        ("date", [datetime.date(2026, 1, 2), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)], "date '2026-01-02'"),
    ],
)
def test_partition_columns_of_each_type_prune(
    spark: SparkSession, tmp_path: Path, data_type: str, values: list[Any], literal: str
) -> None:
    assert spark is not None
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    table = lake.create_table("s.t", f"id int, p {data_type}", partition_by=["p"])
    table.append([{"id": number, "p": value} for number, value in enumerate(values)])
    frame = table.to_spark()
    assert {row.id: row.p for row in frame.collect()} == dict(enumerate(values))
    assert count_opened_files(frame.where(f"p = {literal}")) == 1
    assert [row.id for row in frame.where(f"p = {literal}").collect()] == [0]


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        ("timestamp", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
        ("decimal(5,2)", decimal.Decimal("1.50")),
        ("double", 1.5),
        ("binary", b"x"),
        ("char(3)", "a"),
    ],
)
def test_partition_columns_of_other_types_are_read_from_the_files(
    spark: SparkSession, tmp_path: Path, data_type: str, value: Any
) -> None:
    assert spark is not None
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    table = lake.create_table("s.t", f"id int, p {data_type}", partition_by=["p"])
    table.append([{"id": 1, "p": value}])
    assert table.to_spark().where("p is not null").toArrow().to_pylist() == table.to_arrow().to_pylist()
    assert all("p=" not in file.location for file in table.files())


def test_renamed_widened_and_reused_columns_are_read_right(spark: SparkSession, tmp_path: Path) -> None:
    assert spark is not None
    sales = create_sales(tmp_path)
    sales.update_schema().rename_column("day", "d").commit()
    sales.update_schema().widen("d", "bigint").commit()
    sales.append([{"id": 35, "d": 3, "city": "new"}])
    frame = sales.to_spark()
    assert frame.columns == ["id", "d", "city"]
    assert dict(frame.dtypes)["d"] == "bigint"
    assert count_opened_files(frame.where("d = 3")) == 2
    assert sorted(row.id for row in frame.where("d = 3").collect()) == [30, 31, 32, 35]
    sales.update_schema().add_column("day", "int").commit()
    sales.append([{"id": 99, "d": 9, "day": 3}])
    frame = sales.to_spark()
    assert [row.id for row in frame.where("day = 3").collect()] == [99]
    assert sorted(row.id for row in frame.where("d = 3").collect()) == [30, 31, 32, 35]


def test_files_outside_of_partition_folders_are_read_too(spark: SparkSession, tmp_path: Path) -> None:
    """Files of earlier releases have no folders."""
    assert spark is not None
    lake = mangrove.create(tmp_path / "lake", settings=LakehouseSettings(file_path_max_size_bytes=100))
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id int, city string", partition_by=["city"])
    table.append([{"id": 1, "city": "a" * 40}, {"id": 2, "city": "b"}, {"id": 3, "city": "c"}])
    assert sorted("city=" in file.location for file in table.files()) == [False, True, True]
    frame = table.to_spark()
    assert {row.id: row.city for row in frame.collect()} == {1: "a" * 40, 2: "b", 3: "c"}
    assert count_opened_files(frame.where("city = 'b'")) == 2


def test_a_filter_on_the_source_of_a_hidden_partition_prunes(spark: SparkSession, tmp_path: Path) -> None:
    assert spark is not None
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    table = lake.create_table(
        "s.t", "id bigint, ts timestamp, name string", partition_by=["days(ts)", "bucket(4, id)", "truncate(1, name)"]
    )
    start = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    table.append([{"id": n, "ts": start + datetime.timedelta(days=n), "name": f"{n}x"} for n in range(DAYS)])
    for condition in ("ts = '2026-01-04 12:00:00'", "id = 3", "name = '3x'", "cast(ts as date) = '2026-01-04'"):
        assert count_opened_files(lake.sql(f"select * from s.t where {condition}")) == 1, condition
    where = "ts >= timestamp '2026-01-04 00:00:00' and ts < timestamp '2026-01-05 00:00:00'"
    assert count_opened_files(lake.sql(f"select * from s.t where {where}")) == 1
    assert count_opened_files(table.to_spark(where=where)) == 1
    assert count_opened_files(table.scan(where=where).to_spark()) == 1


def test_estimated_sizes_are_those_of_the_remaining_files(sales: Table, spark: SparkSession) -> None:
    lake = lake_of(sales)
    sizes = {file.location: file.size_bytes for file in sales.files()}
    of_day = sum(size for location, size in sizes.items() if "/day=3/" in location)
    for frame, expected in (
        (sales.to_spark(), sum(sizes.values())),
        (sales.to_spark(where="day = 3"), of_day),
        (lake.sql("select * from s.sales where day = 3"), of_day),
    ):
        assert frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes() == expected
    join = "select count(*) from s.sales a join s.sales b using (id)"
    with set_conf(spark, "spark.sql.autoBroadcastJoinThreshold", str(of_day)):
        plans = [
            lake.sql(text)._jdf.queryExecution().executedPlan().toString() for text in (join, f"{join} where a.day = 3")
        ]
    assert ["BroadcastHashJoin" in plan for plan in plans] == [False, True]


def test_bloom_filters_are_added_at_run_time(sales: Table, spark: SparkSession) -> None:
    lake = lake_of(sales)
    lake.sql("create or replace table s.names as select id, city as name from s.sales")
    text = "select day from s.sales join s.names using (id) where name = 'c1'"
    with (
        set_conf(spark, "spark.sql.autoBroadcastJoinThreshold", "-1"),
        set_conf(spark, "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold", "0"),
    ):
        frame = lake.sql(text)
        assert "might_contain" in frame._jdf.queryExecution().optimizedPlan().toString()
        assert sorted(row.day for row in frame.collect()) == list(range(DAYS))


def test_columns_keep_their_order_with_the_second_version_of_sparks_reader(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    table = lake.create_table(
        "s.t", "a int, p int, b int", partition_by=["p"], properties={"write.inline-rows-max-bytes": "0"}
    )
    table.append([{"a": 1, "p": 2, "b": 3}])
    spark.conf.set("spark.sql.sources.useV1SourceList", "")
    try:
        lists = FileLists(spark, root_uri=f"{(tmp_path / 'lake').as_uri()}/")
        state = load_table_state(lake.metastore.latest(), parse_table_target("s.t"))
        rows = run_scan(lists, lists.root_uri, state, plan_scan(state), state.schema.columns)
        assert [tuple(row) for row in rows.collect()] == [(1, 2, 3)]
    finally:
        spark.conf.unset("spark.sql.sources.useV1SourceList")
