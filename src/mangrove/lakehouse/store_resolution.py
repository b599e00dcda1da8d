"""The store through which a lakehouse is opened, also one that is a partial export of another."""

import os
from collections.abc import Callable

from mangrove.effects import build_effects
from mangrove.errors import FormatError, InvalidInputError, NotFoundError
from mangrove.lakehouse.cache import CacheSettings, wrap_in_cache
from mangrove.lakehouse.layout_detection import open_layout
from mangrove.maintenance.export_records import open_export
from mangrove.model.paths import is_uri
from mangrove.storage.port import Store
from mangrove.storage.uri import parse_root_uri

__all__ = ["resolve_store"]


def resolve_store(
    place: str | os.PathLike[str],
    store_at: Callable[[str | os.PathLike[str]], Store],
    cache: CacheSettings | None = None,
) -> Store:
    """Return the store through which the lakehouse at a location is opened, including partial exports.

    `store_at` returns the store of each location involved; the cache wraps all of them.
    """

    def remembered(one: str | os.PathLike[str]) -> Store:
        return wrap_in_cache(store_at(one), cache)

    return open_export(remembered(place), remembered, _check_export_source)


def _check_export_source(source: Store, export_uri: str) -> None:
    """Refuse a source that does not record the export, because an export could name any folder or bucket."""
    try:
        recorded = open_layout(build_effects(source)).metastore.latest().settings.exported_snapshots
    except NotFoundError as error:
        raise FormatError(
            f"{export_uri} claims to be an export of {source.uri}, where there is no lakehouse: {error}"
        ) from error
    places = {_normalize_uri(location.partition("#")[0]) for location in recorded.values() if is_uri(location)}
    if not any(place.startswith(_normalize_uri(export_uri)) for place in places):
        raise FormatError(
            f"{export_uri} claims to be an export of {source.uri}, which records no export to that place, so nothing "
            "was read from it: export to that place again, or open the export where it was made"
        )


def _normalize_uri(uri: str) -> str:
    """Return a URI in canonical form, ending in `/`; on the local disk without symbolic links."""
    try:
        root = parse_root_uri(uri)
    except InvalidInputError:
        # Another program recorded it, and it is no place that can be opened here.
        return uri
    return f"file://{os.path.realpath(root.path)}/" if root.scheme == "file" else root.text
