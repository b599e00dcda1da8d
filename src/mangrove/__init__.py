"""Mangrove: a lakehouse that is nothing but files in your bucket."""

import importlib
from functools import cached_property, partial
from typing import TYPE_CHECKING

from mangrove.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    InvalidInputError,
    MangroveError,
    NotFoundError,
    StorageError,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from mangrove.effects import Effects
    from mangrove.lakehouse.handles import CatalogClient
    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.local.engine import LocalEngine
    from mangrove.metastore import Isolation
    from mangrove.model.settings import LakehouseSettings
    from mangrove.spark.engine import SparkEngine

# Everything below is imported when it is first needed: the command line starts with this package, and its help, for
# one, needs none of it. Arrow and Spark take longest.
# ruff: noqa: PLC0415

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


_LATE = {"Isolation": "mangrove.metastore", "Lakehouse": "mangrove.lakehouse.lakehouse"}
"""The public names that are not there until somebody asks for them, each with its module."""


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_LATE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Engines:
    """Arrow in this process and Spark, on the files of one lakehouse."""

    def __init__(self, effects: "Effects", storage_options: "Mapping[str, str] | None" = None) -> None:
        self._effects = effects
        self._storage_options = storage_options

    @cached_property
    def _local(self) -> "LocalEngine":
        from mangrove.local.engine import LocalEngine

        return LocalEngine(self._effects.store, self._effects.new_id)

    @cached_property
    def _spark(self) -> "SparkEngine":
        from mangrove.spark.engine import SparkEngine

        return SparkEngine(self._effects.store, self._effects.new_id, storage_options=self._storage_options)

    def local(self) -> "LocalEngine":
        """Return the engine in this process."""
        return self._local

    def spark(self) -> "SparkEngine":
        """Return the engine on Spark, in the session that is there or in a new one."""
        return self._spark


def create(
    uri: "str | os.PathLike[str]",
    *,
    layout: str = "tree",
    settings: "LakehouseSettings | None" = None,
    properties: "Mapping[str, str] | None" = None,
    storage_options: "Mapping[str, str] | None" = None,
    clients: "Mapping[str, CatalogClient] | None" = None,
) -> "Lakehouse":
    """Make a new lakehouse in a folder or bucket that holds none.

    `settings` are what cannot change later, such as the sizes of names; `properties`
    are added to them. `storage_options` are for clouds.
    """
    from mangrove.lakehouse.opening import NO_CLIENTS
    from mangrove.lakehouse.opening import create as create_with

    return create_with(
        uri,
        layout=layout,
        settings=settings,
        properties=properties,
        storage_options=storage_options,
        clients=NO_CLIENTS if clients is None else clients,
        engines=partial(_Engines, storage_options=storage_options),
    )


def open(  # noqa: A001 - the product's word: mangrove.open
    uri: "str | os.PathLike[str]",
    *,
    storage_options: "Mapping[str, str] | None" = None,
    clients: "Mapping[str, CatalogClient] | None" = None,
) -> "Lakehouse":
    """Open the lakehouse that is there, whichever layout and format revision it has."""
    from mangrove.lakehouse.opening import NO_CLIENTS
    from mangrove.lakehouse.opening import open as open_with

    engines = partial(_Engines, storage_options=storage_options)
    return open_with(
        uri,
        storage_options=storage_options,
        clients=NO_CLIENTS if clients is None else clients,
        engines=engines,
    )
