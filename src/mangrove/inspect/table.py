"""Table information with columns, statistics and partitions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from mangrove.errors import InvalidInputError
from mangrove.inspect.formatting import describe_bound, format_value
from mangrove.inspect.lineage import find_reading_views
from mangrove.inspect.live_rows import LiveRowCount, load_live_rows
from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.lakehouse.table_versions import StreamInfo
from mangrove.metastore import MetastoreSnapshot
from mangrove.model.canonical import CanonicalName
from mangrove.model.locators import Kind, PartitionLocator, TableIdentity
from mangrove.model.manifests import ColumnStatistics, DataFile, FileKind
from mangrove.model.objects import Delta, Partition, TableType, TableVersion
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
from mangrove.model.values import Value
from mangrove.transaction.canonical_names import resolve_target
from mangrove.transaction.deltas import OpenTable, TableTarget, is_default_version, scan_deltas

__all__ = [
    "ColumnBounds",
    "ColumnInfo",
    "PartitionLine",
    "TableInfo",
    "TableVersionLine",
    "find_requested_table",
    "format_partition",
    "load_table_info",
    "merge_bounds",
]


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """The statistics of a column; None where unknown."""

    null_count: int | None = None
    minimum: Value | None = None
    maximum: Value | None = None


def merge_bounds(column_id: int, files: Sequence[DataFile]) -> ColumnBounds:
    """Merge the null counts and bounds of a column over all data files.

    If one file has no statistics, the result has none.
    """
    statistics = [file.statistics_of(column_id) for file in files if file.row_count and file.kind is FileKind.DATA]
    known = [one for one in statistics if one is not None]
    if not known or len(known) < len(statistics):
        return ColumnBounds()
    nulls = [one.null_count for one in known if one.null_count is not None]
    bounded = [one for one in known if not _is_all_null(one)]
    return ColumnBounds(
        sum(nulls) if len(nulls) == len(known) else None,
        _outermost([one.minimum for one in bounded], min),
        _outermost([one.maximum for one in bounded], max),
    )


def _is_all_null(one: ColumnStatistics) -> bool:
    return one.minimum is None and one.value_count is not None and one.null_count == one.value_count


def _outermost(values: Sequence[Value | None], choose: Callable[[list[Any]], Any]) -> Value | None:
    kinds = {(type(value), getattr(value, "tzinfo", None) is None) for value in values}
    if len(kinds) != 1 or None in values:
        return None
    outermost: Value = choose(list(values))
    return outermost


_PARTITIONS_MAX: Final = 50
_DELTAS_MAX: Final = 2_000
"""How many deltas of a page of partitions are read for totals and statistics."""
_TABLE_VERSIONS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """A column with the statistics of the files that were read."""

    path: str
    depth: int
    id: int
    type: str
    nullable: bool
    is_key: bool
    comment: str | None
    null_count: int | None
    minimum: Value | None
    maximum: Value | None


@dataclass(frozen=True, slots=True)
class TableVersionLine:
    """A table version in a list."""

    version: int
    state: str
    columns: int
    schemas: int
    is_default: bool
    """Whether it is read and written by the name of the table."""


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """A partition in a list, with the totals of its deltas."""

    id: str
    name: str
    deltas: int
    files: int
    rows: int
    size_bytes: int
    last_position: int | None
    is_complete: bool
    """False if it has more deltas than were read."""


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table."""

    seen: PageVersion
    namespace: str
    name: str
    id: str
    table_type: str
    table_format: str
    description: str | None
    location: str | None
    properties: tuple[tuple[str, str], ...]
    format_properties: tuple[tuple[str, str], ...]
    columns: tuple[ColumnInfo, ...]
    keys: tuple[str, ...]
    partition_by: tuple[str, ...]
    sort_by: tuple[str, ...]
    table_versions: tuple[TableVersionLine, ...]
    target: TableTarget
    """The table version and stream that the page chose; None for the default ones."""
    streams: tuple[StreamInfo, ...]
    """The streams of `table_version`."""
    table_version: int | None
    """The table version that the page shows, which can be the default; None if it cannot be read."""
    partitions: tuple[PartitionLine, ...]
    next_after: str | None
    aliases: tuple[str, ...]
    read_by: tuple[str, ...]
    """The views that read the table."""
    live_rows: LiveRowCount | None
    """None if the table has too many deltas for this page."""
    canonical: str
    unavailable: str | None
    """Why the table or table version cannot be read, if it cannot."""


