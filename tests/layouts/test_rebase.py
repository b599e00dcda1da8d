"""Rebase of changes onto concurrent commits."""

from mangrove.layouts.tree.metastore import create_tree
from mangrove.metastore import Changes, ObjectRange
from mangrove.model.locators import Kind, Locator
from mangrove.model.manifests import Manifest
from mangrove.model.objects import Delta, DeltaType, Object, Partition, Stream, TableVersion
from mangrove.model.settings import LakehouseSettings
from mangrove.rebase import assign_positions
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.metastore_contract import (
    PARTITION,
    commit_objects,
    make_delta_locator,
    make_namespace,
    make_table,
)

EMPTY = Delta(DeltaType.APPEND, Manifest(()))


def test_a_restored_delta_keeps_its_position_before_later_ones() -> None:
    metastore = create_tree(build_deterministic_effects(MemoryStore()), LakehouseSettings(), Changes("made"))
    commit_objects(
        metastore,
        metastore.latest(),
        make_namespace("sales"),
        make_table("sales", "orders"),
        (PARTITION.parent.parent, TableVersion(1, None)),
        (PARTITION.parent, Stream("stream-id")),
        (PARTITION, Partition("partition-id")),
        (make_delta_locator(PARTITION, 2), EMPTY),
    )
    restored: dict[Locator, Object] = {make_delta_locator(PARTITION, 1): EMPTY}
    guarded = Changes("undo", restored, guards=frozenset({ObjectRange(Kind.DELTA, PARTITION)}))
    assert assign_positions(guarded, metastore.latest()).puts == restored
    (moved,) = assign_positions(Changes("append", restored), metastore.latest()).puts
    assert moved == make_delta_locator(PARTITION, 3)
