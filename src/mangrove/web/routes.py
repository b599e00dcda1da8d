"""The explorer's addresses: each page for people, and under `/api` the same facts for programs.

Pages are plain functions, so that each request runs in a worker thread: the core
waits for storage, and the server goes on meanwhile.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from mangrove.errors import (
    ConflictError,
    FormatError,
    InvalidInputError,
    MangroveError,
    NotFoundError,
    StorageError,
)
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.web.changing import BODY_BYTES_MAX, Changing, form_fields, rollback_order, rolled_back
from mangrove.web.facts.catalog import namespace_facts, namespaces_facts, view_facts
from mangrove.web.facts.history import history_facts, version_page_facts
from mangrove.web.facts.overview import overview_facts
from mangrove.web.facts.partition import delta_facts, partition_facts
from mangrove.web.facts.pinned import Asked, Pinned, pin
from mangrove.web.facts.storage import storage_facts
from mangrove.web.facts.table import TableFacts, table_facts
from mangrove.web.facts.tree import tree_facts
from mangrove.web.html import Element, document
from mangrove.web.json_answer import facts_json, json_bytes
from mangrove.web.links import API, STATIC, Links
from mangrove.web.pages.catalog import namespace_page, namespaces_page, view_page
from mangrove.web.pages.elsewhere import Elsewhere
from mangrove.web.pages.frame import message_page
from mangrove.web.pages.history import history_page, version_page
from mangrove.web.pages.overview import overview_page
from mangrove.web.pages.storage import storage_page
from mangrove.web.pages.table import delta_page, partition_page, table_page
from mangrove.web.pages.tree import tree_page

__all__ = ["IcebergServing", "Page", "explorer_routes", "refusal"]

_PARTITION: Final = "/tables/{name}/partitions/{partition}"
_ROLLBACK: Final = "/history/{number}/rollback"
_STATIC_FOLDER: Final = Path(__file__).with_name("static")
_STATIC_TYPES: Final = {"explorer.css": "text/css", "mark.svg": "image/svg+xml"}
_READ_ONLY: Final = "This server only reads: start it with --writable and a token, or run mangrove rollback."
_UNPROVEN: Final = "The form was not made by this server as it runs now: open the preview again, and press its button."
_REFUSALS: Final[dict[type[MangroveError], tuple[int, str]]] = {
    InvalidInputError: (400, "That cannot be meant"),
    NotFoundError: (404, "Not there"),
    ConflictError: (409, "Others were faster"),
    FormatError: (500, "The lakehouse is damaged"),
    StorageError: (503, "The storage does not answer"),
}


@dataclass(frozen=True, slots=True)
class Page:
    """An address, what is told there, and how it looks."""

    path: str
    read: Callable[[Pinned, Asked], Any]
    show: Callable[[Any, str], Element]


@dataclass(frozen=True, slots=True)
class IcebergServing:
    """How this server speaks Iceberg's REST protocol."""

    path: str
    has_token: bool


_PAGES: Final = (
    Page("/", overview_facts, overview_page),
    Page("/namespaces", namespaces_facts, namespaces_page),
    Page("/namespaces/{name}", namespace_facts, namespace_page),
    Page("/tables/{name}", table_facts, table_page),
    Page(_PARTITION, partition_facts, partition_page),
    Page(f"{_PARTITION}/deltas/{{position}}", delta_facts, delta_page),
    Page("/views/{name}", view_facts, view_page),
    Page("/history", history_facts, history_page),
    Page("/history/{number}", version_page_facts, version_page),
    Page("/tree", tree_facts, tree_page),
    Page("/storage", storage_facts, storage_page),
)


def explorer_routes(
    lake: Lakehouse, changing: Changing | None = None, serving: IcebergServing | None = None
) -> list[Route]:
    """Return the routes of the explorer of a lakehouse; they only read, unless it is said who may change things.

    Where tables are served to Iceberg's clients as well, their pages say how.
    """
    pages = [Route(page.path, _page(lake, page, serving)) for page in _pages(changing)]
    twins = [Route(f"{API}{page.path}", _twin(lake, page)) for page in _PAGES]
    changes = [Route(path, _rollback(lake, changing), methods=["POST"]) for path in (_ROLLBACK, f"{API}{_ROLLBACK}")]
    return [*pages, *twins, *changes, *_static_routes()]


