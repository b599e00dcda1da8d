"""The queries of TPC-H over our tables on Spark and on DuckDB, against plain Parquet files in the same Spark."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mangrove.sql.session import SqlSession

pytestmark = pytest.mark.interop

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "tpch.py"


def test_all_tpch_queries_have_the_same_results_as_on_plain_files(spark: SparkSession, tmp_path: Path) -> None:
    benchmark: dict[str, Any] = runpy.run_path(str(SCRIPT))
    benchmark["generate"](tmp_path / "files", 0.01)
    session = SqlSession(benchmark["loaded"](tmp_path / "files", tmp_path / "lake"))
    session.run("use tpch")
    on_duckdb = SqlSession(session.lake, engine="duckdb")
    on_duckdb.run("use tpch")
    for name in benchmark["TABLES"]:
        spark.read.parquet(str(tmp_path / "files" / f"{name}.parquet")).createOrReplaceTempView(f"plain_{name}")
    assert len(benchmark["QUERIES"]) == 22
    for number, query in enumerate(benchmark["QUERIES"], start=1):
        expected = [tuple(row) for row in spark.sql(benchmark["over_views"](query)).collect()]
        assert session.run(query).rows() == expected, f"query {number}"
        assert on_duckdb.run(query).rows() == expected, f"query {number} on DuckDB"
    for name in benchmark["TABLES"]:
        spark.catalog.dropTempView(f"plain_{name}")
