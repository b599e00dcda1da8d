"""Endpoint list and routes of the Iceberg REST catalog."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.rest.errors import (
    BASE_PATH,
    NO_SUCH_NAMESPACE,
    NO_SUCH_TABLE,
    NO_SUCH_VIEW,
    NO_SUCH_WAREHOUSE,
    respond_iceberg_error,
    to_error_response,
)
from mangrove.rest.namespaces import (
    handle_config,
    handle_create_namespace,
    handle_drop_namespace,
    handle_list_namespaces,
    handle_list_tables,
    handle_list_views,
    handle_load_namespace,
    handle_namespace_exists,
    handle_report_metrics,
    handle_table_exists,
    handle_update_namespace_properties,
)
from mangrove.rest.request import RestRequest, ServedLakehouse
from mangrove.rest.tables import (
    handle_commit_table,
    handle_commit_transaction,
    handle_create_table,
    handle_drop_table,
    handle_load_table,
    handle_register_table,
    handle_rename_table,
)
from mangrove.rest.tokens import TOKENS_PATH, handle_token
from mangrove.rest.views import (
    handle_create_view,
    handle_drop_view,
    handle_load_view,
    handle_rename_view,
    handle_replace_view,
    handle_view_exists,
)

__all__ = [
    "PREFIX",
    "WRITE_ENDPOINTS",
    "Endpoint",
    "build_iceberg_routes",
    "build_routes",
    "build_unavailable_routes",
    "list_endpoints",
]

_SENTENCE: Final = (
    "The Iceberg REST endpoint needs PyIceberg, which is not installed on the server: "
    "run pip install 'mangrove-lake[iceberg]' there, and start it again."
)
_METHODS: Final = ("GET", "POST", "DELETE")


def build_unavailable_routes() -> list[BaseRoute]:
    """Return routes that answer to all that a client may ask what to install."""
    return [Route(f"{BASE_PATH}/{{rest:path}}", _answer, methods=list(_METHODS))]


def _answer(_: Request) -> Response:
    return respond_iceberg_error(501, _SENTENCE)


PREFIX: Final = "/v1/{prefix}"
"""What addresses of a catalog begin with in the protocol's words; for the newest state the prefix is left out."""
_BODY_BYTES_MAX: Final = 1_048_576
_READ_ONLY: Final = "This server only reads: start it with --writable and a token, and send the token."
_PREFIX_STEP: Final = "A past version cannot be changed: work without a warehouse, or with the lakehouse's own address."


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method, an address, and what answers: a plain function, which waits for storage in a thread of its own."""

    method: str
    path: str
    answer: Callable[[RestRequest], Response]
    missing: str = "NotFoundException"
    """The protocol's word where something that the address names is not there."""
    changes: bool = False
    """Whether it changes the lakehouse, and so is there only on a server that does."""
    is_advertised: bool = True
    """Whether clients are told of it; configuration and tokens come before anything is told."""
    body_bytes_max: int = _BODY_BYTES_MAX

    @property
    def words(self) -> str:
        """Its method and address, as clients are told."""
        return f"{self.method} {self.path}"


def list_endpoints(endpoints: Sequence[Endpoint], *, is_writable: bool) -> list[str]:
    """Return what a client may use, in the protocol's words."""
    return [one.words for one in endpoints if one.is_advertised and (is_writable or not one.changes)]


def build_routes(served: ServedLakehouse, endpoints: Sequence[Endpoint]) -> list[Route]:
    """Return routes to endpoints: first those of the newest state, then those with a prefix.

    A namespace may be called `namespaces`, and no prefix is, so the shorter address is meant.
    """
    by_path: dict[str, dict[str, Endpoint]] = {}
    for one in endpoints:
        by_path.setdefault(one.path, {})[one.method] = one
    found = {path: _build_handler(served, by_method) for path, by_method in by_path.items()}
    return [
        Route(BASE_PATH + spelled(path), found[path], methods=sorted(by_path[path]))
        for spelled in (_without_prefix, str)
        for path in found
        if spelled is not str or PREFIX in path
    ]


def _without_prefix(path: str) -> str:
    return path.replace(PREFIX, "/v1")


