"""The benchmark of a store: it counts what it did, and leaves nothing behind."""

from pathlib import Path
from typing import Any


def test_the_benchmark_counts_requests_and_leaves_nothing_behind(run: Any, tmp_path: Path) -> None:
    done = run("bench", str(tmp_path), "--rows", "100", "--json")
    assert done.code == 0, done.err
    measured = {one["what"]: one for one in done.json["measured"]}
    assert measured["small commit"]["requests_each"] >= 1
    assert measured["append rows"]["rows_each"] == 100
    assert measured["read all rows"]["rows_each"] == 300
    assert measured["read all rows"]["bytes_written"] == 0
    assert measured["check everything"]["bytes_read"] > 0
    assert list(tmp_path.iterdir()) == []


def test_the_benchmark_removes_the_folders_that_it_made(run: Any, tmp_path: Path) -> None:
    assert run("bench", str(tmp_path / "new" / "place"), "--rows", "10", "--json").code == 0
    assert list(tmp_path.iterdir()) == []


def test_the_benchmark_is_a_table_for_people(run: Any, tmp_path: Path) -> None:
    shown = run("bench", str(tmp_path), "--rows", "10").out
    assert "small commit" in shown
    assert "requests" in shown
