"""Tables with nanosecond timestamps on Spark, which has no such type: other columns are read, nothing is rounded."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import mangrove
from mangrove import InvalidInputError, Lakehouse

pytestmark = pytest.mark.interop

NANOS = 1_700_000_000_123_456_789


@pytest.fixture(params=["0", "100000"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Lakehouse:
    """Make a table of files or of inline rows, with an upsert."""
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    table = lake.create_table(
        "s.t",
        "at timestamp_ns, id int not null, name string, spans array<timestamptz_ns>",
        keys=["id"],
        properties={"write.inline-rows-max-bytes": request.param},
    )
    for names in ("ab", "cb"):
        table.upsert(
            pa.table(
                {
                    "at": pa.array([NANOS, NANOS + 1], pa.timestamp("ns")),
                    "id": pa.array([ord(name) for name in names], pa.int32()),
                    "name": pa.array(list(names)),
                    "spans": pa.array([[NANOS]] * 2, pa.list_(pa.timestamp("ns", "UTC"))),
                }
            )
        )
    return lake


def test_other_columns_are_read_filtered_and_counted(lake: Lakehouse) -> None:
    table = lake.table("s.t")
    assert sorted(row.name for row in table.to_spark(["id", "name"]).collect()) == ["a", "b", "c"]
    assert [row.id for row in table.to_spark(["id"], "name = 'b'").collect()] == [ord("b")]
    rows = lake.sql("select name, count(*) as n from s.t where id > 97 group by name order by name", engine="spark")
    assert [tuple(row) for row in rows.collect()] == [("b", 1), ("c", 1)]
    assert lake.sql("select count(*) from s.t", engine="spark").collect()[0][0] == 3


@pytest.mark.parametrize(
    "text",
    ["select * from s.t", "select at from s.t", "select id from s.t where at > '2020-01-01'", "select spans from s.t"],
)
def test_a_query_of_a_nanosecond_column_is_refused_with_what_to_do(lake: Lakehouse, text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"nanosecond timestamps in .*engine='duckdb'"):
        lake.sql(text, engine="spark").collect()


def test_frames_and_writes_with_a_nanosecond_column_are_refused(lake: Lakehouse, spark: SparkSession) -> None:
    table = lake.table("s.t")
    with pytest.raises(InvalidInputError, match="nanosecond timestamps in at, spans"):
        table.to_spark()
    with pytest.raises(InvalidInputError, match="nanosecond timestamps in at"):
        table.to_spark(["id"], "at > '2020-01-01'")
    before = lake.version
    frame = spark.createDataFrame([(1, "x")], "id int, name string")
    for write in (
        lambda: table.append(frame),
        lambda: table.update({"name": "y"}, "id = 97", engine="spark"),
        lambda: table.compact(full=True, engine="spark"),
    ):
        with pytest.raises(InvalidInputError, match="which Spark does not have"):
            write()
    assert lake.version == before
    table.compact(full=True)
    read = table.to_arrow().sort_by("id")
    assert read["at"].cast(pa.int64()).to_pylist() == [NANOS, NANOS + 1, NANOS]


def test_the_data_source_reads_other_columns(lake: Lakehouse, spark: SparkSession) -> None:
    source = spark.read.format("mangrove").options(lake=lake.uri)
    assert sorted(row.id for row in source.options(columns="id").load("s.t").collect()) == [97, 98, 99]
    with pytest.raises(PySparkException, match="which Spark does not have"):
        source.options(columns="at").load("s.t").collect()
