"""Staging of planned writes as deltas of a transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mangrove.metastore import ObjectRange, RowRange
from mangrove.model.locators import DeltaLocator, Kind, PartitionLocator, TableLocator
from mangrove.model.objects import Delta, DeltaType, TableType
from mangrove.model.properties import Properties
from mangrove.model.values import Value
from mangrove.rebase import REWRITTEN_BY
from mangrove.tables.table_properties import check_table_properties, has_column_property, has_known_property
from mangrove.tables.table_state import load_opened_table_state
from mangrove.transaction.catalog import CatalogReader
from mangrove.transaction.deltas import (
    OpenTable,
    TableTarget,
    add_deltas,
    build_partition_locator,
    find_target_table,
    open_table,
)
from mangrove.transaction.workspace import Workspace

if TYPE_CHECKING:
    from mangrove.tables.table_state import TableState
    from mangrove.tables.write_plan import PlannedWrite

__all__ = [
    "guard_logs",
    "stage_into_opened_table",
    "stage_write",
    "validate_property_changes",
]


def validate_property_changes(workspace: Workspace, target: TableTarget, put: Mapping[str, str]) -> None:
    """Refuse invalid properties of a table or table version, and guard the columns that they name.

    The table version is rewritten unchanged, so that a concurrent change of columns conflicts.
    """
    given = Properties(put)
    _, table = find_target_table(workspace, target)
    if table.table_type is not TableType.MANAGED or not has_known_property(given):
        return
    opened = open_table(workspace, target)
    if has_column_property(given):
        workspace.put(opened.version_locator, opened.version)
    if opened.version.schema is not None:
        state = load_opened_table_state(workspace, opened, with_logs=False)
        check_table_properties(replace(state, properties={**state.properties, **given}), given)


def stage_write(
    workspace: Workspace, target: TableLocator | TableTarget, write: PlannedWrite, transaction_id: str
) -> None:
    """Stage the deltas of a write, and record and guard the rows that it read."""
    stage_into_opened_table(workspace, open_table(workspace, target), write, transaction_id)


def stage_into_opened_table(workspace: Workspace, opened: OpenTable, write: PlannedWrite, transaction_id: str) -> None:
    """Stage the deltas of a write to a table that this transaction has opened and not changed since."""
    if write.is_of_all_logs:
        workspace.guard(ObjectRange(Kind.PARTITION, opened.stream_locator))
    if write.guarded is not None:
        workspace.guard_rows(RowRange(opened.stream_locator, write.guarded))
    additions = [(planned.log_values, planned.delta) for planned in write.deltas]
    if any(delta.type is DeltaType.REPLACE for _, delta in additions):
        additions = _replace_deltas(workspace, opened, additions, transaction_id)
    add_deltas(workspace, opened, additions, transaction_id, has_read_rows=write.read is not None)
    if write.read is not None:
        workspace.read_rows(RowRange(opened.stream_locator, write.read))


def _replace_deltas(
    workspace: Workspace,
    opened: OpenTable,
    additions: Sequence[tuple[tuple[Value | None, ...], Delta]],
    transaction_id: str,
) -> list[tuple[tuple[Value | None, ...], Delta]]:
    """Delete the deltas that replacements supersede, and return what to add; DeltaCAT knows no replacements."""
    locator_for = build_partition_locator(workspace, opened)
    replaces = {locator_for(values): delta for values, delta in additions if delta.type is DeltaType.REPLACE}
    if not workspace.settings.is_readable_by_deltacat:
        _delete_replaced_deltas(workspace, workspace.snapshot, replaces)
        return [*additions]
    for locator, delta in replaces.items():
        partition = workspace.partition(locator)
        if partition is not None:
            properties = {**partition.properties, REWRITTEN_BY: transaction_id}
            workspace.put(locator, replace(partition, properties=properties))
        if delta.replaces_through is None:
            workspace.guard(ObjectRange(Kind.DELTA, locator))
    _delete_replaced_deltas(workspace, workspace, replaces)
    return [(values, _as_append(delta)) for values, delta in additions if not _is_empty_replace(delta)]


def guard_logs(workspace: Workspace, target: TableLocator | TableTarget, state: TableState) -> None:
    """Guard the logs that were read against concurrent deltas, and the table against new logs."""
    opened = open_table(workspace, target)
    workspace.guard(ObjectRange(Kind.PARTITION, opened.stream_locator))
    locator_for = build_partition_locator(workspace, opened)
    for log in state.logs:
        workspace.guard(ObjectRange(Kind.DELTA, locator_for(log.values)))


def _as_append(delta: Delta) -> Delta:
    """Convert the replacement of a whole log, whose earlier deltas are deleted, into an append."""
    is_whole = delta.type is DeltaType.REPLACE and not delta.replaced_locations
    return replace(delta, type=DeltaType.APPEND, replaces_through=None) if is_whole else delta


def _is_empty_replace(delta: Delta) -> bool:
    return delta.type is DeltaType.REPLACE and not delta.manifest.entries


def _delete_replaced_deltas(
    workspace: Workspace, reading: CatalogReader, deltas: Mapping[PartitionLocator, Delta]
) -> None:
    """Delete the deltas that replacements supersede; earlier versions still contain them.

    A compaction of some files supersedes the deltas that had these rows inline, and no others.
    """
    replacing = {
        locator: delta
        for locator, delta in deltas.items()
        if not delta.replaced_locations or delta.replaces_through is not None
    }
    for there, value in list(reading.children_of(Kind.DELTA, list(replacing))):
        assert isinstance(there, DeltaLocator)
        assert isinstance(value, Delta)
        by = replacing[there.parent]
        is_before = by.replaces_through is None or there.position <= by.replaces_through
        if is_before and (not by.replaced_locations or _had_rows_inline(value, by.replaced_locations)):
            workspace.delete(there)


def _had_rows_inline(delta: Delta, replaced: Collection[str]) -> bool:
    entries = delta.manifest.entries
    is_whole = delta.type is not DeltaType.REPLACE and all(entry.location in replaced for entry in entries)
    return is_whole and bool(entries) and not delta.manifest.stored_files
