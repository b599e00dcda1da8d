"""A stream is written into a table: each batch in one version, and each batch once, whatever crashes in between."""

import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.spark.conftest import SHORT_LIVED

import mangrove
from mangrove.errors import ConflictError, InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.spark.data_source import MangroveSource
from mangrove.spark.data_source_writer import StreamTableWriter, TableWriter, WrittenFiles
from mangrove.spark.registration import attach, register

ROWS = StructType([StructField("id", LongType()), StructField("name", StringType())])


class Sink:
    """Writes batches in the order in which Spark does: tasks first, then the commit by another writer."""

    def __init__(self, lake: Lakehouse, folder: Path, **options: str) -> None:
        self.lake = lake
        self.checkpoint = folder
        self.options = {"lake": lake.uri, "path": "s.t", "checkpointLocation": folder.as_uri(), **options}

    def new_checkpoint(self, query_id: str) -> None:
        self.checkpoint.mkdir(exist_ok=True)
        (self.checkpoint / "metadata").write_text(json.dumps({"id": query_id}), "utf-8")

    def source(self) -> MangroveSource:
        return MangroveSource(CaseInsensitiveDict(self.options))

    def written(self, *tasks: list[int], name: str = "x") -> list[WrittenFiles]:
        writer: StreamTableWriter = pickle.loads(pickle.dumps(self.source().streamWriter(ROWS, overwrite=False)))
        tables = [pa.table({"id": pa.array(ids, pa.int64()), "name": [name] * len(ids)}) for ids in tasks]
        return [pickle.loads(pickle.dumps(writer.write(iter(table.to_batches())))) for table in tables]

    def commit(self, messages: list[WrittenFiles], batch_id: int, *, overwrite: bool = False) -> None:
        self.source().streamWriter(ROWS, overwrite=overwrite).commit([*messages], batch_id)

    def ids(self) -> list[int]:
        return sorted(self.lake.table("s.t").to_arrow().column("id").to_numpy().tolist())


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    made = mangrove.create(tmp_path / "lake", layout=request.param)
    made.create_namespace("s")
    return made


@pytest.fixture
def sink(lake: Lakehouse, tmp_path: Path) -> Sink:
    lake.create_table("s.t", "id bigint not null, name string", keys=["id"], partition_by=["bucket(2, id)"])
    made = Sink(lake, tmp_path / "checkpoint")
    made.new_checkpoint("query-1")
    return made


def test_a_replayed_batch_is_recognized_and_skipped(sink: Sink) -> None:
    sink.commit(sink.written([1, 2], [3], []), 0)
    version = sink.lake.version
    sink.commit(sink.written([1, 2], [3]), 0)
    assert (sink.ids(), sink.lake.version) == ([1, 2, 3], version)
    sink.lake.maintenance.compact("s.t")
    sink.commit(sink.written([4]), 1)
    sink.commit(sink.written([4]), 1)
    assert sink.ids() == [1, 2, 3, 4]
    assert [done.batch_id for done in sink.lake.queries()] == [1]
    assert sink.lake.maintenance.check().is_sound


def test_a_recreated_checkpoint_starts_a_new_batch_sequence(sink: Sink) -> None:
    sink.commit(sink.written([1]), 0)
    sink.new_checkpoint("query-2")
    sink.commit(sink.written([2]), 0)
    assert sink.ids() == [1, 2]


def test_a_named_query_does_not_read_the_checkpoint(lake: Lakehouse, sink: Sink, tmp_path: Path) -> None:
    named = Sink(lake, tmp_path / "nowhere", query="loader")
    named.commit(named.written([1]), 5)
    named.commit(named.written([1]), 5)
    assert sink.ids() == [1]
    with pytest.raises(InvalidInputError, match="cannot read the query id"):
        Sink(lake, tmp_path / "nowhere").commit(named.written([2]), 6)
    assert sink.ids() == [1]


def test_empty_batches_create_no_version_and_complete_mode_replaces_all_rows(sink: Sink) -> None:
    sink.commit(sink.written([1], [2]), 0)
    version = sink.lake.version
    sink.commit(sink.written([], []), 1)
    assert sink.lake.version == version
    sink.commit(sink.written([5]), 2, overwrite=True)
    assert sink.ids() == [5]
    sink.commit(sink.written(), 3, overwrite=True)
    assert sink.ids() == []


