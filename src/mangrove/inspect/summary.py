"""Summaries of a lakehouse and its objects as plain values."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from typing import Any, Final

from mangrove.errors import InvalidInputError
from mangrove.inspect.formatting import format_time_millis
from mangrove.lakehouse.arguments import parse_namespace_argument, validate_prefix
from mangrove.maintenance.export_records import list_exports
from mangrove.metastore import MetastoreSnapshot
from mangrove.model.json_codec import Json, to_json
from mangrove.model.locators import AliasLocator, Kind, NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.names import split_name
from mangrove.model.objects import Delta, NamespaceEntry, TableEntry, TableType, ViewEntry
from mangrove.model.partitioning import format_partition_field, format_sort_field
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
from mangrove.transaction.aliases import Named, list_aliases
from mangrove.transaction.canonical_names import list_children, resolve_text
from mangrove.transaction.catalog import CatalogReader, find_namespace, find_table, load_table
from mangrove.transaction.deltas import (
    TableTarget,
    is_default_version,
    open_table,
    scan_deltas_of_partitions,
    scan_partitions,
    split_version,
)
from mangrove.transaction.table_versions import load_table_versions

__all__ = [
    "CHILDREN_MAX",
    "AliasSummary",
    "ColumnSummary",
    "DeltaSummary",
    "EntrySummary",
    "LakehouseSummary",
    "NamespaceSummary",
    "ObjectSummary",
    "TableSummary",
    "ViewSummary",
    "list_entries",
    "list_namespaces",
    "load_table_schema",
    "summarize_aliases",
    "summarize_columns",
    "summarize_deltas",
    "summarize_lakehouse",
    "summarize_object",
    "summary_to_json",
]

CHILDREN_MAX: Final = 100
"""How many streams, partitions or deltas of an object are listed."""


@dataclass(frozen=True, slots=True)
class NamespaceSummary:
    """A namespace."""

    name: str
    id: str
    description: str | None
    properties: dict[str, str]
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AliasSummary:
    """An alias of a namespace or table."""

    name: str
    target: str
    kind: str
    target_id: str


@dataclass(frozen=True, slots=True)
class ObjectSummary:
    """A table version, stream, partition or delta, with all its fields."""

    canonical: str
    kind: str
    locator: str
    fields: dict[str, Any]
    children: tuple[str, ...] = ()
    """The canonical strings of the first streams, partitions or deltas in it."""


@dataclass(frozen=True, slots=True)
class EntrySummary:
    """A line of a list: a table or a view."""

    name: str
    kind: str
    format: str
    description: str | None


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """A column of a table."""

    id: int
    name: str
    type: str
    is_nullable: bool
    is_key: bool
    default: str | None
    comment: str | None


@dataclass(frozen=True, slots=True)
class DeltaSummary:
    """Totals of the deltas of a table; rows as written, before upserts and deletes are applied."""

    partitions: int = 0
    deltas: dict[str, int] = field(default_factory=dict)
    files: int = 0
    rows_written: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TableSummary:
    """A table."""

    name: str
    id: str
    kind: str
    format: str
    description: str | None
    location: str | None
    keys: tuple[str, ...]
    partition_by: tuple[str, ...]
    sort_by: tuple[str, ...]
    columns: tuple[ColumnSummary, ...]
    properties: dict[str, str]
    format_properties: dict[str, str]
    data: DeltaSummary | None
    """None for an external table."""
    versions: tuple[str, ...] = ()
    """The table versions with their states, as in `2 active (default)`."""
    aliases: tuple[str, ...] = ()
    unavailable: str | None = None
    """Why the table cannot be read by its name, if it has no active version."""


@dataclass(frozen=True, slots=True)
class ViewSummary:
    """A view."""

    name: str
    id: str
    sql: str
    dialect: str
    reads: tuple[str, ...]
    description: str | None
    properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class LakehouseSummary:
    """The lakehouse itself."""

    uri: str
    layout: str
    version: int
    created_at: str
    name: str
    order: int
    maximum_version_age_millis: int
    minimum_versions_to_keep: int
    properties: dict[str, str]
    exports: dict[str, int]
    """The version of each export, by the export's name."""


