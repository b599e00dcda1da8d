"""A table of a version, or as a transaction sees it, in the form in which engines take it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mangrove import tables
from mangrove.model.locators import PartitionLocator, TableLocator
from mangrove.model.objects import Delta, Partition
from mangrove.transaction.deltas import (
    OpenTable,
    deltas_below,
    open_table,
    partitions_at,
    partitions_of,
    ways_by_values,
)
from mangrove.transaction.names import Reading

if TYPE_CHECKING:
    from mangrove.tables.predicates import Predicate
    from mangrove.tables.table_state import Log, TableState

__all__ = ["state_of", "table_state"]


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
    deltas: dict[str, list[Delta]] = {way.partition_id: [] for way in partitions}
    for locator, delta in deltas_below(reading, list(partitions)):
        deltas[locator.partition_id].append(delta)
    # By what DeltaCAT divided rows may be nothing that we know; then its values say nothing either.
    is_divided = bool(opened.partition_scheme.fields)
    return tuple(
        tables.table_state.Log(partition.values if is_divided else (), tuple(deltas[way.partition_id]))
        for way, partition in partitions.items()
    )