def _build_handler(served: ServedLakehouse, by_method: dict[str, Endpoint]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        # A framework that lets HEAD in wherever GET is served.
        endpoint = by_method.get(request.method) or by_method["GET"]
        try:
            body = await _body(request, endpoint.body_bytes_max)
            requested = RestRequest(
                served, dict(request.path_params), dict(request.query_params), dict(request.headers.items()), body
            )
            if endpoint.changes and not served.is_writable:
                return respond_iceberg_error(403, _READ_ONLY)
            if endpoint.changes and requested.version is not None:
                return respond_iceberg_error(403, _PREFIX_STEP)
            return await run_in_threadpool(endpoint.answer, requested)
        except MangroveError as error:
            return to_error_response(error, endpoint.missing).response()

    return answer


async def _body(request: Request, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > bytes_max:
                raise InvalidInputError(f"the request has more than {bytes_max} bytes: send less at a time")
            parts.append(part)
    except ClientDisconnect as error:
        raise InvalidInputError("the client left before it had sent its request") from error
    return b"".join(parts)


_NAMESPACES: Final = f"{PREFIX}/namespaces"
_NAMESPACE: Final = f"{_NAMESPACES}/{{namespace}}"
_TABLE: Final = f"{_NAMESPACE}/tables/{{table}}"
_VIEW: Final = f"{_NAMESPACE}/views/{{view}}"
_COMMIT_BYTES_MAX: Final = 16 * 1024 * 1024
"""A commit names manifests and not files, so even thousands of columns and snapshots take less."""

WRITE_ENDPOINTS: Final = (
    Endpoint("POST", _NAMESPACES, handle_create_namespace, NO_SUCH_NAMESPACE, changes=True),
    Endpoint("DELETE", _NAMESPACE, handle_drop_namespace, NO_SUCH_NAMESPACE, changes=True),
    Endpoint("POST", f"{_NAMESPACE}/properties", handle_update_namespace_properties, NO_SUCH_NAMESPACE, changes=True),
    Endpoint(
        "POST",
        f"{_NAMESPACE}/tables",
        handle_create_table,
        NO_SUCH_NAMESPACE,
        changes=True,
        body_bytes_max=_COMMIT_BYTES_MAX,
    ),
    Endpoint("POST", _TABLE, handle_commit_table, NO_SUCH_TABLE, changes=True, body_bytes_max=_COMMIT_BYTES_MAX),
    Endpoint("DELETE", _TABLE, handle_drop_table, NO_SUCH_TABLE, changes=True),
    Endpoint("POST", f"{PREFIX}/tables/rename", handle_rename_table, NO_SUCH_TABLE, changes=True),
    Endpoint(
        "POST", f"{_NAMESPACE}/register", handle_register_table, NO_SUCH_NAMESPACE, changes=True, is_advertised=False
    ),
    Endpoint(
        "POST",
        f"{PREFIX}/transactions/commit",
        handle_commit_transaction,
        NO_SUCH_TABLE,
        changes=True,
        body_bytes_max=_COMMIT_BYTES_MAX,
    ),
    Endpoint("POST", f"{_NAMESPACE}/views", handle_create_view, NO_SUCH_NAMESPACE, changes=True),
    Endpoint("POST", _VIEW, handle_replace_view, NO_SUCH_VIEW, changes=True),
    Endpoint("DELETE", _VIEW, handle_drop_view, NO_SUCH_VIEW, changes=True),
    Endpoint("POST", f"{PREFIX}/views/rename", handle_rename_view, NO_SUCH_VIEW, changes=True),
)


_READING: Final = (
    Endpoint("GET", _NAMESPACES, handle_list_namespaces, NO_SUCH_NAMESPACE),
    Endpoint("GET", _NAMESPACE, handle_load_namespace, NO_SUCH_NAMESPACE),
    Endpoint("HEAD", _NAMESPACE, handle_namespace_exists, NO_SUCH_NAMESPACE),
    Endpoint("GET", f"{_NAMESPACE}/tables", handle_list_tables, NO_SUCH_NAMESPACE),
    Endpoint("GET", _TABLE, handle_load_table, NO_SUCH_TABLE),
    Endpoint("HEAD", _TABLE, handle_table_exists, NO_SUCH_TABLE),
    Endpoint("POST", f"{_TABLE}/metrics", handle_report_metrics, NO_SUCH_TABLE),
    Endpoint("GET", f"{_NAMESPACE}/views", handle_list_views, NO_SUCH_NAMESPACE),
    Endpoint("GET", _VIEW, handle_load_view, NO_SUCH_VIEW),
    Endpoint("HEAD", _VIEW, handle_view_exists, NO_SUCH_VIEW),
)


def build_iceberg_routes(
    lake: Lakehouse, *, is_writable: bool = False, is_secret: Callable[[str], bool] | None = None
) -> list[BaseRoute]:
    """Return the routes below `/iceberg`; `is_secret` knows the server's token, where it has one."""
    endpoints: Sequence[Endpoint] = (*_READING, *WRITE_ENDPOINTS)
    tell = partial(_list_served_endpoints, endpoints)
    first = (
        Endpoint("GET", "/v1/config", partial(handle_config, endpoints=tell), NO_SUCH_WAREHOUSE, is_advertised=False),
        Endpoint("POST", TOKENS_PATH, handle_token, is_advertised=False),
    )
    return [*build_routes(ServedLakehouse(lake, is_writable, is_secret), (*first, *endpoints))]


def _list_served_endpoints(endpoints: Sequence[Endpoint], is_writable: bool) -> list[str]:
    return list_endpoints(endpoints, is_writable=is_writable)
