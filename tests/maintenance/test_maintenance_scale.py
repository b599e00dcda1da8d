"""What a check and a vacuum cost grows with the number of tables and versions, and no faster."""

import sys
from collections.abc import Callable
from functools import cache
from types import FrameType

import pytest

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects

FEW, TIMES = 40, 4
GROWTH_MAX = 1.4
"""How much more than `TIMES` as many calls and requests are made: the tree is one level higher."""

WORK: dict[str, Callable[[Lakehouse], object]] = {
    "check": lambda lake: lake.maintenance.check(),
    "vacuum": lambda lake: lake.maintenance.vacuum(dry_run=True),
}


def count_calls(work: Callable[[], object]) -> int:
    """Return how many functions of Mangrove's are called."""
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        if event == "call" and "mangrove" in frame.f_code.co_filename:
            calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


@cache
def build_store(layout: str, count: int) -> MemoryStore:
    """Return the store of a lakehouse of so many tables, each in its own namespace; no work changes it."""
    store = MemoryStore()
    lake = create_on_store(build_deterministic_effects(store), layout=layout)
    for number in range(count):
        lake.create_namespace(f"shop{number:04}")
        lake.create_table(f"shop{number:04}.orders", "id long")
    return store


def costs(layout: str, count: int, work: Callable[[Lakehouse], object]) -> tuple[int, int]:
    """Return the calls and the requests of some work in a lakehouse of so many tables."""
    counting = CountingStore(build_store(layout, count))
    fresh = open_on_store(build_deterministic_effects(counting, first_id=10**9))
    before = counting.requests
    calls = count_calls(lambda: work(fresh))
    return calls, (counting.requests - before).total


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_calls_and_requests_grow_with_the_tables_and_no_faster(layout: str, name: str) -> None:
    few = costs(layout, FEW, WORK[name])
    many = costs(layout, FEW * TIMES, WORK[name])
    for before, after in zip(few, many, strict=True):
        assert after <= before * TIMES * GROWTH_MAX, f"{few} became {many}"
