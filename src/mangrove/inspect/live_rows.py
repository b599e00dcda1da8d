"""Numbers of live rows: of one table, and of all tables of a version."""

from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from mangrove.inspect.catalog import iterate_default_versions
from mangrove.inspect.page import PinnedLakehouse, VersionComparer
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.local.scan import count_matching_rows
from mangrove.model.locators import DeltaLocator, Kind, PartitionLocator, StreamLocator
from mangrove.model.objects import Delta
from mangrove.storage.port import Store
from mangrove.tables.scan_plan import list_live_files, plan_scan
from mangrove.tables.table_state import TableState

__all__ = ["LiveRowCount", "count_all_live_rows", "count_live_rows", "load_live_rows"]

_COMPARED_ROWS_MAX: Final = 1_000_000
"""How many rows of one page are compared with deletes."""


@dataclass(frozen=True, slots=True)
class LiveRowCount:
    """A number of rows without deleted rows."""

    rows: int = 0
    is_exact: bool = True
    """False if too many rows would have to be compared with deletes; the number is an upper bound then."""
    compared: int = 0
    """The number of rows that were compared with deletes."""

    def __add__(self, other: "LiveRowCount") -> "LiveRowCount":
        return LiveRowCount(self.rows + other.rows, self.is_exact and other.is_exact, self.compared + other.compared)


def load_live_rows(pinned: PinnedLakehouse, table: TableSnapshot) -> LiveRowCount:
    """Return the number of rows of a table, which is counted once for each version."""
    return pinned.row_counts.get_or_create(
        (pinned.snapshot.version, table.target),
        lambda: count_live_rows(pinned.lake.effects.store, table.state()),
    )


def count_live_rows(store: Store, state: TableState, compared_max: int = _COMPARED_ROWS_MAX) -> LiveRowCount:
    """Count the rows of a table; only files with deletes are opened, and only if they have few enough rows."""
    plan = plan_scan(state)
    deleted_from = tuple(scan for scan in plan.scans if not scan.is_whole)
    rows = sum(scan.file.row_count for scan in plan.scans)
    compared = sum(scan.file.row_count for scan in deleted_from)
    if compared > compared_max:
        return LiveRowCount(rows, is_exact=False)
    live = count_matching_rows(store, state, replace(plan, scans=deleted_from)) if deleted_from else 0
    return LiveRowCount(rows - compared + live, compared=compared)


def count_all_live_rows(pinned: PinnedLakehouse, compared: VersionComparer, counted_max: int) -> LiveRowCount:
    """Count the rows of all tables, once for each version, from at most this many deltas.

    Manifests have the rows of tables without deletes; the files of the others are compared up to a bound.
    """
    return pinned.row_counts.get_or_create(
        (pinned.lake, pinned.snapshot.version, counted_max), lambda: _count_tables(pinned, compared, counted_max)
    )


def _count_tables(pinned: PinnedLakehouse, compared: VersionComparer, counted_max: int) -> LiveRowCount:
    tables = {
        StreamLocator(locator.namespace_id, locator.table_id, locator.version, version.latest_stream_id): table
        for table, locator, version in iterate_default_versions(compared, pinned.snapshot, counted_max)
        if version.latest_stream_id is not None
    }
    logs: dict[StreamLocator, dict[PartitionLocator, list[Delta]]] = {}
    for locator, value in islice(compared.objects(pinned.snapshot, Kind.DELTA), counted_max):
        if isinstance(locator, DeltaLocator) and isinstance(value, Delta) and locator.parent.parent in tables:
            logs.setdefault(locator.parent.parent, {}).setdefault(locator.parent, []).append(value)
    total = LiveRowCount()
    for stream, partitions in logs.items():
        files = [
            live
            for deltas in partitions.values()
            for live in list_live_files(sorted(deltas, key=lambda delta: delta.position or 0))
        ]
        if all(live.is_data and not live.deletes_earlier_rows for live in files):
            total += LiveRowCount(sum(live.file.row_count for live in files))
        else:
            state = pinned.lake_snapshot.table(tables[stream]).state()
            total += count_live_rows(pinned.lake.effects.store, state, _COMPARED_ROWS_MAX - total.compared)
    return total
