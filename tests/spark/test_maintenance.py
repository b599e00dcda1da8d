"""Upkeep on executors does what it does in this process."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove.maintenance.progress import Progress, ignore_progress
from mangrove.spark.maintenance import SparkMaintenance
from mangrove.storage.opening import open_store

pytestmark = pytest.mark.interop


def test_files_are_copied_by_executors_and_the_last_one_last(spark: SparkSession, tmp_path: Path) -> None:
    source, destination = open_store(tmp_path / "from"), open_store(tmp_path / "to")
    sizes = {f"f{number}": number for number in range(5)}
    for path, size in sizes.items():
        source.put(path, b"x" * size)
    seen: list[Progress] = []
    SparkMaintenance(spark).copy_files(source, destination, sizes, seen.append, last="f0")
    assert [destination.read(path) for path in sizes] == [b"x" * size for size in sizes.values()]
    assert [progress.files_done for progress in seen] == [0, 4, 5]


def test_a_file_that_changed_stops_the_copy_before_the_last_one(spark: SparkSession, tmp_path: Path) -> None:
    source, destination = open_store(tmp_path / "from"), open_store(tmp_path / "to")
    source.put("a", b"x")
    source.put("root", b"r")
    with pytest.raises(Exception, match="it changed during the copy"):
        SparkMaintenance(spark).copy_files(source, destination, {"a": 2, "root": 1}, lambda _: None, last="root")
    assert not destination.exists("root")


def test_rows_are_counted_by_executors_and_damage_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint")
    table.append([{"id": number} for number in range(10)])
    table.append([{"id": 1}])
    sound, damaged = table.scan().files()
    path = tmp_path / damaged.location
    path.write_bytes(b"P" + path.read_bytes()[1:-4] + b"none")
    counted = SparkMaintenance(spark).row_counter(lake.effects.store, [sound, damaged], ignore_progress)
    assert counted[sound.location] == 10
    assert "cannot be read" in str(counted[damaged.location])


def test_an_export_is_copied_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    lake.create_table("s.t", "id bigint").append([{"id": 1}])
    report = lake.maintenance.export(tmp_path / "copy", "year-end", engine="spark")
    assert report.files_copied > 1
    assert mangrove.open(tmp_path / "copy").table("s.t").to_arrow().num_rows == 1


def test_a_check_on_spark_reports_the_same_problems_as_a_local_one(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint")
    table.append([{"id": number} for number in range(10)])
    table.append([{"id": 1}])
    assert lake.maintenance.check(engine="spark").is_sound
    damaged = tmp_path / table.scan().files()[1].location
    damaged.write_bytes(b"P" + damaged.read_bytes()[1:-4] + b"none")
    told = lake.maintenance.check(engine="spark")
    assert [problem.path for problem in told] == [table.scan().files()[1].location]
    assert told.problems == lake.maintenance.check().problems


def test_a_vacuum_on_spark_deletes_the_same_files_as_a_local_one(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    lake.create_table("s.t", "id bigint").append([{"id": 1}])
    for number in range(3):
        lake.effects.store.put(f"data/lost/{number}.parquet", b"x")
    would = lake.maintenance.vacuum(alone=True, dry_run=True)
    seen: list[Progress] = []
    gone = lake.maintenance.vacuum(alone=True, engine="spark", watch=seen.append)
    assert gone.paths == would.paths
    assert seen[-1].files_done == len(gone.paths) >= 3
    assert not any(map(lake.effects.store.exists, gone.paths))
    assert lake.maintenance.check().is_sound


def test_a_conversion_on_spark_has_its_files_copied_by_executors(spark: SparkSession, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    lake.create_table("s.t", "id bigint").append([{"id": 1}])
    report = lake.maintenance.convert(tmp_path / "copy", "deltacat", engine="spark")
    assert report.is_sound
    assert report.files_copied == 1
    assert mangrove.open(tmp_path / "copy").table("s.t").to_arrow().num_rows == 1


@pytest.mark.parametrize("mode", ["minimal", "partial"])
def test_spark_reads_missing_files_of_an_export_from_its_source(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("s")
    for name in ("s.t", "s.u"):
        table = lake.create_table(name, "id bigint not null, v int", keys=["id"])
        table.append([{"id": 1, "v": 0}, {"id": 2, "v": 0}])
        table.upsert([{"id": 2, "v": 1}])
    lake.maintenance.export(tmp_path / "part", "part", mode, tables=["s.u"] if mode == "partial" else [])
    copy = mangrove.open(tmp_path / "part")
    copy.table("s.t").upsert(spark.sql("select 3L as id, 5 as v"))
    assert {(row.id, row.v) for row in copy.table("s.t").to_spark().collect()} == {(1, 0), (2, 1), (3, 5)}
    assert {(row.id, row.v) for row in copy.table("s.u").to_spark().collect()} == {(1, 0), (2, 1)}
    assert lake.table("s.t").to_arrow().num_rows == 2
