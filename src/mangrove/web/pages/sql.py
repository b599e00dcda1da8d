"""SQL editor page."""

from mangrove.inspect.query import QueryLimits, SqlInfo
from mangrove.web.rendering import render_page

__all__ = ["render_sql_page"]


def render_sql_page(
    info: SqlInfo, api_address: str, *, csrf_token: str | None = None, limits: QueryLimits | None = None
) -> bytes:
    """Return the page; with a CSRF token statements may change tables."""
    return render_page("sql.html", info, api_address, csrf_token=csrf_token, limits=limits or QueryLimits())
