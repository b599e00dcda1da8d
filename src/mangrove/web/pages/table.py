"""Table, partition and delta pages."""

from collections.abc import Sequence
from typing import Final

from mangrove.inspect.formatting import format_count, format_quantity, format_size, format_value
from mangrove.inspect.partition import DataFileInfo, DeltaInfo, DeltaLine, PartitionInfo
from mangrove.inspect.table import ColumnInfo, TableInfo
from mangrove.model.locators import TableLocator
from mangrove.web.html import Content, Element, element
from mangrove.web.links import Links
from mangrove.web.pages.connect import IcebergConnection, render_connect_section
from mangrove.web.pages.frame import Crumb, render_frame
from mangrove.web.pages.pieces import code, grid, more, note, properties, render_definition_list, section

__all__ = ["render_delta_page", "render_partition_page", "render_table_page"]

_FILES_OPEN_MAX: Final = 3
"""With more files than these their statistics are folded away."""


def render_table_page(facts: TableInfo, api_address: str, elsewhere: IcebergConnection | None = None) -> Element:
    """Return a table; `elsewhere` says where other engines find it."""
    links, locator = Links(facts.seen.requested), TableLocator(facts.namespace, facts.name)
    return render_frame(
        facts.seen,
        str(locator),
        (*_build_crumbs(links, facts.namespace), (facts.name, None)),
        "Namespaces",
        api_address,
        element("p", facts.description) if facts.description else None,
        render_definition_list(_about(facts)),
        section("Columns", _columns(facts)),
        _partitions(facts, links, locator),
        render_connect_section(elsewhere, locator) if elsewhere and facts.table_type == "managed" else None,
        _table_versions(facts),
        properties(facts.properties),
        _format_properties(facts),
    )


def render_partition_page(facts: PartitionInfo, api_address: str) -> Element:
    """Return a partition with its deltas."""
    links, locator = Links(facts.seen.requested), TableLocator(facts.namespace, facts.table)
    rows = (
        (
            element("a", format_count(one.position), href=links.delta(locator, facts.partition_id, one.position)),
            _describe_delta(one),
            format_count(one.files),
            format_count(one.rows),
            format_size(one.size_bytes),
            one.author or "",
        )
        for one in facts.deltas
    )
    heads = ("Position", "What it does", "Files", "Rows", "Size", "Written by")
    following = facts.next_after and links.partition(locator, facts.partition_id, after=facts.next_after)
    return render_frame(
        facts.seen,
        facts.partition,
        (*_build_crumbs(links, facts.namespace), (facts.table, links.table(locator)), (facts.partition, None)),
        "Namespaces",
        api_address,
        render_definition_list([("Table", str(locator)), ("State", facts.state), ("Id", code(facts.partition_id))]),
        section(
            "Deltas",
            note("In the order in which they apply."),
            grid("Deltas", heads, rows, numbers=(0, 2, 3, 4)) if facts.deltas else note("There are none here."),
            more(following or None, "Later deltas"),
        ),
        properties(facts.properties),
    )


def render_delta_page(facts: DeltaInfo, api_address: str) -> Element:
    """Return a delta with its files."""
    links, locator = Links(facts.seen.requested), TableLocator(facts.namespace, facts.table)
    title = f"Delta {format_count(facts.delta.position)}"
    return render_frame(
        facts.seen,
        title,
        (
            *_build_crumbs(links, facts.namespace),
            (facts.table, links.table(locator)),
            (facts.partition, links.partition(locator, facts.partition_id)),
            (title, None),
        ),
        "Namespaces",
        api_address,
        render_definition_list(
            [
                ("What it does", _describe_delta(facts.delta)),
                ("Rows", format_count(facts.delta.rows)),
                ("Files", format_count(facts.delta.files)),
                ("Size", format_size(facts.delta.size_bytes)),
                ("Written by", facts.delta.author or "not recorded"),
            ]
        ),
        section(
            "Files",
            (_file(file, is_open=len(facts.files) <= _FILES_OPEN_MAX) for file in facts.files)
            if facts.files
            else note("It has no files."),
        ),
        note(f"{format_quantity(facts.files_left_out, 'more file')} not shown.") if facts.files_left_out else None,
        properties(facts.delta.properties),
    )


def _build_crumbs(links: Links, namespace: str) -> Sequence[Crumb]:
    return (
        ("Overview", links.overview()),
        ("Namespaces", links.namespaces()),
        (namespace, links.namespace(namespace)),
    )


def _about(facts: TableInfo) -> list[tuple[str, Content]]:
    def codes(texts: tuple[str, ...], otherwise: str) -> Content:
        return [(", " if place else "", code(text)) for place, text in enumerate(texts)] or otherwise

    told: list[tuple[str, Content]] = [("Type", facts.table_type), ("Format", facts.table_format)]
    if facts.location is not None:
        told.append(("Location", code(facts.location)))
    return [
        *told,
        ("Keys", codes(facts.keys, "none")),
        ("Partitioned by", codes(facts.partition_by, "nothing")),
        ("Sorted by", codes(facts.sort_by, "nothing")),
        ("Id", code(facts.id)),
    ]


