"""The addresses at which clients change something, served where the server was started with --writable."""

from typing import Final

from mangrove.rest.endpoints import PREFIX, Endpoint
from mangrove.rest.namespace_changes import namespace_changed, namespace_created, namespace_dropped
from mangrove.rest.refusals import NO_SUCH_NAMESPACE, NO_SUCH_TABLE, NO_SUCH_VIEW
from mangrove.rest.table_changes import (
    table_committed,
    table_created,
    table_dropped,
    table_registered,
    table_renamed,
    transaction_committed,
)
from mangrove.rest.view_changes import view_created, view_dropped, view_renamed, view_replaced

__all__ = ["WRITING"]

_NAMESPACES: Final = f"{PREFIX}/namespaces"
_NAMESPACE: Final = f"{_NAMESPACES}/{{namespace}}"
_TABLE: Final = f"{_NAMESPACE}/tables/{{table}}"
_VIEW: Final = f"{_NAMESPACE}/views/{{view}}"
_COMMIT_BYTES_MAX: Final = 16 * 1024 * 1024
"""A commit names manifests and not files, so even thousands of columns and snapshots take less."""

WRITING: Final = (
    Endpoint("POST", _NAMESPACES, namespace_created, NO_SUCH_NAMESPACE, changes=True),
    Endpoint("DELETE", _NAMESPACE, namespace_dropped, NO_SUCH_NAMESPACE, changes=True),
    Endpoint("POST", f"{_NAMESPACE}/properties", namespace_changed, NO_SUCH_NAMESPACE, changes=True),
    Endpoint(
        "POST", f"{_NAMESPACE}/tables", table_created, NO_SUCH_NAMESPACE, changes=True, body_bytes_max=_COMMIT_BYTES_MAX
    ),
    Endpoint("POST", _TABLE, table_committed, NO_SUCH_TABLE, changes=True, body_bytes_max=_COMMIT_BYTES_MAX),
    Endpoint("DELETE", _TABLE, table_dropped, NO_SUCH_TABLE, changes=True),
    Endpoint("POST", f"{PREFIX}/tables/rename", table_renamed, NO_SUCH_TABLE, changes=True),
    Endpoint("POST", f"{_NAMESPACE}/register", table_registered, NO_SUCH_NAMESPACE, changes=True, is_told=False),
    Endpoint(
        "POST",
        f"{PREFIX}/transactions/commit",
        transaction_committed,
        NO_SUCH_TABLE,
        changes=True,
        body_bytes_max=_COMMIT_BYTES_MAX,
    ),
    Endpoint("POST", f"{_NAMESPACE}/views", view_created, NO_SUCH_NAMESPACE, changes=True),
    Endpoint("POST", _VIEW, view_replaced, NO_SUCH_VIEW, changes=True),
    Endpoint("DELETE", _VIEW, view_dropped, NO_SUCH_VIEW, changes=True),
    Endpoint("POST", f"{PREFIX}/views/rename", view_renamed, NO_SUCH_VIEW, changes=True),
)
