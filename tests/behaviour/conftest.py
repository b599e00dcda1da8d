"""What every test of behaviour gets: a lakehouse in each layout and format revision."""

from collections.abc import Callable

import pytest

from mangrove.effects import Effects
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import Clock, build_deterministic_effects

STRICT = "tree-strict"
"""The newer format revision without extensions. The older one, which is strict by default, is in the fast suite."""


@pytest.fixture(params=[*LAYOUTS, pytest.param(STRICT, marks=pytest.mark.slow)])
def layout(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return "tree" if request.param == STRICT else request.param


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out strict trees where a test does not take the fixture `strict`: it would repeat that of the tree."""
    items[:] = [item for item in items if _layout_of(item) != STRICT or "strict" in getattr(item, "fixturenames", ())]


def _layout_of(item: pytest.Item) -> object:
    return item.callspec.params.get("layout") if hasattr(item, "callspec") else None


@pytest.fixture
def strict(request: pytest.FixtureRequest) -> bool | None:
    """Return whether the layout of this test is a strict tree; None is the default of the layout."""
    return True if _layout_of(request.node) == STRICT else None


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore("memory://behaviour/"))


@pytest.fixture
def effects(store: CountingStore, clock: Clock) -> Effects:
    return build_deterministic_effects(store, clock)


@pytest.fixture
def lake(effects: Effects, layout: str, strict: bool | None) -> Lakehouse:
    return create_on_store(effects, layout=layout, strict=strict)


@pytest.fixture
def opened_again(store: CountingStore, clock: Clock) -> Callable[[], Lakehouse]:
    """Return how another process would open the same lakehouse, knowing nothing of it."""
    first_id = 10**6

    def open_again() -> Lakehouse:
        nonlocal first_id
        first_id += 10**6
        return open_on_store(build_deterministic_effects(store, clock, first_id))

    return open_again
