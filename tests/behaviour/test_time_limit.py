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


def test_a_lost_race_is_not_retried_after_the_commit_deadline(layout: str, strict: bool | None) -> None:
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
            clock.now_millis += HOUR_MILLIS

        # The deadline counts from the begin of the transaction, not from its commit.
        clock.now_millis += HOUR_MILLIS // 2
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
def test_a_commit_after_the_deadline_leaves_no_revision_files(layout: str, strict: bool | None) -> None:
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


def test_a_rollback_after_the_deadline_is_rejected(layout: str, strict: bool | None) -> None:
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


MAINTENANCE_JOBS: dict[str, Callable[[Lakehouse], object]] = {
    "compact": lambda lake: lake.maintenance.compact_metadata(),
    "upgrade": lambda lake: lake.maintenance.upgrade_format(),
}


@pytest.mark.parametrize("name", MAINTENANCE_JOBS)
def test_maintenance_after_the_deadline_commits_nothing(name: str) -> None:
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
            MAINTENANCE_JOBS[name](lake)
        except ConflictError:
            late += 1
            assert lake.version == 1
    assert late
