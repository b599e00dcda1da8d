"""A lakehouse and its tables are used inside of functions that Spark's workers run."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mangrove

pytestmark = pytest.mark.interop


def test_a_table_and_a_snapshot_in_a_closure_are_opened_by_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("shop")
    table = lake.create_table("shop.orders", "id bigint not null", keys=["id"])
    table.append([{"id": 1}, {"id": 2}])
    past = lake.at(lake.version)

    def count(rows: Iterable[int]) -> Iterator[tuple[int, int]]:
        for number in rows:
            table.append([{"id": number}])
            yield past.version, past.table("shop.orders").to_arrow().num_rows

    assert spark.sparkContext.parallelize([10, 11], 2).mapPartitions(count).collect() == [(past.version, 2)] * 2
    assert sorted(table.to_arrow()["id"].to_numpy().tolist()) == [1, 2, 10, 11]
