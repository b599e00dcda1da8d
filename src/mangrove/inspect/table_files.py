"""Live data files of a table, their number over time, and what a compaction would merge."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.inspect.formatting import format_value
from mangrove.inspect.live_rows import LiveRowCount, load_live_rows
from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse
from mangrove.inspect.table import find_requested_table
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.tables.compaction import plan_table_compaction
from mangrove.tables.scan_plan import FileScan, ScanPlan, plan_scan
from mangrove.tables.table_state import TableState, load_table_state
from mangrove.tables.write_plan import FILE_SIZE_BYTES
from mangrove.transaction.deltas import TableTarget
from mangrove.transaction.history import history_entry_of
from mangrove.transaction.version_diff import scan_table_history

__all__ = ["FilePoint", "LiveFileLine", "TableFilesInfo", "load_table_files_info"]

_FILES_MAX: Final = 200
_POINTS_MAX: Final = 20
_VERSIONS_MAX: Final = 100
"""How many versions of the lakehouse are searched for those that changed the table."""
_MERGED_FILES_MIN: Final = 10
"""From how many files on a compaction is recommended."""


@dataclass(frozen=True, slots=True)
class LiveFileLine:
    """A live data file."""

    location: str
    partition: str
    rows: int
    size_bytes: int
    delete_files: int
    """The number of delete files that apply to it."""
    content_type: str


@dataclass(frozen=True, slots=True)
class FilePoint:
    """The live data files of a table in one version."""

    version: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TableFilesInfo:
    """The live data files of a table."""

    seen: PageVersion
    namespace: str
    name: str
    target: TableTarget
    live_rows: LiveRowCount | None
    """None for a table without a schema."""
    files: int
    size_bytes: int
    delete_files: int
    listed: tuple[LiveFileLine, ...]
    """The smallest files first, up to a bound."""
    merged_files: int
    """How many files a compaction would merge."""
    is_compaction_recommended: bool
    """Only for a table, not for a chosen version or part of it."""
    points: tuple[FilePoint, ...]
    """Oldest first."""


def load_table_files_info(pinned: PinnedLakehouse, requested: PageRequest) -> TableFilesInfo:
    """Return the live data files of a table."""
    table = find_requested_table(pinned, requested)
    if table.schema is None:
        return _list_stored_files(pinned, table)
    state = table.state()
    plan = plan_scan(state)
    merged_files = plan_table_compaction(state, FILE_SIZE_BYTES).files
    smallest = sorted(plan.scans, key=lambda scan: scan.file.size_bytes)[:_FILES_MAX]
    return TableFilesInfo(
        pinned.seen,
        table.locator.namespace,
        table.name,
        table.target,
        load_live_rows(pinned, table),
        len(plan.scans),
        _sum_bytes(plan),
        len(plan.files()) - len(plan.scans),
        tuple(_build_line(state, scan) for scan in smallest),
        merged_files,
        merged_files >= _MERGED_FILES_MIN and table.target == TableTarget(table.locator),
        tuple(reversed(list(_iterate_points(pinned, table)))),
    )


def _build_line(state: TableState, scan: FileScan) -> LiveFileLine:
    named = zip(state.log_scheme.fields, scan.log_values, strict=False)
    partition = ", ".join(f"{field.name}={format_value(value)}" for field, value in named)
    delete_files = len(scan.equality_deletes) + len(scan.position_deletes)
    file = scan.file
    return LiveFileLine(file.location, partition, file.row_count, file.size_bytes, delete_files, file.content_type)


def _list_stored_files(pinned: PinnedLakehouse, table: TableSnapshot) -> TableFilesInfo:
    """Return the files of a table without a schema."""
    files = table.files()
    smallest = sorted(files, key=lambda file: file.size_bytes)[:_FILES_MAX]
    lines = tuple(
        LiveFileLine(one.location, "", one.row_count, one.size_bytes, 0, one.content_type) for one in smallest
    )
    size_bytes = sum(file.size_bytes for file in files)
    return TableFilesInfo(
        pinned.seen, table.locator.namespace, table.name, table.target, None, len(files), size_bytes, 0, lines, 0,
        is_compaction_recommended=False, points=(),
    )  # fmt: skip


def _iterate_points(pinned: PinnedLakehouse, table: TableSnapshot) -> Iterator[FilePoint]:
    """Yield the number of live files after each of the last versions that changed the table, newest first."""
    metastore, target = pinned.lake.metastore, replace(table.target, table_id=table.id)
    commits = islice(metastore.history(before=pinned.snapshot.version + 1), _VERSIONS_MAX)
    changed = scan_table_history(metastore, map(history_entry_of, commits), table.value)
    for entry in islice(changed, _POINTS_MAX):
        try:
            plan = plan_scan(load_table_state(metastore.at_version(entry.version), target))
        except (InvalidInputError, NotFoundError):
            # The table version did not exist then, or could not be read.
            return
        yield FilePoint(entry.version, len(plan.scans), _sum_bytes(plan))


def _sum_bytes(plan: ScanPlan) -> int:
    return sum(scan.file.size_bytes for scan in plan.scans)
