"""Namespace and view pages."""

from mangrove.errors import InvalidInputError
from mangrove.inspect.catalog import NamespaceInfo, NamespaceListInfo, ViewInfo
from mangrove.model.locators import TableLocator, ViewLocator, parse_table_name
from mangrove.web.html import Content, Element, element
from mangrove.web.links import Links
from mangrove.web.pages.frame import render_frame
from mangrove.web.pages.pieces import code, grid, more, note, properties, render_definition_list, section

__all__ = ["render_namespace_page", "render_namespaces_page", "render_view_page"]


def render_namespaces_page(facts: NamespaceListInfo, api_address: str) -> Element:
    """Return the list of namespaces."""
    links = Links(facts.seen.requested)
    rows = (
        (element("a", one.name, href=links.namespace(one.name)), one.description or "", len(one.properties))
        for one in facts.namespaces
    )
    following = None if facts.next_after is None else links.namespaces(after=facts.next_after, prefix=facts.prefix)
    return render_frame(
        facts.seen,
        "Namespaces",
        (("Overview", links.overview()), ("Namespaces", None)),
        "Namespaces",
        api_address,
        _prefix_form("/namespaces", facts.prefix, facts.seen.requested, "namespaces"),
        grid("Namespaces", ("Name", "Description", "Properties"), rows, numbers=(2,))
        if facts.namespaces
        else note("There are none here."),
        more(following, "More namespaces"),
    )


def render_namespace_page(facts: NamespaceInfo, api_address: str) -> Element:
    """Return a namespace with its tables and views."""
    links, name = Links(facts.seen.requested), facts.namespace.name
    next_tables = facts.next_after_table and links.namespace(
        name, after_table=facts.next_after_table, prefix=facts.prefix
    )
    next_views = facts.next_after_view and links.namespace(name, after_view=facts.next_after_view, prefix=facts.prefix)
    return render_frame(
        facts.seen,
        name,
        (("Overview", links.overview()), ("Namespaces", links.namespaces()), (name, None)),
        "Namespaces",
        api_address,
        element("p", facts.namespace.description) if facts.namespace.description else None,
        _prefix_form(Links().namespace(name), facts.prefix, facts.seen.requested, "tables and views"),
        section("Tables", _tables(facts, links), more(next_tables, "More tables")),
        section("Views", _views(facts, links), more(next_views, "More views")),
        properties(facts.namespace.properties),
        render_definition_list([("Id", code(facts.namespace.id))]),
    )


def render_view_page(facts: ViewInfo, api_address: str) -> Element:
    """Return a view."""
    links = Links(facts.seen.requested)
    return render_frame(
        facts.seen,
        str(ViewLocator(facts.namespace, facts.name)),
        (
            ("Overview", links.overview()),
            ("Namespaces", links.namespaces()),
            (facts.namespace, links.namespace(facts.namespace)),
            (facts.name, None),
        ),
        "Namespaces",
        api_address,
        element("p", facts.description) if facts.description else None,
        section(
            "Query",
            element("pre", code(facts.sql), tabindex=0),
            render_definition_list(
                [("Dialect", facts.dialect), ("Reads", _reads(facts, links)), ("Id", code(facts.id))]
            ),
        ),
        properties(facts.properties),
    )


def _tables(facts: NamespaceInfo, links: Links) -> Element:
    if not facts.tables:
        return note("There are none here.")
    rows = (
        (
            element("a", one.name, href=links.table(TableLocator(one.namespace, one.name))),
            one.table_type,
            one.table_format,
            one.description or "",
        )
        for one in facts.tables
    )
    return grid("Tables", ("Name", "Type", "Format", "Description"), rows)


def _views(facts: NamespaceInfo, links: Links) -> Element:
    if not facts.views:
        return note("There are none here.")
    rows = (
        (element("a", one.name, href=links.view(ViewLocator(one.namespace, one.name))), one.description or "")
        for one in facts.views
    )
    return grid("Views", ("Name", "Description"), rows)


def _reads(facts: ViewInfo, links: Links) -> Content:
    if not facts.reads:
        return "not recorded"
    return [(", " if place else "", _read_link(name, links)) for place, name in enumerate(facts.reads)]


def _read_link(name: str, links: Links) -> Content:
    try:
        return element("a", name, href=links.table(parse_table_name(name)))
    except InvalidInputError:
        # A view may read what lies in another catalog, under a name of other parts.
        return name


def _prefix_form(action: str, prefix: str | None, requested: str | None, what: str) -> Element:
    return element(
        "form",
        element("label", f"Only {what} that start with ", for_="prefix"),
        element("input", id="prefix", name="prefix", value=prefix or "", autocomplete="off", size=16),
        element("input", type="hidden", name="version", value=requested) if requested else None,
        element("button", "Show"),
        action=action,
        method="get",
        class_="filter",
    )