def _pages(changing: Changing | None) -> Iterator[Page]:
    """Yield the pages, with a button on the preview of a rollback for who may press it."""
    proof = None if changing is None else changing.proof
    for page in _PAGES:
        yield replace(page, show=partial(version_page, proof=proof)) if page.show is version_page else page


def refusal(status: int, title: str, sentence: str, *, as_json: bool) -> Response:
    """Return an answer that says in one sentence why there is nothing else."""
    if as_json:
        return _json_response({"error": {"status": status, "title": title, "message": sentence}}, status)
    return _html_response(message_page(title, sentence), status)


def _page(lake: Lakehouse, page: Page, serving: IcebergServing | None) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        try:
            facts = _facts(lake, page, request)
        except MangroveError as error:
            return _refused(error, as_json=False)
        if serving is not None and isinstance(facts, TableFacts):
            return _html_response(table_page(facts, _api_address(request), _elsewhere(request, facts, serving)), 200)
        return _html_response(page.show(facts, _api_address(request)), 200)

    return answer


def _elsewhere(request: Request, facts: TableFacts, serving: IcebergServing) -> Elsewhere:
    """Return where other engines find a table: on the server that the browser reached, in the version that it shows."""
    seen = facts.seen
    address = f"{request.url.scheme}://{request.url.netloc}{serving.path}"
    version = None if seen.asked is None else seen.version.version
    return Elsewhere(address, seen.uri, version, serving.has_token)


def _twin(lake: Lakehouse, page: Page) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        try:
            facts = _facts(lake, page, request)
        except MangroveError as error:
            return _refused(error, as_json=True)
        return _json_response(facts_json(facts), 200)

    return answer


def _rollback(lake: Lakehouse, changing: Changing | None) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        as_json = request.url.path.startswith(API)
        if changing is None:
            return refusal(403, "Only reading", _READ_ONLY, as_json=as_json)
        try:
            fields = form_fields(await _body(request))
            if not changing.admits(request.headers.get("authorization"), fields.get("proof", "")):
                return refusal(403, "Another form", _UNPROVEN, as_json=as_json)
            order = rollback_order(request.path_params["number"], fields)
            version = await run_in_threadpool(rolled_back, lake, order)
        except MangroveError as error:
            return _refused(error, as_json=as_json)
        if as_json:
            return _json_response({"version": version}, 200)
        return RedirectResponse(Links().version(version), 303)

    return answer


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES_MAX:
            raise InvalidInputError(f"the form has more than {BODY_BYTES_MAX} bytes: shorten the message")
    return body


def _facts(lake: Lakehouse, page: Page, request: Request) -> Any:
    asked = Asked(dict(request.path_params), dict(request.query_params))
    return page.read(pin(lake, asked), asked)


def _api_address(request: Request) -> str:
    query = request.url.query
    return f"{API}{request.url.path}{f'?{query}' if query else ''}"


def _refused(error: MangroveError, *, as_json: bool) -> Response:
    status, title = next((found for kind, found in _REFUSALS.items() if isinstance(error, kind)), (500, "Error"))
    return refusal(status, title, str(error), as_json=as_json)


def _html_response(page: Element, status: int) -> Response:
    return Response(document(page), status, media_type="text/html")


def _json_response(answer: Any, status: int) -> Response:
    return Response(json_bytes(answer), status, media_type="application/json")


def _static_routes() -> list[Route]:
    """Return routes to the few files that pages load; no part of an address ever names a file."""
    return [Route(f"{STATIC}/{name}", _static(name, media_type)) for name, media_type in _STATIC_TYPES.items()]


def _static(name: str, media_type: str) -> Callable[[Request], Response]:
    content = (_STATIC_FOLDER / name).read_bytes()
    return lambda _: Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})
