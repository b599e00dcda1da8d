"""Paginated information about namespaces, tables and views."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from mangrove.errors import InvalidInputError
from mangrove.inspect.lineage import find_reading_views, find_source_kind
from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse, VersionComparer
from mangrove.metastore import MetastoreSnapshot
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator, TableVersionLocator, parse_view_name
from mangrove.model.names import split_name
from mangrove.model.objects import TableEntry, TableVersion
from mangrove.transaction.deltas import is_default_version

__all__ = [
    "NamespaceInfo",
    "NamespaceLine",
    "NamespaceListInfo",
    "TableLine",
    "ViewInfo",
    "ViewLine",
    "iterate_default_versions",
    "load_namespace_info",
    "load_namespace_list",
    "load_view_info",
]

T = TypeVar("T")
_PAGE_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class NamespaceLine:
    """A namespace in a list."""

    name: str
    id: str
    description: str | None
    properties: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NamespaceListInfo:
    """A page of namespaces."""

    seen: PageVersion
    prefix: str | None
    namespaces: tuple[NamespaceLine, ...]
    next_after: str | None


@dataclass(frozen=True, slots=True)
class TableLine:
    """A table in a list."""

    namespace: str
    name: str
    id: str
    table_type: str
    table_format: str
    description: str | None


@dataclass(frozen=True, slots=True)
class ViewLine:
    """A view in a list."""

    namespace: str
    name: str
    id: str
    description: str | None


@dataclass(frozen=True, slots=True)
class NamespaceInfo:
    """A namespace with a page of its tables and of its views."""

    seen: PageVersion
    namespace: NamespaceLine
    prefix: str | None
    tables: tuple[TableLine, ...]
    next_after_table: str | None
    views: tuple[ViewLine, ...]
    next_after_view: str | None
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ViewInfo:
    """A view."""

    seen: PageVersion
    namespace: str
    name: str
    id: str
    sql: str
    dialect: str
    reads: tuple[str, ...]
    read_kinds: tuple[str | None, ...]
    """Whether each of them is a table, a table version or a view; None if it does not exist in this version."""
    read_by: tuple[str, ...]
    """The views that read this one."""
    description: str | None
    properties: tuple[tuple[str, str], ...]


def load_namespace_list(pinned: PinnedLakehouse, requested: PageRequest) -> NamespaceListInfo:
    """Return the namespaces whose names start with the query's `prefix` and come after its `after`."""
    prefix, after = requested.text("prefix"), requested.text("after")
    namespaces = pinned.lake_snapshot.namespaces(prefix or "", after=after)
    lines = (NamespaceLine(one.name, one.id, one.description, tuple(one.properties.items())) for one in namespaces)
    page, is_last = _page(lines)
    return NamespaceListInfo(pinned.seen, prefix, page, None if is_last else page[-1].name)


def load_namespace_info(pinned: PinnedLakehouse, requested: PageRequest) -> NamespaceInfo:
    """Return a namespace, its tables after `after_table` and its views after `after_view`."""
    parts = split_name(requested.step("name"))
    if len(parts) != 1:
        raise InvalidInputError(
            f"invalid namespace {requested.step('name')!r}: it has {len(parts)} parts; expected one"
        )
    namespace = pinned.lake_snapshot.namespace(NamespaceLocator(parts[0]))
    locator, prefix = namespace.locator, requested.text("prefix")
    tables, is_last_table = _page(
        TableLine(locator.name, one.name, one.id, one.table_type.value, one.value.table_format, one.description)
        for one in pinned.lake_snapshot.tables(locator, prefix or "", after=requested.text("after_table"))
    )
    views, is_last_view = _page(
        ViewLine(locator.name, one.name, one.id, one.description)
        for one in pinned.lake_snapshot.views(locator, prefix or "", after=requested.text("after_view"))
    )
    return NamespaceInfo(
        pinned.seen,
        NamespaceLine(locator.name, namespace.id, namespace.description, tuple(namespace.properties.items())),
        prefix,
        tables,
        None if is_last_table else tables[-1].name,
        views,
        None if is_last_view else views[-1].name,
        namespace.aliases,
    )


def load_view_info(pinned: PinnedLakehouse, requested: PageRequest) -> ViewInfo:
    """Return a view."""
    view = pinned.lake_snapshot.view(parse_view_name(requested.step("name")))
    locator = view.locator
    return ViewInfo(
        pinned.seen,
        locator.namespace,
        locator.name,
        view.id,
        view.sql,
        view.value.dialect,
        view.reads,
        tuple(find_source_kind(pinned, name) for name in view.reads),
        find_reading_views(pinned, locator),
        view.description,
        tuple(view.properties.items()),
    )


def iterate_default_versions(
    compared: VersionComparer, snapshot: MetastoreSnapshot, counted_max: int
) -> Iterator[tuple[TableLocator, TableVersionLocator, TableVersion]]:
    """Yield the table version of each managed table that its name opens, from at most this many objects of a kind."""
    tables = {
        value.id: (locator, value)
        for locator, value in islice(compared.objects(snapshot, Kind.TABLE), counted_max)
        if isinstance(locator, TableLocator) and isinstance(value, TableEntry)
    }
    for locator, version in islice(compared.objects(snapshot, Kind.TABLE_VERSION), counted_max):
        if isinstance(locator, TableVersionLocator) and isinstance(version, TableVersion):
            table, value = tables.get(locator.table_id, (None, None))
            if table is not None and value is not None and is_default_version(value, version):
                yield table, locator, version


def _page(entries: Iterator[T]) -> tuple[tuple[T, ...], bool]:
    """Return a page, and whether it is the last."""
    taken = tuple(islice(entries, _PAGE_MAX + 1))
    return taken[:_PAGE_MAX], len(taken) <= _PAGE_MAX
