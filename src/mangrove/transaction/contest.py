"""Deciding whether changes can follow what others wrote, from locators alone."""

from collections.abc import Iterable

from mangrove.metastore import Changes, Isolation, Parent, Scan
from mangrove.model.locators import Kind, Locator

__all__ = ["contested", "covers"]


def covers(scan: Scan, locator: Locator) -> bool:
    """Return whether what a scan lists can include the object at `locator`."""
    if locator.kind is not scan.kind or locator.parent != scan.parent:
        return False
    return str(locator.parts[-1]).startswith(scan.prefix)


def contested(changes: Changes, isolation: Isolation, written: Iterable[Locator]) -> list[Locator]:
    """Return those of the objects that others wrote which stop the changes from following."""
    single, scans = changes.untouched(isolation)
    # A transaction may have scanned as many partitions as another wrote.
    below: dict[tuple[Kind, Parent], list[Scan]] = {}
    for scan in scans:
        below.setdefault((scan.kind, scan.parent), []).append(scan)
    return sorted(
        locator
        for locator in written
        if locator in single or any(covers(scan, locator) for scan in below.get((locator.kind, locator.parent), ()))
    )
