"""The guided tour runs to its end, and what it tells is so."""

import json
import runpy
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mangrove

DEMO = Path(__file__).parents[2] / "examples" / "demo"


@pytest.mark.interop
@pytest.mark.slow
def test_the_demo_fulfils_its_claims_and_leaves_a_sound_lakehouse(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "shop"
    monkeypatch.setattr(sys, "argv", [str(DEMO), str(folder), "--json"])
    runpy.run_path(str(DEMO), run_name="__main__")
    answer = json.loads(capsys.readouterr().out)
    chapters = {one["chapter"]: one for one in answer["chapters"]}
    assert chapters["Four tables, one commit"]["agrees"]
    crash = chapters["A crash changes nothing"]
    assert crash["exit_code"] == -9
    assert crash["version_before"] == crash["version_after"]
    assert crash["files_left"] > 0
    assert crash["agrees"]
    conflict = chapters["Conflicts are detected and retried"]
    assert "changed it first" in conflict["refused"]
    assert conflict["lamps_before"] - conflict["lamps_after"] == 3
    before, after = chapters["Upsert, a mistake, and time travel"]["orders"]
    assert before > after
    assert chapters["Rollback"]["is_as_before"]
    requested = chapters["Query it in SQL"]
    assert len(requested["cities"]) == 6
    assert requested["then"] == before
    assert requested["files_for_a_day"] < requested["files"]
    assert chapters["Export"]["orders_here"] == chapters["Export"]["orders_there"]
    compaction = chapters["Compaction"]
    assert (compaction["files_before"], compaction["files_after"]) == (12, 1)
    assert compaction["rows_before"] == compaction["rows_after"]
    assert chapters["Check"]["is_sound"]
    assert mangrove.open(folder).version == answer["version"]
    assert mangrove.open(answer["copy"]).maintenance.check().is_sound
