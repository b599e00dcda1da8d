"""The metadata of a table as Iceberg tells it: one state, as one snapshot that follows none."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyiceberg.partitioning import PARTITION_FIELD_ID_START
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary

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
    specs = [shown.spec for shown in shown_schemes(state.version)]
    orders = {shown.scheme.id: shown.order for shown in shown_orders(state.version)}
    current = next(one for one in shown_schemes(state.version) if one.scheme.fields == _fields(state))
    sequence_number = sequence_number_of(state)
    shown = None if snapshot is None else _snapshot(state, snapshot, sequence_number, at_millis)
    return TableMetadataV2(
        location=location,
        table_uuid=_uuid_of(state.table_id),
        last_updated_ms=at_millis,
        last_column_id=state.schema.last_column_id,
        schemas=[iceberg_schema(state.schema, state.version.keys)],
        current_schema_id=state.schema.schema_id,
        partition_specs=specs,
        default_spec_id=current.spec.spec_id,
        last_partition_id=max(PARTITION_FIELD_ID_START - 1, *(spec.last_assigned_field_id for spec in specs)),
        properties=shown_properties(state),
        current_snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        snapshots=[] if shown is None else [shown],
        snapshot_log=[] if shown is None else [SnapshotLogEntry(snapshot_id=shown.snapshot_id, timestamp_ms=at_millis)],
        sort_orders=list({order.order_id: order for order in orders.values()}.values()),
        default_sort_order_id=orders[state.version.sort_scheme.id].order_id,
        refs={}
        if shown is None
        else {MAIN_BRANCH: SnapshotRef(snapshot_id=shown.snapshot_id, snapshot_ref_type=SnapshotRefType.BRANCH)},
        last_sequence_number=0 if snapshot is None else sequence_number,
    )


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


def _fields(state: TableState) -> object:
    return state.version.partition_scheme.fields


def _snapshot(state: TableState, shown: ShownSnapshot, sequence_number: int, at_millis: int) -> Snapshot:
    return Snapshot(
        snapshot_id=shown.snapshot_id,
        sequence_number=sequence_number,
        timestamp_ms=at_millis,
        manifest_list=shown.list_address,
        # Whoever follows what is appended must not take this for an append: it may be the first that they see.
        summary=Summary(Operation.OVERWRITE, **{name: str(count) for name, count in shown.counts.items()}),
        schema_id=state.schema.schema_id,
    )


def _uuid_of(table_id: str) -> uuid.UUID:
    """Return the table's id, or one made of it where another program's is no UUID."""
    try:
        return uuid.UUID(table_id)
    except ValueError:
        return uuid.uuid5(uuid.NAMESPACE_OID, table_id)