def summary_to_json(summary: Any) -> Json:
    """Return a summary as JSON; a list for several."""
    if isinstance(summary, list | tuple):
        return [summary_to_json(one) for one in summary]
    fields: dict[str, Json] = asdict(summary)
    return fields


def summarize_lakehouse(uri: str, layout: str, snapshot: MetastoreSnapshot) -> LakehouseSummary:
    """Return the summary of a version of the lakehouse."""
    settings = snapshot.settings
    return LakehouseSummary(
        uri=uri,
        layout=layout,
        version=snapshot.version,
        created_at=format_time_millis(snapshot.commit.created_at_millis),
        name=settings.name,
        order=settings.order,
        maximum_version_age_millis=settings.maximum_version_age_millis,
        minimum_versions_to_keep=settings.minimum_versions_to_keep,
        properties=dict(settings.properties),
        exports={export.name: export.version for export in list_exports(settings)},
    )


def list_namespaces(reading: CatalogReader, prefix: str = "", limit: int | None = None) -> Iterator[NamespaceSummary]:
    """Yield the namespaces whose names have a prefix, in order of their names."""
    for locator, value in islice(reading.children(Kind.NAMESPACE, None, prefix=validate_prefix(prefix)), limit):
        assert isinstance(locator, NamespaceLocator)
        assert isinstance(value, NamespaceEntry)
        yield _summarize_namespace(locator, value)


def list_entries(
    reading: CatalogReader, namespace: str, prefix: str = "", limit: int | None = None
) -> Iterator[EntrySummary]:
    """Yield the tables of a namespace, then its views, each at most `limit` in order of their names."""
    parent, _ = find_namespace(reading, parse_namespace_argument(namespace))
    tables = reading.children(Kind.TABLE, parent, prefix=validate_prefix(prefix))
    views = reading.children(Kind.VIEW, parent, prefix=prefix)
    for locator, value in chain(islice(tables, limit), islice(views, limit)):
        match value:
            case TableEntry():
                kind = f"{value.table_type.value} table"
                yield EntrySummary(str(locator), kind, value.table_format, value.description)
            case ViewEntry():
                yield EntrySummary(str(locator), "view", value.dialect, value.description)


def summarize_aliases(reading: CatalogReader) -> Iterator[AliasSummary]:
    """Yield all aliases in order of their canonical strings."""
    for alias in list_aliases(reading):
        target = alias.target_locator
        yield AliasSummary(str(AliasLocator(alias.name)), str(target), target.kind.word, alias.target_id)


def summarize_object(
    reading: CatalogReader, name: str
) -> NamespaceSummary | TableSummary | ViewSummary | ObjectSummary:
    """Return the summary of the object with this name, alias or canonical string."""
    parts, version = split_version(split_name(name)) if "|" not in name else ((), None)
    if version is not None:
        locator, table_entry = find_table(reading, TableLocator(*parts))
        return _summarize_table(reading, TableTarget(locator, version), table_entry)
    resolved = resolve_text(reading, name)
    match resolved.locator, resolved.value:
        case NamespaceLocator() as namespace, NamespaceEntry() as entry:
            return _summarize_namespace(namespace, entry, _list_alias_names(reading, namespace))
        case TableLocator() as table, TableEntry() as entry:
            return _summarize_table(reading, TableTarget(table), entry)
        case ViewLocator() as view, ViewEntry() as entry:
            return _summarize_view(view, entry)
        case _:
            fields: Any = to_json(resolved.value)
            children = tuple(map(str, islice(list_children(reading, resolved), CHILDREN_MAX)))
            return ObjectSummary(resolved.canonical, resolved.kind.word, str(resolved.locator), fields, children)


