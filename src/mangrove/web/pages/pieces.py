"""Reusable page elements such as tables, tiles and timelines."""

from collections.abc import Iterable, Sequence

from mangrove.inspect.formatting import format_timestamp
from mangrove.inspect.page import VersionInfo
from mangrove.web.html import Content, Element, element
from mangrove.web.links import Links

__all__ = [
    "code",
    "grid",
    "more",
    "note",
    "properties",
    "render_definition_list",
    "render_filled_bar",
    "render_long_code",
    "section",
    "tiles",
    "timeline",
]


def section(title: str, *content: Content) -> Element:
    """Return a part of a page under its heading."""
    return element("section", element("h2", title), content)


def note(*content: Content) -> Element:
    """Return a remark."""
    return element("p", content, class_="note")


def code(text: str) -> Element:
    """Return text that machines read."""
    return element("code", text)


def render_long_code(text: str) -> Element:
    """Return text that machines read and that may be long, such as a path: it breaks anywhere."""
    return element("code", text, class_="long")


def tiles(entries: Iterable[tuple[str, str, str | None]]) -> Element:
    """Return the few numbers that matter most: what each is, how much, and where it leads."""
    return element(
        "ul",
        (
            element(
                "li",
                element("a", _tile(name, value), href=address) if address else element("div", _tile(name, value)),
            )
            for name, value, address in entries
        ),
        class_="tiles",
    )


def render_definition_list(entries: Iterable[tuple[str, Content]]) -> Element:
    """Return names with what each of them is."""
    return element(
        "dl", ((element("div", element("dt", name), element("dd", value))) for name, value in entries), class_="facts"
    )


def properties(entries: Sequence[tuple[str, str]]) -> Element | None:
    """Return properties as people gave them, or nothing where there are none."""
    if not entries:
        return None
    return section("Properties", grid("Properties", ("Name", "Value"), ((code(key), value) for key, value in entries)))


def grid(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Content]], numbers: Sequence[int] = ()) -> Element:
    """Return a table; the columns at `numbers` hold numbers. It scrolls by itself where it is too wide."""

    def cell(tag: str, place: int, content: Content) -> Element:
        scope = "col" if tag == "th" else None
        return element(tag, content, class_="number" if place in numbers else None, scope=scope)

    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element("thead", element("tr", (cell("th", place, head) for place, head in enumerate(heads)))),
            element(
                "tbody",
                (element("tr", (cell("td", place, content) for place, content in enumerate(row))) for row in rows),
            ),
        ),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=caption,
    )


def more(address: str | None, text: str) -> Element | None:
    """Return the way to the next page, if there is one."""
    return None if address is None else element("p", element("a", text, href=address, rel="next"), class_="more")


def render_filled_bar(part: float, label: str) -> Element:
    """Return a bar that is filled from 0 to 1."""
    return element(
        "svg",
        element("title", label),
        element("rect", x=0, y=0, width=100, height=8, rx=2, class_="track"),
        element("rect", x=0, y=0, width=round(max(part, 0.01) * 100, 2), height=8, rx=2, class_="filled"),
        viewBox="0 0 100 8",
        preserveAspectRatio="none",
        class_="meter",
        role="img",
        aria_label=label,
    )


def timeline(versions: Iterable[VersionInfo], links: Links) -> Element:
    """Return versions under each other, newest first, each with its way to what it changed."""
    return element("ol", (_render_timeline_entry(one, links) for one in versions), class_="timeline")


def _render_timeline_entry(one: VersionInfo, links: Links) -> Element:
    rolled_back = one.rolled_back_from is not None
    count = len(one.transactions)
    return element(
        "li",
        element("a", f"Version {one.version}", href=links.version(one.version), class_="version"),
        element("span", one.message or "no message", class_="message" if one.message else "message quiet"),
        element("span", f"rolled back from version {one.rolled_back_from}", class_="badge") if rolled_back else None,
        element("span", f"{count} transactions", class_="badge") if count > 1 else None,
        element(
            "span",
            element("time", format_timestamp(one.created_at_millis)),
            f" by {one.author}" if one.author else None,
            " · ",
            element(
                "a",
                "browse",
                href=Links(str(one.version)).overview(),
                aria_label=f"Browse the lakehouse at version {one.version}",
            ),
            class_="quiet",
        ),
        class_="rollback" if rolled_back else None,
    )


def _tile(name: str, value: str) -> tuple[Element, Element]:
    return element("span", value, class_="value"), element("span", name, class_="name")
