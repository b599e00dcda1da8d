"""Deciding whether changes can follow what others wrote, from locators alone."""

from collections.abc import Iterable

from mangrove.metastore import Changes, Isolation, Scan
from mangrove.model.locators import Kind, Locator

__all__ = ["contested", "covers", "watched_by"]


def covers(scan: Scan, locator: Locator) -> bool:
    """Return whether what a scan lists can include the object at `locator`."""
    if locator.kind is not scan.kind or locator.parent != scan.parent:
        return False
    return str(locator.parts[-1]).startswith(scan.prefix)


def watched_by(changes: Changes, isolation: Isolation) -> tuple[frozenset[Locator], frozenset[Scan]]:
    """Return what must be untouched: single objects, and ranges. New deltas commute, so they are not among it."""
    items: set[Locator | Scan] = {locator for locator in changes.puts if locator.kind is not Kind.DELTA}
    items |= changes.deletes | changes.guards
    if isolation is Isolation.SERIALIZABLE:
        items |= changes.reads | changes.scans
    scans = frozenset(item for item in items if isinstance(item, Scan))
    return frozenset(item for item in items if not isinstance(item, Scan)), scans


def contested(changes: Changes, isolation: Isolation, written: Iterable[Locator]) -> list[Locator]:
    """Return those of the objects that others wrote which stop the changes from following."""
    single, scans = watched_by(changes, isolation)
    return sorted(locator for locator in written if locator in single or any(covers(scan, locator) for scan in scans))
