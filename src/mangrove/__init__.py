"""Mangrove is a lakehouse with ACID transactions that needs nothing but object storage."""

import importlib
from functools import partial
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
    from datetime import timedelta

    from mangrove.expressions.sql_expression import Expr, col, expr, lit
    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.lakehouse.opening import EnginesFactory
    from mangrove.lakehouse.snapshot import LakeSnapshot as Snapshot
    from mangrove.lakehouse.table import CatalogClient
    from mangrove.lakehouse.table import LakeTable as Table
    from mangrove.lakehouse.transaction import LakeTransaction as Transaction
    from mangrove.maintenance.check import CheckReport
    from mangrove.metastore import Isolation
    from mangrove.model.schema import Schema
    from mangrove.model.settings import LakehouseSettings
    from mangrove.spark.statements import Arguments, Frame
    from mangrove.storage.port import Store
    from mangrove.tables.table_state import TableState

    __version__: str

# Everything below is imported when it is first needed: the command line starts with this package, and its help, for
# one, needs none of it. Arrow and Spark take longest.
# ruff: noqa: PLC0415

__all__ = [
    "AlreadyExistsError",
    "ConflictError",
    "Expr",
    "FormatError",
    "InvalidInputError",
    "Isolation",
    "Lakehouse",
    "MangroveError",
    "NotFoundError",
    "Schema",
    "Snapshot",
    "StorageError",
    "Table",
    "Transaction",
    "__version__",
    "check",
    "col",
    "create",
    "expr",
    "lit",
    "open",
]


_LATE = {
    "Expr": ("mangrove.expressions.sql_expression", "Expr"),
    "Isolation": ("mangrove.metastore", "Isolation"),
    "Lakehouse": ("mangrove.lakehouse.lakehouse", "Lakehouse"),
    "Schema": ("mangrove.model.schema", "Schema"),
    "Snapshot": ("mangrove.lakehouse.snapshot", "LakeSnapshot"),
    "Table": ("mangrove.lakehouse.table", "LakeTable"),
    "Transaction": ("mangrove.lakehouse.transaction", "LakeTransaction"),
    "col": ("mangrove.expressions.sql_expression", "col"),
    "expr": ("mangrove.expressions.sql_expression", "expr"),
    "lit": ("mangrove.expressions.sql_expression", "lit"),
    "load_ipython_extension": ("mangrove.sql.notebook", "load_ipython_extension"),
}
"""The names that are imported on first access, with their modules and their names there; IPython uses the last one."""


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("mangrove-lake")
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    where, inner_name = _LATE[name]
    try:
        module = importlib.import_module(where)
    except ModuleNotFoundError as error:
        if name != "load_ipython_extension":
            raise
        needed = "SQL in a notebook needs Spark, which is not installed: pip install 'mangrove-lake[spark]'"
        raise InvalidInputError(needed) from error
    value: object = getattr(module, inner_name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _run_sql(lake: "Lakehouse", transaction: "Transaction | None", text: str, arguments: "Arguments") -> "Frame":
    from mangrove.sql.session import run_sql

    return run_sql(lake, transaction, text, arguments)


def _names_read(text: str, namespace: str) -> tuple[str, ...]:
    try:
        from mangrove.sql.views import find_referenced_names
    except ModuleNotFoundError:
        return ()  # without what takes SQL apart nobody can run it either
    return find_referenced_names(text, namespace)


def _iceberg_address(store: "Store", state: "TableState", at_millis: int) -> str:
    try:
        # By name, since SQL in a notebook imports this package and lies below what shows tables.
        showing = importlib.import_module("mangrove.iceberg.publish.metadata_writer")
    except ModuleNotFoundError as error:
        raise InvalidInputError("PyIceberg is not installed: pip install 'mangrove-lake[iceberg]'") from error
    address: str = showing.shown_address(store, state, at_millis)
    return address


def _engines(storage_options: "Mapping[str, str] | None") -> "EnginesFactory":
    from mangrove.spark.engines import BothEngines

    return partial(
        BothEngines,
        storage_options=storage_options,
        sql=_run_sql,
        names_read=_names_read,
        iceberg=_iceberg_address,
    )


def check(
    uri: "str | os.PathLike[str]",
    *,
    storage_options: "Mapping[str, str] | None" = None,
    sample: int | None = None,
    repair: bool = False,
    engine: str | None = None,
) -> "CheckReport":
    """Look at everything that the versions of a lakehouse reach, as `Maintenance.check` does.

    Where the lakehouse cannot be opened, the report says what is broken, which version
    still opens, and what to do.
    """
    from mangrove.lakehouse.checking import check_uri

    engines = _engines(storage_options)
    return check_uri(uri, storage_options=storage_options, engines=engines, sample=sample, repair=repair, engine=engine)


def create(
    uri: "str | os.PathLike[str]",
    *,
    layout: str = "tree",
    settings: "LakehouseSettings | None" = None,
    properties: "Mapping[str, str] | None" = None,
    storage_options: "Mapping[str, str] | None" = None,
    cache: "str | os.PathLike[str] | None" = None,
    cache_bytes_max: int | None = None,
    clients: "Mapping[str, CatalogClient] | None" = None,
) -> "Lakehouse":
    """Make a new lakehouse in a folder or bucket that holds none.

    `settings` are what cannot change later, such as the sizes of names; `properties`
    are added to them. `storage_options` are for clouds, and so is `cache`: see `open_lakehouse`.
    """
    from mangrove.lakehouse.opening import NO_CLIENTS
    from mangrove.lakehouse.opening import create_lakehouse as create_with

    return create_with(
        uri,
        layout=layout,
        settings=settings,
        properties=properties,
        storage_options=storage_options,
        cache=cache,
        cache_bytes_max=cache_bytes_max,
        clients=NO_CLIENTS if clients is None else clients,
        engines=_engines(storage_options),
    )


def open(  # noqa: A001 - the product's word: mangrove.open
    uri: "str | os.PathLike[str]",
    *,
    storage_options: "Mapping[str, str] | None" = None,
    cache: "str | os.PathLike[str] | None" = None,
    cache_bytes_max: int | None = None,
    clock_tolerance: "str | timedelta | None" = None,
    clients: "Mapping[str, CatalogClient] | None" = None,
) -> "Lakehouse":
    """Open the lakehouse that is there, whichever layout and format revision it has.

    What is read from a cloud and never changes is remembered in the folder `cache`, if one
    is named: about `cache_bytes_max` bytes, or 1 GB, for all processes that name the folder.
    Commits are refused while the newest version is dated further in the future than
    `clock_tolerance`, such as "1d"; without it the lakehouse's own setting counts.
    """
    from mangrove.lakehouse.opening import NO_CLIENTS
    from mangrove.lakehouse.opening import open_lakehouse as open_with

    return open_with(
        uri,
        storage_options=storage_options,
        cache=cache,
        cache_bytes_max=cache_bytes_max,
        clock_tolerance=clock_tolerance,
        clients=NO_CLIENTS if clients is None else clients,
        engines=_engines(storage_options),
    )
