"""The benchmark of local scans: it measures each row and deletes what it wrote."""

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "local_scans.py"


def test_each_row_is_measured_in_each_round_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(tmp_path), "--rows", "500", "--rounds", "2", "--json"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    printed = json.loads(capsys.readouterr().out)
    assert [len(one["mangrove"]) for one in printed["measured"]] == [2] * len(printed["measured"])
    assert {"append", "full scan", "scan after 20 upserts of 2 %"} <= {one["what"] for one in printed["measured"]}
    assert list(tmp_path.iterdir()) == []
