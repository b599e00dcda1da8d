"""A table as one transaction sees it, and the deltas of a planned write staged in that transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mangrove import tables
from mangrove.metastore import Scan
from mangrove.model.locators import DeltaLocator, Kind, PartitionLocator, TableLocator
from mangrove.model.objects import Delta, DeltaType, Partition, TableType
from mangrove.transaction.deltas import (
    OpenTable,
    add_deltas_to,
    deltas_below,
    open_table,
    partitions_at,
    partitions_of,
    ways_by_values,
    ways_to_partitions,
)
from mangrove.transaction.names import Reading, found_table, with_properties
from mangrove.transaction.workspace import Workspace

if TYPE_CHECKING:
    from mangrove.tables.predicates import Predicate
    from mangrove.tables.table_state import Log, TableState
    from mangrove.tables.writing import PlannedWrite

__all__ = ["check_heeded_of", "guard_logs", "stage_in", "stage_write", "state_of", "table_state"]


def table_state(
    reading: Reading, locator: TableLocator, *, with_logs: bool = True, predicate: Predicate | None = None
) -> TableState:
    """Return the table as engines take it.

    A write that does not depend on what is there reads no logs, so that it meets
    nobody else's write at any isolation. A read of the rows that a predicate means
    needs the logs of those partitions only that can hold them.
    """
    return state_of(reading, open_table(reading, locator), with_logs=with_logs, predicate=predicate)


def state_of(
    reading: Reading, opened: OpenTable, *, with_logs: bool = True, predicate: Predicate | None = None
) -> TableState:
    """Return an opened table as engines take it."""
    table, scheme = opened.table, opened.partition_scheme
    asked = predicate if scheme.fields else None
    partitions = _partitions_of(reading, opened, asked) if with_logs else {}
    logs = _logs_of(reading, opened, partitions)
    return tables.table_state.TableState(
        str(opened.locator), table.id, opened.version, scheme, logs, table.properties, is_part=asked is not None
    )


def _partitions_of(
    reading: Reading, opened: OpenTable, predicate: Predicate | None
) -> dict[PartitionLocator, Partition]:
    """Return the partitions, or those that can hold rows that a predicate means: looked up where it names them."""
    schema, scheme = opened.version.schema, opened.partition_scheme
    if predicate is None or schema is None:
        return dict(partitions_of(reading, opened))
    named = tables.partition_choice.named_values(scheme, schema, predicate)
    ways = None if named is None else ways_by_values(opened, named)
    found = partitions_of(reading, opened) if ways is None else partitions_at(reading, ways)
    may_hold = tables.partition_choice.may_hold
    return {way: one for way, one in found if may_hold(scheme, one.values, schema, predicate)}


def _logs_of(reading: Reading, opened: OpenTable, partitions: Mapping[PartitionLocator, Partition]) -> tuple[Log, ...]:
    """Return the logs of partitions, whose deltas are read in one pass."""
    deltas: dict[PartitionLocator, list[Delta]] = {way: [] for way in partitions}
    for locator, delta in deltas_below(reading, list(partitions)):
        deltas[locator.parent].append(delta)
    # By what DeltaCAT divided rows may be nothing that we know; then its values say nothing either.
    is_divided = bool(opened.partition_scheme.fields)
    return tuple(
        tables.table_state.Log(partition.values if is_divided else (), tuple(deltas[way]))
        for way, partition in partitions.items()
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
    way_to = ways_to_partitions(workspace, opened)
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
