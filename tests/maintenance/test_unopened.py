"""A lakehouse that cannot be opened can still be checked, and what the report advises brings it back."""

import os
import re
import shutil
from pathlib import Path

import pytest

import mangrove
from mangrove.effects import wait_for_pending
from mangrove.errors import FormatError, NotFoundError


@pytest.fixture(params=["tree", "deltacat"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Make a lakehouse of four versions, the newest of which changed its own settings."""
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("a")
    lake.create_namespace("b")
    # Hints are written in the background, under names that last a moment.
    wait_for_pending(lake.effects, 60.0)
    make_old(tmp_path / "lake")
    lake.alter({"owner": "ana"})
    wait_for_pending(lake.effects, 60.0)
    assert lake.version == 3
    del lake
    return tmp_path / "lake"


def make_old(place: Path) -> None:
    """Give every file an old date: two files of one tick of the clock would tell no newest."""
    for path in place.rglob("*"):
        if path.is_file():
            os.utime(path, (0, 0))


def newest_file(place: Path, pattern: str) -> Path:
    (newest,) = (path for path in place.glob(pattern) if path.stat().st_mtime_ns)
    return newest


@pytest.mark.parametrize("place", ["tree"], indirect=True)
def test_check_falls_back_to_the_previous_definition_if_the_newest_is_missing(place: Path) -> None:
    lost = newest_file(place, "_lakehouse_def_*")
    lost.unlink()
    with pytest.raises(FormatError, match="run `mangrove check`"):
        mangrove.open(place)
    report = mangrove.check(place)
    (problem,) = report.problems
    assert (problem.path, report.opens, report.is_sound) == (lost.name, 2, False)
    assert str(report).endswith("the lakehouse cannot be opened; version 2, but none after it, can be read")
    assert "mangrove check" not in str(report)
    advised = re.search(r"copy (\S+) to its place", problem.rule)
    assert advised is not None
    shutil.copy(place / advised[1], lost)
    assert mangrove.open(place).version == 3
    assert mangrove.check(place).is_sound
    assert "owner" not in mangrove.open(place).settings.properties


def test_check_falls_back_to_the_previous_version_if_the_newest_is_damaged(place: Path) -> None:
    pattern = "mangrove/version/*.mpk" if (place / "mangrove").exists() else "_*.ipc"
    damaged = newest_file(place, pattern)
    damaged.write_bytes(damaged.read_bytes()[:-40])
    report = mangrove.check(place)
    assert [(place / problem.path).resolve() for problem in report] == [damaged.resolve()]
    assert report.opens == 2
    assert "version 3 cannot be opened" in report.problems[0].rule
    assert "move it away: then version 2 is the newest" in report.problems[0].rule
    damaged.rename(place.parent / "away")
    assert [space.name for space in mangrove.open(place).namespaces()] == ["a", "b"]


@pytest.mark.parametrize("place", ["tree"], indirect=True)
def test_check_reports_that_no_version_can_be_opened(place: Path) -> None:
    for path in place.glob("_lakehouse_def_*"):
        path.write_bytes(b"")
    report = mangrove.check(place)
    assert (report.opens, len(report)) == (None, 2)
    assert "no version can be read" in str(report)
    assert all("No earlier version can be opened either" in problem.rule for problem in report)


def test_check_accepts_a_uri_and_rejects_a_location_without_a_lakehouse(place: Path, tmp_path: Path) -> None:
    assert str(mangrove.check(place)) == "no problem in 4 of 4 versions, 0 data files"
    with pytest.raises(NotFoundError, match="no lakehouse at"):
        mangrove.check(tmp_path / "nothing")
