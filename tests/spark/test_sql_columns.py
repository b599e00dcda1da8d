"""Where Spark cannot read a bucket itself, the workers that do read no columns that a statement does not need."""

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.s3_server import S3Server

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.spark.hadoop import has_filesystem_classes
from mangrove.sql.session import SqlSession

pytestmark = pytest.mark.interop

ROWS = 40
WIDE_BYTES = 150_000
"""So that the file is larger than those that are read whole."""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as started:
        yield started


@pytest.fixture(scope="module")
def lake(spark: SparkSession, server: S3Server) -> Lakehouse:
    """One table with a column so wide that nobody can read it unnoticed, and two that are like any."""
    uri = f"s3://{server.bucket}/lake"
    assert not has_filesystem_classes(spark, uri)
    lake = mangrove.create(uri, storage_options=server.options)
    lake.create_namespace("s")
    chance = random.Random(7)
    wide = lake.create_table("s.wide", "id bigint not null, wide string, name string, st struct<x: int, y: string>")
    wide.append(
        pa.table(
            {
                "id": list(range(ROWS)),
                "wide": [chance.randbytes(WIDE_BYTES).hex() for _ in range(ROWS)],
                "name": [f"n{number % 3}" for number in range(ROWS)],
                "st": [{"x": number, "y": "y"} for number in range(ROWS)],
            }
        )
    )
    small = lake.create_table("s.small", "id bigint not null, name string, other int")
    small.append(pa.table({"id": [1, 2, 3], "name": ["n1", "n2", None], "other": [1, 2, 3]}))
    lake.sql("CREATE VIEW s.seen AS SELECT * FROM s.wide WHERE id > 3")
    return lake


def sent_for(server: S3Server, session: SqlSession, query: str) -> int:
    """Return how many bytes a query makes the server send."""
    before = server.bytes_sent
    assert session.frame(session.run(query)).collect()
    return server.bytes_sent - before


def test_unreferenced_columns_are_not_read(lake: Lakehouse, server: S3Server) -> None:
    session = SqlSession(lake)
    unread = ROWS * WIDE_BYTES // 3
    assert sent_for(server, session, "SELECT sum(id), max(st.x) FROM s.wide WHERE name = 'n1'") < unread
    assert sent_for(server, session, "SELECT v.id FROM s.seen AS v JOIN s.small USING (name)") < unread
    assert sent_for(server, session, "SELECT max(length(wide)) FROM s.seen") > unread
    assert sent_for(server, session, "SELECT * FROM s.wide LIMIT 1") > unread


QUERIES = [
    "SELECT * EXCEPT (wide) FROM s.wide WHERE id < 3",
    "SELECT name, count(*) FROM s.seen GROUP BY ALL HAVING name <=> 'n1'",
    "SELECT id FROM s.small AS a WHERE EXISTS (SELECT * FROM s.wide AS b WHERE b.name = a.name)",
    "SELECT a.id FROM (SELECT id, name FROM s.small) AS a NATURAL JOIN s.small",
    "SELECT /*+ REPARTITION(2, other) */ id FROM s.small",
    "FROM s.wide |> WHERE id < 5 |> AGGREGATE max(st.x) AS most GROUP BY name",
]


@pytest.mark.parametrize("query", QUERIES)
def test_column_pruning_does_not_change_results(lake: Lakehouse, query: str) -> None:
    narrow, whole = SqlSession(lake), SqlSession(lake, prunes=False)
    found, expected = (sorted(map(repr, one.frame(one.run(query)).collect())) for one in (narrow, whole))
    assert found == expected
    assert found


def test_explain_lists_the_columns_read(lake: Lakehouse) -> None:
    (row,) = lake.sql("EXPLAIN SELECT name FROM s.small").collect()
    assert row.plan.endswith("s.small: 1 read, 0 skipped; columns name")


def test_a_cached_table_is_read_from_memory(lake: Lakehouse, server: S3Server) -> None:
    session = SqlSession(lake)
    session.run("CACHE TABLE s.wide")
    try:
        assert sent_for(server, session, "SELECT sum(id) FROM s.wide") < WIDE_BYTES
        assert "InMemoryRelation" in lake.sql("EXPLAIN EXTENDED SELECT sum(id) FROM s.wide").collect()[0][0]
    finally:
        session.run("UNCACHE TABLE s.wide")
