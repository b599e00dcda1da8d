"""Table state with schema and delta logs, and its loading from a snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mangrove.errors import InvalidInputError
from mangrove.metastore import ALL_ROWS, RowRange
from mangrove.model.locators import PartitionLocator, StreamLocator, TableLocator, TableVersionLocator
from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta, Partition, Stream, TableVersion
from mangrove.model.partitioning import UNPARTITIONED, PartitionScheme
from mangrove.model.paths import SEGMENT_BYTES_MAX
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Float32, Float64, is_nested
from mangrove.model.values import Value
from mangrove.tables.pruning import can_partition_match, enumerate_partition_values
from mangrove.transaction.catalog import CatalogReader
from mangrove.transaction.deltas import (
    OpenTable,
    TableTarget,
    load_partitions,
    locate_partitions,
    open_table,
    scan_deltas_of_partitions,
    scan_partitions,
)
from mangrove.transaction.workspace import Workspace

if TYPE_CHECKING:
    from mangrove.expressions.predicates import Predicate


__all__ = [
    "PartitionLog",
    "TableState",
    "check_key_types",
    "is_partition_determined_by_keys",
    "load_opened_table_state",
    "load_partition_logs",
    "load_table_state",
    "record_rows_read",
]


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The deltas of one partition in the order in which they apply; keys are compared within a log only."""

    values: tuple[Value | None, ...] = ()
    deltas: tuple[Delta, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "deltas", tuple(self.deltas))
        positions = [delta.position for delta in self.deltas]
        if None in positions or sorted(set(positions), key=lambda position: position or 0) != positions:
            raise InvalidInputError(
                f"invalid positions {positions} of a log's deltas; expected distinct positions in ascending order"
            )

    @property
    def last_position(self) -> int:
        """The position of the newest delta, or 0."""
        return (self.deltas[-1].position or 0) if self.deltas else 0


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as one transaction sees it."""

    name: str
    """The name for messages."""
    table_id: str
    version: TableVersion
    log_scheme: PartitionScheme = UNPARTITIONED
    """The scheme by which deltas are split into logs: the partition scheme, or none."""
    logs: tuple[PartitionLog, ...] = ()
    properties: Mapping[str, str] = NO_PROPERTIES
    """The table properties."""
    is_part: bool = False
    """Whether logs were pruned because they have no matching rows."""
    path_bytes_max: int = SEGMENT_BYTES_MAX
    """The maximum size of the path of a data file."""
    inline_rows_default: int | None = None
    """The maximum size of inline rows unless a property sets it; None in a strict tree, or if DeltaCAT reads it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "logs", tuple(self.logs))
        if self.version.schema is None:
            raise InvalidInputError(
                f"{self.name} has no schema, so it has neither columns nor keys: add files with add_files, "
                "list them with files, and read those with columns with to_arrow"
            )
        for log in self.logs:
            if len(log.values) != len(self.log_scheme.fields):
                raise InvalidInputError(
                    f"{self.name} has a log with {len(log.values)} partition values, but its scheme has "
                    f"{len(self.log_scheme.fields)} fields"
                )

    @property
    def schema(self) -> Schema:
        """The current schema."""
        assert self.version.schema is not None
        return self.version.schema

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns that identify a row."""
        return tuple(self.schema.column_with_id(key) for key in self.version.keys)

    @property
    def file_scheme(self) -> PartitionScheme | None:
        """The scheme of partition values of all files, or None if there were several, or none with fields."""
        partitioned = [scheme for scheme in self.version.partition_schemes if scheme.fields]
        return partitioned[0] if len(partitioned) == 1 else None

    def scheme_of(self, file: DataFile) -> PartitionScheme | None:
        """Return the scheme of the partition values of a file, or None if it has none.

        Files record their scheme only in a table that had several schemes with fields. Any other
        file was written when there was one, which is the oldest.
        """
        schemes = [scheme for scheme in self.version.partition_schemes if scheme.fields]
        if file.partition_values is None or not schemes:
            return None
        if file.partition_scheme_id is None:
            return schemes[0]
        return next((scheme for scheme in schemes if scheme.id == file.partition_scheme_id), None)

    def checked_keys(self, purpose: str) -> tuple[Column, ...]:
        """Return the key columns; raise an error if there are none or their types are not exact."""
        if not self.version.keys:
            raise InvalidInputError(f"{self.name} has no keys, which {purpose} requires; create it with keys=[…]")
        check_key_types(self.name, self.key_columns)
        if not is_partition_determined_by_keys(self.version.keys, self.log_scheme):
            raise InvalidInputError(
                f"the keys of {self.name} do not determine the partition of a row, so rows cannot be found by "
                "key; add the partition columns to the keys"
            )
        return self.key_columns


def check_key_types(table: str, keys: Sequence[Column]) -> None:
    """Raise an error for key types whose values are not exact."""
    for column in keys:
        if is_nested(column.type) or isinstance(column.type, Float32 | Float64):
            raise InvalidInputError(
                f"key column {column.name!r} of {table} has an inexact type; "
                "use integers, decimals, strings, bytes, booleans, dates or times"
            )


def is_partition_determined_by_keys(keys: Sequence[int], scheme: PartitionScheme) -> bool:
    """Return whether rows with equal keys are always in the same partition.

    Otherwise all deltas of a table go into one log, because a row that moves between
    partitions must be deleted in the first by a delta of the second.
    """
    return all(field.source_id in keys for field in scheme.fields)


def load_table_state(
    reading: CatalogReader,
    target: TableLocator | TableTarget,
    *,
    with_logs: bool = True,
    predicate: Predicate | None = None,
    is_recorded: bool = True,
) -> TableState:
    """Return the table state for engines, and record its rows as read.

    A blind write reads no logs, so it conflicts with no other write at any isolation level.
    A read with a predicate loads only the logs of partitions that can match, and only
    the rows that satisfy it are recorded. If `is_recorded` is False, the caller records
    later which rows it read.
    """
    opened = open_table(reading, target)
    return load_opened_table_state(reading, opened, with_logs=with_logs, predicate=predicate, is_recorded=is_recorded)


def load_opened_table_state(
    reading: CatalogReader,
    opened: OpenTable,
    *,
    with_logs: bool = True,
    predicate: Predicate | None = None,
    is_recorded: bool = True,
) -> TableState:
    """Return the state of an opened table for engines, as `load_table_state` does."""
    table, scheme = opened.table, opened.partition_scheme
    requested = predicate if scheme.fields else None
    if with_logs and is_recorded and isinstance(reading, Workspace):
        reading.read_rows(RowRange(opened.stream_locator, predicate or ALL_ROWS))
    logs: tuple[PartitionLog, ...] = ()
    if with_logs:
        located = reading.unrecorded() if isinstance(reading, Workspace) else reading
        partitions = _load_partitions(located, opened, requested)
        logs = _load_logs(located, scheme, partitions, opened.target.position)
    return TableState(
        str(opened.target),
        table.id,
        opened.version,
        scheme,
        logs,
        opened.properties,
        is_part=requested is not None or opened.target.partition_id is not None,
        path_bytes_max=min(SEGMENT_BYTES_MAX, reading.settings.file_path_max_size_bytes),
        inline_rows_default=_inline_rows_default_of(reading),
    )


def _inline_rows_default_of(reading: CatalogReader) -> int | None:
    snapshot = reading.snapshot if isinstance(reading, Workspace) else reading
    return snapshot.inline_rows_default if reading.settings.allows_inline_rows else None


def record_rows_read(reading: CatalogReader, target: TableLocator | TableTarget, predicate: Predicate | None) -> None:
    """Record in a transaction that it read the rows that satisfy `predicate`, or all; a version records nothing."""
    if isinstance(reading, Workspace):
        reading.read_rows(RowRange(open_table(reading, target).stream_locator, predicate or ALL_ROWS))


def load_partition_logs(
    reading: CatalogReader, stream_locator: StreamLocator, partitions: Sequence[PartitionLocator]
) -> TableState | None:
    """Return the state of some partitions of a stream; None if the stream does not exist or has no schema."""
    located = reading.unrecorded() if isinstance(reading, Workspace) else reading
    version_locator = TableVersionLocator(stream_locator.namespace_id, stream_locator.table_id, stream_locator.version)
    version, stream = located.get_many([version_locator, stream_locator])
    if not isinstance(version, TableVersion) or not isinstance(stream, Stream) or version.schema is None:
        return None
    scheme = version.partition_scheme_with_id(stream.partition_scheme_id)
    logs = _load_logs(located, scheme, dict(load_partitions(located, partitions)))
    return TableState(stream_locator.table_id, stream_locator.table_id, version, scheme, logs, is_part=True)


def _load_partitions(
    reading: CatalogReader, opened: OpenTable, predicate: Predicate | None
) -> dict[PartitionLocator, Partition]:
    """Return the partitions, or those that can match a predicate; they are looked up if it enumerates them."""
    schema, scheme = opened.version.schema, opened.partition_scheme
    if predicate is None or schema is None or opened.target.partition_id is not None:
        return dict(scan_partitions(reading, opened))
    named = enumerate_partition_values(scheme, schema, predicate)
    locators = None if named is None else locate_partitions(opened, named)
    found = scan_partitions(reading, opened) if locators is None else load_partitions(reading, locators)
    return {locator: one for locator, one in found if can_partition_match(scheme, one.values, schema, predicate)}


def _load_logs(
    reading: CatalogReader,
    scheme: PartitionScheme,
    partitions: Mapping[PartitionLocator, Partition],
    position: int | None = None,
) -> tuple[PartitionLog, ...]:
    """Return the logs of partitions, whose deltas, or those at a position, are read in one pass."""
    deltas: dict[str, list[Delta]] = {locator.partition_id: [] for locator in partitions}
    for locator, delta in scan_deltas_of_partitions(reading, list(partitions), position):
        deltas[locator.partition_id].append(delta)
    # DeltaCAT's partition scheme may be unsupported; then its values are ignored.
    is_divided = bool(scheme.fields)
    return tuple(
        PartitionLog(partition.values if is_divided else (), tuple(deltas[locator.partition_id]))
        for locator, partition in partitions.items()
    )
