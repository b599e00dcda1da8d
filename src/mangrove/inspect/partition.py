"""Deltas of a partition and data files of a delta."""

from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.inspect.formatting import describe_bound
from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse
from mangrove.inspect.table import find_requested_table, format_partition
from mangrove.model.canonical import CanonicalName
from mangrove.model.locators import DeltaLocator, PartitionLocator
from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta, Partition, TableVersion
from mangrove.model.values import Value
from mangrove.transaction.deltas import OpenTable, TableTarget, scan_deltas

__all__ = [
    "DataFileInfo",
    "DeltaInfo",
    "DeltaLine",
    "PartitionInfo",
    "StatisticsLine",
    "load_delta_info",
    "load_partition_info",
]

_DELTAS_MAX: Final = 100
_FILES_MAX: Final = 100
_STATISTICS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class DeltaLine:
    """A delta in a list."""

    position: int
    type: str
    files: int
    rows: int
    size_bytes: int
    author: str | None
    replaces_through: int | None
    replaced_files: int
    properties: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition with a page of its deltas, in the order in which they apply."""

    seen: PageVersion
    namespace: str
    table: str
    partition_id: str
    partition: str
    state: str
    properties: tuple[tuple[str, str], ...]
    deltas: tuple[DeltaLine, ...]
    next_after: int | None
    canonical: str
    target: TableTarget
    """The partition or delta; None for the default table version and stream."""


@dataclass(frozen=True, slots=True)
class StatisticsLine:
    """The statistics of a column in a file; a dropped column is named by its id."""

    column_id: int
    column: str
    value_count: int | None
    null_count: int | None
    size_bytes: int | None
    minimum: Value | None
    maximum: Value | None


@dataclass(frozen=True, slots=True)
class DataFileInfo:
    """A file of a delta."""

    location: str
    kind: str
    content_type: str
    rows: int
    size_bytes: int
    schema_id: int | None
    partition_values: tuple[Value | None, ...] | None
    """Only if they differ from those of the partition."""
    statistics: tuple[StatisticsLine, ...]
    statistics_left_out: int


@dataclass(frozen=True, slots=True)
class DeltaInfo:
    """One delta with its files."""

    seen: PageVersion
    namespace: str
    table: str
    partition_id: str
    partition: str
    delta: DeltaLine
    files: tuple[DataFileInfo, ...]
    files_left_out: int
    canonical: str
    target: TableTarget
    """The partition or delta; None for the default table version and stream."""


def load_partition_info(pinned: PinnedLakehouse, requested: PageRequest) -> PartitionInfo:
    """Return a partition, with its deltas after the position that the query's `after` names."""
    opened, locator, partition = _find_partition(pinned, requested)
    after = requested.number("after")
    following = None if not after else locator.at(after)
    taken = [
        _delta_line(delta_locator, delta)
        for delta_locator, delta in islice(scan_deltas(pinned.snapshot, locator, after=following), _DELTAS_MAX + 1)
    ]
    page = tuple(taken[:_DELTAS_MAX])
    return PartitionInfo(
        pinned.seen,
        opened.locator.namespace,
        opened.locator.name,
        locator.partition_id,
        format_partition(opened, partition),
        partition.state.value,
        tuple(partition.properties.items()),
        page,
        page[-1].position if len(taken) > _DELTAS_MAX else None,
        str(_name(opened, partition)),
        replace(opened.target, partition_id=locator.partition_id),
    )


def load_delta_info(pinned: PinnedLakehouse, requested: PageRequest) -> DeltaInfo:
    """Return one delta."""
    opened, partition_locator, partition = _find_partition(pinned, requested)
    position = requested.step_number("position")
    if position < 1:
        raise InvalidInputError("stream positions start at 1")
    locator = partition_locator.at(position)
    delta = pinned.snapshot.get(locator)
    if not isinstance(delta, Delta):
        raise NotFoundError(f"delta {position} does not exist in this partition of {opened.locator}")
    entries = delta.manifest.entries
    return DeltaInfo(
        pinned.seen,
        opened.locator.namespace,
        opened.locator.name,
        partition_locator.partition_id,
        format_partition(opened, partition),
        _delta_line(locator, delta),
        tuple(_file(entry, opened.version) for entry in entries[:_FILES_MAX]),
        max(0, len(entries) - _FILES_MAX),
        str(replace(_name(opened, partition), position=position)),
        replace(opened.target, partition_id=partition_locator.partition_id, position=position),
    )


def _find_partition(pinned: PinnedLakehouse, requested: PageRequest) -> tuple[OpenTable, PartitionLocator, Partition]:
    opened = find_requested_table(pinned, requested).opened()
    locator = opened.partition_locator(requested.step("partition"))
    partition = pinned.snapshot.get(locator)
    if not isinstance(partition, Partition):
        raise NotFoundError(f"partition {locator.partition_id} does not exist in {opened.locator}")
    return opened, locator, partition


def _name(opened: OpenTable, partition: Partition) -> CanonicalName:
    table, stream = opened.locator, opened.stream
    version = opened.version_locator.version
    return CanonicalName(table.namespace, table.name, version, stream.id, stream.format, partition.id, partition.values)


def _delta_line(locator: DeltaLocator, delta: Delta) -> DeltaLine:
    author = delta.author
    return DeltaLine(
        locator.position,
        delta.type.value,
        len(delta.manifest.entries),
        delta.manifest.row_count,
        delta.manifest.size_bytes,
        None if author is None else " ".join(filter(None, (author.name, author.version))),
        delta.replaces_through,
        len(delta.replaced_locations),
        tuple(delta.properties.items()),
    )


def _file(entry: DataFile, version: TableVersion) -> DataFileInfo:
    listed = [pair for schema in version.schemas for pair in schema.all_columns()]
    names = {column.id: ".".join(path) for path, column in listed}
    types = {column.id: column.type for _, column in listed}
    lines = tuple(
        StatisticsLine(
            one.column_id, names.get(one.column_id, f"column {one.column_id}"), one.value_count, one.null_count,
            one.size_bytes, describe_bound(one.minimum, types.get(one.column_id)),
            describe_bound(one.maximum, types.get(one.column_id)),
        )
        for one in entry.statistics[:_STATISTICS_MAX]
    )  # fmt: skip
    return DataFileInfo(
        entry.location,
        entry.kind.value,
        entry.content_type,
        entry.row_count,
        entry.size_bytes,
        entry.schema_id,
        entry.partition_values,
        lines,
        max(0, len(entry.statistics) - _STATISTICS_MAX),
    )
