"""Search for namespaces, tables, views and columns by name or description."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mangrove.inspect.catalog import iterate_default_versions
from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse, VersionComparer, version_comparer_of
from mangrove.metastore import MetastoreSnapshot
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.objects import NamespaceEntry, TableEntry, ViewEntry
from mangrove.model.schema_text import format_type

__all__ = ["SearchHit", "SearchInfo", "load_search_info"]

_OBJECTS_MAX: Final = 10_000
"""How many objects of a kind are searched."""
_HITS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class SearchHit:
    """An object or column whose name or description contains the text."""

    kind: str
    namespace: str
    name: str | None
    """The table or view; None for a namespace."""
    column: str | None
    description: str | None


@dataclass(frozen=True, slots=True)
class SearchInfo:
    """The hits of a search: objects whose name starts with the text first."""

    seen: PageVersion
    text: str | None
    hits: tuple[SearchHit, ...]
    is_complete: bool


def load_search_info(pinned: PinnedLakehouse, requested: PageRequest) -> SearchInfo:
    """Return the objects and columns that contain the query's `text`, without regard to case."""
    text = requested.text("text")
    compared = version_comparer_of(pinned.lake)
    if text is None or compared is None:
        return SearchInfo(pinned.seen, text, (), is_complete=True)
    part = text.casefold()
    hits = [hit for hit in _iterate_entries(compared, pinned.snapshot) if _matches(hit, part)]
    hits.sort(key=lambda hit: not (hit.column or hit.name or hit.namespace).casefold().startswith(part))
    return SearchInfo(pinned.seen, text, tuple(hits[:_HITS_MAX]), len(hits) <= _HITS_MAX)


def _matches(hit: SearchHit, part: str) -> bool:
    own_name = hit.column or hit.name or hit.namespace
    qualified = hit.namespace if hit.name is None else f"{hit.namespace}.{hit.name}"
    texts = (own_name, "" if hit.column else qualified, hit.description or "")
    return any(part in text.casefold() for text in texts)


def _iterate_entries(compared: VersionComparer, snapshot: MetastoreSnapshot) -> Iterator[SearchHit]:
    for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW):
        for locator, value in islice(compared.objects(snapshot, kind), _OBJECTS_MAX):
            match locator, value:
                case NamespaceLocator(), NamespaceEntry():
                    yield SearchHit(kind.word, locator.name, None, None, value.description)
                case ((TableLocator() | ViewLocator()), (TableEntry() | ViewEntry())):
                    yield SearchHit(kind.word, locator.namespace, locator.name, None, value.description)
    for table, _, version in iterate_default_versions(compared, snapshot, _OBJECTS_MAX):
        for path, column in version.schema.all_columns() if version.schema else ():
            described = f"{format_type(column.type)}{f': {column.comment}' if column.comment else ''}"
            yield SearchHit("column", table.namespace, table.name, ".".join(path), described)
