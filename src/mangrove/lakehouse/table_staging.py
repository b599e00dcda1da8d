"""A table as one transaction sees it, and the deltas of a planned write staged in that transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mangrove import tables
from mangrove.metastore import Scan
from mangrove.model.locators import DeltaLocator, Kind, TableLocator
from mangrove.model.objects import Delta, DeltaType, TableType
from mangrove.transaction.deltas import OpenTable, add_delta_to, deltas_of, open_table, partition_with, partitions_of
from mangrove.transaction.names import Reading, found_table, with_properties
from mangrove.transaction.workspace import Workspace

if TYPE_CHECKING:
    from mangrove.tables.table_state import Log, TableState
    from mangrove.tables.writing import PlannedWrite

__all__ = ["check_heeded_of", "guard_logs", "stage_in", "stage_write", "state_of", "table_state"]


def table_state(reading: Reading, locator: TableLocator, *, with_logs: bool = True) -> TableState:
    """Return the table as engines take it.

    A write that does not depend on what is there reads no logs, so that it meets
    nobody else's write at any isolation.
    """
    return state_of(reading, open_table(reading, locator), with_logs=with_logs)


def state_of(reading: Reading, opened: OpenTable, *, with_logs: bool = True) -> TableState:
    """Return an opened table as engines take it."""
    logs: list[Log] = []
    if with_logs:
        for way, partition in partitions_of(reading, opened):
            # By what DeltaCAT divided rows may be nothing that we know; then its values say nothing either.
            values = partition.values if opened.partition_scheme.fields else ()
            logs.append(tables.table_state.Log(values, tuple(delta for _, delta in deltas_of(reading, way))))
    table = opened.table
    return tables.table_state.TableState(
        str(opened.locator), table.id, opened.version, opened.partition_scheme, tuple(logs), table.properties
    )


def check_heeded_of(workspace: Workspace, locator: TableLocator, put: Mapping[str, str]) -> None:
    """Refuse properties that are about to be put to a table and could not be followed; guard the columns they name."""
    table = found_table(workspace, locator)
    properties = with_properties(table.properties, put, ())
    if table.table_type is not TableType.MANAGED or not tables.heeded_properties.is_heeded(put):
        return
    opened = open_table(workspace, locator)
    if tables.heeded_properties.name_columns(put):
        workspace.guard(opened.version_locator)
    if opened.version.schema is not None:
        state = state_of(workspace, opened, with_logs=False)
        tables.heeded_properties.check_heeded(replace(state, properties=properties), put)


def stage_write(workspace: Workspace, locator: TableLocator, write: PlannedWrite, transaction_id: str) -> None:
    """Add the deltas of a write, and guard the logs that it read."""
    stage_in(workspace, open_table(workspace, locator), write, transaction_id)


def stage_in(workspace: Workspace, opened: OpenTable, write: PlannedWrite, transaction_id: str) -> None:
    """Add the deltas of a write to a table that this transaction has opened and not changed since."""
    for values in write.read_logs:
        workspace.guard(Scan(Kind.DELTA, partition_with(workspace, opened, values)))
    for planned in write.deltas:
        _drop_replaced(workspace, opened, planned.log_values, planned.delta)
        add_delta_to(workspace, opened, planned.log_values, planned.delta, transaction_id)


def guard_logs(workspace: Workspace, locator: TableLocator, state: TableState) -> None:
    """Ask that nobody adds to the logs that were read, nor begins another one."""
    opened = open_table(workspace, locator)
    workspace.guard(Scan(Kind.PARTITION, opened.stream_locator))
    for log in state.logs:
        workspace.guard(Scan(Kind.DELTA, partition_with(workspace, opened, log.values)))


def _drop_replaced(workspace: Workspace, opened: OpenTable, values: Sequence[Any], delta: Delta) -> None:
    """Delete the deltas in whose place a replace stands: earlier versions keep them, later ones need not read them."""
    if delta.type is not DeltaType.REPLACE or delta.replaced_locations:
        return
    way = partition_with(workspace, opened, values)
    for there, _ in list(workspace.snapshot.children(Kind.DELTA, way)):
        assert isinstance(there, DeltaLocator)
        if delta.replaces_through is None or there.position <= delta.replaces_through:
            workspace.delete(there)
