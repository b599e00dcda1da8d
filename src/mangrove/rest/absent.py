"""What clients of Iceberg's are told by a server that was installed without it."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from mangrove.rest.refusals import BASE, refused

__all__ = ["absent_routes"]

_SENTENCE: Final = (
    "The Iceberg REST endpoint needs PyIceberg, which is not installed on the server: "
    "run pip install 'mangrove-lake[iceberg]' there, and start it again."
)
_METHODS: Final = ("GET", "POST", "DELETE")


def absent_routes() -> list[BaseRoute]:
    """Return routes that answer to all that a client may ask what to install."""
    return [Route(f"{BASE}/{{rest:path}}", _answer, methods=list(_METHODS))]


def _answer(_: Request) -> Response:
    return refused(501, _SENTENCE)
