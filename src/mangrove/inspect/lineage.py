"""Lineage: which views read which tables and views."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse, version_comparer_of
from mangrove.model.locators import Kind, TableLocator, ViewLocator, parse_table_name
from mangrove.model.objects import ViewEntry

__all__ = ["LineageInfo", "LineageNode", "find_reading_views", "find_source_kind", "load_lineage_info"]

_VIEWS_MAX: Final = 2_000
_DRAWN_VIEWS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class LineageNode:
    """A view, or a table or name that a view reads."""

    name: str
    kind: str | None
    """What the name names: a table, table version or view; None if it does not exist in this version."""
    level: int
    """0 if it reads nothing, else one more than the highest level that it reads."""
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LineageInfo:
    """All views of a version and what they read, in the order of their levels."""

    seen: PageVersion
    nodes: tuple[LineageNode, ...]
    is_complete: bool


def load_lineage_info(pinned: PinnedLakehouse, requested: PageRequest) -> LineageInfo:  # noqa: ARG001 - all pages have one signature
    """Return the views with what they read, up to a bound."""
    views = dict(islice(_iterate_views(pinned), _DRAWN_VIEWS_MAX + 1))
    drawn = dict(list(views.items())[:_DRAWN_VIEWS_MAX])
    levels = sorted(_compute_levels(drawn).items(), key=lambda item: (item[1], item[0]))
    nodes = tuple(
        LineageNode(name, find_source_kind(pinned, name), level, drawn.get(name, ())) for name, level in levels
    )
    return LineageInfo(pinned.seen, nodes, len(views) == len(drawn))


def find_source_kind(pinned: PinnedLakehouse, name: str) -> str | None:
    """Return the kind of what a view reads; None for a name of another catalog, or one that does not exist."""
    try:
        kind = pinned.lake_snapshot.resolve(name).kind
    except (InvalidInputError, NotFoundError):
        return None
    return kind.word if kind in (Kind.TABLE, Kind.TABLE_VERSION, Kind.VIEW) else None


def find_reading_views(pinned: PinnedLakehouse, locator: TableLocator | ViewLocator) -> tuple[str, ...]:
    """Return the views that read a table or view directly."""
    return tuple(name for name, reads in islice(_iterate_views(pinned), _VIEWS_MAX) if str(locator) in reads)


def _iterate_views(pinned: PinnedLakehouse) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name of each view with the names that it reads."""
    compared = version_comparer_of(pinned.lake)
    if compared is None:
        return
    for locator, value in compared.objects(pinned.snapshot, Kind.VIEW):
        if isinstance(value, ViewEntry):
            yield str(locator), tuple(map(_normalize_name, value.reads))


def _normalize_name(name: str) -> str:
    """Return a name as locators are written; names of other catalogs have other parts and stay as they are."""
    try:
        return str(parse_table_name(name))
    except InvalidInputError:
        return name


def _compute_levels(views: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the level of each name; views that read each other have at most as many levels as there are views."""
    levels = dict.fromkeys([*views, *(name for reads in views.values() for name in reads)], 0)
    for _ in views:
        for view, reads in views.items():
            levels[view] = min(len(views), 1 + max((levels[name] for name in reads), default=0))
    return levels
