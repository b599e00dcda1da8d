"""How the first page looks."""

from mangrove.web.facts.overview import OverviewFacts
from mangrove.web.facts.tally import COUNTED_MAX, Tally
from mangrove.web.html import Content, Element, element
from mangrove.web.links import Links
from mangrove.web.pages.frame import frame
from mangrove.web.pages.pieces import (
    code,
    facts_list,
    grid,
    long_code,
    more,
    note,
    properties,
    section,
    tiles,
    timeline,
)
from mangrove.web.words import count_text, moment_text, size_text

__all__ = ["overview_page"]

_HOUR_MILLIS = 3_600_000


def overview_page(facts: OverviewFacts, api_address: str) -> Element:
    """Return the page."""
    seen, links = facts.seen, Links(facts.seen.asked)
    return frame(
        seen,
        seen.lakehouse,
        (),
        "Overview",
        api_address,
        tiles(_numbers(facts, links)),
        _bound(facts.tally),
        section("Last commits", timeline(facts.commits, links), more(links.history(), "The whole history")),
        _exports(facts),
        _shared(facts, links),
        section("Settings", facts_list([("Place", code(seen.uri)), ("Layout", seen.layout), *_settings(facts)])),
        properties(facts.properties),
    )


def _numbers(facts: OverviewFacts, links: Links) -> list[tuple[str, str, str | None]]:
    shown: list[tuple[str, str, str | None]] = [
        ("version", count_text(facts.seen.version.version), links.version(facts.seen.version.version))
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
        *((word if count == 1 else f"{word}s", count_text(count) + plus, address) for count, word, address in told),
        ("rows written", count_text(tally.rows) + plus, None),
        ("data in files", size_text(tally.size_bytes) + plus, links.storage()),
    ]


def _bound(tally: Tally | None) -> Element | None:
    if tally is None or tally.is_complete:
        return None
    return note(f"There is more: counting stops at {count_text(COUNTED_MAX)} objects of a kind.")


def _settings(facts: OverviewFacts) -> list[tuple[str, Content]]:
    told: list[tuple[str, Content]] = []
    for name, value in facts.settings:
        words = name.replace("_", " ").capitalize()
        if name.endswith("_millis"):
            told.append((words.removesuffix(" millis"), f"{count_text(value // _HOUR_MILLIS)} hours"))
        elif name.endswith("_size_bytes"):
            told.append((words.removesuffix(" size bytes"), size_text(value)))
        else:
            told.append((words, count_text(value)))
    return told


def _exports(facts: OverviewFacts) -> Element | None:
    if not facts.exports:
        return None
    rows = (
        (
            element("a", one.name, href=Links(one.name).overview()),
            element("a", count_text(one.version), href=Links(str(one.version)).overview()),
            long_code(one.location),
        )
        for one in facts.exports
    )
    return section("Exports", grid("Exports", ("Name", "Version", "Location"), rows, numbers=(1,)))


def _shared(facts: OverviewFacts, links: Links) -> Element | None:
    if not facts.shared_transactions:
        return None
    rows = (
        (
            one.name,
            one.state,
            element("a", count_text(one.base_version), href=links.version(one.base_version)),
            moment_text(one.expires_at_millis),
        )
        for one in facts.shared_transactions
    )
    heads = ("Name", "State", "Stands on version", "Expires")
    return section("Shared transactions", grid("Shared transactions", heads, rows, numbers=(2,)))
