"""Rebase of changes onto concurrent commits."""

import pytest

from mangrove.layouts.tree.metastore import create_tree
from mangrove.metastore import Changes, MetastoreSnapshot, ObjectRange
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


@pytest.fixture
def newest() -> MetastoreSnapshot:
    """A version whose only delta has position 2."""
    metastore = create_tree(build_deterministic_effects(MemoryStore()), LakehouseSettings(), Changes("made"))
    return commit_objects(
        metastore,
        metastore.latest(),
        make_namespace("sales"),
        make_table("sales", "orders"),
        (PARTITION.parent.parent, TableVersion(1, None)),
        (PARTITION.parent, Stream("stream-id")),
        (PARTITION, Partition("partition-id")),
        (make_delta_locator(PARTITION, 2), EMPTY),
    ).snapshot


@pytest.mark.parametrize(
    ("positions", "expected"), [([1], [3]), ([2], [3]), ([3], [3]), ([1, 2], [3, 4]), ([2, 3], [3, 4])]
)
def test_new_deltas_follow_those_of_concurrent_commits(
    newest: MetastoreSnapshot, positions: list[int], expected: list[int]
) -> None:
    deltas: dict[Locator, Object] = {make_delta_locator(PARTITION, position): EMPTY for position in positions}
    moved = assign_positions(Changes("append", deltas), newest).puts
    assert sorted(moved) == [make_delta_locator(PARTITION, position) for position in expected]


def test_a_restored_delta_keeps_its_position_before_later_ones(newest: MetastoreSnapshot) -> None:
    restored: dict[Locator, Object] = {make_delta_locator(PARTITION, 1): EMPTY}
    guarded = Changes("undo", restored, guards=frozenset({ObjectRange(Kind.DELTA, PARTITION)}))
    assert assign_positions(guarded, newest).puts == restored
