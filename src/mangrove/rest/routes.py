"""Endpoint list and routes of the Iceberg REST catalog."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

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
from mangrove.rest.scan_planning import (
    handle_cancel_plan,
    handle_fetch_plan,
    handle_fetch_tasks,
    handle_plan_scan,
)
from mangrove.rest.settings import RestSettings
from mangrove.rest.tables import (
    handle_commit_table,
    handle_commit_transaction,
    handle_create_table,
    handle_drop_table,
    handle_load_table,
    handle_register_table,
    handle_rename_table,
    handle_sign_request,
)
from mangrove.rest.tokens import TOKENS_PATH, handle_token
from mangrove.rest.views import (
    handle_create_view,
    handle_drop_view,
    handle_load_view,
    handle_register_view,
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
    "list_endpoints",
]

PREFIX: Final = "/v1/{prefix}"
"""Path prefix of a catalog in the protocol; omitted for the newest version."""
_BODY_BYTES_MAX: Final = 1_048_576
_READ_ONLY: Final = "The server is read-only; start it with --writable and a token, and send the token."
_READ_ONLY_VERSION: Final = (
    "An earlier version cannot be changed; connect without a warehouse or with the lakehouse's address."
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method, a path and its handler, which blocks on storage in a worker thread."""

    method: str
    path: str
    handler: Callable[[RestRequest], Response]
    not_found_type: str = "NotFoundException"
    """The protocol's error type if an object of the path does not exist; by default that of the missing object."""
    new_kind: str = ""
    """The kind of object that it creates; a message about an object of another kind with that name says so."""
    is_write: bool = False
    """Whether it changes the lakehouse; only a writable server allows it."""
    is_advertised: bool = True
    """Whether the configuration lists it; the endpoints for configuration and tokens are not listed."""
    body_bytes_max: int = _BODY_BYTES_MAX

    @property
    def signature(self) -> str:
        """Method and path, as the configuration lists them."""
        return f"{self.method} {self.path}"


def list_endpoints(endpoints: Sequence[Endpoint], *, is_writable: bool) -> list[str]:
    """Return the endpoints that a client may use, as method and path."""
    return [one.signature for one in endpoints if one.is_advertised and (is_writable or not one.is_write)]


_SelectLake: TypeAlias = Callable[[Request], Lakehouse]


def build_routes(
    served: ServedLakehouse, endpoints: Sequence[Endpoint], select_lake: _SelectLake | None = None
) -> list[Route]:
    """Return the routes of the endpoints: first without a prefix, then with one.

    `select_lake` returns the lakehouse with the rights of the sender of a request. A namespace may be
    named `namespaces` but a prefix may not, so the shorter path wins.
    """
    by_path: dict[str, dict[str, Endpoint]] = {}
    for one in endpoints:
        by_path.setdefault(one.path, {})[one.method] = one
    handlers = {path: _build_handler(served, by_method, select_lake) for path, by_method in by_path.items()}
    return [
        Route(
            BASE_PATH + to_path(path).replace("{plan-id}", "{plan_id}"), handlers[path], methods=sorted(by_path[path])
        )
        for to_path in (_without_prefix, str)
        for path in handlers
        if to_path is not str or PREFIX in path
    ]


def _without_prefix(path: str) -> str:
    return path.replace(PREFIX, "/v1")


def _build_handler(
    served: ServedLakehouse, by_method: dict[str, Endpoint], select_lake: _SelectLake | None
) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        # Starlette routes HEAD requests to GET handlers.
        endpoint = by_method.get(request.method) or by_method["GET"]
        try:
            body = await _read_body(request, endpoint.body_bytes_max)
            own = served if select_lake is None else replace(served, lake=select_lake(request))
            requested = RestRequest(
                own, dict(request.path_params), dict(request.query_params), dict(request.headers.items()), body
            )
            if endpoint.is_write and not served.is_writable:
                return respond_iceberg_error(403, _READ_ONLY)
            if endpoint.is_write and requested.version is not None:
                return respond_iceberg_error(403, _READ_ONLY_VERSION)
            return await run_in_threadpool(endpoint.handler, requested)
        except MangroveError as error:
            return to_error_response(error, endpoint.not_found_type, endpoint.new_kind).response()

    return handle


