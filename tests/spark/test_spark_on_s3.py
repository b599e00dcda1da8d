"""Spark on a lakehouse in a bucket, without any JAR: Python workers read and write through our own store."""

import uuid
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.support.servers import RealServer, run_seaweedfs

import mangrove
from mangrove.spark.hadoop import has_filesystem_classes

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with run_seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


def test_rows_are_written_upserted_compacted_and_read_in_a_bucket(spark: SparkSession, server: RealServer) -> None:
    assert not has_filesystem_classes(spark, server.uri)
    lake = mangrove.create(f"{server.uri}{uuid.uuid4()}", storage_options=server.options)
    lake.create_namespace("s")
    schema = "id bigint not null, name string, ts timestamp, st struct<a: int>, l array<int>"
    table = lake.create_table("s.t", schema, keys=["id"])
    table.append(
        spark.range(0, 100, 1, 2).selectExpr(
            "id",
            "concat('n', id) as name",
            "timestamp_seconds(id) as ts",
            "struct(int(id) as a) as st",
            "array(1) as l",
        )
    )
    table.upsert(spark.sql("select 7L as id, 'new' as name union all select 200L, 'more'"))
    table.update_schema().rename_column("name", "title").commit()
    assert table.to_spark().count() == 101
    (row,) = table.to_spark(["title", "st"], "id = 200").collect()
    assert tuple(row) == ("more", None)
    (other,) = table.to_spark(["title", "st", "l"], "id = 8").collect()
    assert (other.title, other.st.a, other.l) == ("n8", 8, [1])
    wanted = sorted(table.to_arrow(["id", "title"]).to_pylist(), key=lambda found: found["id"])
    table.compact(engine="spark")
    assert len(list(table.deltas())) == 1
    found = table.to_spark(["id", "title"]).orderBy("id").toArrow().to_pylist()
    assert found == wanted


def test_only_the_requested_columns_are_read(spark: SparkSession, server: RealServer) -> None:
    lake = mangrove.create(f"{server.uri}{uuid.uuid4()}", storage_options=server.options)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint, wide string, other string")
    table.append([{"id": 1, "wide": "x" * 1000, "other": "y"}])
    plan = table.to_spark(["id"], "other = 'y'").where("id = 1")._jdf.queryExecution().optimizedPlan().toString()
    assert "wide" not in plan
    assert table.to_spark([], "other = 'y'").count() == 1
