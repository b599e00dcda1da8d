"""Responses of the Iceberg REST catalog where the extra `iceberg` is not installed."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from mangrove.rest.errors import BASE_PATH, respond_iceberg_error

__all__ = ["build_unavailable_routes"]

_NOT_INSTALLED: Final = (
    "The Iceberg REST catalog requires PyIceberg, which is not installed on the server; "
    "run pip install 'mangrove-lake[iceberg]' there and restart it."
)
_METHODS: Final = ("GET", "POST", "DELETE")


def build_unavailable_routes() -> list[BaseRoute]:
    """Return routes that answer every request with the package to install."""
    return [Route(f"{BASE_PATH}/{{rest:path}}", _respond_not_installed, methods=list(_METHODS))]


def _respond_not_installed(_: Request) -> Response:
    return respond_iceberg_error(501, _NOT_INSTALLED)