def test_an_upsert_replaces_rows_and_refuses_a_key_of_two_tasks(lake: Lakehouse, sink: Sink) -> None:
    upserts = Sink(lake, sink.checkpoint, operation="upsert")
    upserts.commit(upserts.written([1], [2], name="old"), 0)
    upserts.commit(upserts.written([2, 3], name="new"), 1)
    names = {row["id"]: row["name"] for row in lake.table("s.t").to_arrow().to_pylist()}
    assert names == {1: "old", 2: "new", 3: "new"}
    with pytest.raises(InvalidInputError, match="occur more than once"):
        upserts.commit(upserts.written([7], [7]), 2)
    assert sink.ids() == [1, 2, 3]


def test_files_are_committed_after_a_schema_change_and_rejected_after_a_key_change(lake: Lakehouse, sink: Sink) -> None:
    early = sink.written([1])
    lake.table("s.t").update_schema().add_column("note", "string").commit()
    sink.commit(early, 0)
    assert sink.ids() == [1]
    late = sink.written([2])
    lake.drop_table("s.t")
    lake.create_table("s.t", "id bigint not null, name string")
    with pytest.raises(ConflictError, match="were changed by a concurrent commit"):
        sink.commit(late, 1)
    assert sink.ids() == []


def test_a_batch_write_follows_a_concurrent_rename_of_its_table(lake: Lakehouse, sink: Sink) -> None:
    writer: TableWriter = sink.source().writer(ROWS, overwrite=False)
    message = writer.write(iter(pa.table({"id": pa.array([1], pa.int64()), "name": ["x"]}).to_batches()))
    lake.rename_table("s.t", "s.other")
    writer.commit([message])
    writer.abort([message])
    assert lake.table("s.other").to_arrow().num_rows == 1


def test_a_sink_follows_its_table_through_a_rename_by_the_record_of_its_last_batch(lake: Lakehouse, sink: Sink) -> None:
    sink.commit(sink.written([1]), 0)
    lake.create_namespace("other")
    table = lake.rename_table("s.t", "other.place")
    late = sink.written([2])
    sink.commit(late, 1)
    sink.commit(late, 1)
    sink.commit(sink.written([3]), 2)
    assert sorted(table.to_arrow().column("id").to_numpy().tolist()) == [1, 2, 3]
    assert [(done.batch_id, done.query.split()[0]) for done in lake.queries()] == [(2, "query-1")]
    sink.new_checkpoint("query-2")
    with pytest.raises(NotFoundError, match=r"table s\.t does not exist"):
        sink.written([4])
    sink.new_checkpoint("query-1")
    lake.drop_table("other.place")
    with pytest.raises(NotFoundError, match=r"table s\.t does not exist"):
        sink.written([4])


def test_a_new_table_with_the_same_name_becomes_the_target(lake: Lakehouse, sink: Sink) -> None:
    sink.commit(sink.written([1]), 0)
    lake.rename_table("s.t", "s.old")
    lake.create_table("s.t", "id bigint, name string")
    sink.commit(sink.written([2]), 1)
    assert (sink.ids(), lake.table("s.old").to_arrow().num_rows) == ([2], 1)


