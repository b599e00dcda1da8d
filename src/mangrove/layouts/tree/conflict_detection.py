"""Conflict detection on tree keys and key ranges; `rebase.py` and `local/row_conflict_detection.py` compare rows."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from mangrove.betree.search import KeyRangeSet, merge_ranges
from mangrove.layouts.tree.keys import LocatorKeyCodec, TreeKeyRange, locator_of_parts
from mangrove.layouts.tree.root import Root
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.metastore import Changes, Isolation, ObjectRange
from mangrove.model.locators import DeltaLocator, Kind, Locator, PartitionLocator, StreamLocator

__all__ = ["TreeValidationSet", "build_validation_set", "find_written_partitions", "is_affected"]


@dataclass(frozen=True, slots=True)
class TreeValidationSet:
    """The tree keys and key ranges per kind that concurrent commits must not have written."""

    keys: frozenset[str]
    ranges: Mapping[Kind, KeyRangeSet]

    def detect_conflicts(self, written: Iterable[str], keys: LocatorKeyCodec) -> list[str]:
        """Return those of the keys written by a concurrent commit that conflict."""
        return [key for key in written if key in self.keys or (self.ranges and self._covers(key, keys))]

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


def is_affected(base: TreeSnapshot, later: Iterable[Root], changes: Changes, isolation: Isolation) -> bool:
    """Return whether one of the roots after `base` wrote anything that concerns the changes."""
    keys = base.keys
    validation_set = build_validation_set(changes.with_strict_guards(), isolation, keys)
    streams = [rows.stream for rows in changes.rows_to_validate(isolation)]
    for root in later:
        # Keys of another format revision cannot be compared.
        if root.is_rollback or root.revision.name != base.root.revision.name:
            return True
        written = [message.key for message in root.written]
        if validation_set.detect_conflicts(written, keys):
            return True
        if any(find_written_partitions(written, stream, keys) for stream in streams):
            return True
    return False


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
