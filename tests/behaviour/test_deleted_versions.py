"""Somebody deletes the file of a version by hand: what can be noticed is noticed, and no gap is filled."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mangrove.errors import FormatError
from mangrove.lakehouse.checking import check_uri
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.maintenance.version_files import HINT_PATHS, find_version_file
from mangrove.storage.counting import CountingStore
from mangrove.testing.effects import Clock

MINUTE_MILLIS = 60_000


def delete_version(store: CountingStore, version: int) -> str:
    path = find_version_file(store, version)
    assert path is not None
    store.delete_many([path])
    return path


def write_hint(store: CountingStore, version: int) -> None:
    (path,) = [path for path in HINT_PATHS if store.exists(path)]
    store.put(path, str(version).encode())


@pytest.fixture
def versions(lake: Lakehouse) -> Lakehouse:
    for number in range(6):
        lake.create_namespace(f"n{number}")
    return lake


def test_a_stale_hint_before_a_deleted_version_does_not_hide_the_newest(
    versions: Lakehouse, store: CountingStore, opened_again: Callable[[], Lakehouse]
) -> None:
    path = delete_version(store, 4)
    write_hint(store, 3)
    opened = opened_again()
    assert opened.version == 6
    opened.create_namespace("more")
    assert opened.version == 7
    assert not store.exists(path)
    assert any(problem.path == path for problem in opened.maintenance.check())


def test_a_stale_writer_does_not_reuse_the_number_of_a_deleted_version(
    versions: Lakehouse, store: CountingStore, opened_again: Callable[[], Lakehouse], clock: Clock
) -> None:
    sleeper = opened_again()
    for number in range(2):
        versions.create_namespace(f"later{number}")
    path = delete_version(store, 7)
    clock.now_millis += 2 * MINUTE_MILLIS
    with pytest.raises(FormatError, match="version 7 is missing, but version 8 exists"):
        sleeper.create_namespace("lost")
    assert not store.exists(path)
    opened_again().create_namespace("more")
    assert opened_again().version == 9


def test_check_reports_a_deleted_newest_version_that_the_hint_names(
    versions: Lakehouse, store: CountingStore, opened_again: Callable[[], Lakehouse]
) -> None:
    assert not opened_again().maintenance.check().problems
    path = delete_version(store, 6)
    opened = opened_again()
    assert opened.version == 5
    (problem,) = opened.maintenance.check()
    assert (problem.path, "the hint names version 6" in problem.rule) == (path, True)
    opened.maintenance.check(repair=True)
    assert not opened_again().maintenance.check().problems


def test_check_reports_deleted_oldest_versions_but_not_expired_ones(
    versions: Lakehouse, store: CountingStore, opened_again: Callable[[], Lakehouse], clock: Clock
) -> None:
    versions.alter(maximum_version_age_millis=0, minimum_versions_to_keep=1)
    clock.now_millis += 10 * MINUTE_MILLIS
    assert 3 in versions.maintenance.expire(alone=True).versions
    assert opened_again().maintenance.check().is_sound
    first = delete_version(store, 0)
    (problem,) = opened_again().maintenance.check()
    assert (problem.path, "version 0 was deleted" in problem.rule) == (first, True)
    delete_version(store, 1)
    (problem,) = opened_again().maintenance.check()
    assert (problem.path, "versions 0 to 1 were deleted" in problem.rule) == (first, True)


def test_a_copy_begins_with_a_later_version_and_is_sound(versions: Lakehouse, tmp_path: Path) -> None:
    versions.maintenance.export(str(tmp_path / "copy"), name="year-end", at=3)
    assert check_uri(str(tmp_path / "copy")).is_sound
