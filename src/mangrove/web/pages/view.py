"""View page."""

from mangrove.inspect.catalog import ViewInfo
from mangrove.web.links import Links
from mangrove.web.rendering import render_page

__all__ = ["render_view_page"]


def render_view_page(info: ViewInfo, api_address: str) -> bytes:
    """Return the page of a view, with links to the tables that it reads."""
    links = Links(info.seen.requested)
    sources = [(name, links.source(name, kind)) for name, kind in zip(info.reads, info.read_kinds, strict=True)]
    return render_page("view.html", info, api_address, sources=sources)