def load_table_info(pinned: PinnedLakehouse, requested: PageRequest) -> TableInfo:
    """Return a table, with its partitions after the query's `after`."""
    table = find_requested_table(pinned, requested)
    locator, value = table.locator, table.value
    opened, unavailable = _open(table) if value.table_type is TableType.MANAGED else (None, None)
    partitions, files, next_after = _partitions(pinned.snapshot, opened, requested.text("after"))
    schema = value.schema if opened is None else opened.version.schema
    key_ids = value.keys if opened is None else opened.version.keys
    is_countable = schema is not None and opened is not None and requested.text("after") is None and next_after is None
    is_countable = is_countable and all(line.is_complete for line in partitions)
    return TableInfo(
        seen=pinned.seen,
        namespace=locator.namespace,
        name=locator.name,
        id=value.id,
        table_type=value.table_type.value,
        table_format=value.table_format,
        description=value.description if opened is None else table.description,
        location=value.location,
        properties=tuple((value if opened is None else table).properties.items()),
        format_properties=tuple(value.format_properties.items()),
        columns=() if schema is None else tuple(_columns(schema, key_ids, files)),
        keys=() if schema is None else tuple(".".join(schema.path_of(one)) for one in key_ids),
        partition_by=() if opened is None else table.partition_by,
        sort_by=() if opened is None else table.sort_by,
        table_versions=tuple(_table_versions(pinned.snapshot, table)),
        target=table.target,
        streams=() if opened is None else tuple(table.streams()),
        table_version=None if opened is None else opened.version.version,
        partitions=partitions,
        next_after=next_after,
        aliases=table.aliases,
        read_by=find_reading_views(pinned, locator),
        live_rows=load_live_rows(pinned, table) if is_countable else None,
        canonical=str(_name(table, opened)),
        unavailable=unavailable,
    )


def find_requested_table(pinned: PinnedLakehouse, requested: PageRequest) -> TableSnapshot:
    """Return the table, or the table version, stream, partition or delta, that the URL and its query name."""
    target = resolve_target(
        pinned.snapshot,
        requested.step("name"),
        requested.number("table_version"),
        requested.text("stream"),
        requested.text("partition"),
        requested.number("position"),
    )
    return pinned.lake_snapshot.table(target.locator)._bind(target)


def _name(table: TableSnapshot, opened: OpenTable | None) -> CanonicalName:
    name = CanonicalName(table.locator.namespace, table.locator.name, table.target.version)
    if table.target.stream_id is None or opened is None:
        return name
    return replace(name, version=opened.version.version, stream_id=opened.stream.id, stream_format=opened.stream.format)


def format_partition(opened: OpenTable, partition: Partition) -> str:
    """Return the display name of a partition, as in `ts_days=2026-11-15`."""
    fields = opened.version.partition_scheme_with_id(partition.scheme_id).fields
    named = zip(fields, partition.values, strict=False)
    return ", ".join(f"{field.name}={format_value(value)}" for field, value in named) or "all rows"


def _open(table: TableSnapshot) -> tuple[OpenTable | None, str | None]:
    """Return the opened table, or why it cannot be read, for example because it has no active table version."""
    try:
        return table.opened(), None
    except InvalidInputError as error:
        return None, str(error)


def _partitions(
    snapshot: MetastoreSnapshot, opened: OpenTable | None, after: str | None
) -> tuple[tuple[PartitionLine, ...], list[DataFile], str | None]:
    """Return a page of partitions, the files of their deltas, and the `after` of the next page."""
    if opened is None:
        return (), [], None
    following = None if after is None else opened.partition_locator(after)
    partitions = snapshot.children(Kind.PARTITION, opened.stream_locator, after=following)
    taken = list(islice(partitions, _PARTITIONS_MAX + 1))
    files: list[DataFile] = []
    lines: list[PartitionLine] = []
    left = _DELTAS_MAX
    for locator, value in taken[:_PARTITIONS_MAX]:
        assert isinstance(locator, PartitionLocator)
        assert isinstance(value, Partition)
        deltas = [delta for _, delta in islice(scan_deltas(snapshot, locator), left + 1)]
        is_complete = len(deltas) <= left
        deltas = deltas[:left]
        left -= len(deltas)
        lines.append(_line(format_partition(opened, value), locator, deltas, is_complete=is_complete))
        files.extend(entry for delta in deltas for entry in delta.manifest.entries)
    if after is None and len(taken) <= _PARTITIONS_MAX:
        # Ids are hashes; a complete list is sorted by partition values.
        return tuple(sorted(lines, key=lambda line: line.name)), files, None
    return tuple(lines), files, lines[-1].id if len(taken) > _PARTITIONS_MAX else None


def _line(name: str, locator: PartitionLocator, deltas: list[Delta], *, is_complete: bool) -> PartitionLine:
    manifests = [delta.manifest for delta in deltas]
    return PartitionLine(
        locator.partition_id,
        name,
        len(deltas),
        sum(len(manifest.entries) for manifest in manifests),
        sum(manifest.row_count for manifest in manifests),
        sum(manifest.size_bytes for manifest in manifests),
        deltas[-1].position if deltas else None,
        is_complete,
    )


def _table_versions(snapshot: MetastoreSnapshot, table: TableSnapshot) -> Iterator[TableVersionLine]:
    identity = TableIdentity(table.value.namespace_id, table.id)
    for _, version in islice(snapshot.children(Kind.TABLE_VERSION, identity), _TABLE_VERSIONS_MAX):
        if isinstance(version, TableVersion):
            yield TableVersionLine(
                version.version,
                version.state.value,
                0 if version.schema is None else len(version.schema.columns),
                len(version.schemas),
                is_default_version(table.value, version),
            )


def _columns(schema: Schema, key_ids: tuple[int, ...], files: list[DataFile]) -> Iterator[ColumnInfo]:
    for path, column in schema.all_columns():
        known = merge_bounds(column.id, files)
        yield ColumnInfo(
            ".".join(path), len(path) - 1, column.id, format_type(column.type), column.nullable, column.id in key_ids,
            column.comment, known.null_count,
            describe_bound(known.minimum, column.type), describe_bound(known.maximum, column.type),
        )  # fmt: skip
