"""What the demo refuses before it begins: it never deletes what it did not create."""

import importlib.util
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mangrove

DEMO = Path(__file__).parents[2] / "examples" / "demo"
Refuse = Callable[..., tuple[int, str]]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refuse:
    """Run the demo with arguments that it refuses; return its exit code and error."""

    def refused(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", [str(DEMO), *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(DEMO), run_name="__main__")
        printed = capsys.readouterr()
        assert printed.out == ""
        assert isinstance(ended.value.code, int)
        return ended.value.code, printed.err

    return refused


def test_a_nonempty_folder_is_not_changed(refuse: Refuse, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for options in ([], ["--replace"]):
        code, error = refuse(str(tmp_path), *options)
        assert code == 1
        assert "name another folder" in error
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_lakehouse_that_is_not_the_demos_is_not_replaced(refuse: Refuse, tmp_path: Path) -> None:
    mangrove.create(tmp_path / "lake")
    assert refuse(str(tmp_path / "lake"), "--replace")[0] == 1
    assert mangrove.open(tmp_path / "lake").version == 0


@pytest.mark.parametrize("place", ["s3://bucket/lake", "{folder}/file"])
def test_a_location_that_is_not_a_folder_is_rejected(refuse: Refuse, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("mine")
    code, error = refuse(place.format(folder=tmp_path), "--replace")
    assert code == 2
    assert "name a folder" in error


def test_without_spark_the_demo_names_the_package_to_install(
    refuse: Refuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyspark" else find_spec(name))
    code, error = refuse(str(tmp_path / "shop"))
    assert code == 2
    assert "pip install 'mangrove-lake[spark]'" in error
    assert not (tmp_path / "shop").exists()


def test_the_longest_bar_fills_the_width_and_zero_has_no_bar() -> None:
    format_bar = runpy.run_path(str(DEMO / "presenter.py"))["format_bar"]
    assert format_bar(7, 7, 10) == "█" * 10
    assert format_bar(0, 0, 10) == ""
    assert (format_bar(3, 4, 4), format_bar(1, 8, 4), format_bar(0, 8, 4)) == ("███", "▌", "")
