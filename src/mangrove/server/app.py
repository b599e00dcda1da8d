"""ASGI application that combines explorer, Iceberg REST catalog, health check and metrics."""

import importlib.util
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from mangrove.errors import MangroveError, StorageError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.access import AccessRules, Rights, load_rules
from mangrove.rest.errors import BASE_PATH, is_iceberg_path, respond_iceberg_error
from mangrove.rest.settings import RestSettings
from mangrove.rest.unavailable import build_unavailable_routes
from mangrove.server.access import (
    RULES_UNAVAILABLE_MESSAGE,
    Access,
    AccessMiddleware,
    Caller,
    derive_csrf_token,
    find_bearer,
    find_token_owner,
)
from mangrove.server.health import Readiness
from mangrove.server.metrics import METRICS_CONTENT_TYPE, ServerMetrics
from mangrove.server.token_throttle import TokenThrottle
from mangrove.sql.statement_cache import BoundedCache
from mangrove.storage.counting import CountingStore, StoreRequests
from mangrove.web.actions import ExplorerSession, WriteAccess
from mangrove.web.responses import respond_error
from mangrove.web.routes import IcebergEndpoint, build_explorer_routes

if importlib.util.find_spec("pyiceberg") is not None:
    from mangrove.rest.routes import build_iceberg_routes

__all__ = ["build_app", "has_iceberg"]


def build_app(
    lake: Lakehouse,
    access: Access,
    others: Sequence[BaseRoute] = (),
    counted: Sequence[CountingStore] | None = None,
    wrong_tokens_max: int | None = None,
    rest_settings: RestSettings | None = None,
) -> ASGIApp:
    """Return the ASGI application for a lakehouse; `others` are additional routes.

    The metrics have the requests of the stores in `counted`; by default those of the
    lakehouse's own store, if it is a `CountingStore`.
    """
    store = lake.effects.store
    stores = counted if counted is not None else [store] if isinstance(store, CountingStore) else []
    metrics = ServerMetrics(
        lambda: sum((counting.requests for counting in stores), StoreRequests()), lambda: _load_newest_version(lake)
    )
    select_lake = _build_lake_selector(lake, access)
    routes = [
        Route("/healthz", _respond_health),
        Route("/readyz", _ready(Readiness(lake.effects))),
        Route("/metrics", _metrics(metrics)),
        *others,
        *_iceberg(lake, access, select_lake, rest_settings),
        *build_explorer_routes(lake, _build_session_opener(access, select_lake), _build_iceberg_endpoint(access)),
    ]
    inner = Starlette(
        routes=routes, exception_handlers={HTTPException: _http_error, Exception: _handle_unexpected_error}
    )
    throttle = TokenThrottle(lake.effects.now_millis, wrong_tokens_max)
    return AccessMiddleware(inner, access, metrics, throttle, lambda: _load_recent_rules(lake))


_LOGGER: Final = logging.getLogger(__name__)
_RULES_AGE_MILLIS_MAX: Final = 1_000
"""How long a server may use access rules of the version in memory."""
_RESTRICTED_MAX: Final = 100
_SelectLake: TypeAlias = Callable[[Request], Lakehouse]


def _load_recent_rules(lake: Lakehouse) -> AccessRules:
    """Return the access rules of a version that was the newest within the last second.

    The details of an error go to the log only, because the caller of the request is not known yet.
    """
    try:
        recent = lake.metastore.latest_since(lake.effects.now_millis() - _RULES_AGE_MILLIS_MAX)
        return load_rules((recent or lake.metastore.latest()).settings)
    except MangroveError as error:
        _LOGGER.warning("the access rules cannot be read: %s", error)
        raise StorageError(RULES_UNAVAILABLE_MESSAGE) from error


def _build_lake_selector(lake: Lakehouse, access: Access) -> _SelectLake:
    """Return the function that gives each request the lakehouse with the rights of its principal.

    Each principal has its own engines and caches, and new ones when its rights change.
    """
    restricted: BoundedCache[Lakehouse] = BoundedCache(_RESTRICTED_MAX)

    def select(request: Request) -> Lakehouse:
        caller: Caller | None = request.state.caller
        if access.token is None or (caller is not None and caller.principal is None):
            return lake
        # A path that is open to everybody has no caller.
        rights = Rights("") if caller is None else request.state.rules.rights_of(caller.principal)
        return restricted.get_or_create(rights, lambda: lake._restrict(rights))

    return select


def has_iceberg() -> bool:
    """Return whether the extra `iceberg` is installed."""
    return importlib.util.find_spec("pyiceberg") is not None


def _iceberg(
    lake: Lakehouse, access: Access, select_lake: _SelectLake, settings: RestSettings | None
) -> list[BaseRoute]:
    """Return the Iceberg REST routes; without the extra, routes that respond with what to install."""
    if not has_iceberg():
        return build_unavailable_routes()

    def is_token(text: str) -> bool:
        return find_token_owner(access, text, _load_recent_rules(lake)) is not None

    return build_iceberg_routes(
        lake,
        is_writable=access.is_writable,
        is_secret=None if access.token is None else is_token,
        settings=settings,
        select_lake=select_lake,
    )


def _build_iceberg_endpoint(access: Access) -> IcebergEndpoint | None:
    return IcebergEndpoint(BASE_PATH, access.token is not None) if has_iceberg() else None


def _build_session_opener(access: Access, select_lake: _SelectLake) -> Callable[[Request], ExplorerSession]:
    def open_session(request: Request) -> ExplorerSession:
        caller: Caller | None = request.state.caller
        if caller is None or not access.is_writable:
            return ExplorerSession(select_lake(request))
        has_token = find_bearer(access, request.headers.get("authorization"), request.state.rules) is not None
        return ExplorerSession(select_lake(request), WriteAccess(derive_csrf_token(caller.secret), has_token))

    return open_session


async def _respond_health(_: Request) -> Response:
    """Respond that the process is alive; a coroutine needs no worker thread."""
    return PlainTextResponse("ok\n")


def _ready(readiness: Readiness) -> Callable[[Request], Response]:
    def answer(_: Request) -> Response:
        if readiness.is_ready():
            return PlainTextResponse("ok\n")
        return PlainTextResponse("the newest version cannot be read\n", 503)

    return answer


def _metrics(metrics: ServerMetrics) -> Callable[[Request], Response]:
    def answer(_: Request) -> Response:
        return Response(metrics.render(), media_type=METRICS_CONTENT_TYPE)

    return answer


def _load_newest_version(lake: Lakehouse) -> int | None:
    try:
        return lake.version
    except MangroveError:
        return None


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    titles = {404: ("Not found", "There is no such page."), 405: ("Not allowed", "This page is read-only; use GET.")}
    title, sentence = titles.get(error.status_code, ("Error", error.detail))
    if is_iceberg_path(request.url.path):
        requested = f"{request.method} {request.url.path[:200]}"
        return respond_iceberg_error(
            error.status_code, f"{requested} is not an endpoint of this server; /iceberg/v1/config lists the endpoints."
        )
    answer = respond_error(error.status_code, title, sentence, as_json=_accepts_json(request))
    answer.headers.update(error.headers or {})
    return answer


def _handle_unexpected_error(request: Request, error: Exception) -> Response:
    sentence = f"Internal error ({type(error).__name__}); see the log of the server."
    if is_iceberg_path(request.url.path):
        return respond_iceberg_error(500, sentence)
    return respond_error(500, "Error", sentence, as_json=_accepts_json(request))


def _accepts_json(request: Request) -> bool:
    return request.url.path.startswith("/api")
