"""What the demo refuses before it begins: it never touches what it did not make."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from mangrove.cli.demo_stage import bar_text


def test_a_folder_with_something_in_it_is_left_alone(run: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for words in ([], ["--replace"]):
        done = run("demo", str(tmp_path), *words)
        assert (done.code, done.out) == (1, "")
        assert "name another folder" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_lakehouse_that_is_not_the_demos_is_not_replaced(run: Any, lake: str) -> None:
    assert run("demo", lake, "--replace").code == 1
    assert run("ls", lake).code == 0


@pytest.mark.parametrize("place", ["s3://bucket/lake", "{folder}/file"])
def test_a_place_that_is_no_folder_is_refused(run: Any, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("mine")
    done = run("demo", place.format(folder=tmp_path), "--replace")
    assert (done.code, done.out) == (2, "")
    assert "name a folder" in done.err


def test_without_spark_the_demo_says_what_to_install(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyspark" else find_spec(name))
    done = run("demo", str(tmp_path / "shop"))
    assert (done.code, done.out) == (2, "")
    assert "pip install 'mangrove-lake[spark]'" in done.err
    assert not (tmp_path / "shop").exists()


def test_the_longest_bar_fills_the_room_and_nothing_has_none() -> None:
    assert bar_text(7, 7, 10) == "█" * 10
    assert bar_text(0, 0, 10) == ""
