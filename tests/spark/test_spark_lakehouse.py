"""Spark on a whole lakehouse: frames go in and come out, in transactions and in the past."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mangrove

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_frames_are_written_and_read_with_many_tables_in_one_transaction(
    spark: SparkSession, tmp_path: Path, layout: str
) -> None:
    lake = mangrove.create(tmp_path / "a lake", layout=layout)
    lake.create_namespace("sales")
    frame = spark.sql("select id as order_id, cast(id / 2 as decimal(10,2)) as amount from range(10)")
    orders = lake.create_table("sales.orders", frame.schema, keys=["order_id"], partition_by=["bucket(2, order_id)"])
    ledger = lake.create_table("sales.ledger", "order_id bigint, amount decimal(10,2)")
    with lake.transaction() as transaction:
        transaction.table("sales.orders").append(frame)
        transaction.table("sales.ledger").append(frame.where("order_id < 3"))
        assert transaction.table("sales.orders").to_spark().count() == 10
        assert orders.to_spark().count() == 0
    before = lake.version
    orders.upsert(frame.where("order_id >= 8").selectExpr("order_id + 1 as order_id", "amount + 100 as amount"))
    orders.delete_keys(spark.sql("select 0L as order_id"))
    orders.update_schema().rename_column("amount", "price").commit()
    rows = orders.to_spark(where="price > 100 or order_id < 2").orderBy("order_id").collect()
    assert [(row.order_id, int(row.price)) for row in rows] == [(1, 0), (9, 104), (10, 104)]
    assert orders.to_arrow().num_rows == 10
    assert lake.at(before).table("sales.orders").to_spark().selectExpr("sum(order_id)").collect()[0][0] == 45
    lake.maintenance.compact("sales.orders")
    joined = orders.to_spark().join(ledger.to_spark(), "order_id")
    assert sorted(row.order_id for row in joined.collect()) == [1, 2]
