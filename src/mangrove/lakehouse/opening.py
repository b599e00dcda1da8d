"""Creation and opening of lakehouses by URI."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias

from mangrove.effects import Effects, build_effects
from mangrove.errors import FormatError, InvalidInputError, NotFoundError
from mangrove.lakehouse.cache import CacheSettings, build_cache_settings, wrap_in_cache
from mangrove.lakehouse.engine_port import Engines
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layouts import LAYOUTS, create_layout, open_layout
from mangrove.lakehouse.table import CatalogClient
from mangrove.lakehouse.time_travel import parse_duration_millis
from mangrove.maintenance.exports import open_export
from mangrove.metastore import Changes
from mangrove.model.paths import is_uri
from mangrove.model.properties import FrozenMapping
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.opening import open_store
from mangrove.storage.port import Store
from mangrove.storage.uri import parse_root_uri

__all__ = [
    "NO_CLIENTS",
    "EnginesFactory",
    "create_lakehouse",
    "create_on_store",
    "open_lakehouse",
    "open_on_store",
    "reopen",
    "resolve_store",
]

EnginesFactory: TypeAlias = Callable[[Effects], Engines]
"""What makes the engines of a lakehouse from its store, clock and ids."""
NO_CLIENTS: Mapping[str, CatalogClient] = FrozenMapping[str, CatalogClient]({})


def create_lakehouse(
    uri: str | os.PathLike[str],
    *,
    layout: str = "tree",
    settings: LakehouseSettings | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_bytes_max: int | None = None,
    clients: Mapping[str, CatalogClient] = NO_CLIENTS,
    engines: EnginesFactory | None = None,
) -> Lakehouse:
    """Make a new lakehouse in a folder or bucket that holds none.

    `settings` are what cannot change later, such as the sizes of names; `properties`
    are added to them. `storage_options` are for clouds, and so is `cache`: see `open_lakehouse`.
    """
    effects = build_effects(
        wrap_in_cache(open_store(uri, storage_options), build_cache_settings(cache, cache_bytes_max))
    )
    chosen = settings or LakehouseSettings()
    if properties:
        chosen = replace(chosen, properties={**chosen.properties, **properties})
    return create_on_store(
        effects, layout=layout, settings=chosen, clients=clients, engines=engines, storage_options=storage_options
    )


def open_lakehouse(
    uri: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_bytes_max: int | None = None,
    clock_tolerance: str | timedelta | None = None,
    clients: Mapping[str, CatalogClient] = NO_CLIENTS,
    engines: EnginesFactory | None = None,
) -> Lakehouse:
    """Open the lakehouse that is there, whichever layout and format revision it has.

    An export that is not full is opened on top of the lakehouse that it came from.
    What is read from a cloud and never changes is remembered in the folder `cache`.
    Commits are refused while the newest version is dated further in the future than
    `clock_tolerance`, such as "1d"; without it the lakehouse's own setting counts.
    """
    tolerance_millis = None if clock_tolerance is None else parse_duration_millis(clock_tolerance)
    remembered = build_cache_settings(cache, cache_bytes_max)
    store = resolve_store(uri, lambda place: open_store(place, storage_options), remembered)
    return open_on_store(
        build_effects(store, tolerance_millis), clients=clients, engines=engines, storage_options=storage_options
    )


def reopen(
    uri: str,
    storage_options: Mapping[str, str] | None,
    clients: Mapping[str, CatalogClient],
    engines: EnginesFactory | None,
    clock_tolerance_millis: int | None,
) -> Lakehouse:
    """Open a lakehouse again as it was opened in another process; pickles of lakehouses name this function."""
    store = resolve_store(uri, lambda place: open_store(place, storage_options))
    effects = build_effects(store, clock_tolerance_millis)
    return open_on_store(effects, clients=clients, engines=engines, storage_options=storage_options)


def resolve_store(
    place: str | os.PathLike[str],
    store_at: Callable[[str | os.PathLike[str]], Store],
    cache: CacheSettings | None = None,
) -> Store:
    """Return the store through which the lakehouse at a place is opened, also one that is an export of another.

    `store_at` is asked for each place that takes part; the cache stands before all of them.
    """

    def remembered(one: str | os.PathLike[str]) -> Store:
        return wrap_in_cache(store_at(one), cache)

    return open_export(remembered(place), remembered, _check_export_source)


def create_on_store(
    effects: Effects,
    *,
    layout: str = "tree",
    settings: LakehouseSettings | None = None,
    clients: Mapping[str, CatalogClient] = NO_CLIENTS,
    engines: EnginesFactory | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Lakehouse:
    """Make a new lakehouse on a store, with a clock and ids of the caller's."""
    if layout not in LAYOUTS:
        raise InvalidInputError(f"{layout!r} is no layout: use one of {', '.join(LAYOUTS)}")
    changes = Changes(effects.new_id(), message="create lakehouse")
    laid_out = create_layout(effects, layout, settings or LakehouseSettings(), changes)
    return Lakehouse(effects, laid_out, clients, engines, storage_options)


def open_on_store(
    effects: Effects,
    *,
    clients: Mapping[str, CatalogClient] = NO_CLIENTS,
    engines: EnginesFactory | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Lakehouse:
    """Open the lakehouse on a store, with a clock and ids of the caller's."""
    return Lakehouse(effects, open_layout(effects), clients, engines, storage_options)


def _check_export_source(source: Store, export_uri: str) -> None:
    """Refuse the source of an export that does not record it: anybody could name any folder or bucket as a source."""
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
    """Return a URI in one spelling, ending in `/`; on local disk without symbolic links."""
    try:
        root = parse_root_uri(uri)
    except InvalidInputError:
        # Another program recorded it, and it is no place that can be opened here.
        return uri
    return f"file://{os.path.realpath(root.path)}/" if root.scheme == "file" else root.text
