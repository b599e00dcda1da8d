"""Conflict detection on index keys and key ranges."""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from mangrove.betree.search import KeyRangeSet, merge_ranges
from mangrove.layouts.deltacat.guards import WrittenKey
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.layouts.deltacat.staging import WRITTEN_SETTINGS_KEY
from mangrove.metastore import Changes, Isolation
from mangrove.model.locators import Locator

__all__ = ["IndexValidationSet", "build_validation_set"]


@dataclass(frozen=True, slots=True)
class IndexValidationSet:
    """What must be untouched for a transaction to follow others: single keys of the index, and ranges of them."""

    keys: frozenset[str]
    ranges: KeyRangeSet

    def detect_conflicts(self, written: Iterable[WrittenKey]) -> list[str]:
        """Return what people call those of the objects that a rival wrote which stand in the way."""
        return [one.said for one in written if one.key in self.keys or self.ranges.contains(one.key)]


def build_validation_set(
    changes: Changes, isolation: Isolation, base: CatalogSnapshot, commuting: Set[Locator] = frozenset()
) -> IndexValidationSet:
    """Return what the isolation asks to be untouched: new deltas commute, so their own keys are not part of it."""
    single, scans = changes.targets_to_validate(isolation, commuting)
    # What lies in a namespace that did not exist can only be met by whoever made that namespace,
    # and to write there takes writing the namespace too.
    keys = {key for locator in single if (key := base.key_of(locator)) is not None}
    if changes.settings is not None:
        keys.add(WRITTEN_SETTINGS_KEY.key)
    ranges = [found for scan in scans if (found := base.range_of(scan)) is not None]
    return IndexValidationSet(frozenset(keys), merge_ranges(ranges))
