"""Times before the year 1 and after 9999 on Spark: rows with them are found, changed and laid out like others."""

import datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import mangrove
from mangrove import InvalidInputError, Lakehouse, expr
from mangrove.lakehouse.table import Table
from mangrove.spark.session import LOCAL_SETTINGS
from mangrove.sql.session import SqlSession
from mangrove.tables.write_plan import RowCounts

pytestmark = pytest.mark.interop

DAYS = {1: "1970-01-01", 2: "+10000-01-01", 3: "-0001-01-01", 4: "+20000-06-30"}


@pytest.fixture
def lake(tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    return lake


def far_rows(spark: SparkSession, numbers: list[int], more: int = 0) -> DataFrame:
    rows = [
        f"select {number + more} as id, date'{DAYS[number]}' as d, timestamp'{DAYS[number]} 12:00:00' as t"
        for number in numbers
    ]
    return spark.sql(" union all ".join(rows))


def ids(table: Table, where: str | None = None) -> list[int]:
    return sorted(table.to_arrow(["id"], where)["id"].to_numpy().tolist())


def test_rows_with_far_keys_are_upserted_updated_merged_and_deleted(spark: SparkSession, lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "id int, d date not null, t timestamp", keys=["d"])
    table.append(far_rows(spark, [1, 2, 3]))
    table.upsert(far_rows(spark, [2, 4], more=10))
    assert ids(table) == [1, 3, 12, 14]
    assert table.update({"id": expr("id + 100")}, "d > date'9999-12-31'", engine="spark") == RowCounts(updated=2)
    merge = table.merge(far_rows(spark, [3, 4], more=20), "t.d = s.d").when_matched_update()
    assert merge.execute() == RowCounts(updated=2)
    assert ids(table) == [1, 23, 24, 112]
    table.delete_keys(far_rows(spark, [2, 3]).select("d"))
    assert ids(table, "d < date '2000-01-01'") == [1]
    assert ids(table) == [1, 24]


def test_errors_print_far_keys(spark: SparkSession, lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "id int, d date not null, t timestamp", keys=["d"])
    table.append(far_rows(spark, [1, 2]))
    version = lake.version
    with pytest.raises(InvalidInputError, match="10000-01-01"):
        table.upsert(far_rows(spark, [2, 2]))
    with pytest.raises(InvalidInputError, match="10000-01-01"):
        table.update({"d": expr("date'+10000-01-01'")}, "true", engine="spark")
    with pytest.raises(InvalidInputError, match="10000-01-01"):
        table.merge(far_rows(spark, [2, 2]), "t.d = s.d").when_matched_update({"id": expr("s.id + 1")}).execute()
    with pytest.raises(InvalidInputError, match="20000-06-30"):
        table.overwrite(far_rows(spark, [4]), where="id < 3", engine="spark")
    with pytest.raises(InvalidInputError, match="outside the years 1 to 9999"):
        lake.create_table("s.days", "id int, d date, t timestamp", partition_by=["d"]).append(far_rows(spark, [2]))
    assert lake.at(version).table("s.t").to_arrow().num_rows == table.to_arrow().num_rows == 2


def test_far_times_are_compacted_by_several_columns_and_no_row_is_lost(spark: SparkSession, lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "id int, d date, t timestamp", properties={"write.cluster-by": "d, t"})
    for number in DAYS:
        table.append(far_rows(spark, [number]))
    assert table.compact(engine="spark", full=True).files_read == len(DAYS)
    assert ids(table) == [1, 2, 3, 4]
    assert ids(table, "t > timestamp '9999-12-31 00:00:00'") == [2, 4]


def test_the_error_for_a_result_with_a_far_time_names_a_remedy(spark: SparkSession, lake: Lakehouse) -> None:
    lake.create_table("s.t", "id int, d date, t timestamp").append(far_rows(spark, [1, 2]))
    session = SqlSession(lake)
    for text in ("select d from s.t", "select t from s.t"):
        with pytest.raises(InvalidInputError, match=r"^line 1: .*outside the years 1 to 9999.*CAST"):
            session.run(text).rows()
        with pytest.raises(InvalidInputError, match=r"^line 1: .*outside the years 1 to 9999.*CAST"):
            list(session.run(text).each_row(10))
    found = session.run("select id, cast(d as string) from s.t order by id").rows()
    assert found == [(1, "1970-01-01"), (2, "+10000-01-01")]
    session.close()


def test_days_that_the_gregorian_calendar_skipped_are_found(spark: SparkSession, lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "id int, d date", properties={"write.inline-rows-max-bytes": "0"})
    table.append([{"id": 1, "d": datetime.date(1582, 10, 10)}, {"id": 2, "d": datetime.date(1582, 10, 20)}])
    setting = "spark.sql.datetime.java8API.enabled"
    before = spark.conf.get(setting, "false")
    spark.conf.set(setting, LOCAL_SETTINGS[setting])
    try:
        assert table.to_spark().where("d = date'1582-10-10'").count() == 1
        assert table.delete(expr("d = date'1582-10-10' and length(string(id)) > 0"), engine="spark").deleted == 1
    finally:
        spark.conf.set(setting, before or "false")
    assert ids(table) == [2]
