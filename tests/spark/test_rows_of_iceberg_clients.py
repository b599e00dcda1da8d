"""Spark reads what Iceberg clients committed: their files, and rows that they hid by numbers and by values."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.iceberg.iceberg_client import Client

import mangrove

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_spark_and_arrow_read_the_same_rows_of_a_client(spark: SparkSession, tmp_path: Path, layout: str) -> None:
    assert spark is not None
    lake = mangrove.create(tmp_path / "lake", layout=layout)
    lake.create_namespace("shop")
    table = lake.create_table("shop.orders", "id bigint not null, part string not null", partition_by=["part"])
    client = Client(lake, "shop.orders")
    p = client.rows([{"id": one, "part": "p"} for one in range(5)], ["p"])
    q = client.rows([{"id": one, "part": "q"} for one in range(5, 9)], ["q"])
    client.commit([p, q])
    client.commit([client.numbers({p.address: [0, 1]}, ["p"]), client.keys([{"id": 8}], ["id"], ["q"])])
    table.append([{"id": 20, "part": "q"}])
    client.load()
    again = client.rows([{"id": 2, "part": "p"}, {"id": 30, "part": "p"}], ["p"])
    client.commit([again], removed=[p.address, *client.deletes_of(p.address)])
    rows = sorted(row.id for row in table.to_spark().collect())
    assert rows == client.ids() == client.seen_ids() == [2, 5, 6, 7, 20, 30]
    assert [row.id for row in table.to_spark(where="part = 'p'").orderBy("id").collect()] == [2, 30]
    table.compact(engine="spark")
    assert sorted(row.id for row in table.to_spark().collect()) == client.seen_ids() == rows
    assert lake.maintenance.check().problems == ()


def test_spark_reads_a_table_whose_first_files_have_no_partitions(spark: SparkSession, tmp_path: Path) -> None:
    assert spark is not None
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("shop")
    table = lake.create_table("shop.orders", "id bigint not null, part string")
    table.append([{"id": 1, "part": "p"}, {"id": 2, "part": "q"}])
    client = Client(lake, "shop.orders")
    by_part = {"spec-id": 1, "fields": [{"source-id": 2, "field-id": 1000, "transform": "identity", "name": "part"}]}
    client.send({"updates": [{"action": "add-spec", "spec": by_part}, {"action": "set-default-spec", "spec-id": -1}]})
    table.append([{"id": 3, "part": "p"}, {"id": 4, "part": "q"}])
    rows = spark.createDataFrame([(5, "p")], "id bigint, part string")
    table.append(rows)
    assert [row.id for row in table.to_spark(where="part = 'p'").orderBy("id").collect()] == [1, 3, 5]
    assert [row.id for row in table.to_spark().where("part = 'q'").orderBy("id").collect()] == [2, 4]
    table.compact(engine="spark", full=True)
    assert client.ids() == client.seen_ids() == [1, 2, 3, 4, 5]
    assert lake.maintenance.check().problems == ()


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
@pytest.mark.parametrize("keys", [[], ["id", "part"]])
def test_spark_reads_and_writes_a_table_whose_partitions_changed(
    spark: SparkSession, tmp_path: Path, layout: str, keys: list[str]
) -> None:
    lake = mangrove.create(tmp_path / "lake", layout=layout)
    lake.create_namespace("shop")
    columns = "id bigint not null, part string not null, day int"
    table = lake.create_table("shop.orders", columns, partition_by=["part"], keys=keys)
    table.append([{"id": 1, "part": "p", "day": 1}, {"id": 2, "part": "q", "day": 2}])
    table.delete("id = 2")
    client = Client(lake, "shop.orders")
    by_day = {"spec-id": 2, "fields": [{"source-id": 3, "field-id": 1001, "transform": "identity", "name": "day"}]}
    client.send({"updates": [{"action": "add-spec", "spec": by_day}, {"action": "set-default-spec", "spec-id": -1}]})
    table = lake.table("shop.orders")
    table.append(spark.createDataFrame([(3, "p", 1), (4, "q", 2)], "id bigint, part string, day int"))
    assert [row.id for row in table.to_spark(where="day = 1").orderBy("id").collect()] == [1, 3]
    assert [row.id for row in table.to_spark().where("part = 'p'").orderBy("id").collect()] == [1, 3]
    if keys:
        table.upsert(spark.createDataFrame([(1, "p", 7)], "id bigint, part string, day int"))
    else:
        lake.sql("update shop.orders set day = 7 where id = 1", engine="spark")
    lake.sql("delete from shop.orders where id = 4", engine="spark")
    assert sorted((row.id, row.day) for row in table.to_spark().collect()) == [(1, 7), (3, 1)]
    assert client.ids() == client.seen_ids() == [1, 3]
    table.compact(engine="spark", full=True)
    assert sorted((row.id, row.day) for row in table.to_spark().collect()) == [(1, 7), (3, 1)]
    assert len(table.scan(where="day = 7").files()) == 1
    assert lake.maintenance.check().problems == ()
