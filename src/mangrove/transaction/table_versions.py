"""Create, release, drop and list operations on table versions, streams and named partitions.

Every change of the lifecycle writes the table entry, also where it stays the same, so
that two concurrent ones conflict unless they write the same entry.
"""

import decimal
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from mangrove.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from mangrove.metastore import ObjectRange
from mangrove.model.json_codec import format_partition_values
from mangrove.model.locators import (
    Kind,
    PartitionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
)
from mangrove.model.names import check_new_id
from mangrove.model.objects import (
    CHECK_PREFIX,
    DROPPED_STREAMS,
    LAST_TABLE_VERSION,
    NAMED_PARTITIONS,
    Partition,
    Stream,
    StreamState,
    TableEntry,
    TableType,
    TableVersion,
    TableVersionState,
    is_maintained_property,
)
from mangrove.model.partitioning import Bucket, Transform, Truncate, transform_name_of, transform_value
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.schema import check_new_columns
from mangrove.model.schema_text import format_type
from mangrove.model.types import Char, DataType, Decimal, Fixed, Int16, Int32, Varchar, is_nested
from mangrove.model.values import Value
from mangrove.transaction.catalog import (
    CatalogReader,
    drop_objects,
    identity_of,
    scan_objects_below,
    update_properties,
)
from mangrove.transaction.deltas import (
    TableTarget,
    build_no_version_error,
    build_partition_locator,
    find_target_table,
    open_table,
    put_table_version,
    validate_partition_values,
)
from mangrove.transaction.workspace import Workspace

__all__ = [
    "accepts_rows_of",
    "alter_table_version",
    "commit_stream",
    "create_partition",
    "create_stream",
    "create_table_version",
    "drop_stream",
    "drop_table_version",
    "find_last_number",
    "find_versioned_table",
    "load_streams",
    "load_table_versions",
    "set_table_version_state",
]


