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
