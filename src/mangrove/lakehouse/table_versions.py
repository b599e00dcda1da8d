"""Listing and planning of the table versions, streams and partitions of a table."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.arguments import validate_count, validate_texts
from mangrove.lakehouse.new_table import parse_schema_argument, plan_table_version
from mangrove.model.locators import DeltaLocator, PartitionLocator
from mangrove.model.objects import Delta, Partition, Stream, TableEntry, TableVersion, TableVersionState
from mangrove.model.partitioning import PartitionScheme, format_partition_field, format_sort_field
from mangrove.model.schema import Schema
from mangrove.model.values import Value
from mangrove.tables.constraints import check_constraints_of
from mangrove.tables.scan_plan import list_live_files
from mangrove.transaction.catalog import CatalogReader
from mangrove.transaction.deltas import (
    OpenTable,
    TableTarget,
    build_no_version_error,
    find_target_table,
    is_default_version,
    open_table,
    scan_deltas_of_partitions,
    scan_partitions,
)
from mangrove.transaction.table_versions import (
    find_last_number,
    find_versioned_table,
    load_streams,
    load_table_versions,
)

__all__ = [
    "PartitionStats",
    "StreamInfo",
    "TableVersionInfo",
    "list_deltas",
    "list_partition_stats",
    "list_partitions",
    "list_streams",
    "list_table_versions",
    "parse_state",
    "plan_next_version",
]


@dataclass(frozen=True, slots=True)
class TableVersionInfo:
    """Lifecycle state and definition of a table version."""

    version: int
    state: str
    is_default: bool
    """Whether the name of the table refers to this version."""
    schema: Schema | None
    keys: tuple[str, ...]
    partition_by: tuple[str, ...]
    sort_by: tuple[str, ...]
    properties: Mapping[str, str]
    description: str | None
    previous_version: int | None
    stream_id: str | None
    """Id of the current stream."""


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream of a table version."""

    id: str
    format: str
    state: str
    is_served: bool
    """Whether it is the current stream."""
    partition_by: tuple[str, ...]
    watermark: int | None
    previous_id: str | None


@dataclass(frozen=True, slots=True)
class PartitionStats:
    """A partition of a stream with the totals of its deltas and live data files."""

    locator: PartitionLocator
    values: tuple[Value | None, ...]
    delta_count: int
    file_count: int
    row_count: int
    """Rows in the data files; those that later deltas delete count until a compaction."""
    size_bytes: int


def list_partitions(reading: CatalogReader, opened: OpenTable) -> Iterator[tuple[PartitionLocator, Partition]]:
    """Yield the partitions; their locators have the format of the stream and the partition values."""
    for locator, partition in scan_partitions(reading, opened):
        yield replace(locator, format=opened.stream.format, partition_values=partition.values), partition


def list_deltas(reading: CatalogReader, opened: OpenTable) -> Iterator[tuple[DeltaLocator, Delta]]:
    """Yield the deltas, partition by partition, with locators as those of `list_partitions`."""
    partitions = {locator: locator for locator, _ in list_partitions(reading, opened)}
    for locator, delta in scan_deltas_of_partitions(reading, list(partitions), opened.target.position):
        yield partitions[locator.parent].at(locator.position), delta


def list_partition_stats(reading: CatalogReader, target: TableTarget) -> list[PartitionStats]:
    """Return the partitions of a table, table version or stream with their numbers of files and rows."""
    opened = open_table(reading, target)
    partitions = dict(list_partitions(reading, opened))
    deltas: dict[PartitionLocator, list[Delta]] = {locator: [] for locator in partitions}
    for locator, delta in scan_deltas_of_partitions(reading, list(partitions), target.position):
        deltas[locator.parent].append(delta)
    return [_sum_partition(locator, one.values, deltas[locator]) for locator, one in partitions.items()]


def _sum_partition(
    locator: PartitionLocator, values: tuple[Value | None, ...], deltas: Sequence[Delta]
) -> PartitionStats:
    files = [live.file for live in list_live_files(deltas) if live.is_data]
    return PartitionStats(
        locator, values, len(deltas), len(files), sum(file.row_count for file in files),
        sum(file.size_bytes for file in files),
    )  # fmt: skip


def list_table_versions(reading: CatalogReader, target: TableTarget) -> list[TableVersionInfo]:
    """Return the versions of a table, oldest first."""
    _, table = find_target_table(reading, target)
    return [_describe_version(one, table) for one in load_table_versions(reading, table).values()]