class Input:
    """A folder of JSON files, one batch for each."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = register(spark)
        self.folder = folder
        self.count = 0
        folder.mkdir()

    def add(self, *ids: int) -> None:
        lines = [json.dumps({"id": one, "name": f"name{one % 2}"}) for one in ids]
        path = self.folder / f"{self.count:04}.json"
        path.write_text("\n".join(lines), "utf-8")
        # Spark takes the older file first, and two that are written in one go may be equally old.
        os.utime(path, (1_700_000_000 + self.count,) * 2)
        self.count += 1

    def stream(self) -> DataFrame:
        return self.spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).json(str(self.folder))


def into(frame: DataFrame, lake: Lakehouse, checkpoint: Path, **options: Any) -> DataStreamWriter:
    writer = frame.writeStream.format("mangrove").options(lake=lake.uri, **options)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)


@pytest.mark.interop
@pytest.mark.parametrize("lake", ["tree"], indirect=True)
def test_spark_resumes_from_a_checkpoint_that_lacks_a_committed_batch(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    table = lake.create_table("s.t", "id bigint, name string")
    given = Input(spark, tmp_path / "in")
    given.add(1, 2)
    given.add(3)
    checkpoint = tmp_path / "checkpoint"
    before = lake.version
    into(given.stream(), lake, checkpoint).start("s.t").awaitTermination()
    assert lake.version == before + 2
    # As if the driver had died after our commit of the second batch and before Spark's own.
    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink()
    given.add(4)
    into(given.stream(), lake, checkpoint).start("s.t").awaitTermination()
    assert sorted(table.to_arrow().column("id").to_numpy().tolist()) == [1, 2, 3, 4]
    assert lake.version == before + 3
    assert [done.batch_id for done in lake.queries()] == [2]


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("lake", ["tree"], indirect=True)
def test_a_stream_killed_after_its_commit_resumes_without_duplicates(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    table = lake.create_table("s.t", "id bigint")
    copied = lake.create_table("s.copied", "id bigint")
    for number in range(3):
        table.append([{"id": number}])
    checkpoint = tmp_path / "checkpoint"
    script = Path(__file__).parent / "dying_process.py"
    killed = subprocess.run(
        [sys.executable, str(script), lake.uri, str(checkpoint)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | SHORT_LIVED,
        start_new_session=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert copied.to_arrow().column("id").to_pylist() == [0, 1]
    assert [path.name for path in (checkpoint / "commits").glob("[0-9]")] == ["0"]
    lake.rename_table("s.copied", "s.renamed")
    rows = register(spark).readStream.format("mangrove").options(lake=lake.uri, maxFilesPerTrigger=1).load("s.t")
    into(rows, lake, checkpoint).start("s.copied").awaitTermination()
    assert lake.table("s.renamed").to_arrow().column("id").to_pylist() == [0, 1, 2]
    assert [done.batch_id for done in lake.queries()] == [2]


@pytest.mark.interop
@pytest.mark.parametrize("lake", ["tree"], indirect=True)
def test_concurrent_streams_append_upsert_and_overwrite(spark: SparkSession, lake: Lakehouse, tmp_path: Path) -> None:
    table = lake.create_table("s.t", "id bigint, name string")
    upserted = lake.create_table("s.upserted", "id bigint not null, name string", keys=["name"])
    complete = lake.create_table("s.complete", "name string, count bigint")
    given = Input(spark, tmp_path / "in")
    given.add(1, 2)
    given.add(3)
    queries = [
        into(given.stream(), lake, tmp_path / "one").start("s.t"),
        into(given.stream().where("id > 1"), lake, tmp_path / "two").start("s.t"),
        into(given.stream(), lake, tmp_path / "three", operation="upsert").start("s.upserted"),
        into(given.stream().groupBy("name").count(), lake, tmp_path / "four")
        .outputMode("complete")
        .start("s.complete"),
    ]
    try:
        for query in queries:
            query.awaitTermination()
    finally:
        for query in queries:
            query.stop()
    assert sorted(table.to_arrow().column("id").to_numpy().tolist()) == [1, 2, 2, 3, 3]
    assert {row["name"]: row["id"] for row in upserted.to_arrow().to_pylist()} == {"name0": 2, "name1": 3}
    assert {row["name"]: row["count"] for row in complete.to_arrow().to_pylist()} == {"name0": 1, "name1": 2}
    assert len(lake.queries()) == 4


@pytest.mark.interop
@pytest.mark.parametrize("lake", ["tree"], indirect=True)
def test_attached_tables_are_sources_and_sinks_of_a_stream(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    lake.create_table("s.t", "id bigint, name string").append([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    target = lake.create_table("s.target", "id bigint, name string")
    names = [attach(spark, lake.uri, "s.t", "stream_from"), attach(spark, lake.uri, "s.target", "stream_to")]
    try:
        writer = spark.readStream.table("stream_from").writeStream.option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).toTable("stream_to").awaitTermination()
        assert sorted(target.to_arrow().column("id").to_numpy().tolist()) == [1, 2]
    finally:
        for name in names:
            spark.sql(f"DROP TABLE {name}")
