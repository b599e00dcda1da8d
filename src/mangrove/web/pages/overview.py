"""Overview page."""

from mangrove.inspect.formatting import format_count, format_size, format_timestamp
from mangrove.inspect.overview import COUNTED_MAX, ObjectCounts, OverviewInfo
from mangrove.web.html import Content, Element, element
from mangrove.web.links import Links
from mangrove.web.pages.frame import render_frame
from mangrove.web.pages.pieces import (
    code,
    grid,
    more,
    note,
    properties,
    render_definition_list,
    render_long_code,
    section,
    tiles,
    timeline,
)

__all__ = ["render_overview_page"]

_HOUR_MILLIS = 3_600_000


def render_overview_page(facts: OverviewInfo, api_address: str) -> Element:
    """Return the page."""
    seen, links = facts.seen, Links(facts.seen.requested)
    return render_frame(
        seen,
        seen.lakehouse,
        (),
        "Overview",
        api_address,
        tiles(_numbers(facts, links)),
        _bound(facts.tally),
        section("Last commits", timeline(facts.commits, links), more(links.history(), "The whole history")),
        _exports(facts),
        _render_shared_transactions(facts, links),
        section(
            "Settings", render_definition_list([("Place", code(seen.uri)), ("Layout", seen.layout), *_settings(facts)])
        ),
        properties(facts.properties),
    )


def _numbers(facts: OverviewInfo, links: Links) -> list[tuple[str, str, str | None]]:
    shown: list[tuple[str, str, str | None]] = [
        ("version", format_count(facts.seen.version.version), links.version(facts.seen.version.version))
    ]
    tally = facts.tally
    if tally is None:
        return shown
    told = (
        (tally.namespaces, "namespace", links.namespaces()),
        (tally.tables, "table", links.namespaces()),
        (tally.views, "view", links.namespaces()),
        (tally.deltas, "delta", None),
    )
    plus = "" if tally.is_complete else "+"
    return [
        *shown,
        *((word if count == 1 else f"{word}s", format_count(count) + plus, address) for count, word, address in told),
        ("rows written", format_count(tally.rows) + plus, None),
        ("data in files", format_size(tally.size_bytes) + plus, links.storage()),
    ]


def _bound(tally: ObjectCounts | None) -> Element | None:
    if tally is None or tally.is_complete:
        return None
    return note(f"There is more: counting stops at {format_count(COUNTED_MAX)} objects of a kind.")


def _settings(facts: OverviewInfo) -> list[tuple[str, Content]]:
    told: list[tuple[str, Content]] = []
    for name, value in facts.settings:
        words = name.replace("_", " ").capitalize()
        if name.endswith("_millis"):
            told.append((words.removesuffix(" millis"), f"{format_count(value // _HOUR_MILLIS)} hours"))
        elif name.endswith("_size_bytes"):
            told.append((words.removesuffix(" size bytes"), format_size(value)))
        else:
            told.append((words, format_count(value)))
    return told


def _exports(facts: OverviewInfo) -> Element | None:
    if not facts.exports:
        return None
    rows = (
        (
            element("a", one.name, href=Links(one.name).overview()),
            element("a", format_count(one.version), href=Links(str(one.version)).overview()),
            render_long_code(one.location),
        )
        for one in facts.exports
    )
    return section("Exports", grid("Exports", ("Name", "Version", "Location"), rows, numbers=(1,)))


def _render_shared_transactions(facts: OverviewInfo, links: Links) -> Element | None:
    if not facts.shared_transactions:
        return None
    rows = (
        (
            one.name,
            one.state,
            element("a", format_count(one.base_version), href=links.version(one.base_version)),
            format_timestamp(one.expires_at_millis),
        )
        for one in facts.shared_transactions
    )
    heads = ("Name", "State", "Stands on version", "Expires")
    return section("Shared transactions", grid("Shared transactions", heads, rows, numbers=(2,)))
