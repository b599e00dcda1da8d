"""Comparing two versions, and putting one back in the place of the other."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from mangrove.errors import NotFoundError
from mangrove.metastore import Changes, Commit, Difference, Metastore, Parent, Scan, Snapshot
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableIdentity,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.objects import Namespace, Object, Table

__all__ = ["RollsBack", "differences_of", "everything_in", "made_by", "restoring"]


@runtime_checkable
class _Compares(Protocol):
    """A metastore that compares versions by reading only what they do not share."""

    def differences(self, before: Snapshot, after: Snapshot) -> Iterator[Difference]: ...


@runtime_checkable
class RollsBack(Protocol):
    """A metastore that puts an earlier version in the place of the newest by itself."""

    def roll_back(self, to: Snapshot, changes: Changes) -> Snapshot:
        """Commit what `to` holds as the next version."""
        ...


def differences_of(metastore: Metastore, before: Snapshot, after: Snapshot) -> Iterator[Difference]:
    """Yield the objects that differ; where the layout cannot tell, by reading both versions."""
    if isinstance(metastore, _Compares):
        return metastore.differences(before, after)
    return _compared(before, after)


def made_by(metastore: Metastore, locator: Locator, before: Snapshot, after: Snapshot) -> Commit:
    """Return a version after `before` in which the object became what it is in `after`, where it is another.

    This bisects. What happened in versions that have expired is told of the first
    one that is kept.
    """
    value = after.get(locator)
    low, high, found = before.version, after.version, after.commit
    while high - low > 1:
        middle = (low + high) // 2
        try:
            snapshot = metastore.at_version(middle)
        except NotFoundError:
            low = middle
            continue
        if snapshot.get(locator) == value:
            high, found = middle, snapshot.commit
        else:
            low = middle
    return found


def everything_in(snapshot: Snapshot) -> Iterator[tuple[Locator, Object]]:
    """Yield every object of a version that something leads to."""
    yield from snapshot.children(Kind.SHARED_TRANSACTION, None)
    spaces = list(snapshot.children(Kind.NAMESPACE, None))
    yield from spaces
    parents: list[Parent] = []
    for space, _ in spaces:
        assert isinstance(space, NamespaceLocator)
        yield from snapshot.children(Kind.VIEW, space)
        for locator, table in snapshot.children(Kind.TABLE, space):
            yield locator, table
            assert isinstance(table, Table)
            parents.append(TableIdentity(table.namespace_id, table.id))
    for kind in (Kind.TABLE_VERSION, Kind.STREAM, Kind.PARTITION, Kind.DELTA):
        found = [entry for parent in parents for entry in snapshot.children(kind, parent)]
        yield from found
        parents = [
            locator
            for locator, _ in found
            if isinstance(locator, TableVersionLocator | StreamLocator | PartitionLocator)
        ]


def restoring(differences: Iterable[Difference], transaction_id: str, message: str) -> Changes:
    """Return the changes that turn each `after` into its `before`.

    Deltas that come back take the positions that they had, so nothing may be added
    to their partitions meanwhile.
    """
    puts: dict[Locator, Object] = {}
    deletes: set[Locator] = set()
    guards: set[Locator | Scan] = set()
    found = list(differences)
    along = _moved_along(found)
    for difference in found:
        locator = difference.locator
        if locator in along:
            continue
        if difference.before is None:
            deletes.add(locator)
            guards |= _scans_below(locator)
        else:
            puts[locator] = difference.before
        if isinstance(locator, DeltaLocator):
            guards.add(Scan(Kind.DELTA, locator.parent))
    return Changes(transaction_id, puts, frozenset(deletes), guards=frozenset(guards), message=message)


def _moved_along(differences: Sequence[Difference]) -> set[Locator]:
    """Return the tables and views that differ only by the name of their namespace, with which they come back."""
    was = {one.before.id: one.locator for one in differences if isinstance(one.before, Namespace)}
    renamed = {
        was[one.after.id]: one.locator
        for one in differences
        if isinstance(one.after, Namespace) and was.get(one.after.id, one.locator) != one.locator
    }
    now = {one.locator: one.after for one in differences}
    moved: set[Locator] = set()
    for one in differences:
        if isinstance(one.locator, TableLocator | ViewLocator) and one.locator.parent in renamed:
            new = replace(one.locator, namespace=str(renamed[one.locator.parent].parts[-1]))
            if one.before is not None and now.get(new) == one.before:
                moved |= {one.locator, new}
    return moved


def _scans_below(locator: Locator) -> set[Locator | Scan]:
    match locator:
        case NamespaceLocator():
            return {Scan(Kind.TABLE, locator), Scan(Kind.VIEW, locator)}
        case TableVersionLocator():
            return {Scan(Kind.STREAM, locator)}
        case StreamLocator():
            return {Scan(Kind.PARTITION, locator)}
        case PartitionLocator():
            return {Scan(Kind.DELTA, locator)}
    return set()


def _compared(before: Snapshot, after: Snapshot) -> Iterator[Difference]:
    was, now = dict(everything_in(before)), dict(everything_in(after))
    for locator in sorted(was.keys() | now.keys()):
        if was.get(locator) != now.get(locator):
            yield Difference(locator, was.get(locator), now.get(locator))
