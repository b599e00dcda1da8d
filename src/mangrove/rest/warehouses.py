"""Resolution of the `warehouse` parameter to the latest or an earlier version.

A client asks for its configuration once, and is told a prefix that it puts into
every address from then on. The newest state has none. A past one is told by its
version, also where a time or the name of an export was given, so that a client
sees one version however long it stays.
"""

import re
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.snapshot import LakeSnapshot
from mangrove.metastore import Snapshot
from mangrove.storage.uri import expand_location, parse_root_uri

__all__ = ["open_version", "parse_prefix", "prefix_of", "resolve_warehouse"]

_PREFIX: Final = re.compile(r"version-(0|[1-9][0-9]{0,17})")
_WAREHOUSE_CHARACTERS_MAX: Final = 1_000


def resolve_warehouse(lake: Lakehouse, warehouse: str | None) -> int | None:
    """Return the version that a client's `warehouse` names, or None for whichever is newest.

    The lakehouse's own address means the newest too: many clients must give some warehouse.
    """
    text = (warehouse or "").strip()
    if not text or _is_address_of(text, lake):
        return None
    if len(text) > _WAREHOUSE_CHARACTERS_MAX:
        raise InvalidInputError(f"the warehouse has {len(text)} characters: {_WAREHOUSE_CHARACTERS_MAX} are allowed")
    return lake.snapshot_at(text).version


def _is_address_of(text: str, lake: Lakehouse) -> bool:
    """Return whether a text is the lakehouse's address, with its spaces escaped or not, or its folder in full.

    A folder that is not in full is seen from where the client is, which nobody knows here.
    """
    if "://" not in text and not text.startswith("/"):
        return False
    try:
        return parse_root_uri(expand_location(text, "/")) == parse_root_uri(lake.uri)
    except InvalidInputError:
        return False


def prefix_of(version: int) -> str:
    """Return what stands in the addresses of a past state.

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
            f"there is no catalog {prefix[:40]!r} here: let the client ask for its configuration, "
            "with a version, a time or the name of an export as its warehouse"
        )
    return int(match[1])


def open_version(lake: Lakehouse, version: int | None) -> LakeSnapshot:
    """Return the lakehouse as of a version, or as it is now: in one version, so that no answer mixes two.

    A version that was forgotten is no table that is not there: clients would go on as if they might make it.
    """
    return LakeSnapshot(_snapshot(lake, version), lake.clients, lake.engines)


def _snapshot(lake: Lakehouse, version: int | None) -> Snapshot:
    if version is None:
        return lake.metastore.latest()
    try:
        return lake.metastore.at_version(version)
    except NotFoundError as error:
        raise InvalidInputError(f"{error}; the client that asked for it must be opened anew") from error
