"""Versions that changed a table, and the rows that differ between two of them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.inspect.page import (
    PageRequest,
    PageVersion,
    PinnedLakehouse,
    VersionInfo,
    build_version_info,
    resolve_snapshot,
)
from mangrove.inspect.rows import COLUMNS_MAX, RowColumn, bound_value
from mangrove.inspect.table import find_requested_table
from mangrove.lakehouse.diff import RowChange, summarize_differences
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.local.change_feed import CHANGE_TYPE, compute_changed_rows
from mangrove.local.python_rows import to_python_rows
from mangrove.metastore import Difference, MetastoreSnapshot
from mangrove.model.schema_text import format_type
from mangrove.model.types import Column
from mangrove.storage.port import Store
from mangrove.tables.change_feed import plan_changed_files
from mangrove.tables.table_state import TableState, load_table_state
from mangrove.transaction.deltas import TableTarget, find_target_table, open_table
from mangrove.transaction.history import history_entry_of
from mangrove.transaction.version_diff import scan_table_changes

__all__ = [
    "ChangedRow",
    "RowChangesInfo",
    "TableHistoryInfo",
    "TableHistoryLine",
    "load_row_changes_info",
    "load_table_history_info",
]

_VERSIONS_MAX: Final = 100
"""How many versions of the lakehouse are compared for a page of the history of a table."""
_COMPARED_ROWS_MAX: Final = 100_000
_PAGE_ROWS: Final = 50


@dataclass(frozen=True, slots=True)
class TableHistoryLine:
    """A version that changed a table."""

    version: VersionInfo
    rows: RowChange
    target: TableTarget | None
    """The table under its name in this version; None if it cannot be read there."""


@dataclass(frozen=True, slots=True)
class TableHistoryInfo:
    """The versions that changed a table, newest first."""

    seen: PageVersion
    namespace: str
    name: str
    target: TableTarget
    versions: tuple[TableHistoryLine, ...]
    next_before: int | None
    """The `before` of the next page; None on the last page."""


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row that differs between two versions."""

    change: str
    """One of insert, delete, update_before and update_after."""
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RowChangesInfo:
    """The rows of a table that differ between two versions."""

    seen: PageVersion
    namespace: str
    name: str
    target: TableTarget
    from_version: int
    to_version: int
    columns: tuple[RowColumn, ...]
    rows: tuple[ChangedRow, ...]
    counts: tuple[tuple[str, int], ...]
    """The number of rows of each kind of change, on all pages."""
    offset: int
    next_offset: int | None
    message: str | None = None
    """Why no rows are compared."""


def load_table_history_info(pinned: PinnedLakehouse, requested: PageRequest) -> TableHistoryInfo:
    """Return the versions that changed a table before the query's `before`."""
    table = find_requested_table(pinned, requested)
    end = pinned.snapshot.version + 1
    before = requested.number("before")
    commits = list(islice(pinned.lake.metastore.history(before=min(before or end, end)), _VERSIONS_MAX + 1))
    compared = {commit.version: commit for commit in commits[:_VERSIONS_MAX]}
    entries = (history_entry_of(commit) for commit in compared.values())
    lines = tuple(
        TableHistoryLine(
            build_version_info(compared[entry.version]),
            _sum_rows(differences),
            _find_readable(pinned.lake.metastore.at_version(entry.version), _follow(table)),
        )
        for entry, differences in scan_table_changes(pinned.lake.metastore, entries, table.value)
    )
    next_before = min(compared) if len(commits) > _VERSIONS_MAX else None
    return TableHistoryInfo(pinned.seen, table.locator.namespace, table.name, table.target, lines, next_before)


def _follow(table: TableSnapshot) -> TableTarget:
    """Return the target that is found in every version, under any name."""
    return replace(table.target, table_id=table.id)


def _find_readable(snapshot: MetastoreSnapshot, target: TableTarget) -> TableTarget | None:
    """Return the target under its name in a version, or None if the version cannot read it."""
    try:
        return replace(open_table(snapshot, target).target, table_id=None)
    except (InvalidInputError, NotFoundError):
        return None


def _sum_rows(differences: Iterable[Difference]) -> RowChange:
    return sum((change.rows for change in summarize_differences(differences, lambda _: {})), RowChange())


def load_row_changes_info(pinned: PinnedLakehouse, requested: PageRequest) -> RowChangesInfo:
    """Return the rows that differ from the version `from` to the version `to` of the query.

    By default these are the pinned version and the one before it.
    """
    table = find_requested_table(pinned, requested)
    to_version = requested.text("to")
    after = pinned.snapshot if to_version is None else resolve_snapshot(pinned.lake, to_version)
    from_version = requested.text("from") or str(max(0, after.version - 1))
    before = resolve_snapshot(pinned.lake, from_version)
    rows: list[ChangedRow] = []
    columns: tuple[Column, ...] = ()
    message: str | None
    try:
        old, new = (_load_state(one, _follow(table)) for one in (before, after))
        columns = new.schema.columns[:COLUMNS_MAX]
        rows, message = _compare_rows(pinned.lake.effects.store, old, new)
    except InvalidInputError as error:
        message = str(error)
    offset = requested.number("offset") or 0
    changes = [row.change for row in rows]
    return RowChangesInfo(
        pinned.seen,
        table.locator.namespace,
        table.name,
        table.target,
        before.version,
        after.version,
        tuple(RowColumn(column.name, format_type(column.type)) for column in columns),
        tuple(rows[offset : offset + _PAGE_ROWS]),
        tuple((change, changes.count(change)) for change in dict.fromkeys(changes)),
        offset,
        offset + _PAGE_ROWS if len(rows) > offset + _PAGE_ROWS else None,
        message,
    )


def _load_state(snapshot: MetastoreSnapshot, target: TableTarget) -> TableState:
    """Return the state of a table in a version; raise `InvalidInputError` with the reason if it has no rows there."""
    try:
        find_target_table(snapshot, target)
    except NotFoundError:
        raise InvalidInputError(f"The table does not exist in version {snapshot.version}.") from None
    try:
        return load_table_state(snapshot, target)
    except (InvalidInputError, NotFoundError) as error:
        raise InvalidInputError(f"In version {snapshot.version} there are no rows to compare: {error}.") from error


def _compare_rows(store: Store, before: TableState, after: TableState) -> tuple[list[ChangedRow], str | None]:
    """Return the changed rows, or the reason why they are not compared."""
    _, old, new = plan_changed_files(before, after)
    row_count = sum(scan.file.row_count for scan in (*old.scans, *new.scans))
    if row_count > _COMPARED_ROWS_MAX:
        return [], (
            f"The changed files have {row_count:,} rows; at most {_COMPARED_ROWS_MAX:,} are compared here. "
            "Use table.changes in Python."
        )
    rows = to_python_rows(compute_changed_rows(store, before, after))
    return [
        ChangedRow(row.pop(CHANGE_TYPE), tuple(map(bound_value, list(row.values())[:COLUMNS_MAX]))) for row in rows
    ], None
