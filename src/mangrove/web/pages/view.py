"""View page."""

from mangrove.errors import InvalidInputError
from mangrove.inspect.catalog import ViewInfo
from mangrove.model.locators import parse_table_name
from mangrove.web.links import Links
from mangrove.web.rendering import render_page

__all__ = ["render_view_page"]


def render_view_page(info: ViewInfo, api_address: str) -> bytes:
    """Return the page of a view, with links to the tables that it reads."""
    links = Links(info.seen.requested)
    sources = [(name, _source_url(name, links)) for name in info.reads]
    return render_page("view.html", info, api_address, sources=sources)


def _source_url(name: str, links: Links) -> str | None:
    try:
        return links.table(parse_table_name(name))
    except InvalidInputError:
        # A view may read a table of another catalog, whose name has other parts.
        return None
