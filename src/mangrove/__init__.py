"""Mangrove: a lakehouse that is nothing but files in your bucket."""

import os
from collections.abc import Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

from mangrove.effects import Effects
from mangrove.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    InvalidInputError,
    MangroveError,
    NotFoundError,
    StorageError,
)
from mangrove.lakehouse.handles import CatalogClient
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import NO_CLIENTS
from mangrove.lakehouse.opening import create as create_with
from mangrove.lakehouse.opening import open as open_with
from mangrove.metastore import Isolation
from mangrove.model.settings import LakehouseSettings

if TYPE_CHECKING:
    # Arrow and Spark take long to import, so each engine comes when it is first needed.
    from mangrove.local.engine import LocalEngine
    from mangrove.spark.engine import SparkEngine

__all__ = [
    "AlreadyExistsError",
    "ConflictError",
    "FormatError",
    "InvalidInputError",
    "Isolation",
    "Lakehouse",
    "MangroveError",
    "NotFoundError",
    "StorageError",
    "create",
    "open",
]


class _Engines:
    """Arrow in this process and Spark, on the files of one lakehouse."""

    def __init__(self, effects: Effects, storage_options: Mapping[str, str] | None = None) -> None:
        self._effects = effects
        self._storage_options = storage_options

    @cached_property
    def _local(self) -> "LocalEngine":
        from mangrove.local.engine import LocalEngine  # noqa: PLC0415

        return LocalEngine(self._effects.store, self._effects.new_id)

    @cached_property
    def _spark(self) -> "SparkEngine":
        from mangrove.spark.engine import SparkEngine  # noqa: PLC0415

        return SparkEngine(self._effects.store, self._effects.new_id, storage_options=self._storage_options)

    def local(self) -> "LocalEngine":
        """Return the engine in this process."""
        return self._local

    def spark(self) -> "SparkEngine":
        """Return the engine on Spark, in the session that is there or in a new one."""
        return self._spark


def create(
    uri: str | os.PathLike[str],
    *,
    layout: str = "tree",
    settings: LakehouseSettings | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    clients: Mapping[str, CatalogClient] = NO_CLIENTS,
) -> Lakehouse:
    """Make a new lakehouse in a folder or bucket that holds none.

    `settings` are what cannot change later, such as the sizes of names; `properties`
    are added to them. `storage_options` are for clouds.
    """
    return create_with(
        uri,
        layout=layout,
        settings=settings,
        properties=properties,
        storage_options=storage_options,
        clients=clients,
        engines=partial(_Engines, storage_options=storage_options),
    )


def open(  # noqa: A001 - the product's word: mangrove.open
    uri: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    clients: Mapping[str, CatalogClient] = NO_CLIENTS,
) -> Lakehouse:
    """Open the lakehouse that is there, whichever layout and format revision it has."""
    engines = partial(_Engines, storage_options=storage_options)
    return open_with(uri, storage_options=storage_options, clients=clients, engines=engines)
