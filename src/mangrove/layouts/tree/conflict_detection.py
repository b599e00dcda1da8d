"""Conflict detection on tree keys and key ranges."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from mangrove.betree.search import KeyRangeSet, merge_ranges
from mangrove.layouts.tree.keys import LocatorKeyCodec, TreeKeyRange, locator_of_parts
from mangrove.metastore import Changes, Isolation, ObjectRange
from mangrove.model.locators import DeltaLocator, Kind, Locator, PartitionLocator, StreamLocator

__all__ = ["TreeValidationSet", "build_validation_set", "find_written_partitions"]


@dataclass(frozen=True, slots=True)
class TreeValidationSet:
    """The tree keys and key ranges per kind that concurrent commits must not have written."""

    keys: frozenset[str]
    ranges: Mapping[Kind, KeyRangeSet]

    def detect_conflicts(self, written: Iterable[str], keys: LocatorKeyCodec) -> list[str]:
        """Return those of the keys written by a concurrent commit that conflict."""
        return [key for key in written if key in self.keys or self._covers(key, keys)]

    def _covers(self, key: str, keys: LocatorKeyCodec) -> bool:
        return any(
            spans.contains(key) and keys.encoding.is_of_kind(key, kind, keys.sizes)
            for kind, spans in self.ranges.items()
        )


def build_validation_set(
    changes: Changes, isolation: Isolation, keys: LocatorKeyCodec, commuting: Set[Locator] = frozenset()
) -> TreeValidationSet:
    """Return the keys and ranges to validate at this isolation level; new deltas commute and are left out."""
    single, scans = changes.targets_to_validate(isolation, commuting)
    ranges: dict[Kind, list[TreeKeyRange]] = {}
    for scan in scans:
        ranges.setdefault(scan.kind, []).append(keys.range_of(scan))
    return TreeValidationSet(
        frozenset(keys.key_of(locator) for locator in single),
        {kind: merge_ranges(unmerged) for kind, unmerged in ranges.items()},
    )


def find_written_partitions(
    written: Iterable[str], stream: StreamLocator, keys: LocatorKeyCodec
) -> set[PartitionLocator]:
    """Return the partitions of a stream whose deltas are among the written keys."""
    first, end = keys.range_of(ObjectRange(Kind.DELTA, stream))
    found = (
        locator_of_parts(keys.encoding.parts_of(key, keys.sizes), namespace_id=stream.namespace_id)
        for key in written
        if first <= key < end
    )
    return {locator.parent for locator in found if isinstance(locator, DeltaLocator)}