def _list_alias_names(reading: CatalogReader, target: Named) -> tuple[str, ...]:
    return tuple(str(AliasLocator(alias.name)) for alias in list_aliases(reading, target))


def load_table_schema(reading: CatalogReader, table: TableLocator) -> Schema | None:
    """Return the columns of a table, or None if the lakehouse does not have them."""
    entry = load_table(reading, table)
    return open_table(reading, table).version.schema if entry.table_type is TableType.MANAGED else entry.schema


def _summarize_namespace(
    locator: NamespaceLocator, value: NamespaceEntry, aliases: tuple[str, ...] = ()
) -> NamespaceSummary:
    """Return the summary of a namespace; a list leaves out the aliases, which take a scan for each namespace."""
    return NamespaceSummary(str(locator), value.id, value.description, dict(value.properties), aliases)


def _summarize_table(reading: CatalogReader, target: TableTarget, entry: TableEntry) -> TableSummary:
    """Return the summary of a table; this reads its columns and deltas."""
    opened, unavailable = None, None
    if entry.table_type is TableType.MANAGED:
        try:
            opened = open_table(reading, target)
        except InvalidInputError as error:
            unavailable = str(error)
    described = entry if opened is None else opened.version
    own = None if target.version is None else opened
    schema = described.schema
    keys = () if schema is None else tuple(schema.column_with_id(one).name for one in described.keys)
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    versions = tuple(
        f"{one.version} {one.state.value}{' (default)' if is_default_version(entry, one) else ''}"
        for one in load_table_versions(reading, entry).values()
    )
    data = None
    if opened is not None:
        if schema is not None:
            fields = opened.version.partition_scheme.fields
            partition_by = tuple(format_partition_field(one, schema) for one in fields)
            sort_by = tuple(format_sort_field(one, schema) for one in opened.version.sort_scheme.fields)
        partitions = [partition for partition, _ in scan_partitions(reading, opened)]
        data = summarize_deltas(scan_deltas_of_partitions(reading, partitions))
    return TableSummary(
        name=str(target),
        id=entry.id,
        kind=entry.table_type.value,
        format=entry.table_format,
        description=(None if own is None else own.version.description) or entry.description,
        location=entry.location,
        keys=keys,
        partition_by=partition_by,
        sort_by=sort_by,
        columns=summarize_columns(schema, keys),
        properties=dict(entry.properties if own is None else own.properties),
        format_properties=dict(entry.format_properties),
        data=data,
        versions=versions,
        aliases=_list_alias_names(reading, target.locator),
        unavailable=unavailable,
    )


def _summarize_view(locator: ViewLocator, view: ViewEntry) -> ViewSummary:
    return ViewSummary(
        str(locator), view.id, view.sql, view.dialect, view.reads, view.description, dict(view.properties)
    )


def summarize_columns(schema: Schema | None, keys: Iterable[str]) -> tuple[ColumnSummary, ...]:
    """Return the columns of a schema in order."""
    if schema is None:
        return ()
    known = frozenset(keys)
    return tuple(
        ColumnSummary(
            column.id, column.name, format_type(column.type), column.nullable, column.name in known, column.default,
            column.comment,
        )
        for column in schema.columns
    )  # fmt: skip


def summarize_deltas(deltas: Iterable[tuple[Any, Delta]]) -> DeltaSummary:
    """Return the totals of deltas."""
    partitions: set[str] = set()
    types: Counter[str] = Counter()
    files = rows = size_bytes = 0
    for locator, delta in deltas:
        partitions.add(str(locator.parent))
        types[delta.type.value] += 1
        files += len(delta.manifest.entries)
        rows += delta.manifest.row_count
        size_bytes += delta.manifest.size_bytes
    counted: Mapping[str, int] = types
    return DeltaSummary(len(partitions), dict(counted), files, rows, size_bytes)