_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""An id that is drawn at random, so that it need not be recorded to be used only once."""


def load_table_versions(reading: CatalogReader, table: TableEntry) -> dict[int, TableVersion]:
    """Return the table versions by their numbers, in order."""
    found = reading.children(Kind.TABLE_VERSION, identity_of(table))
    return {value.version: value for _, value in found if isinstance(value, TableVersion)}


def load_streams(reading: CatalogReader, version: TableVersionLocator) -> dict[StreamLocator, Stream]:
    """Return the streams of a table version."""
    return {
        locator: value
        for locator, value in reading.children(Kind.STREAM, version)
        if isinstance(locator, StreamLocator) and isinstance(value, Stream)
    }


def find_last_number(table: TableEntry, versions: Mapping[int, TableVersion]) -> int:
    """Return the largest number of a table version, also of a dropped one: no number is used twice."""
    return max(*versions, table.last_table_version)


def create_table_version(workspace: Workspace, target: TableTarget, version: TableVersion, stream: Stream) -> None:
    """Create a table version with its first stream; its number is larger than that of every other."""
    locator, table = find_versioned_table(workspace, target)
    versions = load_table_versions(workspace, table)
    if version.version in versions:
        raise AlreadyExistsError(f"{locator} has a table version {version.version} already; choose a larger number")
    last = find_last_number(table, versions)
    if version.version <= last:
        raise InvalidInputError(
            f"table version {version.version} of {locator} would be older than {last}; choose a larger number"
            if version.version < last
            else f"{locator} had a table version {last}, which was dropped; choose a larger number"
        )
    check_new_columns(version.schema)
    version_locator = TableVersionLocator(table.namespace_id, table.id, version.version)
    workspace.guard(version_locator)
    workspace.put(version_locator, version)
    workspace.put(_stream_locator(version_locator, stream.id), stream)
    _put_entry(workspace, locator, table, versions | {version.version: version})


def set_table_version_state(workspace: Workspace, target: TableTarget, number: int, state: TableVersionState) -> None:
    """Set the lifecycle state, which may change the default version; a deletion conflicts with concurrent writes."""
    locator, table = find_versioned_table(workspace, target)
    versions = load_table_versions(workspace, table)
    if number not in versions:
        raise build_no_version_error(workspace, locator, table, number)
    if versions[number].state is state:
        return
    version_locator = TableVersionLocator(table.namespace_id, table.id, number)
    changed = replace(versions[number], state=state)
    workspace.put(version_locator, changed)
    if state is TableVersionState.DELETED:
        for stream_locator, stream in load_streams(workspace, version_locator).items():
            workspace.put(stream_locator, stream)
    _put_entry(workspace, locator, table, versions | {number: changed})


def drop_table_version(workspace: Workspace, target: TableTarget, number: int) -> None:
    """Drop a table version with all its rows; conflicts with concurrent writes to it."""
    locator, table = find_versioned_table(workspace, target)
    versions = load_table_versions(workspace, table)
    if number not in versions:
        raise build_no_version_error(workspace, locator, table, number)
    rest = {other: version for other, version in versions.items() if other != number}
    if not rest:
        raise InvalidInputError(f"{number} is the only table version of {locator}; drop the table instead")
    if number == table.latest_active_table_version and _find_active(rest) is None:
        raise InvalidInputError(
            f"{number} is the only active table version of {locator}; activate another one before you drop it"
        )
    version_locator = TableVersionLocator(table.namespace_id, table.id, number)
    drop_objects(workspace, scan_objects_below(workspace, version_locator))
    if number > max(rest):
        last = str(find_last_number(table, versions))
        table = replace(table, properties={**table.properties, LAST_TABLE_VERSION: last})
    _put_entry(workspace, locator, table, rest)


def alter_table_version(
    workspace: Workspace,
    target: TableTarget,
    *,
    put: Mapping[str, str] = NO_PROPERTIES,
    removed: Sequence[str] = (),
    description: str | None = None,
) -> None:
    """Set or remove properties of a table version itself, or change its description.

    Nothing is written if nothing changes. Concurrent writes of rows do not conflict.
    """
    opened = open_table(workspace, target)
    version, own = opened.version, opened.version.user_properties
    for name in put:
        if is_maintained_property(name):
            raise InvalidInputError(f"property {name!r} of {target} is maintained by Mangrove and cannot be set")
    for name in removed:
        if name not in own and name in opened.table.properties:
            raise InvalidInputError(
                f"{target} inherits the property {name!r} from its table; set another value, or remove it from "
                f"{target.locator}"
            )
    maintained = {name: text for name, text in version.properties.items() if name not in own}
    altered = replace(
        version,
        properties={**maintained, **update_properties(own, put, removed)},
        description=version.description if description is None else description,
    )
    if altered != version:
        put_table_version(workspace, target, altered, stops_writers=False)


def create_stream(workspace: Workspace, target: TableTarget, stream_id: str, stream_format: str) -> Stream:
    """Create a staged stream of the opened table version, for rows that readers do not see yet."""
    check_new_id(stream_id, "stream id")
    opened = open_table(workspace, target)
    locator = _stream_locator(opened.version_locator, stream_id)
    if workspace.get(locator) is not None:
        raise AlreadyExistsError(
            f"table version {opened.version.version} of {opened.locator} has a stream {stream_id!r} already; "
            "choose another id"
        )
    if stream_id in opened.version.dropped_streams:
        raise AlreadyExistsError(
            f"table version {opened.version.version} of {opened.locator} had a stream {stream_id!r}, which was "
            "dropped; choose another id"
        )
    stream = Stream(stream_id, stream_format, opened.stream.partition_scheme_id, StreamState.STAGED, opened.stream.id)
    workspace.guard(locator)
    workspace.guard(opened.stream_locator)
    workspace.put(locator, stream)
    return stream


def commit_stream(workspace: Workspace, target: TableTarget) -> None:
    """Make a staged stream the current one; conflicts with concurrent writes to it and to the previous one."""
    opened = open_table(workspace, target)
    served = open_table(workspace, replace(target, stream_id=None))
    if opened.stream.state is not StreamState.STAGED:
        raise InvalidInputError(f"{target} is {opened.stream.state.value}; only a staged stream can be committed")
    workspace.put(
        opened.stream_locator, replace(opened.stream, state=StreamState.COMMITTED, previous_id=served.stream.id)
    )
    workspace.put(served.stream_locator, replace(served.stream, state=StreamState.DEPRECATED))
    workspace.put(opened.version_locator, replace(opened.version, latest_stream_id=opened.stream.id))
    if target.version is None:
        workspace.guard_default_version(opened.locator, opened.table)


def drop_stream(workspace: Workspace, target: TableTarget) -> None:
    """Drop a staged or replaced stream with its rows; conflicts with concurrent writes to it."""
    opened = open_table(workspace, target)
    if opened.stream.id == opened.version.latest_stream_id:
        raise InvalidInputError(f"{target} is the stream that is read; commit another one before you drop it")
    drop_objects(workspace, scan_objects_below(workspace, opened.stream_locator))
    if not _UUID.fullmatch(opened.stream.id):
        dropped = " ".join(sorted({*opened.version.dropped_streams, opened.stream.id}))
        properties = {**opened.version.properties, DROPPED_STREAMS: dropped}
        workspace.put(opened.version_locator, replace(opened.version, properties=properties))


def create_partition(
    workspace: Workspace, target: TableTarget, values: Sequence[Value | None], partition_id: str
) -> PartitionLocator:
    """Create a partition with a chosen id; conflicts with concurrent writes, which derive ids from the values."""
    check_new_id(partition_id, "partition id")
    opened = open_table(workspace, target)
    checked = validate_partition_values(opened, values)
    if opened.version.schema is not None:
        types = opened.partition_scheme.result_types(opened.version.schema)
        for value, data_type, field in zip(checked, types, opened.partition_scheme.fields, strict=True):
            if value is not None and not _is_partition_value(value, data_type, field.transform):
                raise InvalidInputError(
                    f"no row of {opened.target} has the value {value!r} of the partition field {field.name} "
                    f"({transform_name_of(field.transform)}, {format_type(data_type)})"
                )
    locator = opened.partition_locator(partition_id)
    taken = build_partition_locator(workspace, opened)(checked)
    if workspace.get(locator) is not None:
        raise AlreadyExistsError(f"{opened.target} has a partition with the id {partition_id!r} already")
    if workspace.get(taken) is not None:
        raise AlreadyExistsError(
            f"{opened.target} has a partition with the values {format_partition_values(checked)} already, "
            f"{taken.partition_id!r}; a partition keeps its id"
        )
    # Concurrent creation of this id, or of these values under another id, conflicts.
    workspace.guard(ObjectRange(Kind.PARTITION, opened.stream_locator))
    workspace.put(locator, Partition(partition_id, checked, opened.stream.partition_scheme_id))
    workspace.put(opened.stream_locator, opened.stream)
    if NAMED_PARTITIONS not in opened.version.properties:
        properties = {**opened.version.properties, NAMED_PARTITIONS: "true"}
        workspace.put(opened.version_locator, replace(opened.version, properties=properties))
    return replace(locator, partition_values=checked)


def _is_partition_value(value: Value, data_type: DataType, transform: Transform) -> bool:
    """Return whether the transform of a column can have this result, a value of its type."""
    if isinstance(transform, Bucket) and isinstance(value, int) and not 0 <= value < transform.count:
        return False
    if isinstance(transform, Truncate) and transform_value(transform, data_type, value) != value:
        return False
    match data_type, value:
        case Int16() | Int32(), int():
            end = 2**15 if isinstance(data_type, Int16) else 2**31
            return -end <= value < end
        case Decimal(), decimal.Decimal():
            return value.adjusted() < data_type.precision - data_type.scale
        case Varchar() | Char(), str():
            return data_type.length is None or len(value) <= data_type.length
        case Fixed(), bytes():
            return len(value) == data_type.length
    return True


def find_versioned_table(reading: CatalogReader, target: TableTarget) -> tuple[TableLocator, TableEntry]:
    """Return a table that has table versions, with its own name; raise an error for one that is managed elsewhere."""
    locator, table = find_target_table(reading, target)
    if table.table_type is not TableType.MANAGED:
        raise InvalidInputError(f"{locator} is {table.table_type.value}: only a managed table has table versions")
    if table.latest_table_version is None:
        raise NotFoundError(f"{locator} has no table version")
    return locator, table


def _put_entry(
    workspace: Workspace, locator: TableLocator, table: TableEntry, versions: Mapping[int, TableVersion]
) -> None:
    workspace.put(
        locator,
        replace(table, latest_table_version=max(versions), latest_active_table_version=_find_active(versions)),
    )


def _find_active(versions: Mapping[int, TableVersion]) -> int | None:
    """Return the newest active table version."""
    return max(
        (number for number, version in versions.items() if version.state is TableVersionState.ACTIVE), default=None
    )


def _stream_locator(version: TableVersionLocator, stream_id: str) -> StreamLocator:
    return StreamLocator(version.namespace_id, version.table_id, version.version, stream_id)


def accepts_rows_of(version: TableVersion, written: TableVersion) -> bool:
    """Return whether rows that were written to a table version in the state `written` are valid in another state."""
    if version.schema is None or written.schema is None:
        return version.schema is written.schema
    known = {column.id: column for _, column in written.schema.all_columns()}
    for _, column in version.schema.all_columns():
        was = known.get(column.id)
        if not column.nullable and (was is None or was.nullable):
            return False
        if was is not None and was.type != column.type and not (is_nested(was.type) and is_nested(column.type)):
            return False
    checks = {entry for entry in version.properties.items() if entry[0].startswith(CHECK_PREFIX)}
    return (
        version.keys == written.keys
        and version.partition_scheme == written.partition_scheme
        and version.properties.get(NAMED_PARTITIONS) == written.properties.get(NAMED_PARTITIONS)
        and checks <= {*written.properties.items()}
    )
