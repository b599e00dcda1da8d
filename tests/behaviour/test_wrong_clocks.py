"""A commit by a clock that is far ahead: it stops later commits, is reported, and can be repaired."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import mangrove
from mangrove.effects import Effects
from mangrove.errors import FormatError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.model.settings import CLOCK_TOLERANCE_PROPERTY
from mangrove.storage.counting import CountingStore
from mangrove.storage.opening import open_store
from mangrove.testing.effects import Clock, build_deterministic_effects

HOUR_MILLIS = 60 * 60 * 1000
DAY_MILLIS = 24 * HOUR_MILLIS
AHEAD_MILLIS = 200 * 366 * DAY_MILLIS
"""How far ahead the wrong clock is: 200 years."""


def time_of(millis: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)


def commit_ahead(lake: Lakehouse, clock: Clock, *names: str) -> None:
    clock.now_millis += AHEAD_MILLIS
    for name in names:
        lake.create_namespace(name)
    clock.now_millis -= AHEAD_MILLIS


@pytest.fixture
def poisoned(lake: Lakehouse, clock: Clock) -> Lakehouse:
    """Versions 0 to 2 by a right clock, then 3 and 4 by one that is far ahead."""
    for name in ("a", "b"):
        clock.now_millis += HOUR_MILLIS
        lake.create_namespace(name)
    commit_ahead(lake, clock, "c", "d")
    clock.now_millis += HOUR_MILLIS
    return lake


def namespaces(lake: mangrove.Lakehouse, millis: int) -> list[str]:
    return [namespace.name for namespace in lake.at(time_of(millis)).namespaces()]


def test_nothing_is_committed_after_a_version_that_is_dated_far_in_the_future(
    poisoned: Lakehouse, opened_again: Callable[[], Lakehouse]
) -> None:
    for lake in (poisoned, opened_again()):
        with pytest.raises(FormatError, match=r"version 4 is dated 22\d\d-.*repair-clock"):
            lake.create_namespace("e")
        with pytest.raises(FormatError, match="version 4 is dated"):
            lake.rollback(2)
        with pytest.raises(FormatError, match="version 4 is dated"):
            lake.alter({CLOCK_TOLERANCE_PROPERTY: "1"})
    assert poisoned.version == 4


def test_clocks_may_differ_by_the_tolerance(lake: Lakehouse, clock: Clock) -> None:
    lake.create_namespace("a")
    clock.now_millis -= HOUR_MILLIS - 100
    lake.create_namespace("b")
    lake.alter({CLOCK_TOLERANCE_PROPERTY: "1000"})
    clock.now_millis -= 2000
    with pytest.raises(FormatError, match="more than the 1 s that are tolerated"):
        lake.create_namespace("c")


def test_a_larger_tolerance_lets_a_caller_commit_anyway(poisoned: Lakehouse, effects: Effects) -> None:
    tolerant = open_on_store(replace(effects, clock_tolerance_millis=AHEAD_MILLIS + DAY_MILLIS))
    before = tolerant._reading().commit.created_at_millis
    tolerant.create_namespace("e")
    assert tolerant._reading().commit.created_at_millis == before + 1
    assert tolerant.maintenance.check().is_sound
    with pytest.raises(FormatError, match="version 5 is dated"):
        poisoned.create_namespace("f")


def test_open_takes_the_tolerance_as_a_duration(tmp_path: Path) -> None:
    ahead = Clock()
    ahead.now_millis += AHEAD_MILLIS
    create_on_store(build_deterministic_effects(open_store(tmp_path), ahead))
    with pytest.raises(FormatError, match="repair-clock"):
        mangrove.open(tmp_path).create_namespace("a")
    mangrove.open(tmp_path, clock_tolerance="90000d").create_namespace("a")


def test_check_reports_a_newest_version_that_is_dated_in_the_future(poisoned: Lakehouse) -> None:
    (problem,) = poisoned.maintenance.check().problems
    assert "version 4 is dated" in problem.rule
    assert "repair-clock" in problem.rule


def test_after_the_repair_versions_have_correct_times_and_are_found_by_time(
    poisoned: Lakehouse, clock: Clock, opened_again: Callable[[], Lakehouse]
) -> None:
    right = [line.created_at_millis for line in poisoned.history()][::-1][:3]
    before_repair = clock.now_millis
    assert poisoned.maintenance.repair_clock(author="me") == 5
    repaired_at = poisoned._reading().commit.created_at_millis
    assert before_repair <= repaired_at <= clock.now_millis
    clock.now_millis += HOUR_MILLIS
    poisoned.create_namespace("e")
    assert repaired_at + HOUR_MILLIS <= poisoned._reading().commit.created_at_millis <= clock.now_millis
    for lake in (poisoned, opened_again()):
        assert lake.maintenance.check().is_sound
        assert lake.at(time_of(clock.now_millis)).version == 6
        assert lake.at(time_of(repaired_at)).version == 5
        assert lake.at(time_of(repaired_at - 1)).version == 2
        assert lake.at(time_of(right[1])).version == 1
        assert lake.at(time_of(clock.now_millis + 2 * AHEAD_MILLIS)).version == 6
        assert namespaces(lake, clock.now_millis) == ["a", "b", "c", "d", "e"]
        with pytest.raises(NotFoundError, match="no live version"):
            lake.at(time_of(right[0] - 1))
        lines = [*lake.history()]
        assert [line.version for line in lines] == [6, 5, 4, 3, 2, 1, 0]
        assert "repair the clock" in lines[1].message


def test_the_clock_can_be_repaired_repeatedly(poisoned: Lakehouse, clock: Clock) -> None:
    poisoned.maintenance.repair_clock()
    clock.now_millis += HOUR_MILLIS
    poisoned.create_namespace("e")
    between = clock.now_millis
    clock.now_millis += HOUR_MILLIS
    commit_ahead(poisoned, clock, "f")
    poisoned.maintenance.repair_clock(message="again")
    clock.now_millis += HOUR_MILLIS
    poisoned.create_namespace("g")
    poisoned.rollback(8)
    assert poisoned.maintenance.check().is_sound
    assert poisoned.at(time_of(clock.now_millis)).version == poisoned.version == 10
    assert poisoned.at(time_of(between)).version == 6
    assert poisoned.at(time_of(between - HOUR_MILLIS - 100)).version == 2


def test_repair_clock_does_nothing_without_a_version_dated_in_the_future(lake: Lakehouse) -> None:
    assert lake.maintenance.repair_clock() == 0
    assert lake.version == 0


def test_a_repair_is_rebased_over_concurrent_commits(poisoned: Lakehouse, effects: Effects, clock: Clock) -> None:
    tolerant = open_on_store(replace(effects, clock_tolerance_millis=AHEAD_MILLIS + DAY_MILLIS))
    poisoned._reading()
    tolerant.create_namespace("e")
    assert poisoned.maintenance.repair_clock() == 6
    assert poisoned.at(time_of(clock.now_millis)).version == 6
    assert poisoned.maintenance.check().is_sound


def test_versions_that_a_wrong_clock_dated_expire_after_the_repair(poisoned: Lakehouse, clock: Clock) -> None:
    clock.now_millis += 30 * DAY_MILLIS
    assert poisoned.maintenance.expire(dry_run=True).versions == (0, 1)
    poisoned.maintenance.repair_clock()
    clock.now_millis += 8 * DAY_MILLIS
    for name in ("e", "f", "g"):
        poisoned.create_namespace(name)
    clock.now_millis += HOUR_MILLIS * 3
    report = poisoned.maintenance.expire()
    assert report.versions == tuple(range(6))
    assert poisoned.maintenance.check().is_sound
    assert poisoned.at(time_of(clock.now_millis)).version == 8


@pytest.mark.parametrize("to", ["tree", "deltacat"])
def test_a_conversion_keeps_the_times_of_a_repaired_history(
    poisoned: Lakehouse, clock: Clock, to: str, tmp_path: Path
) -> None:
    poisoned.maintenance.repair_clock()
    clock.now_millis += HOUR_MILLIS
    poisoned.create_namespace("e")
    poisoned.maintenance.convert(tmp_path / to, to)
    told = open_on_store(build_deterministic_effects(open_store(tmp_path / to), clock, first_id=10**9))
    times = [(line.version, line.created_at_millis) for line in poisoned.history()]
    assert [(line.version, line.created_at_millis) for line in told.history()] == times
    assert told.maintenance.check().is_sound
    assert told.at(time_of(clock.now_millis)).version == 6
    assert told.at(time_of(times[2][1] - AHEAD_MILLIS)).version == 2
    told.create_namespace("f")


def test_an_export_of_a_repaired_lakehouse_is_sound(poisoned: Lakehouse, clock: Clock, tmp_path: Path) -> None:
    poisoned.maintenance.repair_clock()
    poisoned.maintenance.export(tmp_path / "copy", "now")
    copied = open_on_store(build_deterministic_effects(open_store(tmp_path / "copy"), clock, first_id=10**9))
    assert copied.maintenance.check().is_sound
    assert copied.at(time_of(clock.now_millis)).version == 5
    copied.create_namespace("e")


def test_a_search_by_time_after_a_repair_reads_few_versions(
    lake: Lakehouse, clock: Clock, store: CountingStore, opened_again: Callable[[], Lakehouse]
) -> None:
    for number in range(60):
        clock.now_millis += 1000
        lake.create_namespace(f"n{number}")
    half = clock.now_millis
    commit_ahead(lake, clock, "ahead")
    lake.maintenance.repair_clock()
    for number in range(60):
        clock.now_millis += 1000
        lake.create_namespace(f"m{number}")
    again = opened_again()
    again._reading()
    before = store.requests.total
    assert again.at(time_of(half)).version == 60
    assert store.requests.total - before <= 24
