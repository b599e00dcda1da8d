"""How a table, its partitions and its deltas look."""

from collections.abc import Sequence
from typing import Final

from mangrove.model.locators import TableLocator
from mangrove.web.facts.partition import DeltaFacts, DeltaLine, FileFacts, PartitionFacts
from mangrove.web.facts.table import ColumnFacts, TableFacts
from mangrove.web.html import Content, Element, element
from mangrove.web.links import Links
from mangrove.web.pages.elsewhere import Elsewhere, elsewhere_section
from mangrove.web.pages.frame import Crumb, frame
from mangrove.web.pages.pieces import code, facts_list, grid, more, note, properties, section
from mangrove.web.words import count_text, counted, size_text, value_text

__all__ = ["delta_page", "partition_page", "table_page"]

_FILES_OPEN_MAX: Final = 3
"""With more files than these their statistics are folded away."""


def table_page(facts: TableFacts, api_address: str, elsewhere: Elsewhere | None = None) -> Element:
    """Return a table; `elsewhere` says where other engines find it."""
    links, locator = Links(facts.seen.asked), TableLocator(facts.namespace, facts.name)
    return frame(
        facts.seen,
        str(locator),
        (*_way(links, facts.namespace), (facts.name, None)),
        "Namespaces",
        api_address,
        element("p", facts.description) if facts.description else None,
        facts_list(_about(facts)),
        section("Columns", _columns(facts)),
        _partitions(facts, links, locator),
        elsewhere_section(elsewhere, locator) if elsewhere and facts.table_type == "managed" else None,
        _table_versions(facts),
        properties(facts.properties),
        _format_properties(facts),
    )


def partition_page(facts: PartitionFacts, api_address: str) -> Element:
    """Return a partition with its deltas."""
    links, locator = Links(facts.seen.asked), TableLocator(facts.namespace, facts.table)
    rows = (
        (
            element("a", count_text(one.position), href=links.delta(locator, facts.partition_id, one.position)),
            _delta_words(one),
            count_text(one.files),
            count_text(one.rows),
            size_text(one.size_bytes),
            one.author or "",
        )
        for one in facts.deltas
    )
    heads = ("Position", "What it does", "Files", "Rows", "Size", "Written by")
    following = facts.next_after and links.partition(locator, facts.partition_id, after=facts.next_after)
    return frame(
        facts.seen,
        facts.partition,
        (*_way(links, facts.namespace), (facts.table, links.table(locator)), (facts.partition, None)),
        "Namespaces",
        api_address,
        facts_list([("Table", str(locator)), ("State", facts.state), ("Id", code(facts.partition_id))]),
        section(
            "Deltas",
            note("In the order in which they apply."),
            grid("Deltas", heads, rows, numbers=(0, 2, 3, 4)) if facts.deltas else note("There are none here."),
            more(following or None, "Later deltas"),
        ),
        properties(facts.properties),
    )


def delta_page(facts: DeltaFacts, api_address: str) -> Element:
    """Return a delta with its files."""
    links, locator = Links(facts.seen.asked), TableLocator(facts.namespace, facts.table)
    title = f"Delta {count_text(facts.delta.position)}"
    return frame(
        facts.seen,
        title,
        (
            *_way(links, facts.namespace),
            (facts.table, links.table(locator)),
            (facts.partition, links.partition(locator, facts.partition_id)),
            (title, None),
        ),
        "Namespaces",
        api_address,
        facts_list(
            [
                ("What it does", _delta_words(facts.delta)),
                ("Rows", count_text(facts.delta.rows)),
                ("Files", count_text(facts.delta.files)),
                ("Size", size_text(facts.delta.size_bytes)),
                ("Written by", facts.delta.author or "not recorded"),
            ]
        ),
        section(
            "Files",
            (_file(file, is_open=len(facts.files) <= _FILES_OPEN_MAX) for file in facts.files)
            if facts.files
            else note("It has no files."),
        ),
        note(f"{counted(facts.files_left_out, 'more file')} not shown.") if facts.files_left_out else None,
        properties(facts.delta.properties),
    )


