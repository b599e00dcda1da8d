"""Summaries of a lakehouse and its objects as plain values."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from mangrove.inspect.formatting import format_time_millis
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.namespace import NamespaceSnapshot
from mangrove.lakehouse.table import TableSnapshot
from mangrove.lakehouse.view import ViewSnapshot
from mangrove.maintenance.exports import list_exports
from mangrove.metastore import MetastoreSnapshot
from mangrove.model.json_codec import Json, to_json
from mangrove.model.objects import Delta, TableType
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
from mangrove.transaction.canonical_names import ResolvedObject

__all__ = [
    "AliasSummary",
    "ColumnSummary",
    "DeltaSummary",
    "EntrySummary",
    "LakehouseSummary",
    "NamespaceSummary",
    "ObjectSummary",
    "TableSummary",
    "ViewSummary",
    "summarize_columns",
    "summarize_deltas",
    "summarize_lakehouse",
    "summarize_namespace",
    "summarize_object",
    "summarize_table",
    "summarize_view",
    "summary_to_json",
]


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
    aliases: tuple[str, ...] = ()


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


def summarize_lakehouse(lake: Lakehouse, snapshot: MetastoreSnapshot) -> LakehouseSummary:
    """Return the summary of a version of the lakehouse."""
    settings = snapshot.settings
    return LakehouseSummary(
        uri=lake.uri,
        layout=lake.layout,
        version=snapshot.version,
        created_at=format_time_millis(snapshot.commit.created_at_millis),
        name=settings.name,
        order=settings.order,
        maximum_version_age_millis=settings.maximum_version_age_millis,
        minimum_versions_to_keep=settings.minimum_versions_to_keep,
        properties=dict(settings.properties),
        exports={export.name: export.version for export in list_exports(settings)},
    )


def summarize_namespace(namespace: NamespaceSnapshot, aliases: tuple[str, ...] = ()) -> NamespaceSummary:
    """Return the summary of a namespace; a list leaves out the aliases, which take a scan for each namespace."""
    return NamespaceSummary(str(namespace), namespace.id, namespace.description, dict(namespace.properties), aliases)


def summarize_object(found: ResolvedObject) -> ObjectSummary:
    """Return the summary of an object below a table."""
    fields: Any = to_json(found.value)
    return ObjectSummary(found.canonical, found.kind.word, str(found.locator), fields)


def summarize_table(table: TableSnapshot) -> TableSummary:
    """Return the summary of a table; this reads its columns and deltas."""
    is_managed = table.table_type is TableType.MANAGED
    return TableSummary(
        name=str(table),
        id=table.id,
        kind=table.table_type.value,
        format=table.value.table_format,
        description=table.description,
        location=table.location,
        keys=table.keys,
        partition_by=table.partition_by if is_managed else (),
        sort_by=table.sort_by if is_managed else (),
        columns=summarize_columns(table.schema, table.keys),
        properties=dict(table.properties),
        format_properties=dict(table.value.format_properties),
        data=summarize_deltas(table.deltas()) if is_managed else None,
        aliases=table.aliases,
    )


def summarize_view(view: ViewSnapshot) -> ViewSummary:
    """Return the summary of a view."""
    return ViewSummary(
        str(view), view.id, view.sql, view.value.dialect, view.reads, view.description, dict(view.properties)
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
