"""Object counts of a version, and the growth of the data up to it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mangrove.inspect.page import PinnedLakehouse, VersionComparer
from mangrove.metastore import MetastoreSnapshot
from mangrove.model.locators import Kind
from mangrove.model.objects import Delta

__all__ = ["COUNTED_MAX", "GrowthPoint", "ObjectCounts", "count_objects", "load_growth"]

_GROWTH_VERSIONS_MAX: Final = 60
_CHANGES_MAX: Final = 5_000
"""How many changed objects the growth reads in all."""
COUNTED_MAX: Final = 10_000
"""How many objects of a kind are counted, to bound the time of a page."""


@dataclass(frozen=True, slots=True)
class ObjectCounts:
    """Counts of objects; rows and bytes are those of the files of all deltas, including replaced files."""

    namespaces: int
    tables: int
    views: int
    deltas: int
    files: int
    rows: int
    size_bytes: int
    is_complete: bool
    """False if counting stopped at the bound; the counts are lower bounds then."""


def count_objects(
    compared: VersionComparer, snapshot: MetastoreSnapshot, counted_max: int = COUNTED_MAX
) -> ObjectCounts:
    """Count the objects of a version, up to a bound for each kind."""
    counts = {kind: _count(compared, snapshot, kind, counted_max) for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)}
    deltas = list(
        _iterate_data_totals(value for _, value in islice(compared.objects(snapshot, Kind.DELTA), counted_max))
    )
    return ObjectCounts(
        counts[Kind.NAMESPACE],
        counts[Kind.TABLE],
        counts[Kind.VIEW],
        len(deltas),
        sum(files for files, _, _ in deltas),
        sum(rows for _, rows, _ in deltas),
        sum(size for _, _, size in deltas),
        max(*counts.values(), len(deltas)) < counted_max,
    )


def _iterate_data_totals(values: Iterator[object]) -> Iterator[tuple[int, int, int]]:
    """Yield the files, rows and bytes of each delta among the values."""
    for value in values:
        if isinstance(value, Delta):
            yield len(value.manifest.entries), value.manifest.row_count, value.manifest.size_bytes


def _count(compared: VersionComparer, snapshot: MetastoreSnapshot, kind: Kind, counted_max: int) -> int:
    return sum(1 for _ in islice(compared.objects(snapshot, kind), counted_max))


@dataclass(frozen=True, slots=True)
class GrowthPoint:
    """The data that a version references."""

    version: int
    created_at_millis: int
    deltas: int
    rows: int
    size_bytes: int


def load_growth(pinned: PinnedLakehouse, compared: VersionComparer, tally: ObjectCounts) -> tuple[GrowthPoint, ...]:
    """Return the data of the last versions up to the pinned one, oldest first; none if there are too many deltas."""
    return tuple(reversed(list(_growth(pinned, compared, tally)))) if tally.deltas < COUNTED_MAX else ()


def _growth(pinned: PinnedLakehouse, compared: VersionComparer, tally: ObjectCounts) -> Iterator[GrowthPoint]:
    """Yield the points from the pinned version backwards, each by undoing the changes of the next."""
    after: MetastoreSnapshot = pinned.snapshot
    deltas, rows, size = tally.deltas, tally.rows, tally.size_bytes
    commits = islice(pinned.lake.metastore.history(before=after.version), _GROWTH_VERSIONS_MAX - 1)
    left = _CHANGES_MAX
    yield GrowthPoint(after.version, after.commit.created_at_millis, deltas, rows, size)
    for commit in commits:
        before = pinned.lake.metastore.at_version(commit.version)
        changes = list(islice(compared.differences(before, after), left + 1))
        left -= len(changes)
        if left < 0:
            return
        for change in changes:
            for value, sign in ((change.after, -1), (change.before, 1)):
                if isinstance(value, Delta):
                    deltas += sign
                    rows += sign * value.manifest.row_count
                    size += sign * value.manifest.size_bytes
        yield GrowthPoint(commit.version, commit.created_at_millis, deltas, rows, size)
        after = before