def _way(links: Links, namespace: str) -> Sequence[Crumb]:
    return (
        ("Overview", links.overview()),
        ("Namespaces", links.namespaces()),
        (namespace, links.namespace(namespace)),
    )


def _about(facts: TableFacts) -> list[tuple[str, Content]]:
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


def _columns(facts: TableFacts) -> Element:
    if not facts.columns:
        return note("Nobody says which columns it has.")
    heads = ("Name", "Id", "Type", "Nulls", "Smallest", "Largest", "Comment")
    return grid("Columns", heads, (_column(one) for one in facts.columns), numbers=(1, 3))


def _column(one: ColumnFacts) -> Sequence[Content]:
    nulls = "" if one.null_count is None else count_text(one.null_count)
    return (
        (element("span", "key", class_="badge key") if one.is_key else None, " " if one.is_key else None, one.path),
        one.id,
        code(one.type),
        nulls if one.nullable else "not null",
        "" if one.minimum is None else value_text(one.minimum),
        "" if one.maximum is None else value_text(one.maximum),
        one.comment or "",
    )


def _partitions(facts: TableFacts, links: Links, locator: TableLocator) -> Element | None:
    if facts.table_type != "managed":
        return None
    rows = (
        (
            element("a", one.name, href=links.partition(locator, one.id)),
            _at_least(count_text(one.deltas), is_complete=one.is_complete),
            _at_least(count_text(one.files), is_complete=one.is_complete),
            _at_least(count_text(one.rows), is_complete=one.is_complete),
            _at_least(size_text(one.size_bytes), is_complete=one.is_complete),
        )
        for one in facts.partitions
    )
    total = (
        "In all: "
        f"{counted(sum(one.deltas for one in facts.partitions), 'delta')}, "
        f"{counted(sum(one.files for one in facts.partitions), 'file')}, "
        f"{counted(sum(one.rows for one in facts.partitions), 'row')} written, "
        f"{size_text(sum(one.size_bytes for one in facts.partitions))}"
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


def _table_versions(facts: TableFacts) -> Element | None:
    if not facts.table_versions:
        return None
    rows = (
        (
            count_text(one.version),
            (one.state, " ", element("span", "in use", class_="badge")) if one.is_active else one.state,
            count_text(one.columns),
            count_text(one.schemas),
        )
        for one in facts.table_versions
    )
    heads = ("Table version", "State", "Columns", "Schemas so far")
    return section("Table versions", grid("Table versions", heads, rows, numbers=(0, 2, 3)))


def _format_properties(facts: TableFacts) -> Element | None:
    if not facts.format_properties:
        return None
    rows = ((code(key), value) for key, value in facts.format_properties)
    return section("Format properties", grid("Format properties", ("Name", "Value"), rows))


def _delta_words(one: DeltaLine) -> Content:
    if one.replaced_files:
        return f"{one.type} of {counted(one.replaced_files, 'file')}"
    if one.replaces_through is not None:
        return f"{one.type} of what stands up to position {count_text(one.replaces_through)}"
    return one.type.replace("_", " ")


def _file(file: FileFacts, *, is_open: bool) -> Element:
    summary = f"{counted(file.rows, 'row')}, {size_text(file.size_bytes)}, {file.kind.replace('_', ' ')}"
    if file.partition_values:
        summary += f", of {', '.join(value_text(value) for value in file.partition_values)}"
    rows = (
        (
            one.column,
            one.column_id,
            "" if one.value_count is None else count_text(one.value_count),
            "" if one.null_count is None else count_text(one.null_count),
            "" if one.minimum is None else value_text(one.minimum),
            "" if one.maximum is None else value_text(one.maximum),
            "" if one.size_bytes is None else size_text(one.size_bytes),
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
        note(f"{counted(file.statistics_left_out, 'more column')} not shown.") if file.statistics_left_out else None,
        open=is_open,
    )
