"""Spark's errors about tables that only the lakehouse has say what to write instead."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import mangrove

pytestmark = pytest.mark.interop

CALLS: dict[str, Callable[[SparkSession], object]] = {
    "table": lambda spark: spark.table("shop.orders"),
    "sql": lambda spark: spark.sql("select * from shop.orders"),
    "insert": lambda spark: spark.sql("insert into shop.orders values (1)"),
    "writeTo append": lambda spark: spark.range(1).writeTo("shop.orders").append(),
    "writeTo create": lambda spark: spark.range(1).writeTo("shop.orders").create(),
    "saveAsTable": lambda spark: spark.range(1).write.saveAsTable("shop.orders"),
    "insertInto": lambda spark: spark.range(1).write.insertInto("shop.orders"),
}


@pytest.fixture
def lake(tmp_path: Path) -> mangrove.Lakehouse:
    made = mangrove.create(tmp_path / "lake")
    made.create_namespace("shop")
    made.create_table("shop.orders", "id bigint")
    return made


@pytest.fixture
def session(spark: SparkSession, lake: mangrove.Lakehouse) -> SparkSession:
    found: SparkSession = lake.spark()
    assert found is spark
    return found


@pytest.mark.parametrize("call", CALLS)
def test_an_error_about_a_lakehouse_table_suggests_the_correct_call(
    lake: mangrove.Lakehouse, session: SparkSession, call: str
) -> None:
    with pytest.raises(AnalysisException) as raised:
        CALLS[call](session)
    (note,) = raised.value.__notes__
    assert f"The lakehouse at {lake.uri}" in note
    assert "lake.table('shop." in note
    assert "docs/how-to/spark.md" in note


def test_other_errors_of_spark_are_unchanged(session: SparkSession) -> None:
    for text in ("select * from elsewhere.orders", "select nosuch", "selec 1", "select * from orders"):
        with pytest.raises(AnalysisException) as raised:
            session.sql(text)
        assert not getattr(raised.value, "__notes__", [])
    assert session.sql("select 1 as one").collect()[0].one == 1


def test_requesting_the_session_twice_adds_one_note(lake: mangrove.Lakehouse, session: SparkSession) -> None:
    assert lake.spark() is lake.spark() is session
    with pytest.raises(AnalysisException) as raised:
        session.range(1).writeTo("shop.orders").append()
    assert len(raised.value.__notes__) == 1
