"""The deltas of a planned write, staged in a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mangrove import tables
from mangrove.maintenance.table_states import state_of, table_state
from mangrove.metastore import Scan
from mangrove.model.locators import DeltaLocator, Kind, PartitionLocator, TableLocator
from mangrove.model.objects import Delta, DeltaType, TableType
from mangrove.transaction.deltas import (
    OpenTable,
    add_deltas_to,
    open_table,
    ways_to_partitions,
)
from mangrove.transaction.names import found_table, with_properties
from mangrove.transaction.workspace import Workspace

if TYPE_CHECKING:
    from mangrove.tables.table_state import TableState
    from mangrove.tables.writing import PlannedWrite

__all__ = ["check_heeded_of", "guard_logs", "stage_in", "stage_write", "state_of", "table_state"]


def check_heeded_of(workspace: Workspace, locator: TableLocator, put: Mapping[str, str]) -> None:
    """Refuse properties that are about to be put to a table and could not be followed; hold the columns they name.

    The table version is written as it is, so that of this and a change of columns the later is refused.
    """
    table = found_table(workspace, locator)
    properties = with_properties(table.properties, put, ())
    if table.table_type is not TableType.MANAGED or not tables.heeded_properties.is_heeded(put):
        return
    opened = open_table(workspace, locator)
    if tables.heeded_properties.name_columns(put):
        workspace.put(opened.version_locator, opened.version)
    if opened.version.schema is not None:
        state = state_of(workspace, opened, with_logs=False)
        tables.heeded_properties.check_heeded(replace(state, properties=properties), put)


def stage_write(workspace: Workspace, locator: TableLocator, write: PlannedWrite, transaction_id: str) -> None:
    """Add the deltas of a write, and guard the logs that it read."""
    stage_in(workspace, open_table(workspace, locator), write, transaction_id)


def stage_in(workspace: Workspace, opened: OpenTable, write: PlannedWrite, transaction_id: str) -> None:
    """Add the deltas of a write to a table that this transaction has opened and not changed since."""
    way_to = ways_to_partitions(workspace, opened)
    if write.is_of_all_logs:
        workspace.guard(Scan(Kind.PARTITION, opened.stream_locator))
    for values in write.read_logs:
        workspace.guard(Scan(Kind.DELTA, way_to(values)))
    _drop_replaced(workspace, {way_to(planned.log_values): planned.delta for planned in write.deltas})
    additions = [(planned.log_values, planned.delta) for planned in write.deltas]
    add_deltas_to(workspace, opened, additions, transaction_id)


def guard_logs(workspace: Workspace, locator: TableLocator, state: TableState) -> None:
    """Ask that nobody adds to the logs that were read, nor begins another one."""
    opened = open_table(workspace, locator)
    workspace.guard(Scan(Kind.PARTITION, opened.stream_locator))
    way_to = ways_to_partitions(workspace, opened)
    for log in state.logs:
        workspace.guard(Scan(Kind.DELTA, way_to(log.values)))


def _drop_replaced(workspace: Workspace, deltas: Mapping[PartitionLocator, Delta]) -> None:
    """Delete the deltas in whose place a replace stands: earlier versions keep them, later ones need not read them."""
    through = {
        way: delta.replaces_through
        for way, delta in deltas.items()
        if delta.type is DeltaType.REPLACE and not delta.replaced_locations
    }
    for there, _ in list(workspace.snapshot.children_of(Kind.DELTA, list(through))):
        assert isinstance(there, DeltaLocator)
        limit = through[there.parent]
        if limit is None or there.position <= limit:
            workspace.delete(there)