async def _read_body(request: Request, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > bytes_max:
                raise InvalidInputError(f"the request body exceeds {bytes_max} bytes; send smaller requests")
            parts.append(part)
    except ClientDisconnect as error:
        raise InvalidInputError("the client disconnected before it had sent its request") from error
    return b"".join(parts)


_NAMESPACES: Final = f"{PREFIX}/namespaces"
_NAMESPACE: Final = f"{_NAMESPACES}/{{namespace}}"
_TABLE: Final = f"{_NAMESPACE}/tables/{{table}}"
_VIEW: Final = f"{_NAMESPACE}/views/{{view}}"
_COMMIT_BYTES_MAX: Final = 16 * 1024 * 1024
"""A commit lists manifests rather than files, so even thousands of columns and snapshots take less."""

WRITE_ENDPOINTS: Final = (
    Endpoint("POST", _NAMESPACES, handle_create_namespace, NO_SUCH_NAMESPACE, is_write=True),
    Endpoint("DELETE", _NAMESPACE, handle_drop_namespace, NO_SUCH_NAMESPACE, is_write=True),
    Endpoint("POST", f"{_NAMESPACE}/properties", handle_update_namespace_properties, NO_SUCH_NAMESPACE, is_write=True),
    Endpoint(
        "POST",
        f"{_NAMESPACE}/tables",
        handle_create_table,
        NO_SUCH_NAMESPACE,
        new_kind="table",
        is_write=True,
        body_bytes_max=_COMMIT_BYTES_MAX,
    ),
    Endpoint(
        "POST",
        _TABLE,
        handle_commit_table,
        NO_SUCH_TABLE,
        new_kind="table",
        is_write=True,
        body_bytes_max=_COMMIT_BYTES_MAX,
    ),
    Endpoint("DELETE", _TABLE, handle_drop_table, NO_SUCH_TABLE, is_write=True),
    Endpoint("POST", f"{PREFIX}/tables/rename", handle_rename_table, is_write=True),
    Endpoint("POST", f"{_NAMESPACE}/register", handle_register_table, new_kind="table", is_write=True),
    Endpoint(
        "POST",
        f"{PREFIX}/transactions/commit",
        handle_commit_transaction,
        NO_SUCH_TABLE,
        is_write=True,
        body_bytes_max=_COMMIT_BYTES_MAX,
    ),
    Endpoint("POST", f"{_NAMESPACE}/views", handle_create_view, NO_SUCH_NAMESPACE, new_kind="view", is_write=True),
    Endpoint("POST", f"{_NAMESPACE}/register-view", handle_register_view, new_kind="view", is_write=True),
    Endpoint("POST", _VIEW, handle_replace_view, NO_SUCH_VIEW, new_kind="view", is_write=True),
    Endpoint("DELETE", _VIEW, handle_drop_view, NO_SUCH_VIEW, is_write=True),
    Endpoint("POST", f"{PREFIX}/views/rename", handle_rename_view, is_write=True),
)


_READ_ENDPOINTS: Final = (
    Endpoint("GET", _NAMESPACES, handle_list_namespaces, NO_SUCH_NAMESPACE),
    Endpoint("GET", _NAMESPACE, handle_load_namespace, NO_SUCH_NAMESPACE),
    Endpoint("HEAD", _NAMESPACE, handle_namespace_exists, NO_SUCH_NAMESPACE),
    Endpoint("GET", f"{_NAMESPACE}/tables", handle_list_tables, NO_SUCH_NAMESPACE),
    Endpoint("GET", _TABLE, handle_load_table, NO_SUCH_TABLE),
    Endpoint("HEAD", _TABLE, handle_table_exists, NO_SUCH_TABLE),
    Endpoint("POST", f"{_TABLE}/metrics", handle_report_metrics, NO_SUCH_TABLE),
    Endpoint("POST", f"{_TABLE}/plan", handle_plan_scan, NO_SUCH_TABLE, body_bytes_max=_COMMIT_BYTES_MAX),
    Endpoint("GET", f"{_TABLE}/plan/{{plan-id}}", handle_fetch_plan, NO_SUCH_TABLE),
    Endpoint("DELETE", f"{_TABLE}/plan/{{plan-id}}", handle_cancel_plan, NO_SUCH_TABLE),
    Endpoint("POST", f"{_TABLE}/tasks", handle_fetch_tasks, NO_SUCH_TABLE, body_bytes_max=_COMMIT_BYTES_MAX),
    Endpoint("GET", f"{_NAMESPACE}/views", handle_list_views, NO_SUCH_NAMESPACE),
    Endpoint("GET", _VIEW, handle_load_view, NO_SUCH_VIEW),
    Endpoint("HEAD", _VIEW, handle_view_exists, NO_SUCH_VIEW),
)


def build_iceberg_routes(
    lake: Lakehouse,
    *,
    is_writable: bool = False,
    is_secret: Callable[[str], bool] | None = None,
    settings: RestSettings | None = None,
    select_lake: _SelectLake | None = None,
) -> list[BaseRoute]:
    """Return the routes below `/iceberg`; `is_secret` checks tokens if the server has one."""
    endpoints: Sequence[Endpoint] = (*_READ_ENDPOINTS, *WRITE_ENDPOINTS)
    config_handler = partial(handle_config, endpoints=partial(_list_served_endpoints, endpoints))
    unlisted = (
        Endpoint("GET", "/v1/config", config_handler, NO_SUCH_WAREHOUSE, is_advertised=False),
        Endpoint("POST", TOKENS_PATH, handle_token, is_advertised=False),
        Endpoint("POST", f"{_TABLE}/sign", handle_sign_request, NO_SUCH_TABLE, is_advertised=False),
    )
    served = ServedLakehouse(lake, is_writable, is_secret, settings or RestSettings())
    return [*build_routes(served, (*unlisted, *endpoints), select_lake)]


def _list_served_endpoints(endpoints: Sequence[Endpoint], is_writable: bool) -> list[str]:
    return list_endpoints(endpoints, is_writable=is_writable)
