"""What a handle knows of a version that it has just committed, beside what a fresh handle reads from storage."""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress

import pyarrow as pa
import pytest

from mangrove.errors import MangroveError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.metastore import BelowTable, MetastoreSnapshot, Parent
from mangrove.model.locators import DeltaLocator, Kind, Locator, NamespaceLocator, PartitionLocator, TableLocator
from mangrove.model.objects import Object, TableEntry
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.transaction.catalog import identity_of
from mangrove.wiring import LocalEngines

NAMES = ("a", "b")


def walk(
    snapshot: MetastoreSnapshot, parent: Parent = None, kind: Kind = Kind.NAMESPACE
) -> Iterator[tuple[Locator, Object]]:
    """Yield the object of this kind below the parent, and all objects below them."""
    below = {
        Kind.NAMESPACE: Kind.TABLE,
        Kind.TABLE: Kind.TABLE_VERSION,
        Kind.TABLE_VERSION: Kind.STREAM,
        Kind.STREAM: Kind.PARTITION,
        Kind.PARTITION: Kind.DELTA,
    }
    for locator, value in snapshot.children(kind, parent):
        yield locator, value
        if kind in below:
            inner = identity_of(value) if isinstance(value, TableEntry) else locator
            yield from walk(snapshot, inner, below[kind])  # type: ignore[arg-type]


def change(lake: Lakehouse, chance: random.Random) -> None:
    """Make one random change, or none if its name is taken or free."""
    namespace, other = chance.choice(NAMES), chance.choice((*NAMES, "c"))
    name = f"{namespace}.{chance.choice(NAMES)}"
    rows = pa.table({"id": [chance.randrange(9)], "part": [chance.randrange(2)]})
    changes: tuple[Callable[[], object], ...] = (
        lambda: lake.create_namespace(namespace),
        lambda: lake.rename_namespace(namespace, other),
        lambda: lake.rename_namespace("c", namespace),
        lambda: lake.create_table(name, "id bigint, part bigint", keys=["id"], partition_by=["part"]),
        lambda: lake.rename_table(name, f"{other}.{chance.choice(NAMES)}"),
        lambda: lake.drop_table(name),
        lambda: lake.alter_table(name, {"write.inline-rows-max-bytes": chance.choice(["0", "2000"])}),
        lambda: lake.table(name).compact(),
        lambda: lake.table(name).overwrite(rows),
        *[lambda: lake.table(name).upsert(rows)] * 3,
        *[lambda: lake.table(name).append(rows)] * 9,
    )
    with suppress(MangroveError):
        chance.choice(changes)()


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_version_that_was_just_committed_reads_as_from_storage(seed: int, strict: bool) -> None:
    store, chance = MemoryStore(), random.Random(seed)
    settings = LakehouseSettings(order=8, properties={"tree.strict": "true"} if strict else {})
    lake = create_on_store(build_deterministic_effects(store), settings=settings, engines=LocalEngines)
    for name in NAMES:
        lake.create_namespace(name)
        lake.create_table(f"{name}.a", "id bigint, part bigint", keys=["id"], partition_by=["part"])
    seen: set[Locator] = set()
    for _ in range(100):
        change(lake, chance)
        known = lake.metastore.latest()
        stored = open_on_store(build_deterministic_effects(store, first_id=10**9)).metastore.latest()
        assert known.version == stored.version
        objects = dict(walk(stored))
        seen |= objects.keys()
        assert {one: known.get(one) for one in seen} == {one: objects.get(one) for one in seen}
        partitions: list[BelowTable] = [one for one in sorted(seen) if isinstance(one, PartitionLocator)]
        assert known.last_children(Kind.DELTA, partitions) == [stored.last_child(Kind.DELTA, one) for one in partitions]
    assert {NamespaceLocator, TableLocator, PartitionLocator, DeltaLocator} <= {type(one) for one in seen}
    assert known.version > 20
