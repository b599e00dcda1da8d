"""Nodes that are needed together are read together, and no node twice."""

from collections import Counter
from collections.abc import Sequence

import pytest

from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.model.objects import Delta, DeltaType
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects

SETTINGS = LakehouseSettings(order=8)
TABLES = 150


class Watched(MemoryStore):
    """A store that notes which paths are read together."""

    def __init__(self) -> None:
        super().__init__("memory://watched/")
        self.batches: list[list[str]] = []

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        self.batches.append([path for path in paths if "node" in path])
        return super().read_many(paths)

    def reads(self) -> Counter[str]:
        return Counter(path for batch in self.batches for path in batch)


@pytest.fixture
def store() -> Watched:
    """Return a lakehouse with a deep tree; its last version changed something in every leaf."""
    store = Watched()
    lake = create_on_store(build_deterministic_effects(store), settings=SETTINGS)
    lake.create_namespace("n")
    for first in range(0, TABLES, 50):
        with lake.transaction() as transaction:
            for number in range(first, first + 50):
                transaction.create_table(f"n.t{number:03d}", "id int")
                transaction.add_delta(f"n.t{number:03d}", (), Delta(DeltaType.APPEND))
    with lake.transaction() as transaction:
        for number in range(TABLES):
            transaction.alter_table(f"n.t{number:03d}", {"changed": "yes" * 200})
    store.batches.clear()
    return store


def test_a_check_reads_each_node_of_the_newest_version_once(store: Watched) -> None:
    lake = open_on_store(build_deterministic_effects(store))
    lake.rollback(to=lake.version)  # the newest version alone is of interest
    store.batches.clear()
    assert open_on_store(build_deterministic_effects(store)).maintenance.check(sample=1).is_sound
    reads = store.reads()
    assert len(reads) > 20
    assert set(reads.values()) == {1}


def test_a_diff_reads_nodes_in_few_batches_and_none_twice(store: Watched) -> None:
    lake = open_on_store(build_deterministic_effects(store))
    found = lake.diff(lake.version - 1, lake.version)
    assert len(found.changes) == TABLES
    reads = store.reads()
    assert len(reads) > 20
    assert set(reads.values()) == {1}
    # Where nodes were divided, what is shared is not known before it is opened, so some are read by themselves.
    assert len([batch for batch in store.batches if batch]) <= 2 * len(reads) // 3
