"""Routes of the explorer pages, the JSON API and static files.

Pages are plain functions, so that Starlette runs each request in a worker thread: reads of
storage block.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from mangrove.errors import MangroveError
from mangrove.inspect.catalog import load_namespace_info, load_namespace_list, load_view_info
from mangrove.inspect.history import load_history_info, load_version_diff
from mangrove.inspect.lineage import load_lineage_info
from mangrove.inspect.live_rows import LiveRowCount
from mangrove.inspect.objects import load_object_info
from mangrove.inspect.overview import load_overview_info
from mangrove.inspect.page import PageRequest, PinnedLakehouse, pin_version
from mangrove.inspect.partition import load_delta_info, load_partition_info
from mangrove.inspect.query import QueryLimits, QueryRunner, load_sql_info
from mangrove.inspect.rows import load_rows_info
from mangrove.inspect.search import load_search_info
from mangrove.inspect.shared_transactions import load_shared_transaction_info
from mangrove.inspect.storage import load_storage_info
from mangrove.inspect.table import TableInfo, load_table_info
from mangrove.inspect.table_files import load_table_files_info
from mangrove.inspect.table_history import load_row_changes_info, load_table_history_info
from mangrove.inspect.table_profile import load_table_profile_info
from mangrove.inspect.tree import load_tree_info
from mangrove.inspect.view_rows import load_view_rows_info
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.access import Privilege
from mangrove.model.json_codec import Json, to_json, value_to_json
from mangrove.model.schema import Schema
from mangrove.sql.statement_cache import BoundedCache
from mangrove.web.actions import ACTIONS, BODY_BYTES_MAX, Action, ExplorerSession, parse_form
from mangrove.web.links import API, STATIC
from mangrove.web.pages.connect import IcebergConnection
from mangrove.web.pages.lineage import render_lineage_page
from mangrove.web.pages.overview import render_overview_page
from mangrove.web.pages.profile import render_profile_page
from mangrove.web.pages.rows import render_row_changes_page, render_rows_page
from mangrove.web.pages.storage import render_storage_page
from mangrove.web.pages.table import (
    render_delta_page,
    render_partition_page,
    render_table_files_page,
    render_table_page,
)
from mangrove.web.pages.tree import render_tree_page
from mangrove.web.pages.version import render_version_page
from mangrove.web.pages.view import render_view_page
from mangrove.web.rendering import render_page
from mangrove.web.responses import read_body, respond_error, respond_exception, respond_html, respond_json
from mangrove.web.sql import build_sql_routes

__all__ = ["IcebergEndpoint", "PageRoute", "build_explorer_routes", "to_json_value"]


def to_json_value(value: Any) -> Json:
    """Return a value of the inspect layer as plain JSON.

    Column values are encoded by `mangrove.model.json_codec`.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Enum):
        return to_json_value(value.value)
    if isinstance(value, Schema):
        return to_json(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json_value(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(entry) for entry in value]
    return value_to_json(value)


_PARTITION: Final = "/tables/{name}/partitions/{partition}"
_STATIC_FOLDER: Final = Path(__file__).with_name("static")
_STATIC_TYPES: Final = {
    "explorer.css": "text/css",
    "mark.svg": "image/svg+xml",
    **dict.fromkeys(("chart.js", "completion.js", "editor.js", "results.js"), "text/javascript"),
}
_READ_ONLY: Final = "This server is read-only; start it with --writable and a token, or use the command line."
_INVALID_FORM: Final = "The CSRF token of the form is invalid; open the preview again and submit its form."


@dataclass(frozen=True, slots=True)
class PageRoute:
    """A URL path, the function that loads its information, and the function that renders it."""

    path: str
    load: Callable[[PinnedLakehouse, PageRequest], Any]
    render: Callable[..., bytes]
    has_form: bool = False
    """Whether `render` takes a `csrf_token` for a form that writes; None on a read-only server."""
    shows_all: bool = False
    """Whether it shows the files or keys of the whole lakehouse, which a principal must be allowed to read."""


@dataclass(frozen=True, slots=True)
class IcebergEndpoint:
    """The Iceberg REST endpoint of this server."""

    path: str
    has_token: bool


_OpenSession: TypeAlias = Callable[[Request], ExplorerSession]
_Load: TypeAlias = Callable[[PageRoute, Request, Lakehouse], Any]
_ROW_COUNTS_MAX: Final = 1_000
_PAGES: Final = (
    PageRoute("/", load_overview_info, render_overview_page),
    PageRoute("/namespaces", load_namespace_list, partial(render_page, "namespaces.html")),
    PageRoute("/namespaces/{name}", load_namespace_info, partial(render_page, "namespace.html")),
    PageRoute("/objects", load_object_info, partial(render_page, "object.html")),
    PageRoute("/tables/{name}", load_table_info, render_table_page),
    PageRoute("/tables/{name}/rows", load_rows_info, render_rows_page),
    PageRoute("/tables/{name}/profile", load_table_profile_info, render_profile_page),
    PageRoute("/tables/{name}/history", load_table_history_info, partial(render_page, "table_history.html")),
    PageRoute("/tables/{name}/changes", load_row_changes_info, render_row_changes_page),
    PageRoute("/tables/{name}/files", load_table_files_info, render_table_files_page, has_form=True),
    PageRoute(_PARTITION, load_partition_info, render_partition_page),
    PageRoute(f"{_PARTITION}/deltas/{{position}}", load_delta_info, render_delta_page),
    PageRoute("/views/{name}", load_view_info, render_view_page),
    PageRoute("/views/{name}/rows", load_view_rows_info, partial(render_rows_page, template="view_rows.html")),
    PageRoute("/sql", load_sql_info, partial(render_page, "sql.html", limits=QueryLimits()), has_form=True),
    PageRoute("/lineage", load_lineage_info, render_lineage_page),
    PageRoute("/search", load_search_info, partial(render_page, "search.html")),
    PageRoute("/shared/{name}", load_shared_transaction_info, partial(render_page, "shared.html")),
    PageRoute("/history", load_history_info, partial(render_page, "history.html")),
    PageRoute("/history/{number}", load_version_diff, render_version_page, has_form=True),
    PageRoute("/tree", load_tree_info, render_tree_page, shows_all=True),
    PageRoute("/storage", load_storage_info, render_storage_page, shows_all=True),
)


def build_explorer_routes(
    lake: Lakehouse, open_session: _OpenSession, iceberg_endpoint: IcebergEndpoint | None = None
) -> list[Route]:
    """Return the routes of the explorer; `open_session` returns the rights of the sender of a request.

    With an Iceberg endpoint, the pages of tables have connection snippets.
    """
    load = partial(_load_page_info, BoundedCache(_ROW_COUNTS_MAX))
    pages = [Route(page.path, _page(open_session, load, page, iceberg_endpoint)) for page in _PAGES]
    json_routes = [Route(f"{API}{page.path}", _json_handler(open_session, load, page)) for page in _PAGES]
    actions = [
        Route(path, _action(open_session, action), methods=["POST"])
        for action in ACTIONS
        for path in (action.path, f"{API}{action.path}")
    ]
    statements = build_sql_routes(QueryRunner(lake), open_session)
    return [*pages, *json_routes, *actions, *statements, *_static_routes()]


def _page(
    open_session: _OpenSession, load: _Load, page: PageRoute, iceberg_endpoint: IcebergEndpoint | None
) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        session = open_session(request)
        try:
            info = load(page, request, session.lake)
        except MangroveError as error:
            return respond_exception(error, as_json=False)
        if iceberg_endpoint is not None and isinstance(info, TableInfo):
            return respond_html(
                render_table_page(
                    info, _api_address(request), _build_iceberg_connection(request, info, iceberg_endpoint)
                ),
                200,
            )
        csrf_token = None if session.write_access is None else session.write_access.csrf_token
        form = {"csrf_token": csrf_token} if page.has_form else {}
        return respond_html(page.render(info, _api_address(request), **form), 200)

    return answer


def _build_iceberg_connection(
    request: Request, info: TableInfo, iceberg_endpoint: IcebergEndpoint
) -> IcebergConnection:
    """Return the connection to the server as the browser addressed it, at the version of the page."""
    seen = info.seen
    address = f"{request.url.scheme}://{request.url.netloc}{iceberg_endpoint.path}"
    version = None if seen.requested is None else seen.version.version
    return IcebergConnection(address, seen.uri, version, iceberg_endpoint.has_token)


def _json_handler(open_session: _OpenSession, load: _Load, page: PageRoute) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        try:
            info = load(page, request, open_session(request).lake)
        except MangroveError as error:
            return respond_exception(error, as_json=True)
        return respond_json(to_json_value(info), 200)

    return answer


def _action(open_session: _OpenSession, action: Action) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        as_json = request.url.path.startswith(API)
        session = open_session(request)
        if session.write_access is None:
            return respond_error(403, "Read-only", _READ_ONLY, as_json=as_json)
        try:
            fields = parse_form(await read_body(request, BODY_BYTES_MAX))
            if not session.write_access.admits(fields.get("proof", "")):
                return respond_error(403, "Invalid form", _INVALID_FORM, as_json=as_json)
            result = await run_in_threadpool(action.run, session.lake, request.path_params, fields)
        except MangroveError as error:
            return respond_exception(error, as_json=as_json)
        if as_json:
            return respond_json(dict(result.fields), 200)
        return RedirectResponse(result.url, 303)

    return answer


def _load_page_info(row_counts: BoundedCache[LiveRowCount], page: PageRoute, request: Request, lake: Lakehouse) -> Any:
    if page.shows_all:
        lake._check_privilege(Privilege.READ)
    requested = PageRequest(dict(request.path_params), dict(request.query_params))
    return page.load(pin_version(lake, requested, row_counts), requested)


def _api_address(request: Request) -> str:
    query = request.url.query
    return f"{API}{request.url.path}{f'?{query}' if query else ''}"


def _static_routes() -> list[Route]:
    """Return one route for each static file; no part of a URL is used as a file name."""
    return [Route(f"{STATIC}/{name}", _static(name, media_type)) for name, media_type in _STATIC_TYPES.items()]


def _static(name: str, media_type: str) -> Callable[[Request], Response]:
    content = (_STATIC_FOLDER / name).read_bytes()
    return lambda _: Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})
