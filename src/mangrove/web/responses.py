"""HTTP responses of the explorer, and the body of its requests."""

import json
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from mangrove.errors import (
    AccessDeniedError,
    ConflictError,
    FormatError,
    InvalidInputError,
    MangroveError,
    NotFoundError,
    StorageError,
)
from mangrove.model.json_codec import Json
from mangrove.web.rendering import render_message_page

__all__ = ["encode_json", "read_body", "respond_error", "respond_exception", "respond_html", "respond_json"]

_ERROR_RESPONSES: Final[dict[type[MangroveError], tuple[int, str]]] = {
    AccessDeniedError: (403, "Access denied"),
    InvalidInputError: (400, "Invalid request"),
    NotFoundError: (404, "Not found"),
    ConflictError: (409, "Conflict"),
    FormatError: (500, "The lakehouse is damaged"),
    StorageError: (503, "Storage is unavailable"),
}


def encode_json(answer: Json) -> bytes:
    """Return the bytes of a JSON response."""
    return json.dumps(answer, ensure_ascii=False, indent=2).encode("utf-8", "replace") + b"\n"


def respond_error(status: int, title: str, sentence: str, *, as_json: bool) -> Response:
    """Return an error response with one message."""
    if as_json:
        return respond_json({"error": {"status": status, "title": title, "message": sentence}}, status)
    return respond_html(render_message_page(title, sentence), status)


def respond_exception(error: MangroveError, *, as_json: bool) -> Response:
    """Return the response to an error, with the status of its class."""
    status, title = next(
        (response for kind, response in _ERROR_RESPONSES.items() if isinstance(error, kind)), (500, "Error")
    )
    return respond_error(status, title, str(error), as_json=as_json)


def respond_html(page: bytes, status: int = 200) -> Response:
    """Return a page as a response."""
    return Response(page, status, media_type="text/html")


def respond_json(answer: Json, status: int = 200) -> Response:
    """Return JSON as a response."""
    return Response(encode_json(answer), status, media_type="application/json")


async def read_body(request: Request, bytes_max: int) -> bytes:
    """Return the body of a request, or raise `InvalidInputError` if it is too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > bytes_max:
            raise InvalidInputError(f"the form has more than {bytes_max} bytes; shorten its text")
    return body
