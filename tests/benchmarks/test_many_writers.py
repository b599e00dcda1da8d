"""The benchmark of many writers: simulated time is the same in each run, and processes lose nothing."""

import runpy
import sys
from pathlib import Path

import pytest
from benchmarks.many_writers import GroupKind, Measurement, simulate

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "many_writers.py"


def simulate_briefly(group: GroupKind) -> Measurement:
    return simulate(6, 1.5, group=group, is_shared=True, inline_bytes="0", latency_seconds=0.02)


@pytest.mark.parametrize("group", ["queue", "intents"])
def test_group_commit_across_processes_makes_fewer_requests_in_simulated_time(group: GroupKind) -> None:
    alone, grouped = simulate_briefly("alone"), simulate_briefly(group)
    assert grouped.requests / len(grouped.latencies) < alone.requests / len(alone.latencies)
    assert simulate_briefly(group) == grouped


def test_each_append_of_two_processes_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["local", "--writers", "2", "--commits", "2", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert capsys.readouterr().out.count("2 processes, local disk") == 4
    assert list(tmp_path.iterdir()) == []
