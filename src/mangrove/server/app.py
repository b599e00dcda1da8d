"""The ASGI application: the explorer, the Iceberg REST endpoint, health and counts, behind the guard."""

import importlib.util
from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from mangrove.errors import MangroveError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.rest.absent import absent_routes
from mangrove.rest.refusals import BASE, is_iceberg, refused
from mangrove.server.access import Access, has_bearer, is_token, proof_of
from mangrove.server.guarding import Guarding
from mangrove.server.health import Readiness
from mangrove.server.metrics import RequestCounts, metrics_text
from mangrove.server.token_throttle import TokenThrottle
from mangrove.storage.counting import CountingStore, Requests
from mangrove.web.changing import Changing
from mangrove.web.routes import IcebergServing, explorer_routes, refusal

__all__ = ["build_app", "has_iceberg"]


def build_app(
    lake: Lakehouse,
    access: Access,
    others: Sequence[BaseRoute] = (),
    counted: Sequence[CountingStore] | None = None,
    wrong_tokens_max: int | None = None,
) -> ASGIApp:
    """Return the application that serves a lakehouse; `others` are routes of the caller's.

    What the stores in `counted` were asked is among the metrics; without them, what the
    lakehouse's own store was asked, where it is one that counts.
    """
    store = lake.effects.store
    stores = counted if counted is not None else [store] if isinstance(store, CountingStore) else []
    counts = RequestCounts()
    routes = [
        Route("/healthz", _answer_health),
        Route("/readyz", _ready(Readiness(lake.effects))),
        Route("/metrics", _metrics(lake, counts, stores)),
        *others,
        *_iceberg(lake, access),
        *explorer_routes(lake, _changing(access), _serving(access)),
    ]
    inner = Starlette(routes=routes, exception_handlers={HTTPException: _http_error, Exception: _unexpected})
    return Guarding(inner, access, counts, TokenThrottle(lake.effects.now_millis, wrong_tokens_max))


def has_iceberg() -> bool:
    """Return whether what Iceberg's clients need is installed."""
    return importlib.util.find_spec("pyiceberg") is not None


def _iceberg(lake: Lakehouse, access: Access) -> list[BaseRoute]:
    """Return the routes for clients of Iceberg's; without the extra, those that say what to install."""
    if not has_iceberg():
        return absent_routes()
    from mangrove.rest.routes import iceberg_routes  # noqa: PLC0415 - only after it is known to be installed

    is_secret = None if access.token is None else lambda text: is_token(access, text)
    return iceberg_routes(lake, is_writable=access.is_writable, is_secret=is_secret)


def _serving(access: Access) -> IcebergServing | None:
    return IcebergServing(BASE, access.token is not None) if has_iceberg() else None


def _changing(access: Access) -> Changing | None:
    if access.token is None or not access.is_writable:
        return None
    return Changing(proof_of(access.token), lambda authorization: has_bearer(access, authorization))


async def _answer_health(_: Request) -> Response:
    """Answer that the process is alive; being a coroutine, it waits for no thread and touches no storage."""
    return PlainTextResponse("ok\n")


def _ready(readiness: Readiness) -> Callable[[Request], Response]:
    def answer(_: Request) -> Response:
        if readiness.is_ready():
            return PlainTextResponse("ok\n")
        return PlainTextResponse("the newest version cannot be read\n", 503)

    return answer


def _metrics(lake: Lakehouse, counts: RequestCounts, stores: Sequence[CountingStore]) -> Callable[[Request], Response]:
    def answer(_: Request) -> Response:
        try:
            newest = lake.version
        except MangroveError:
            newest = None
        asked = sum((store.requests for store in stores), Requests())
        text = metrics_text(counts.snapshot(), asked, newest)
        return Response(text, media_type="text/plain; version=0.0.4")

    return answer


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    titles = {404: ("Not there", "There is no such page."), 405: ("Not allowed", "This page is only read: use GET.")}
    title, sentence = titles.get(error.status_code, ("Error", error.detail))
    if is_iceberg(request.url.path):
        asked = f"{request.method} {request.url.path[:200]}"
        return refused(error.status_code, f"{asked} is not served here: /iceberg/v1/config tells what is.")
    answer = refusal(error.status_code, title, sentence, as_json=_wants_json(request))
    answer.headers.update(error.headers or {})
    return answer


def _unexpected(request: Request, error: Exception) -> Response:
    sentence = f"Something went wrong here that should not ({type(error).__name__}); the server's log says more."
    if is_iceberg(request.url.path):
        return refused(500, sentence)
    return refusal(500, "Error", sentence, as_json=_wants_json(request))


def _wants_json(request: Request) -> bool:
    return request.url.path.startswith("/api")
