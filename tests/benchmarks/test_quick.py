"""The quick benchmark of a store: it counts the requests, and deletes what it wrote."""

import json
import runpy
import sys
from pathlib import Path

import pytest

QUICK = Path(__file__).parents[2] / "benchmarks" / "quick.py"


class QuickBenchmark:
    """Runs the benchmark in this process, as its command line does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def run(self, *arguments: str) -> str:
        """Return what the benchmark prints."""
        self._monkeypatch.setattr(sys, "argv", [str(QUICK), *arguments])
        runpy.run_path(str(QUICK), run_name="__main__")
        return self._capsys.readouterr().out


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> QuickBenchmark:
    return QuickBenchmark(monkeypatch, capsys)


def test_the_benchmark_counts_requests_and_cleans_up(quick: QuickBenchmark, tmp_path: Path) -> None:
    answer = json.loads(quick.run(str(tmp_path), "--rows", "100", "--json"))
    measured = {one["what"]: one for one in answer["measured"]}
    assert measured["small commit"]["requests_each"] >= 1
    assert measured["append rows"]["rows_each"] == 100
    assert measured["read all rows"]["rows_each"] == 300
    assert measured["read all rows"]["bytes_written"] == 0
    assert measured["check everything"]["bytes_read"] > 0
    assert list(tmp_path.iterdir()) == []


def test_the_benchmark_removes_the_folders_that_it_created(quick: QuickBenchmark, tmp_path: Path) -> None:
    quick.run(str(tmp_path / "new" / "place"), "--rows", "10", "--json")
    assert list(tmp_path.iterdir()) == []


def test_the_benchmark_prints_a_table(quick: QuickBenchmark, tmp_path: Path) -> None:
    printed = quick.run(str(tmp_path), "--rows", "10")
    assert "small commit" in printed
    assert "requests" in printed


@pytest.mark.parametrize("arguments", [["--rows", "0"], ["--option", "region"]])
def test_invalid_arguments_are_rejected(quick: QuickBenchmark, tmp_path: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        quick.run(str(tmp_path), *arguments)
    assert ended.value.code == 2
    assert list(tmp_path.iterdir()) == []
