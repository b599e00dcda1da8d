"""A table is read as a stream: first as it is, then what each version adds, exactly once and a batch at a time."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

import mangrove
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.transaction import Transaction
from mangrove.spark.data_source import MangroveSource
from mangrove.spark.registration import register


class Follower:
    """Asks a reader for batches in the order in which Spark does, and keeps the offsets as its checkpoint does.

    Most of what a stream promises is decided in the reader, and needs no JVM to be seen.
    """

    def __init__(self, lake: Lakehouse) -> None:
        self.lake = lake
        self.offset: str | None = None

    def source(self, table: str, options: dict[str, Any]) -> MangroveSource:
        given = {"lake": self.lake.uri, "path": table, **{name: str(value) for name, value in options.items()}}
        return MangroveSource(CaseInsensitiveDict(given))

    def run(self, table: str = "s.t", **options: Any) -> list[list[tuple[Any, ...]]]:
        """Return the batches of a run that takes what is there and ends."""
        source = self.source(table, options)
        reader = source.streamReader(source.schema())
        reader.prepareForTriggerAvailableNow()
        return self.batches(reader)

    def batches(self, reader: Any) -> list[list[tuple[Any, ...]]]:
        if self.offset is None:
            self.offset = json.dumps(reader.initialOffset())
        found: list[list[tuple[Any, ...]]] = []
        while True:
            start = json.loads(self.offset)
            end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
            if end == start:
                return found
            found.append(self.rows(reader, start, end))
            self.offset = json.dumps(end)

    def rows(self, reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[Any, ...]]:
        pieces = pickle.loads(pickle.dumps(reader.partitions(start, end)))
        in_task = pickle.loads(pickle.dumps(reader))
        tables = [pa.Table.from_batches(batches) for piece in pieces if (batches := list(in_task.read(piece)))]
        return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    made = mangrove.create(tmp_path / "lake", layout=request.param)
    made.create_namespace("s")
    return made


@pytest.fixture
def follow(lake: Lakehouse) -> Callable[[], Follower]:
    return lambda: Follower(lake)


def ids(*numbers: int) -> list[dict[str, int]]:
    return [{"id": number} for number in numbers]


def rows(*numbers: int) -> list[tuple[int]]:
    return [(number,) for number in numbers]


def test_a_stream_returns_the_table_first_and_then_new_rows_up_to_its_limit(
    lake: Lakehouse, follow: Callable[[], Follower]
) -> None:
    table = lake.create_table("s.t", "id bigint", partition_by=["bucket(2, id)"])
    follower = follow()
    assert follower.run() == []
    for number in range(3):
        table.append(ids(number))
    assert follower.run(maxFilesPerTrigger=2) == [rows(0, 1), rows(2)]
    lake.create_table("s.other", "id bigint").append(ids(99))
    table.append(ids(3))
    lake.maintenance.compact("s.t")
    table.append(ids(4))
    lake.rename_table("s.t", "s.renamed")
    table = lake.table("s.renamed")
    table.append(ids(5, 6))
    lake.maintenance.compact("s.renamed")
    # The last two are in one file, and a file is the least that a batch takes.
    batches = follower.run("s.renamed", maxRowsPerTrigger=1)
    assert batches == [rows(3), rows(4), rows(5, 6)]
    assert follower.run("s.renamed") == []
    table.append(ids(7))
    table.append(ids(8))
    assert follower.run("s.renamed", maxBytesPerTrigger=1) == [rows(7), rows(8)]
    narrow = follow().run("s.renamed", columns="id", where="id > 4")
    assert narrow == [rows(5, 6, 7, 8)]


def test_a_stream_gives_inline_rows_once_also_when_they_are_moved_into_files(
    lake: Lakehouse, follow: Callable[[], Follower]
) -> None:
    table = lake.create_table("s.t", "id bigint", properties={"write.inline-rows-max-bytes": "2000"})
    table.append(ids(0, 1))
    early, late = follow(), follow()
    assert early.run() == [rows(0, 1)]
    with lake.transaction() as transaction:
        for number in range(2, 70):
            transaction.table("s.t").append(ids(number))
    written = 70
    while not next(iter(lake.history(limit=1))).message.startswith("move inline rows"):
        table.append(ids(written))
        written += 1
    assert [row for batch in early.run() for row in batch] == rows(*range(2, written))
    assert [row for batch in late.run() for row in batch] == rows(*range(written))


def test_a_stream_starts_at_the_requested_version_or_time(lake: Lakehouse, follow: Callable[[], Follower]) -> None:
    table = lake.create_table("s.t", "id bigint")
    table.append(ids(1))
    first = lake.version
    moment = lake.at(first).created_at
    table.append(ids(2))
    table.append(ids(3))
    assert follow().run(startingVersion=first + 1) == [rows(2, 3)]
    assert follow().run(startingTimestamp=moment.isoformat()) == [rows(2, 3)]
    assert follow().run(startingVersion=0) == [rows(1, 2, 3)]
    late = follow()
    assert late.run(startingVersion="latest") == []
    table.append(ids(4))
    assert late.run(startingVersion="latest") == [rows(4)]
    with pytest.raises(InvalidInputError, match="startingVersion 900 does not exist"):
        follow().run(startingVersion=900)


def test_a_version_with_row_changes_stops_an_append_stream_or_is_skipped(
    lake: Lakehouse, follow: Callable[[], Follower]
) -> None:
    table = lake.create_table("s.t", "id bigint not null, name string", keys=["id"])
    table.append([{"id": 1, "name": "a"}])
    table.upsert([{"id": 1, "name": "b"}])
    follower = follow()
    assert follower.run() == [[(1, "b")]]
    table.append([{"id": 2, "name": "c"}])
    table.upsert([{"id": 2, "name": "d"}])
    changed = lake.version
    table.append([{"id": 3, "name": "e"}])
    source = follower.source("s.t", {})
    reader = source.streamReader(source.schema())
    start = json.loads(follower.offset or "")
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert follower.rows(reader, start, end) == [(2, "c")]
    follower.offset = json.dumps(end)
    with pytest.raises(InvalidInputError, match=rf"version {changed} changed or deleted rows of s\.t"):
        follower.run()
    assert follower.run(skipChangeCommits=True) == [[(3, "e")]]


def expire_versions(lake: Lakehouse) -> None:
    """Expire all versions but the newest, before which come some that other objects changed."""
    for number in range(4):
        lake.create_namespace(f"n{lake.version}x{number}")
    lake.alter(maximum_version_age_millis=0, minimum_versions_to_keep=1)
    lake.maintenance.expire(alone=True)


def test_a_stream_that_continues_after_lost_versions_reads_all_retained_ones_completely(
    lake: Lakehouse, follow: Callable[[], Follower]
) -> None:
    table = lake.create_table("s.t", "id bigint", partition_by=["bucket(2, id)"])
    follower, first = follow(), follow()
    assert follower.run() == []
    for _ in range(2):
        table.append(ids(0, 1, 2, 3))
    for one in (follower, first):
        source = one.source("s.t", {"maxFilesPerTrigger": 1})
        reader = source.streamReader(source.schema())
        start = json.loads(one.offset or json.dumps(reader.initialOffset()))
        one.offset = json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit()))
    assert [json.loads(one.offset or "")["files"] for one in (follower, first)] == [1, 1]
    lake.maintenance.compact("s.t")
    expire_versions(lake)
    table.append(ids(4, 5, 6, 7))
    for one, expected in ((follower, rows(4, 5, 6, 7)), (first, sorted(rows(0, 1, 2, 3) * 2 + rows(4, 5, 6, 7)))):
        assert sorted(row for batch in one.run(failOnDataLoss=False) for row in batch) == expected


def test_a_part_of_a_version_that_a_rollback_removed_does_not_count_for_later_ones(
    lake: Lakehouse, follow: Callable[[], Follower]
) -> None:
    table = lake.create_table("s.t", "id bigint", partition_by=["bucket(2, id)"])
    table.append(ids(100))
    follower, before = follow(), lake.version
    assert follower.run() == [rows(100)]
    table.append(ids(0, 1, 2, 3))
    source = follower.source("s.t", {"maxFilesPerTrigger": 1})
    reader = source.streamReader(source.schema())
    end = reader.latestOffset(json.loads(follower.offset or ""), reader.getDefaultReadLimit())
    assert end["files"] == 1
    follower.offset = json.dumps(end)
    table.rollback(before)
    expire_versions(lake)
    table.append(ids(4, 5, 6, 7))
    assert sorted(row for batch in follower.run() for row in batch) == rows(4, 5, 6, 7)


@pytest.mark.parametrize("option", ["failOnDataLoss", "skipChangeCommits"])
def test_a_stream_follows_versions_without_new_rows_before_they_expire(
    lake: Lakehouse, follow: Callable[[], Follower], option: str
) -> None:
    table = lake.create_table("s.t", "id bigint")
    table.append(ids(1))
    table.append(ids(2))
    follower = follow()
    assert follower.run() == [rows(1, 2)]
    if option == "skipChangeCommits":
        table.delete("id = 1")
    lake.maintenance.compact("s.t")
    options: dict[str, Any] = {option: True}
    assert follower.run(**options) == [[]]
    expire_versions(lake)
    table.append(ids(3))
    assert follower.run(**options) == [rows(3)]
    assert follower.run(**options) == []


def test_a_stream_detects_that_unread_versions_have_expired(lake: Lakehouse, follow: Callable[[], Follower]) -> None:
    table = lake.create_table("s.t", "id bigint")
    table.append(ids(1))
    follower = follow()
    assert follower.run() == [rows(1)]

    expire_versions(lake)
    table.append(ids(2))
    # The version where the stream stands is gone, and the oldest that is kept has the same rows.
    assert follower.run() == [rows(2)]
    stands_at = lake.version
    table.append(ids(3))
    expire_versions(lake)
    table.append(ids(4))
    with pytest.raises(
        NotFoundError, match=rf"version {stands_at}, up to which this stream has read s\.t, has expired"
    ):
        follower.run()
    assert follower.run(failOnDataLoss=False) == [rows(4)]


def test_new_columns_stop_a_running_stream_and_appear_after_a_restart(
    lake: Lakehouse, follow: Callable[[], Follower]
) -> None:
    table = lake.create_table("s.t", "id bigint")
    table.append(ids(1))
    follower = follow()
    source = follower.source("s.t", {})
    reader = source.streamReader(source.schema())
    assert follower.batches(reader) == [rows(1)]
    table.update_schema().add_column("name", "string").commit()
    table.append([{"id": 2, "name": "b"}])
    with pytest.raises(InvalidInputError, match=r"the columns of s\.t changed while a stream was reading it"):
        follower.batches(reader)
    assert follower.run() == [[(2, "b")]]


def test_a_running_stream_follows_a_renamed_table(lake: Lakehouse, follow: Callable[[], Follower]) -> None:
    table = lake.create_table("s.t", "id bigint")
    table.append(ids(1))
    follower = follow()
    source = follower.source("s.t", {})
    reader = source.streamReader(source.schema())
    assert follower.batches(reader) == [rows(1)]
    lake.create_namespace("other")
    lake.rename_table("s.t", "other.place").append(ids(2))
    assert follower.batches(reader) == [rows(2)]
    # A query that is started again knows the name only, and its checkpoint fits the new one.
    with pytest.raises(NotFoundError, match=r"table s\.t does not exist"):
        follower.run()
    lake.table("other.place").append(ids(3))
    assert follower.run("other.place") == [rows(3)]


def test_the_changes_of_a_table_that_was_renamed_are_read_by_tasks_that_know_the_old_name(
    lake: Lakehouse, follow: Callable[[], Follower]
) -> None:
    table = lake.create_table("s.t", "id bigint not null, name string", keys=["id"])
    table.append([{"id": 1, "name": "a"}])
    follower = follow()
    source = follower.source("s.t", {"readChangeFeed": "true"})
    reader = source.streamReader(source.schema())
    assert [row[0] for batch in follower.batches(reader) for row in batch] == [1]
    table.upsert([{"id": 1, "name": "b"}])
    lake.rename_table("s.t", "s.renamed")
    (batch,) = follower.batches(reader)
    assert {row[1] for row in batch} == {"a", "b"}


def test_a_batch_that_is_planned_again_holds_the_same_rows(lake: Lakehouse, follow: Callable[[], Follower]) -> None:
    table = lake.create_table("s.t", "id bigint", partition_by=["bucket(4, id)"])
    table.append(ids(*range(10)))
    source = follow().source("s.t", {"maxFilesPerTrigger": 3})
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    first = follow().rows(reader, start, end)
    table.append(ids(*range(10, 20)))
    lake.maintenance.compact("s.t")
    again = source.streamReader(source.schema())
    assert follow().rows(again, start, end) == first
    assert 0 < len(first) < 10


def test_a_checkpoint_of_another_table_is_refused(lake: Lakehouse, follow: Callable[[], Follower]) -> None:
    lake.create_table("s.t", "id bigint").append(ids(1))
    follower = follow()
    follower.run()
    lake.drop_table("s.t")
    lake.create_table("s.t", "id bigint").append(ids(2))
    with pytest.raises(InvalidInputError, match="is another table now"):
        follower.run()


class Stream:
    """A real stream with a checkpoint, whose runs take what is there."""

    def __init__(self, session: SparkSession, lake: Lakehouse, checkpoint: Path) -> None:
        self.session = register(session)
        self.lake = lake
        self.checkpoint = checkpoint

    def run(self, work: Callable[[DataFrame, int], None], table: str, **options: Any) -> None:
        source = self.session.readStream.format("mangrove").options(lake=self.lake.uri, **options).load(table)
        writer = source.writeStream.foreachBatch(work).option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()


@pytest.mark.interop
@pytest.mark.parametrize("lake", ["tree"], indirect=True)
def test_spark_streams_a_table_in_batches_and_resumes_from_its_checkpoint(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    table = lake.create_table("s.t", "id bigint")
    for number in range(3):
        table.append(ids(number))
    stream = Stream(spark, lake, tmp_path / "checkpoint")
    batches: list[list[int]] = []

    def note(batch: DataFrame, _: int) -> None:
        batches.append([row.id for row in batch.collect()])

    stream.run(note, "s.t", maxFilesPerTrigger=2)
    assert batches == [[0, 1], [2]]
    table.append(ids(3))
    stream.run(note, "s.t", maxFilesPerTrigger=2)
    assert batches == [[0, 1], [2], [3]]


@pytest.mark.interop
@pytest.mark.parametrize("lake", ["tree"], indirect=True)
def test_a_stopped_stream_reports_the_reason_in_one_sentence(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    table = lake.create_table("s.t", "id bigint not null", keys=["id"])
    table.append(ids(1))
    stream = Stream(spark, lake, tmp_path / "checkpoint")
    stream.run(lambda batch, _: None, "s.t")
    table.delete("id = 1")
    with pytest.raises(StreamingQueryException) as caught:
        stream.run(lambda batch, _: None, "s.t")
    said = str(caught.value)
    assert f"InvalidInputError: version {lake.version} changed or deleted rows of s.t" in said
    assert "Traceback" not in said.partition("InvalidInputError")[0]


@pytest.mark.interop
@pytest.mark.parametrize("lake", ["tree"], indirect=True)
def test_a_table_follows_another_through_its_change_feed(spark: SparkSession, lake: Lakehouse, tmp_path: Path) -> None:
    source = lake.create_table("s.t", "id bigint not null, name string", keys=["id"])
    target = lake.create_table("s.copy", "id bigint not null, name string", keys=["id"])
    stream = Stream(spark, lake, tmp_path / "checkpoint")
    feed: list[tuple[int, str]] = []

    def replicate(batch: DataFrame, batch_id: int) -> None:
        changes = batch.toArrow().sort_by("_commit_version").to_pylist()
        feed.extend((row["id"], row["_change_type"]) for row in changes)
        newest = {row["id"]: row for row in changes if row["_change_type"] != "update_before"}

        def work(transaction: Transaction) -> None:
            copy = transaction.table("s.copy")
            gone = [row for row in newest.values() if row["_change_type"] == "delete"]
            came = [row for row in newest.values() if row["_change_type"] != "delete"]
            copy.delete_keys([{"id": row["id"]} for row in gone])
            copy.upsert([{"id": row["id"], "name": row["name"]} for row in came])

        assert lake.run_once("replicate", batch_id, work)

    def compare() -> None:
        stream.run(replicate, "s.t", readChangeFeed=True)
        assert sorted(map(str, target.to_arrow().to_pylist())) == sorted(map(str, source.to_arrow().to_pylist()))

    source.append([{"id": number, "name": "old"} for number in range(4)])
    compare()
    source.upsert([{"id": 1, "name": "new"}, {"id": 9, "name": "nine"}])
    lake.maintenance.compact("s.t")
    source.delete("id = 2")
    source.append([{"id": 5, "name": "five"}])
    source.upsert([{"id": 5, "name": "5"}])
    source.overwrite([{"id": 9, "name": "alone"}, {"id": 5, "name": "5"}])
    compare()
    assert (2, "delete") in feed
    assert (9, "insert") in feed
