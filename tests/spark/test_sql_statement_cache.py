"""Statements share frames and their names, and still see what they should."""

import gc
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove import Lakehouse, NotFoundError
from mangrove.spark.statements import SessionNames
from mangrove.sql.session import SqlSession

pytestmark = pytest.mark.interop

QUERY = "select count(*) from s.t join s.t as u using (id) where id > 0"


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lakehouse:
    """One table with two rows."""
    assert spark is not None
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    lake.create_table("s.t", "id bigint, name string").append([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    return lake


def global_names(spark: SparkSession) -> set[str]:
    """Return the names that frames of ours have now."""
    return {row.viewName for row in spark.sql("show views in global_temp").collect()}


def counted(lake: Lakehouse, text: str) -> int:
    """Return the only value of a query."""
    return int(lake.sql(text).collect()[0][0])


def test_a_repeated_query_registers_no_new_views_and_none_are_listed(spark: SparkSession, lake: Lakehouse) -> None:
    seen = {table.name for table in spark.catalog.listTables()}
    before = global_names(spark)
    assert counted(lake, QUERY) == 2
    first = global_names(spark) - before
    assert len(first) == 1
    assert counted(lake, QUERY) == 2
    assert SqlSession(lake).run(QUERY).rows() == [(2,)]
    lake.create_table("s.other", "id bigint")
    assert counted(lake, QUERY) == 2, "in a later version, in which the table is the same"
    assert global_names(spark) - before == first
    assert {table.name for table in spark.catalog.listTables()} == seen


def test_other_values_in_the_same_files_give_no_new_names(spark: SparkSession, lake: Lakehouse) -> None:
    lake.table("s.t").append([{"id": 11, "name": "k"}, {"id": 12, "name": "l"}])
    before = global_names(spark)
    for condition, found in (("id = 1", 1), ("id = 2", 1), ("id in (1, 2)", 2), ("name < 'b'", 1)):
        assert counted(lake, f"select count(*) from s.t where {condition}") == found
    assert len(global_names(spark) - before) == 1
    for condition, found in (("id = 11", 1), ("id = 12", 1), ("id in (2, 11)", 2), ("true", 4)):
        assert counted(lake, f"select count(*) from s.t where {condition}") == found
    assert len(global_names(spark) - before) == 3, "one for each file, and one for both"


def test_rows_deleted_by_newer_keys_stay_deleted_under_any_predicate(spark: SparkSession, lake: Lakehouse) -> None:
    assert spark is not None
    table = lake.create_table("s.keyed", "id bigint not null, name string", keys=["id"])
    table.append([{"id": number, "name": "old"} for number in range(4)])
    table.upsert([{"id": 1, "name": "new"}])
    table.delete_keys([{"id": 3}])
    for condition, found in (("id = 1", ["new"]), ("id = 3", []), ("id in (0, 2)", ["old"] * 2), ("id < 9", 3)):
        rows = [row.name for row in lake.sql(f"select name from s.keyed where {condition}").collect()]
        assert rows == found or len(rows) == found


def test_cached_statements_read_new_rows_and_changed_names(spark: SparkSession, lake: Lakehouse) -> None:
    session, other = SqlSession(lake), SqlSession(lake)
    assert session.run(QUERY).rows() == other.run(QUERY).rows() == [(2,)]
    before = lake.version
    session.run("begin")
    session.run("insert into s.t values (3, 'c')")
    assert session.run(QUERY).rows() == [(3,)]
    assert other.run(QUERY).rows() == [(2,)]
    session.run("rollback")
    assert session.run(QUERY).rows() == [(2,)]
    lake.table("s.t").append([{"id": 4, "name": "d"}])
    assert [counted(lake, QUERY), counted(lake, f"select count(*) from s.t version as of {before}")] == [3, 2]
    lake.sql("alter table s.t rename to s.old")
    with pytest.raises(NotFoundError):
        other.run(QUERY)
    lake.sql("create table s.t (id bigint)")
    assert other.run(QUERY).rows() == [(0,)]
    session.run("use s")
    assert session.run("select count(*) from old").rows() == [(3,)]
    spark.range(7).createOrReplaceTempView("old")
    assert session.run("select count(*) from old").rows() == [(7,)]
    spark.catalog.dropTempView("old")
    assert session.run("select count(*) from old").rows() == [(3,)]


def test_unused_views_are_dropped_in_lru_order(spark: SparkSession) -> None:
    before = global_names(spark)
    names = SessionNames(spark, names_max=2)
    one, two, three = (spark.range(number) for number in (1, 2, 3))
    with names.named([one, two, three, one]) as called:
        assert called[0] == called[3]
        assert len(global_names(spark) - before) == 3
        reading = spark.sql(f"select * from {called[1]}")
    # The first was used last; the second is the oldest, and what reads it goes on.
    left = {name.split(".")[1] for name in (called[0], called[2])}
    assert global_names(spark) - before == left
    assert reading.count() == 2
    with names.named([two]) as again:
        assert spark.table(again[0]).count() == 2


def test_views_are_dropped_with_their_owner(spark: SparkSession) -> None:
    before = global_names(spark)
    names = SessionNames(spark)
    with names.named([spark.range(1)]):
        assert len(global_names(spark) - before) == 1
    del names
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "mangrove names":
            thread.join()
    assert not global_names(spark) - before
