"""Upkeep from the command line on Spark: each command has executors do the work when it is told to, or when it is much.

Whether Spark did anything is seen from its jobs.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove.cli.main import main
from mangrove.lakehouse import maintenance
from mangrove.maintenance.engine_choice import LocalLimits

pytestmark = pytest.mark.interop

Run = Callable[..., tuple[Any, int]]


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """Make a lakehouse with a table of three files."""
    made = mangrove.create(tmp_path / "lake")
    made.create_namespace("s")
    table = made.create_table("s.t", "id bigint not null", keys=["id"])
    for number in range(3):
        table.append([{"id": number}])
    return str(tmp_path / "lake")


@pytest.fixture
def run(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command, and return its answer and how many jobs Spark had from it."""
    tracker = spark.sparkContext.statusTracker()

    def ran(*words: str) -> tuple[Any, int]:
        group = " ".join(words)
        spark.sparkContext.setJobGroup(group, group)
        try:
            with pytest.raises(SystemExit) as ended:
                main([*words, "--json"])
        finally:
            spark.sparkContext.setJobGroup("others", "what other tests do")
        told = capsys.readouterr()
        assert ended.value.code == 0, told.err
        return json.loads(told.out), len(tracker.getJobIdsForGroup(group))

    return ran


def test_export_copies_on_executors(run: Run, lake: str, tmp_path: Path) -> None:
    told, jobs = run("export", lake, str(tmp_path / "copy"), "year-end", "--engine", "spark")
    assert told["files_copied"] > 3
    assert jobs > 0
    assert mangrove.open(tmp_path / "copy").table("s.t").to_arrow().num_rows == 3


def test_check_counts_rows_on_executors_including_those_in_the_source_of_an_export(
    run: Run, lake: str, tmp_path: Path
) -> None:
    told, jobs = run("check", lake, "--engine", "spark")
    assert (told["is_sound"], told["data_files"]) == (True, 3)
    assert jobs > 0
    mangrove.open(lake).maintenance.export(tmp_path / "part", "part", "minimal")
    told, jobs = run("check", str(tmp_path / "part"), "--engine", "spark")
    assert (told["problems"], told["data_files"]) == ([], 3)
    assert jobs > 0


def test_vacuum_deletes_on_executors(run: Run, lake: str) -> None:
    lost = Path(lake) / "data" / "lost.parquet"
    lost.write_bytes(b"x")
    told, jobs = run("vacuum", lake, "--alone", "--engine", "spark")
    assert told["paths"] == ["data/lost.parquet"]
    assert jobs > 0
    assert not lost.exists()


def test_convert_copies_and_counts_on_executors(run: Run, lake: str, tmp_path: Path) -> None:
    told, jobs = run("convert", lake, str(tmp_path / "copy"), "--history", "latest", "--engine", "spark")
    assert (told["is_sound"], told["files_copied"]) == (True, 3)
    assert jobs > 1


def test_compact_writes_on_executors(run: Run, lake: str) -> None:
    told, jobs = run("compact", lake, "s.t", "--engine", "spark")
    assert told["compacted"] is True
    assert jobs > 0
    assert len(mangrove.open(lake).table("s.t").scan().files()) == 1


def test_small_jobs_run_locally_and_large_ones_on_executors(
    run: Run, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, jobs = run("export", lake, str(tmp_path / "small"), "small")
    assert jobs == 0
    monkeypatch.setattr(maintenance, "COPY_LIMITS", LocalLimits(files_max=2, bytes_max=None))
    _, jobs = run("export", lake, str(tmp_path / "large"), "large")
    assert jobs > 0
