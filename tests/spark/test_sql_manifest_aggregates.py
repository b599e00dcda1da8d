"""Counts, minimums and maximums come from manifests, and are what the engine computes from the files."""

import datetime
import decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove import Lakehouse
from mangrove.duckdb.frame import DuckDbFrame
from mangrove.sql.session import SqlSession

COLUMNS = "id bigint, day int, ts timestamp, ntz timestamp_ntz, d decimal(9,2), b boolean, v double, name string, n int"
FROM_MANIFESTS = [
    "select count(*) from s.t",
    "select count(*) as rows, count(1), count(id), count(n) from s.t",
    "select min(id), max(id) as last, max(day), min(ts), max(ntz), min(d), max(b), max(n) from s.t",
    "select min(v), max(v) from s.t where day < 9",
    "select count(*), max(x.id) from s.t as x where x.day = 3",
    "select count(*) from s.t where day between 2 and 4 or day = 7",
    "select count(*), max(id) from s.t where day > 100",
    "select count(*) from s.t where id is null",
    "select count(*) from s.t where day = :day",
    "select MAX(`Id`) from s.t version as of 3",
]
FROM_FILES = [
    "select max(name) from s.t",
    "select min(v) from s.t",
    "select count(distinct day) from s.t",
    "select count(*) from s.t where id > 1",
    "select count(*) from s.t where day = 3 group by day",
    "select max(id + 1) from s.t",
    "select max(id) filter (where day = 1) from s.t",
    "select count(*) from s.t limit 1",
    "select count(*) over () from s.t",
    pytest.param("select count(*) from s.t where day = rand()", marks=pytest.mark.needs_spark),
    "select count(id, day) from s.t",
    "select count(null) from s.t",
    "select count(*) from s.t, s.t as u",
    "select max(day) from s.deleted",
]


# Aggregates are computed from manifests before an engine is called, so Spark need not repeat them in each layout.
EVERYWHERE = pytest.mark.parametrize(
    ("lake", "sql_engine"),
    [("tree", "duckdb"), ("deltacat", "duckdb"), pytest.param("tree", "spark", marks=pytest.mark.interop)],
    indirect=True,
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Lakehouse:
    """A table with ten days, one file each; the last day has NaN, and one file is older than the column n."""
    lake = mangrove.create(tmp_path_factory.mktemp("aggregates") / "lake", layout=request.param)
    lake.create_namespace("s")
    table = lake.create_table("s.t", COLUMNS.removesuffix(", n int"), partition_by=["day"])
    start = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    rows = [
        {
            "id": day * 10 + n,
            "day": day,
            "ts": start + datetime.timedelta(days=day, microseconds=n),
            "ntz": (start + datetime.timedelta(hours=day)).replace(tzinfo=None),
            "d": decimal.Decimal(day) / 4,
            "b": day == 3,
            "v": float("nan") if day == 9 else day + 0.5,
            "name": "x" * 40 + str(n),
        }
        for day in range(10)
        for n in range(3)
    ]
    table.append([*rows, {"day": 11}])
    table.update_schema().add_column("n", "int").commit()
    table.append([{"id": 1000, "day": 20, "n": 5, "v": 1.0}])
    deleted = lake.create_table("s.deleted", "id int, day int", keys=["id"])
    deleted.append([{"id": 1, "day": 1}, {"id": 2, "day": 9}])
    deleted.delete_keys([{"id": 2}])
    return lake


def opens_files(frame: Any) -> bool:
    if isinstance(frame, DuckDbFrame):
        return "read_parquet" in frame.relation.text
    return "FileScan" in frame._jdf.queryExecution().executedPlan().toString()


def types_of(frame: Any) -> object:
    return frame.schema if isinstance(frame, DuckDbFrame) else frame.dtypes


@EVERYWHERE
@pytest.mark.parametrize("text", FROM_MANIFESTS)
def test_an_aggregate_of_whole_files_opens_no_file(lake: Lakehouse, sql_engine: str, text: str) -> None:
    arguments = {"day": 3} if ":day" in text else None
    result = SqlSession(lake, engine=sql_engine).run(text, arguments)
    expected = SqlSession(lake, engine=sql_engine, prunes=False).run(text, arguments)
    assert result.scans == ()
    assert (opens_files(result.frame), opens_files(expected.frame)) == (False, True)
    assert result.rows() == expected.rows()
    assert types_of(result.frame) == types_of(expected.frame)


@EVERYWHERE
@pytest.mark.parametrize("text", FROM_FILES)
def test_every_other_aggregate_reads_the_files(lake: Lakehouse, sql_engine: str, text: str) -> None:
    result, expected = (SqlSession(lake, engine=sql_engine, prunes=prunes).run(text) for prunes in (True, False))
    assert result.frame is not None
    assert result.scans != ()
    assert repr(result.rows()) == repr(expected.rows())


@EVERYWHERE
def test_the_result_of_an_aggregate_can_be_inserted_and_explained(lake: Lakehouse, sql_engine: str) -> None:
    counts = "create or replace table s.counts as select count(*) as n, max(id) as last from s.t"
    lake.sql(counts, engine=sql_engine)
    assert lake.table("s.counts").to_arrow().to_pylist() == [{"n": 32, "last": 1000}]
    (plan,) = SqlSession(lake, engine=sql_engine).run("explain select count(*) from s.t").rows()[0]
    assert "none is read" in plan


@pytest.mark.interop
def test_statistics_of_spark_files_give_the_same_aggregates(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    lake.create_table("s.t", COLUMNS)
    lake.sql(
        "insert into s.t select id, cast(id % 7 as int), timestamp_micros(id * 1000003), "
        "timestamp_ntz '1960-01-01 00:00:00' + make_dt_interval(0, 0, 0, id), cast(id as decimal(9,2)) / 4, id > 5, "
        "double(id), string(id), if(id % 2 = 0, null, int(id)) from range(100)"
    )
    text = "select count(*), count(n), min(id), max(id), min(ts), max(ts), min(ntz), max(d), min(b), max(n) from s.t"
    result = SqlSession(lake).run(text)
    assert result.scans == ()
    assert result.rows() == SqlSession(lake, prunes=False).run(text).rows()
    assert spark.version
