"""The routes of the Iceberg REST endpoint."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from starlette.routing import BaseRoute

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.rest.asked import Served
from mangrove.rest.catalog_answers import (
    config_answer,
    metrics_taken,
    namespace_answer,
    namespace_exists,
    namespaces_answer,
    table_exists,
    tables_answer,
    views_answer,
)
from mangrove.rest.endpoints import PREFIX, Endpoint, routes_of, told
from mangrove.rest.refusals import NO_SUCH_NAMESPACE, NO_SUCH_TABLE, NO_SUCH_VIEW, NO_SUCH_WAREHOUSE
from mangrove.rest.table_answers import table_answer
from mangrove.rest.tokens import TOKENS, token_answer
from mangrove.rest.view_answers import view_answer, view_exists
from mangrove.rest.writing import WRITING

__all__ = ["iceberg_routes"]

_NAMESPACES: Final = f"{PREFIX}/namespaces"
_NAMESPACE: Final = f"{_NAMESPACES}/{{namespace}}"
_TABLE: Final = f"{_NAMESPACE}/tables/{{table}}"
_VIEW: Final = f"{_NAMESPACE}/views/{{view}}"
_READING: Final = (
    Endpoint("GET", _NAMESPACES, namespaces_answer, NO_SUCH_NAMESPACE),
    Endpoint("GET", _NAMESPACE, namespace_answer, NO_SUCH_NAMESPACE),
    Endpoint("HEAD", _NAMESPACE, namespace_exists, NO_SUCH_NAMESPACE),
    Endpoint("GET", f"{_NAMESPACE}/tables", tables_answer, NO_SUCH_NAMESPACE),
    Endpoint("GET", _TABLE, table_answer, NO_SUCH_TABLE),
    Endpoint("HEAD", _TABLE, table_exists, NO_SUCH_TABLE),
    Endpoint("POST", f"{_TABLE}/metrics", metrics_taken, NO_SUCH_TABLE),
    Endpoint("GET", f"{_NAMESPACE}/views", views_answer, NO_SUCH_NAMESPACE),
    Endpoint("GET", _VIEW, view_answer, NO_SUCH_VIEW),
    Endpoint("HEAD", _VIEW, view_exists, NO_SUCH_VIEW),
)


def iceberg_routes(
    lake: Lakehouse, *, is_writable: bool = False, is_secret: Callable[[str], bool] | None = None
) -> list[BaseRoute]:
    """Return the routes below `/iceberg`; `is_secret` knows the server's token, where it has one."""
    endpoints: Sequence[Endpoint] = (*_READING, *WRITING)
    tell = partial(_told, endpoints)
    first = (
        Endpoint("GET", "/v1/config", partial(config_answer, endpoints=tell), NO_SUCH_WAREHOUSE, is_told=False),
        Endpoint("POST", TOKENS, token_answer, is_told=False),
    )
    return [*routes_of(Served(lake, is_writable, is_secret), (*first, *endpoints))]


def _told(endpoints: Sequence[Endpoint], is_writable: bool) -> list[str]:
    return told(endpoints, is_writable=is_writable)
