"""The metadata of a table as Iceberg tells it: one state, as one snapshot that follows none."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyiceberg.partitioning import PARTITION_FIELD_ID_START
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Summary

from mangrove.iceberg.schemas import iceberg_schema, name_mapping
from mangrove.iceberg.schemes import shown_orders, shown_schemes
from mangrove.tables.shown_names import CLIENT_SNAPSHOT
from mangrove.tables.table_state import TableState

__all__ = ["GIVEN_PROPERTIES", "ShownSnapshot", "metadata_of", "sequence_number_of", "shown_properties"]

_GC_ENABLED: Final = "gc.enabled"
GIVEN_PROPERTIES: Final = frozenset(
    {_GC_ENABLED, TableProperties.DEFAULT_NAME_MAPPING, CLIENT_SNAPSHOT, "format-version", "uuid"}
)
"""The properties that a table is shown with whatever it says itself, or that are never shown."""


@dataclass(frozen=True, slots=True)
class ShownSnapshot:
    """The one snapshot that a state is shown as."""

    snapshot_id: int
    list_address: str
    counts: Mapping[str, int]
    """How many files and rows there are, by the names that Iceberg gives them."""


def metadata_of(state: TableState, location: str, snapshot: ShownSnapshot | None, at_millis: int) -> TableMetadataV2:
    """Return what an engine reads of a state; without a snapshot nothing was ever written to the table.

    Of the schemas only the valid one is shown: Iceberg needs earlier ones for its own
    earlier snapshots, and there are none.
    """
    schemes = shown_schemes(state.version)
    specs = [shown.spec for shown in schemes]
    fields = state.version.partition_scheme.fields
    current = next(shown.spec.spec_id for shown in schemes if shown.scheme.fields == fields)
    orders = shown_orders(state.version)
    # A scheme by a column that is no longer there orders nothing that could be told.
    order = next((shown.order for shown in orders if shown.scheme == state.version.sort_scheme), orders[0].order)
    told = {
        "location": location,
        "table-uuid": _uuid_of(state.table_id),
        "last-updated-ms": at_millis,
        "last-column-id": state.schema.last_column_id,
        "schemas": [iceberg_schema(state.schema, state.version.keys)],
        "current-schema-id": state.schema.schema_id,
        "partition-specs": specs,
        "default-spec-id": current,
        "last-partition-id": max(PARTITION_FIELD_ID_START - 1, *(spec.last_assigned_field_id for spec in specs)),
        "properties": shown_properties(state),
        "sort-orders": [shown.order for shown in orders],
        "default-sort-order-id": order.order_id,
        "last-sequence-number": 0,
    }
    if snapshot is not None:
        told |= _snapshot(state, snapshot, at_millis)
    return TableMetadataV2.model_validate(told)


def shown_properties(state: TableState) -> dict[str, str]:
    """Return the table's own properties, and what no reader or writer of Iceberg may do otherwise.

    Nothing that an engine would take for rubbish may be deleted by it: other versions
    need files that the one that is shown does not.
    """
    own = {name: value for name, value in state.properties.items() if name not in GIVEN_PROPERTIES}
    mapping = name_mapping(state.schema).model_dump_json()
    return {**own, _GC_ENABLED: "false", TableProperties.DEFAULT_NAME_MAPPING: mapping}


def sequence_number_of(state: TableState) -> int:
    """Return a number that grows with each delta and is not below any position, since deletes must not be older."""
    return max(1, sum(log.last_position for log in state.logs))


def _snapshot(state: TableState, shown: ShownSnapshot, at_millis: int) -> dict[str, object]:
    sequence_number = sequence_number_of(state)
    entry = {"snapshot-id": shown.snapshot_id, "timestamp-ms": at_millis}
    snapshot = {
        **entry,
        "sequence-number": sequence_number,
        "manifest-list": shown.list_address,
        # Whoever follows what is appended must not take this for an append: it may be the first that they see.
        "summary": Summary(Operation.OVERWRITE, **{name: str(count) for name, count in shown.counts.items()}),
        "schema-id": state.schema.schema_id,
    }
    return {
        "current-snapshot-id": shown.snapshot_id,
        "snapshots": [snapshot],
        "snapshot-log": [entry],
        "refs": {MAIN_BRANCH: {"snapshot-id": shown.snapshot_id, "type": SnapshotRefType.BRANCH}},
        "last-sequence-number": sequence_number,
    }


def _uuid_of(table_id: str) -> uuid.UUID:
    """Return the table's id, or one made of it where another program's is no UUID."""
    try:
        return uuid.UUID(table_id)
    except ValueError:
        return uuid.uuid5(uuid.NAMESPACE_OID, table_id)
