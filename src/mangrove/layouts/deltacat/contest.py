"""Deciding by keys of the index whether a transaction can follow a rival that committed first."""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from mangrove.betree.spans import Spans, spans_of
from mangrove.layouts.deltacat.guard import Written
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.layouts.deltacat.staging import SETTINGS_WRITTEN
from mangrove.metastore import Changes, Isolation
from mangrove.model.locators import Locator

__all__ = ["Footprint", "footprint_of"]


@dataclass(frozen=True, slots=True)
class Footprint:
    """What must be untouched for a transaction to follow others: single keys of the index, and ranges of them."""

    keys: frozenset[str]
    ranges: Spans

    def touched_by(self, written: Iterable[Written]) -> list[str]:
        """Return what people call those of the objects that a rival wrote which stand in the way."""
        return [one.said for one in written if one.key in self.keys or self.ranges.hold(one.key)]


def footprint_of(
    changes: Changes, isolation: Isolation, base: CatalogSnapshot, commuting: Set[Locator] = frozenset()
) -> Footprint:
    """Return what the isolation asks to be untouched: new deltas commute, so their own keys are not part of it."""
    single, scans = changes.untouched(isolation, commuting)
    # What lies in a namespace that did not exist can only be met by whoever made that namespace,
    # and to write there takes writing the namespace too.
    keys = {key for locator in single if (key := base.key_of(locator)) is not None}
    if changes.settings is not None:
        keys.add(SETTINGS_WRITTEN.key)
    ranges = [found for scan in scans if (found := base.range_of(scan)) is not None]
    return Footprint(frozenset(keys), spans_of(ranges))
