"""The deltas of one partition, and the files of one delta."""

from dataclasses import dataclass
from itertools import islice
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.model.locators import DeltaLocator, PartitionLocator, parse_table_name
from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta, Partition, TableVersion
from mangrove.model.values import Value
from mangrove.transaction.deltas import OpenTable, deltas_of
from mangrove.web.facts.pinned import Asked, Pinned, Seen
from mangrove.web.facts.table import partition_text

__all__ = ["DeltaFacts", "DeltaLine", "FileFacts", "PartitionFacts", "StatisticsLine", "delta_facts", "partition_facts"]

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
class PartitionFacts:
    """A partition with a page of its deltas, in the order in which they apply."""

    seen: Seen
    namespace: str
    table: str
    partition_id: str
    partition: str
    state: str
    properties: tuple[tuple[str, str], ...]
    deltas: tuple[DeltaLine, ...]
    next_after: int | None


@dataclass(frozen=True, slots=True)
class StatisticsLine:
    """What a file says about a column; a column that the table no longer has goes by its id."""

    column_id: int
    column: str
    value_count: int | None
    null_count: int | None
    size_bytes: int | None
    minimum: Value | None
    maximum: Value | None


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file of a delta."""

    location: str
    kind: str
    content_type: str
    rows: int
    size_bytes: int
    schema_id: int | None
    partition_values: tuple[Value | None, ...] | None
    """Only where they differ from those of the partition."""
    statistics: tuple[StatisticsLine, ...]
    statistics_left_out: int


@dataclass(frozen=True, slots=True)
class DeltaFacts:
    """One delta with its files."""

    seen: Seen
    namespace: str
    table: str
    partition_id: str
    partition: str
    delta: DeltaLine
    files: tuple[FileFacts, ...]
    files_left_out: int


def partition_facts(pinned: Pinned, asked: Asked) -> PartitionFacts:
    """Return a partition, with its deltas after the position that the query's `after` names."""
    opened, locator, partition = _found(pinned, asked)
    after = asked.number("after")
    following = None if not after else _delta_locator(locator, after)
    taken = [
        _delta_line(way, delta)
        for way, delta in islice(deltas_of(pinned.snapshot, locator, after=following), _DELTAS_MAX + 1)
    ]
    shown = tuple(taken[:_DELTAS_MAX])
    return PartitionFacts(
        pinned.seen,
        opened.locator.namespace,
        opened.locator.name,
        locator.partition_id,
        partition_text(opened, partition),
        partition.state.value,
        tuple(partition.properties.items()),
        shown,
        shown[-1].position if len(taken) > _DELTAS_MAX else None,
    )


def delta_facts(pinned: Pinned, asked: Asked) -> DeltaFacts:
    """Return one delta."""
    opened, partition_locator, partition = _found(pinned, asked)
    position = asked.step_number("position")
    if position < 1:
        raise InvalidInputError("stream positions start at 1")
    locator = _delta_locator(partition_locator, position)
    delta = pinned.snapshot.get(locator)
    if not isinstance(delta, Delta):
        raise NotFoundError(f"there is no delta {position} in this partition of {opened.locator}")
    entries = delta.manifest.entries
    return DeltaFacts(
        pinned.seen,
        opened.locator.namespace,
        opened.locator.name,
        partition_locator.partition_id,
        partition_text(opened, partition),
        _delta_line(locator, delta),
        tuple(_file(entry, opened.version) for entry in entries[:_FILES_MAX]),
        max(0, len(entries) - _FILES_MAX),
    )


def _found(pinned: Pinned, asked: Asked) -> tuple[OpenTable, PartitionLocator, Partition]:
    opened = pinned.past.table(parse_table_name(asked.step("name"))).opened()
    locator = opened.partition_locator(asked.step("partition"))
    partition = pinned.snapshot.get(locator)
    if not isinstance(partition, Partition):
        raise NotFoundError(f"there is no partition {locator.partition_id} in {opened.locator}")
    return opened, locator, partition


def _delta_locator(partition: PartitionLocator, position: int) -> DeltaLocator:
    return DeltaLocator(
        partition.namespace_id,
        partition.table_id,
        partition.version,
        partition.stream_id,
        partition.partition_id,
        position,
    )


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


def _file(entry: DataFile, version: TableVersion) -> FileFacts:
    names = {column.id: ".".join(path) for schema in version.schemas for path, column in schema.all_columns()}
    lines = tuple(
        StatisticsLine(
            one.column_id, names.get(one.column_id, f"column {one.column_id}"), one.value_count, one.null_count,
            one.size_bytes, one.minimum, one.maximum,
        )
        for one in entry.statistics[:_STATISTICS_MAX]
    )  # fmt: skip
    return FileFacts(
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
