"""Resolution of the `warehouse` parameter to the latest or an earlier version.

A client requests its configuration once and gets a prefix for all later paths. The
newest version has no prefix. A timestamp or an export name is resolved to a version
number, so that the client keeps reading the same version.
"""

import posixpath
import re
from collections.abc import Sequence
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.snapshot import Snapshot
from mangrove.metastore import MetastoreSnapshot
from mangrove.storage.uri import expand_location, parse_root_uri

__all__ = ["open_version", "parse_prefix", "prefix_of", "resolve_warehouse"]

_PREFIX: Final = re.compile(r"version-(0|[1-9][0-9]{0,17})")
_WAREHOUSE_CHARACTERS_MAX: Final = 1_000
_DEFAULT: Final = "default"


def resolve_warehouse(lake: Lakehouse, warehouse: str | None, own_names: Sequence[str] = ()) -> int | None:
    """Return the version of a client's `warehouse`, or None for the newest.

    The address of the lakehouse and the server's `own_names` mean the newest, because many clients
    require a warehouse. So do the name of its folder and `default`, unless an export or a tag has
    that name.
    """
    text = (warehouse or "").strip()
    if not text or text in own_names or _is_address_of(text, lake):
        return None
    if len(text) > _WAREHOUSE_CHARACTERS_MAX:
        raise InvalidInputError(
            f"the warehouse has {len(text)} characters; at most {_WAREHOUSE_CHARACTERS_MAX} are allowed"
        )
    names = (_DEFAULT, posixpath.basename(parse_root_uri(lake.uri).path.rstrip("/")), *own_names)
    try:
        return lake._snapshot_at(text).version
    except NotFoundError as error:
        if text in names:
            return None
        raise NotFoundError(
            f"{error}; expected no warehouse, {' or '.join(map(repr, filter(None, names)))} for the newest version, or "
            "a version, a time or the name of an export"
        ) from error


def _is_address_of(text: str, lake: Lakehouse) -> bool:
    """Return whether a text is the lakehouse's URI, percent-encoded or not, or its absolute folder path.

    Relative paths are not resolved: the working directory of the client is unknown.
    """
    if "://" not in text and not text.startswith("/"):
        return False
    try:
        return parse_root_uri(expand_location(text, "/")) == parse_root_uri(lake.uri)
    except InvalidInputError:
        return False


def prefix_of(version: int) -> str:
    """Return the path prefix of an earlier version.

    >>> prefix_of(41)
    'version-41'
    """
    return f"version-{version}"


def parse_prefix(prefix: str) -> int:
    """Return the version of a prefix.

    >>> parse_prefix("version-41")
    41
    """
    match = _PREFIX.fullmatch(prefix)
    if match is None:
        raise InvalidInputError(
            f"unknown catalog prefix {prefix[:40]!r}; request the configuration with a version, a timestamp or an "
            "export name as warehouse"
        )
    return int(match[1])


def open_version(lake: Lakehouse, version: int | None) -> Snapshot:
    """Return a snapshot of the lakehouse as of a version, or of the newest one.

    An expired version is invalid input and not a missing object: clients would otherwise
    try to create the missing table.
    """
    return Snapshot(_snapshot(lake, version), lake.clients, lake.engines)


def _snapshot(lake: Lakehouse, version: int | None) -> MetastoreSnapshot:
    if version is None:
        return lake.metastore.latest()
    try:
        return lake.metastore.at_version(version)
    except NotFoundError as error:
        raise InvalidInputError(f"{error}; reconnect the client with another version") from error
