"""How a lakehouse, its namespaces, tables and views look on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mangrove.cli.screen import counted
from mangrove.maintenance.progress import said_bytes

if TYPE_CHECKING:
    from mangrove.cli.facts import (
        ColumnFacts,
        DeltaFacts,
        EntryFacts,
        LakeFacts,
        NamespaceFacts,
        TableFacts,
        ViewFacts,
    )

__all__ = [
    "duration_text",
    "entries_view",
    "facts_table",
    "lake_view",
    "list_table",
    "namespace_view",
    "namespaces_view",
    "table_view",
    "view_view",
]

_DAY_MILLIS = 24 * 60 * 60 * 1000
_UNITS = (("day", _DAY_MILLIS), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000))


def list_table(*headings: str) -> Table:
    """Return an empty table with these headings, that takes no more room than it needs."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def facts_table(facts: Sequence[tuple[str, RenderableType]]) -> Table:
    """Return facts, each with what it is about in front of it."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, value)
    return table


def duration_text(millis: int) -> str:
    """Return a duration in the largest unit of which it is a whole number.

    >>> duration_text(7 * 24 * 60 * 60 * 1000), duration_text(1500)
    ('7 days', '1500 ms')
    """
    for word, unit_millis in _UNITS:
        count, rest = divmod(millis, unit_millis)
        if count and not rest:
            return f"{count} {word}{'' if count == 1 else 's'}"
    return f"{millis} ms"


def namespaces_view(namespaces: Sequence[NamespaceFacts]) -> RenderableType:
    """Return a list of namespaces."""
    if not namespaces:
        return Text("no namespaces: make one with `mangrove create LAKE NAMESPACE`", style="dim")
    rows = [(one.name, one.description or "", _pairs(one.properties)) for one in namespaces]
    return _listed(("namespace", "description", "properties"), rows)


def entries_view(namespace: str, entries: Sequence[EntryFacts]) -> RenderableType:
    """Return a list of tables and views."""
    if not entries:
        return Text(f"no tables or views in {namespace}", style="dim")
    rows = [(one.name, one.kind, one.format, one.description or "") for one in entries]
    return _listed(("name", "kind", "format", "description"), rows)


def lake_view(lake: LakeFacts) -> RenderableType:
    """Return what there is to say about the lakehouse itself."""
    kept = (
        f"{duration_text(lake.maximum_version_age_millis)}, and the newest {lake.minimum_versions_to_keep} in any case"
    )
    facts: list[tuple[str, RenderableType]] = [
        ("lakehouse", Text(lake.uri, style="cyan")),
        ("layout", lake.layout),
        ("version", f"{lake.version}, committed {lake.created_at or 'at an unknown time'}"),
        ("versions are kept", kept),
        ("order of the tree", str(lake.order)),
    ]
    if lake.name:
        facts.insert(1, ("name", lake.name))
    facts += _more("properties", _pairs(lake.properties))
    facts += _more("exports", ", ".join(f"{name} (version {version})" for name, version in lake.exports.items()))
    return facts_table(facts)


def namespace_view(namespace: NamespaceFacts) -> RenderableType:
    """Return what there is to say about a namespace."""
    facts: list[tuple[str, RenderableType]] = [
        ("namespace", Text(namespace.name, style="cyan")),
        ("id", namespace.id),
        *_more("description", namespace.description or ""),
        *_more("properties", _pairs(namespace.properties)),
    ]
    return facts_table(facts)


def table_view(table: TableFacts) -> RenderableType:
    """Return what there is to say about a table, and its columns."""
    facts: list[tuple[str, RenderableType]] = [
        ("table", Text(table.name, style="cyan")),
        ("kind", f"{table.kind}, {table.format}"),
        ("id", table.id),
        *_more("description", table.description or ""),
        *_more("location", table.location or ""),
        *_more("keys", ", ".join(table.keys)),
        *_more("partitioned by", ", ".join(table.partition_by)),
        *_more("sorted by", ", ".join(table.sort_by)),
        *_more("properties", _pairs(table.properties)),
        *_more("format properties", _pairs(table.format_properties)),
    ]
    if table.data is not None:
        facts.append(("data", _data_text(table.data)))
    if not table.columns:
        return Group(facts_table(facts), Text("\nno columns are known", style="dim"))
    return Group(facts_table(facts), Text(""), _columns_table(table.columns))


def view_view(view: ViewFacts) -> RenderableType:
    """Return what there is to say about a view, and its query."""
    facts: list[tuple[str, RenderableType]] = [
        ("view", Text(view.name, style="cyan")),
        ("id", view.id),
        *_more("description", view.description or ""),
        *_more("reads", ", ".join(view.reads)),
        *_more("properties", _pairs(view.properties)),
        ("dialect", view.dialect),
    ]
    return Group(facts_table(facts), Text(""), Text(view.sql))


def _listed(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return rows under their headings, without the columns in which nothing stands."""
    used = [place for place in range(len(headings)) if any(row[place] for row in rows)]
    table = list_table(*(headings[place] for place in used))
    for row in rows:
        table.add_row(*(Text(row[place], style="cyan" if place == 0 else "") for place in used))
    return table


def _columns_table(columns: Sequence[ColumnFacts]) -> Table:
    optional = {
        "default": any(column.default is not None for column in columns),
        "comment": any(column.comment is not None for column in columns),
    }
    table = list_table("id", "column", "type", "null", *(name for name, is_used in optional.items() if is_used))
    for column in columns:
        name = Text(column.name, style="cyan")
        if column.is_key:
            name.append(" (key)", style="dim")
        more = [getattr(column, name) or "" for name, is_used in optional.items() if is_used]
        table.add_row(str(column.id), name, column.type, "" if column.is_nullable else "not null", *more)
    return table


def _data_text(data: DeltaFacts) -> str:
    if not data.deltas:
        return "none yet"
    kinds = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in data.deltas.items())
    written = (
        f"{counted(data.rows_written, 'row')} written, {counted(data.files, 'file')}, {said_bytes(data.size_bytes)}"
    )
    return f"{written}; deltas: {kinds}; partitions: {data.partitions:,}"


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in properties.items())


def _more(name: str, value: str) -> list[tuple[str, RenderableType]]:
    return [(name, value)] if value else []
