"""The addresses of the protocol, as a list from which requests are answered and clients are told what is served."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.rest.asked import Asked, Served
from mangrove.rest.refusals import BASE, refusal_of, refused

__all__ = ["PREFIX", "Endpoint", "routes_of", "told"]

PREFIX: Final = "/v1/{prefix}"
"""What addresses of a catalog begin with in the protocol's words; for the newest state the prefix is left out."""
_BODY_BYTES_MAX: Final = 1_048_576
_READ_ONLY: Final = "This server only reads: start it with --writable and a token, and send the token."
_PAST: Final = "A past version cannot be changed: work without a warehouse, or with the lakehouse's own address."


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method, an address, and what answers: a plain function, which waits for storage in a thread of its own."""

    method: str
    path: str
    answer: Callable[[Asked], Response]
    missing: str = "NotFoundException"
    """The protocol's word where something that the address names is not there."""
    changes: bool = False
    """Whether it changes the lakehouse, and so is there only on a server that does."""
    is_told: bool = True
    """Whether clients are told of it; configuration and tokens come before anything is told."""
    body_bytes_max: int = _BODY_BYTES_MAX

    @property
    def words(self) -> str:
        """Its method and address, as clients are told."""
        return f"{self.method} {self.path}"


def told(endpoints: Sequence[Endpoint], *, is_writable: bool) -> list[str]:
    """Return what a client may use, in the protocol's words."""
    return [one.words for one in endpoints if one.is_told and (is_writable or not one.changes)]


def routes_of(served: Served, endpoints: Sequence[Endpoint]) -> list[Route]:
    """Return routes to endpoints: first those of the newest state, then those with a prefix.

    A namespace may be called `namespaces`, and no prefix is, so the shorter address is meant.
    """
    by_path: dict[str, dict[str, Endpoint]] = {}
    for one in endpoints:
        by_path.setdefault(one.path, {})[one.method] = one
    found = {path: _answering(served, by_method) for path, by_method in by_path.items()}
    return [
        Route(BASE + spelled(path), found[path], methods=sorted(by_path[path]))
        for spelled in (_without_prefix, str)
        for path in found
        if spelled is not str or PREFIX in path
    ]


def _without_prefix(path: str) -> str:
    return path.replace(PREFIX, "/v1")


def _answering(served: Served, by_method: dict[str, Endpoint]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        # A framework that lets HEAD in wherever GET is served.
        endpoint = by_method.get(request.method) or by_method["GET"]
        try:
            body = await _body(request, endpoint.body_bytes_max)
            asked = Asked(
                served, dict(request.path_params), dict(request.query_params), dict(request.headers.items()), body
            )
            if endpoint.changes and not served.is_writable:
                return refused(403, _READ_ONLY)
            if endpoint.changes and asked.version is not None:
                return refused(403, _PAST)
            return await run_in_threadpool(endpoint.answer, asked)
        except MangroveError as error:
            return refusal_of(error, endpoint.missing).response()

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
