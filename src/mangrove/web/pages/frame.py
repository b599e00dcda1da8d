"""Page layout with navigation, breadcrumbs and version selector."""

from collections.abc import Sequence
from typing import Final

from mangrove.inspect.formatting import format_timestamp
from mangrove.inspect.page import PageVersion
from mangrove.web.html import Content, Element, element
from mangrove.web.links import STATIC, Links

__all__ = ["Crumb", "render_frame", "render_message_page"]

Crumb = tuple[str, str | None]
"""A name on the way to a page, and its address; None for the page itself."""

_TITLE: Final = "Mangrove"


def render_frame(
    seen: PageVersion, title: str, crumbs: Sequence[Crumb], here: str, api_address: str, *content: Content
) -> Element:
    """Return a whole page; `here` is the entry of the menu under which it lies."""
    links = Links(seen.requested)
    return _document(
        f"{title} · {seen.lakehouse} · {_TITLE}",
        element(
            "header",
            element("a", "Skip to the content", href="#content", class_="skip"),
            element(
                "div",
                element("a", _mark(), element("span", seen.lakehouse), href=links.overview(), class_="brand"),
                _menu(links, here),
                class_="bar",
            ),
        ),
        _pinned_banner(seen),
        element(
            "main",
            _crumbs(crumbs),
            element("h1", title),
            content,
            id="content",
            tabindex=-1,
        ),
        element(
            "footer",
            _version_form(seen),
            element("p", element("a", "This page as JSON", href=api_address), " · ", element("code", seen.uri)),
        ),
    )


def render_message_page(title: str, sentence: str) -> Element:
    """Return a page that says one thing, for when there is nothing else to show."""
    return _document(
        f"{title} · {_TITLE}",
        element(
            "header",
            element("div", element("a", _mark(), element("span", _TITLE), href="/", class_="brand"), class_="bar"),
        ),
        element(
            "main",
            element("h1", title),
            element("p", sentence, class_="sentence", role="alert"),
            element("p", element("a", "To the overview", href="/")),
            id="content",
        ),
    )


def _document(title: str, *body: Content) -> Element:
    return element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", title),
            element("link", rel="icon", type="image/svg+xml", href=f"{STATIC}/mark.svg"),
            element("link", rel="stylesheet", href=f"{STATIC}/explorer.css"),
        ),
        element("body", body),
        lang="en",
    )


def _mark() -> Element:
    """Return the mark: a crown of leaves on three roots."""
    return element(
        "svg",
        element("path", d="M12 3c4.4 0 8 2.6 8 6 0 2.4-2 4-4.4 4H8.4C6 13 4 11.4 4 9c0-3.4 3.6-6 8-6z", class_="crown"),
        element("path", d="M12 12v9M12 14c-1 3-4 3-5 7M12 14c1 3 4 3 5 7", class_="roots"),
        viewBox="0 0 24 24",
        class_="mark",
        aria_hidden="true",
    )


def _menu(links: Links, here: str) -> Element:
    entries = (
        ("Overview", links.overview()),
        ("Namespaces", links.namespaces()),
        ("History", links.history()),
        ("Tree", links.tree()),
        ("Storage", links.storage()),
    )
    return element(
        "nav",
        element(
            "ul",
            (
                element("li", element("a", name, href=address, aria_current="page" if name == here else None))
                for name, address in entries
            ),
        ),
        aria_label="Pages",
    )


def _pinned_banner(seen: PageVersion) -> Element | None:
    if seen.version.version == seen.newest_version:
        return None
    return element(
        "div",
        element("strong", f"Version {seen.version.version}"),
        f" of {format_timestamp(seen.version.created_at_millis)}, not the newest. ",
        element("a", f"Go to version {seen.newest_version}", href="/"),
        " or see ",
        element("a", "what happened since", href=Links().version(seen.newest_version, against=seen.version.version)),
        ".",
        class_="past",
        role="status",
    )


def _crumbs(crumbs: Sequence[Crumb]) -> Element | None:
    if not crumbs:
        return None
    entries = (
        element("li", element("a", name, href=address) if address else element("span", name, aria_current="page"))
        for name, address in crumbs
    )
    return element("nav", element("ol", entries), class_="crumbs", aria_label="Where this is")


def _version_form(seen: PageVersion) -> Element:
    return element(
        "form",
        element("label", "Go to a version, a time or an export ", for_="version"),
        element(
            "input",
            id="version",
            name="version",
            value=seen.requested or "",
            placeholder=f"{seen.newest_version} or 2026-11-01T08:30Z",
            autocomplete="off",
            size=24,
        ),
        element("button", "Go"),
        action="/",
        method="get",
    )
