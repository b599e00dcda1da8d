"""On Spark, a MERGE by the keys that sets all columns is an upsert: it does not read the table."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove import InvalidInputError, Lakehouse
from mangrove.lakehouse.table import Table
from mangrove.sql.session import SqlSession
from mangrove.tables.write_plan import RowCounts

pytestmark = pytest.mark.interop

UPSERTED = RowCounts(None, None, 0, upserted=2)
UPSERTS = {
    "all columns": "t using src s on t.id = s.id when matched then update set * when not matched then insert *",
    "columns listed": "as a using src on src.ID = a.id when matched then update set a.v = src.v, id = src.id "
    "when not matched then insert (v, id) values (v, id)",
    "insert by position": "t using src s on s.id = t.id when not matched then insert values (s.id, s.v) "
    "when matched then update set v = s.v",
    "cast in the source": "t using (select cast(id as bigint) as id, cast(v as bigint) as v from src) s on t.id = s.id "
    "when matched then update set * when not matched then insert *",
}


@pytest.fixture(params=["tree", "deltacat"])
def lake(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Lakehouse:
    spark.createDataFrame([(2, 20), (3, 30)], "id int, v int").createOrReplaceTempView("src")
    lake = mangrove.create(tmp_path, layout=request.param)
    lake.create_namespace("s")
    return lake


@pytest.fixture
def table(lake: Lakehouse) -> Table:
    table = lake.create_table("s.t", "id bigint not null, v int", keys=["id"])
    table.append([{"id": number, "v": number} for number in (1, 2)])
    return table


@pytest.mark.parametrize("name", UPSERTS)
def test_a_merge_statement_that_sets_all_columns_by_key_reads_no_rows(
    lake: Lakehouse, table: Table, tmp_path: Path, name: str
) -> None:
    (file,) = table.scan().files()
    (tmp_path / file.location).rename(tmp_path / "away")
    result = SqlSession(lake).run(f"merge into s.t {UPSERTS[name]}")
    assert result.counts == UPSERTED
    assert result.rows() == [(None, None, 0, 2)]
    (tmp_path / "away").rename(tmp_path / file.location)
    assert sorted(tuple(row.values()) for row in table.to_arrow().to_pylist()) == [(1, 1), (2, 20), (3, 30)]


def test_the_merge_builder_on_spark_casts_and_upserts_a_frame(spark: SparkSession, table: Table) -> None:
    merge = table.merge(spark.table("src").selectExpr("id", "cast(v as double) as v"), "t.id = s.id")
    assert merge.when_matched_update().when_not_matched_insert().execute() == UPSERTED
    too_large = table.merge(spark.sql("select 1 as id, 1e300 as v"), "t.id = s.id")
    with pytest.raises(InvalidInputError):
        too_large.when_matched_update().when_not_matched_insert().execute()
    assert set(table.to_arrow()["v"].to_pylist()) == {1, 20, 30}


@pytest.mark.parametrize("fault", ["select 3 as id, 31 as v", "select null as id, 1 as v"])
def test_duplicate_and_null_keys_of_the_source_are_errors(lake: Lakehouse, table: Table, fault: str) -> None:
    with pytest.raises(InvalidInputError, match=r"more than once|not null"):
        SqlSession(lake).run(
            f"merge into s.t {UPSERTS['all columns'].replace('src', f'(table src union all {fault})')}"
        )
    assert table.to_arrow().num_rows == 2


def test_string_keys_that_are_compared_with_numbers_are_joined(lake: Lakehouse) -> None:
    session = SqlSession(lake)
    session.run("create table s.u (id string not null, v int, primary key (id))")
    session.run("insert into s.u values ('02', 2)")
    merge = "merge into s.u t using src s on t.id = s.id when matched then update set v = s.v "
    assert session.run(f"{merge} when not matched then insert *").counts == RowCounts(1, 1, 0)
    assert session.run("select id, v from s.u order by id").rows() == [("02", 20), ("3", 30)]
