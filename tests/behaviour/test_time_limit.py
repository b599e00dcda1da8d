"""The time limit of a transaction holds for every attempt to commit it, not only for the first."""

from collections.abc import Callable

import pytest
from tests.maintenance.test_maintenance_machine import HookedStore

from mangrove.errors import ConflictError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.testing.effects import Clock, build_deterministic_effects

HOUR_MILLIS = 60 * 60 * 1000
REQUESTS_MAX = 20


def test_an_attempt_after_a_lost_race_is_not_made_when_the_time_is_over(layout: str, strict: bool | None) -> None:
    late: list[str] = []
    for requests in range(1, REQUESTS_MAX):
        clock = Clock()
        store = HookedStore("memory://late/", clock)
        lake = create_on_store(build_deterministic_effects(store, clock), layout=layout, strict=strict)
        writer = open_on_store(build_deterministic_effects(store, clock, first_id=10**6))
        transaction = writer.transaction()
        transaction.create_namespace("mine")

        def meanwhile(clock: Clock = clock, lake: Lakehouse = lake) -> None:
            lake.create_namespace("rival")
            clock.now_millis += 2 * HOUR_MILLIS

        store.interrupt(requests, meanwhile)
        try:
            transaction.commit()
        except ConflictError as error:
            late.append(str(error))
        store.settle()
        names = [space.name for space in open_on_store(build_deterministic_effects(store, clock)).namespaces()]
        if "rival" not in names:
            break
        assert names == ["rival"]
    assert late
    assert all("commit deadline 2025-01-15T09:00:00" in error and "Nothing was committed" in error for error in late)


@pytest.mark.parametrize("layout", ["deltacat", "deltacat-2"])
def test_what_came_too_late_leaves_no_file_that_deltacat_could_take_for_a_revision(
    layout: str, strict: bool | None
) -> None:
    late = 0
    for requests in range(1, REQUESTS_MAX):
        clock = Clock()
        store = HookedStore("memory://late/", clock)
        lake = create_on_store(build_deterministic_effects(store, clock), layout=layout, strict=strict)
        transaction = lake.transaction()
        transaction.create_namespace("late")
        store.settle()
        before = [file.path for file in store.list()]

        def sleep(clock: Clock = clock) -> None:
            clock.now_millis += 2 * HOUR_MILLIS

        store.interrupt(requests, sleep)
        try:
            transaction.commit()
        except ConflictError:
            late += 1
            assert [file.path for file in store.list()] == before
    assert late


def test_a_rollback_is_refused_when_its_time_is_over(layout: str, strict: bool | None) -> None:
    clock = Clock()
    store = HookedStore("memory://late/", clock)
    lake = create_on_store(build_deterministic_effects(store, clock), layout=layout, strict=strict)
    lake.create_namespace("n")

    def sleep() -> None:
        clock.now_millis += 2 * HOUR_MILLIS

    store.interrupt(2, sleep)
    with pytest.raises(ConflictError, match="its base version may be deleted"):
        lake.rollback(to=0)
    assert lake.version == 1


UPKEEP: dict[str, Callable[[Lakehouse], object]] = {
    "compact": lambda lake: lake.maintenance.compact_metadata(),
    "upgrade": lambda lake: lake.maintenance.upgrade_format(),
}


@pytest.mark.parametrize("name", UPKEEP)
def test_upkeep_that_stood_still_for_too_long_commits_nothing(name: str) -> None:
    late = 0
    for requests in range(1, REQUESTS_MAX):
        clock = Clock()
        store = HookedStore("memory://late/", clock)
        lake = create_on_store(build_deterministic_effects(store, clock), layout="tree-older")
        lake.create_namespace("n")

        def sleep(clock: Clock = clock) -> None:
            clock.now_millis += 2 * HOUR_MILLIS

        store.interrupt(requests, sleep)
        try:
            UPKEEP[name](lake)
        except ConflictError:
            late += 1
            assert lake.version == 1
    assert late