def _columns(facts: TableInfo) -> Element:
    if not facts.columns:
        return note("Nobody says which columns it has.")
    heads = ("Name", "Id", "Type", "Nulls", "Smallest", "Largest", "Comment")
    return grid("Columns", heads, (_column(one) for one in facts.columns), numbers=(1, 3))


def _column(one: ColumnInfo) -> Sequence[Content]:
    nulls = "" if one.null_count is None else format_count(one.null_count)
    return (
        (element("span", "key", class_="badge key") if one.is_key else None, " " if one.is_key else None, one.path),
        one.id,
        code(one.type),
        nulls if one.nullable else "not null",
        "" if one.minimum is None else format_value(one.minimum),
        "" if one.maximum is None else format_value(one.maximum),
        one.comment or "",
    )


def _partitions(facts: TableInfo, links: Links, locator: TableLocator) -> Element | None:
    if facts.table_type != "managed":
        return None
    rows = (
        (
            element("a", one.name, href=links.partition(locator, one.id)),
            _at_least(format_count(one.deltas), is_complete=one.is_complete),
            _at_least(format_count(one.files), is_complete=one.is_complete),
            _at_least(format_count(one.rows), is_complete=one.is_complete),
            _at_least(format_size(one.size_bytes), is_complete=one.is_complete),
        )
        for one in facts.partitions
    )
    total = (
        "In all: "
        f"{format_quantity(sum(one.deltas for one in facts.partitions), 'delta')}, "
        f"{format_quantity(sum(one.files for one in facts.partitions), 'file')}, "
        f"{format_quantity(sum(one.rows for one in facts.partitions), 'row')} written, "
        f"{format_size(sum(one.size_bytes for one in facts.partitions))}"
    )
    is_all = facts.next_after is None and all(one.is_complete for one in facts.partitions)
    heads = ("Partition", "Deltas", "Files", "Rows written", "Size")
    return section(
        "Partitions",
        grid("Partitions", heads, rows, numbers=(1, 2, 3, 4))
        if facts.partitions
        else note("No rows were written yet."),
        note(total if is_all else f"{total}, as far as shown.") if facts.partitions else None,
        more(facts.next_after and links.table(locator, after=facts.next_after), "More partitions"),
    )


def _at_least(text: str, *, is_complete: bool) -> str:
    return text if is_complete else f"{text}+"


def _table_versions(facts: TableInfo) -> Element | None:
    if not facts.table_versions:
        return None
    rows = (
        (
            format_count(one.version),
            (one.state, " ", element("span", "in use", class_="badge")) if one.is_active else one.state,
            format_count(one.columns),
            format_count(one.schemas),
        )
        for one in facts.table_versions
    )
    heads = ("Table version", "State", "Columns", "Schemas so far")
    return section("Table versions", grid("Table versions", heads, rows, numbers=(0, 2, 3)))


def _format_properties(facts: TableInfo) -> Element | None:
    if not facts.format_properties:
        return None
    rows = ((code(key), value) for key, value in facts.format_properties)
    return section("Format properties", grid("Format properties", ("Name", "Value"), rows))


def _describe_delta(one: DeltaLine) -> Content:
    if one.replaced_files:
        return f"{one.type} of {format_quantity(one.replaced_files, 'file')}"
    if one.replaces_through is not None:
        return f"{one.type} of what stands up to position {format_count(one.replaces_through)}"
    return one.type.replace("_", " ")


def _file(file: DataFileInfo, *, is_open: bool) -> Element:
    summary = f"{format_quantity(file.rows, 'row')}, {format_size(file.size_bytes)}, {file.kind.replace('_', ' ')}"
    if file.partition_values:
        summary += f", of {', '.join(format_value(value) for value in file.partition_values)}"
    rows = (
        (
            one.column,
            one.column_id,
            "" if one.value_count is None else format_count(one.value_count),
            "" if one.null_count is None else format_count(one.null_count),
            "" if one.minimum is None else format_value(one.minimum),
            "" if one.maximum is None else format_value(one.maximum),
            "" if one.size_bytes is None else format_size(one.size_bytes),
        )
        for one in file.statistics
    )
    heads = ("Column", "Id", "Values", "Nulls", "Smallest", "Largest", "Size")
    return element(
        "details",
        element("summary", code(file.location), " ", element("span", summary, class_="quiet")),
        note(
            f"{file.content_type}, written with schema {file.schema_id}."
            if file.schema_id is not None
            else file.content_type
        ),
        grid(f"Statistics of {file.location}", heads, rows, numbers=(1, 2, 3, 6))
        if file.statistics
        else note("It has no statistics."),
        note(f"{format_quantity(file.statistics_left_out, 'more column')} not shown.")
        if file.statistics_left_out
        else None,
        open=is_open,
    )