def list_streams(reading: CatalogReader, target: TableTarget) -> list[StreamInfo]:
    """Return the streams of the default or the chosen table version, in the order of their ids."""
    opened = open_table(reading, target)
    return [_describe_stream(one, opened) for one in load_streams(reading, opened.version_locator).values()]


def parse_state(given: object) -> TableVersionState:
    """Return the lifecycle state with that name."""
    try:
        return TableVersionState(given.lower() if isinstance(given, str) else given)
    except ValueError:
        raise InvalidInputError(
            f"unknown state of a table version {given!r}; expected {', '.join(one.value for one in TableVersionState)}"
        ) from None


def plan_next_version(
    reading: CatalogReader,
    target: TableTarget,
    new_id: Callable[[], str],
    *,
    schema: object | None,
    schemaless: bool,
    keys: Sequence[str] | None,
    partition_by: Sequence[str] | None,
    sort_by: Sequence[str] | None,
    properties: Mapping[str, str] | None,
    description: str | None,
    checks: Mapping[str, str] | None,
    version: int | None,
    state: TableVersionState | str,
    stream_id: str | None,
) -> tuple[TableVersion, Stream]:
    """Return the next version of a table; arguments that are None are as in the version that `target` opens."""
    locator, table = find_versioned_table(reading, target)
    versions = load_table_versions(reading, table)
    number = target.version or table.default_version or 0
    if number not in versions:
        raise build_no_version_error(reading, locator, table, number)
    if schemaless and schema is not None:
        raise InvalidInputError(f"the next version of {locator} is schemaless: leave out the schema")
    before = _remove_columns(versions[number]) if schemaless else versions[number]
    columns = before.schema if schema is None else parse_schema_argument(schema)
    current = _describe_version(before, table)
    following = find_last_number(table, versions) + 1 if version is None else version
    try:
        return plan_table_version(
            locator,
            validate_count(following, "the number of a table version", 1),
            new_id() if stream_id is None else stream_id,
            columns,
            keys=_inherit(keys, current.keys, "the keys"),
            partition_by=_inherit(partition_by, current.partition_by, "the partition fields"),
            sort_by=_inherit(sort_by, current.sort_by, "the sort fields"),
            table_properties=table.properties,
            properties=current.properties if properties is None else properties,
            description=current.description if description is None else description,
            checks=check_constraints_of(before) if checks is None else checks,
            state=parse_state(state),
            previous_version=max(versions),
        )
    except NotFoundError as error:
        given = {"keys": keys, "partition_by": partition_by, "sort_by": sort_by, "checks": checks}
        inherited = [name for name, one in given.items() if one is None and schema is not None]
        hint = f"; {', '.join(inherited)} are those of table version {number} unless given" if inherited else ""
        raise NotFoundError(f"{error}{hint}") from error


def _remove_columns(version: TableVersion) -> TableVersion:
    """Return what a version without columns inherits: neither keys, partitions, order nor checks."""
    return TableVersion(version.version, None, description=version.description, properties=version.user_properties)


def _inherit(given: Sequence[str] | None, current: Sequence[str], what: str) -> Sequence[str]:
    return current if given is None else validate_texts(given, what)


def _describe_version(version: TableVersion, table: TableEntry) -> TableVersionInfo:
    schema = version.schema
    return TableVersionInfo(
        version.version,
        version.state.value,
        is_default_version(table, version),
        schema,
        () if schema is None else tuple(schema.column_with_id(key).name for key in version.keys),
        _format_scheme(version.partition_scheme, schema),
        () if schema is None else tuple(format_sort_field(field, schema) for field in version.sort_scheme.fields),
        version.user_properties,
        version.description,
        version.previous_version,
        version.latest_stream_id,
    )


def _describe_stream(stream: Stream, opened: OpenTable) -> StreamInfo:
    version = opened.version
    return StreamInfo(
        stream.id,
        stream.format,
        stream.state.value,
        stream.id == version.latest_stream_id,
        _format_scheme(version.partition_scheme_with_id(stream.partition_scheme_id), version.schema),
        stream.watermark,
        stream.previous_id,
    )


def _format_scheme(scheme: PartitionScheme, schema: Schema | None) -> tuple[str, ...]:
    return () if schema is None else tuple(format_partition_field(field, schema) for field in scheme.fields)
