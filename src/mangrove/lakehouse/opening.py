"""Creation and opening of lakehouses by URI."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias

from mangrove.effects import Effects, build_effects
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.cache import build_cache_settings, wrap_in_cache
from mangrove.lakehouse.engine_port import Engines
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import (
    COMPATIBLE_WITH,
    DELTACAT_READABLE_LAYOUT,
    LAYOUTS,
    create_layout,
    open_layout,
    resolve_strictness,
)
from mangrove.lakehouse.store_resolution import resolve_store
from mangrove.lakehouse.table_snapshot import CatalogClient
from mangrove.lakehouse.time_travel import parse_duration_millis
from mangrove.metastore import Changes
from mangrove.model.properties import FrozenMapping
from mangrove.model.settings import READABLE_BY_DELTACAT, STRICT_TREE, LakehouseSettings
from mangrove.storage.opening import open_store

__all__ = [
    "NO_CLIENTS",
    "EnginesFactory",
    "create_lakehouse",
    "create_on_store",
    "open_lakehouse",
    "open_on_store",
]

EnginesFactory: TypeAlias = Callable[[Effects], Engines]
"""Factory of the engines of a lakehouse, from its store, clock and ids."""
NO_CLIENTS: Mapping[str, CatalogClient] = FrozenMapping[str, CatalogClient]({})


def create_lakehouse(
    uri: str | os.PathLike[str],
    *,
    layout: str | None = None,
    strict: bool | None = None,
    compatible_with: str | None = None,
    settings: LakehouseSettings | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_bytes_max: int | None = None,
    clients: Mapping[str, CatalogClient] = NO_CLIENTS,
    engines: EnginesFactory | None = None,
) -> Lakehouse:
    """Create a lakehouse in a folder or bucket that has none.

    `layout` is "tree" by default. With `compatible_with="deltacat"` the layout is
    "deltacat-2", and DeltaCAT can read every version; writes are copy-on-write there.
    `settings` contains what cannot change later, such as the maximum sizes of names;
    `properties` are added to them. `storage_options` and `cache` are for cloud storage: see
    `open_lakehouse`. A `strict` tree contains only what its format specifies, for readers
    of other implementations; by default only `tree-older` is strict.
    """
    effects = build_effects(
        wrap_in_cache(open_store(uri, storage_options), build_cache_settings(cache, cache_bytes_max))
    )
    chosen = settings or LakehouseSettings()
    if properties:
        chosen = replace(chosen, properties={**chosen.properties, **properties})
    return create_on_store(
        effects,
        layout=layout,
        strict=strict,
        compatible_with=compatible_with,
        settings=chosen,
        clients=clients,
        engines=engines,
        storage_options=storage_options,
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
    """Open an existing lakehouse of any layout and format revision.

    A partial export is opened on top of the lakehouse from which it was exported.
    Immutable files read from cloud storage are cached in the folder `cache`. Commits are
    refused while the newest version is dated further in the future than
    `clock_tolerance`, such as "1d"; the default is the setting of the lakehouse.
    """
    tolerance_millis = None if clock_tolerance is None else parse_duration_millis(clock_tolerance)
    remembered = build_cache_settings(cache, cache_bytes_max)
    store = resolve_store(uri, lambda place: open_store(place, storage_options), remembered)
    return open_on_store(
        build_effects(store, tolerance_millis), clients=clients, engines=engines, storage_options=storage_options
    )


def create_on_store(
    effects: Effects,
    *,
    layout: str | None = None,
    strict: bool | None = None,
    compatible_with: str | None = None,
    settings: LakehouseSettings | None = None,
    clients: Mapping[str, CatalogClient] = NO_CLIENTS,
    engines: EnginesFactory | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Lakehouse:
    """Create a lakehouse on a store, with the clock and ids of the caller."""
    settings = settings or LakehouseSettings()
    if compatible_with not in (None, *COMPATIBLE_WITH):
        raise InvalidInputError(f"unknown program {compatible_with!r}; expected {' or '.join(COMPATIBLE_WITH)}")
    if compatible_with:
        layout = layout or DELTACAT_READABLE_LAYOUT
        settings = replace(settings, properties={**settings.properties, READABLE_BY_DELTACAT: "true"})
    layout = layout or "tree"
    if layout not in LAYOUTS:
        raise InvalidInputError(f"unknown layout {layout!r}; expected one of {', '.join(LAYOUTS)}")
    if strict is not None or STRICT_TREE not in settings.properties:
        others = {name: text for name, text in settings.properties.items() if name != STRICT_TREE}
        added = {STRICT_TREE: "true"} if resolve_strictness(layout, strict) else {}
        settings = replace(settings, properties={**others, **added})
    changes = Changes(effects.new_id(), message="create lakehouse")
    laid_out = create_layout(effects, layout, settings, changes)
    return Lakehouse(effects, laid_out, clients, engines, storage_options)


def open_on_store(
    effects: Effects,
    *,
    clients: Mapping[str, CatalogClient] = NO_CLIENTS,
    engines: EnginesFactory | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Lakehouse:
    """Open the lakehouse on a store, with the clock and ids of the caller."""
    return Lakehouse(effects, open_layout(effects), clients, engines, storage_options)
