"""Requests of the SQL editor: run a statement, cancel it, and download its rows.

The requests are POST. They are refused if a page of another server sends them (see `server/access.py`).
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.inspect.query import QueryAnswer, QueryRunner
from mangrove.local.row_formats import to_json_value
from mangrove.model.json_codec import Json
from mangrove.web.actions import ExplorerSession, parse_form
from mangrove.web.links import API
from mangrove.web.responses import read_body, respond_exception, respond_json

__all__ = ["build_sql_routes", "to_browser_value"]

_BODY_BYTES_MAX: Final = 200_000
_ID_CHARACTERS_MAX: Final = 100
_SAFE_INTEGER_MAX: Final = 2**53 - 1
_MEDIA_TYPES: Final = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


@dataclass(frozen=True, slots=True)
class _StatementRequest:
    """The id, text and CSRF token that the editor sends."""

    id: str
    text: str
    csrf_token: str
    file_format: str = ""

    def __post_init__(self) -> None:
        if not 0 < len(self.id) <= _ID_CHARACTERS_MAX:
            raise InvalidInputError(f"invalid statement id; expected 1 to {_ID_CHARACTERS_MAX} characters")


def build_sql_routes(runner: QueryRunner, open_session: Callable[[Request], ExplorerSession]) -> list[Route]:
    """Return the routes; with write access statements may also change tables."""

    def run(request: Request, requested: _StatementRequest) -> Response:
        session = open_session(request)
        may_write = session.write_access is not None and session.write_access.admits(requested.csrf_token)
        answer = runner.on(session.lake).run(requested.id, requested.text, may_write=may_write)
        return respond_json(_encode_answer(answer))

    def cancel(request: Request, requested: _StatementRequest) -> Response:
        return respond_json({"is_cancelled": runner.on(open_session(request).lake).cancel(requested.id)})

    def export(request: Request, requested: _StatementRequest) -> Response:
        parts = runner.on(open_session(request).lake).export(requested.id, requested.text, requested.file_format)
        name = f"rows.{requested.file_format}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return StreamingResponse(parts, headers=headers, media_type=_MEDIA_TYPES[requested.file_format])

    handlers = {f"{API}/sql": run, f"{API}/sql/cancel": cancel, "/sql/export": export}
    return [Route(path, _handle(work), methods=["POST"]) for path, work in handlers.items()]


def _handle(work: Callable[[Request, _StatementRequest], Response]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        as_json = request.url.path.startswith(API)
        try:
            body = await read_body(request, _BODY_BYTES_MAX)
            fields = _parse_json(body) if as_json else parse_form(body)
            requested = _StatementRequest(
                fields.get("id", ""), fields.get("text", ""), fields.get("proof", ""), fields.get("format", "")
            )
            return await run_in_threadpool(work, request, requested)
        except MangroveError as error:
            return respond_exception(error, as_json=as_json)

    return answer


def _parse_json(body: bytes) -> Mapping[str, str]:
    try:
        fields = json.loads(body)
    except ValueError as error:
        raise InvalidInputError(f"invalid JSON ({error})") from error
    if not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
        raise InvalidInputError("invalid request; expected a JSON object with texts")
    return fields


def _encode_answer(answer: QueryAnswer) -> Json:
    return {
        "message": answer.message,
        "columns": [{"name": column.name, "type": column.type} for column in answer.columns],
        "rows": [[to_browser_value(value) for value in row] for row in answer.rows],
        "has_more": answer.has_more,
        "millis": answer.millis,
        "files": [
            {"table": one.table, "opened": one.opened, "skipped": one.skipped, "description": one.description}
            for one in answer.files
        ],
    }


def to_browser_value(value: Any) -> Json:
    """Return a value as JSON for scripts; numbers that a script would round become text.

    >>> import datetime
    >>> to_browser_value([2**53, 1.5, {"day": datetime.date(2026, 11, 1)}])
    ['9007199254740992', 1.5, {'day': '2026-11-01'}]
    """
    match value:
        case int() if abs(value) > _SAFE_INTEGER_MAX:
            return str(value)
        case Mapping():
            return {str(name): to_browser_value(inner) for name, inner in value.items()}
        case list() | tuple():
            return [to_browser_value(inner) for inner in value]
        case _:
            return to_json_value(value)
