"""Conflict detection on index keys and key ranges; `rebase.py` and `local/row_conflict_detection.py` compare rows."""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from mangrove.betree.search import KeyRangeSet, merge_ranges
from mangrove.layouts.deltacat.guards import Guard, WrittenKey
from mangrove.layouts.deltacat.index import locator_from_key, range_below
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot
from mangrove.layouts.deltacat.staging import WRITTEN_SETTINGS_KEY
from mangrove.metastore import Changes, Isolation
from mangrove.model.locators import DeltaLocator, Kind, Locator, PartitionLocator, StreamLocator

__all__ = ["IndexValidationSet", "build_validation_set", "find_written_partitions", "is_affected"]


@dataclass(frozen=True, slots=True)
class IndexValidationSet:
    """The index keys and key ranges that concurrent commits must not have written."""

    keys: frozenset[str]
    ranges: KeyRangeSet

    def detect_conflicts(self, written: Iterable[WrittenKey]) -> list[str]:
        """Return readable names of the conflicting objects that a concurrent commit wrote."""
        return [one.description for one in written if one.key in self.keys or self.ranges.contains(one.key)]


def build_validation_set(
    changes: Changes, isolation: Isolation, base: DeltaCatSnapshot, commuting: Set[Locator] = frozenset()
) -> IndexValidationSet:
    """Return the keys and ranges to validate at this isolation level; new deltas commute and are left out."""
    single, scans = changes.targets_to_validate(isolation, commuting)
    # Only a commit that created the namespace can conflict with objects in a namespace that did not exist,
    # and writing there writes the namespace key too.
    keys = {key for locator in single if (key := base.key_of(locator)) is not None}
    if changes.settings is not None:
        keys.add(WRITTEN_SETTINGS_KEY.key)
    ranges = [found for scan in scans if (found := base.range_of(scan)) is not None]
    return IndexValidationSet(frozenset(keys), merge_ranges(ranges))


def is_affected(base: DeltaCatSnapshot, later: Iterable[Guard], changes: Changes, isolation: Isolation) -> bool:
    """Return whether one of the guards after `base` wrote anything that concerns the changes."""
    validation_set = build_validation_set(changes.with_strict_guards(), isolation, base)
    streams = [rows.stream for rows in changes.rows_to_validate(isolation)]
    return any(
        guard.commit.rolled_back_from is not None
        or validation_set.detect_conflicts(guard.written)
        or any(find_written_partitions(guard.written, stream) for stream in streams)
        for guard in later
    )


def find_written_partitions(written: Iterable[WrittenKey], stream: StreamLocator) -> set[PartitionLocator]:
    """Return the partitions of a stream whose deltas are among the written keys."""
    first, end = range_below(Kind.DELTA, stream, "", "", None)
    found = (locator_from_key(one.key) for one in written if first <= one.key < end)
    return {locator.parent for locator in found if isinstance(locator, DeltaLocator)}
