"""Mangrove is a lakehouse with ACID transactions that needs nothing but object storage."""

from importlib.util import find_spec
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
    from mangrove.lakehouse.snapshot import Snapshot
    from mangrove.lakehouse.table import CatalogClient, Table
    from mangrove.lakehouse.transaction import Transaction
    from mangrove.maintenance.check import CheckReport
    from mangrove.metastore import Isolation
    from mangrove.model.schema import Schema
    from mangrove.model.settings import LakehouseSettings

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


def __getattr__(name: str) -> object:
    """Import a class or function when it is first used."""
    value: object
    match name:
        case "Expr" | "col" | "expr" | "lit":
            from mangrove.expressions import sql_expression

            value = getattr(sql_expression, name)
        case "Isolation":
            from mangrove.metastore import Isolation

            value = Isolation
        case "Lakehouse":
            from mangrove.lakehouse.lakehouse import Lakehouse

            value = Lakehouse
        case "Schema":
            from mangrove.model.schema import Schema

            value = Schema
        case "Snapshot":
            from mangrove.lakehouse.snapshot import Snapshot

            value = Snapshot
        case "Table":
            from mangrove.lakehouse.table import Table

            value = Table
        case "Transaction":
            from mangrove.lakehouse.transaction import Transaction

            value = Transaction
        case "__version__":
            from importlib.metadata import version

            value = version("mangrove-lake")
        case "load_ipython_extension":
            if find_spec("pyspark") is None:
                raise InvalidInputError(
                    "SQL in a notebook needs Spark, which is not installed: pip install 'mangrove-lake[spark]'"
                )
            from mangrove.notebook import load_ipython_extension

            value = load_ipython_extension
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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
    from mangrove.wiring import build_engines_factory

    engines = build_engines_factory(storage_options)
    return check_uri(uri, storage_options=storage_options, engines=engines, sample=sample, repair=repair, engine=engine)


def create(
    uri: "str | os.PathLike[str]",
    *,
    layout: str | None = None,
    strict: bool | None = None,
    compatible_with: str | None = None,
    settings: "LakehouseSettings | None" = None,
    properties: "Mapping[str, str] | None" = None,
    storage_options: "Mapping[str, str] | None" = None,
    cache: "str | os.PathLike[str] | None" = None,
    cache_bytes_max: int | None = None,
    clients: "Mapping[str, CatalogClient] | None" = None,
) -> "Lakehouse":
    """Create a lakehouse in a folder or bucket that has none.

    `layout` is "tree" by default. With `compatible_with="deltacat"` the layout is
    "deltacat-2", and DeltaCAT can read every version: writes are copy-on-write there.
    `settings` are what cannot change later, such as the sizes of names; `properties`
    are added to them. `storage_options` are for clouds, and so is `cache`: see `open_lakehouse`.
    A `strict` tree contains only what its format describes, for readers of other
    implementations; without it the layout decides, and only `tree-older` is strict.
    """
    from mangrove.lakehouse.opening import NO_CLIENTS, create_lakehouse
    from mangrove.wiring import build_engines_factory

    return create_lakehouse(
        uri,
        layout=layout,
        strict=strict,
        compatible_with=compatible_with,
        settings=settings,
        properties=properties,
        storage_options=storage_options,
        cache=cache,
        cache_bytes_max=cache_bytes_max,
        clients=NO_CLIENTS if clients is None else clients,
        engines=build_engines_factory(storage_options),
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
    from mangrove.lakehouse.opening import NO_CLIENTS, open_lakehouse
    from mangrove.wiring import build_engines_factory

    return open_lakehouse(
        uri,
        storage_options=storage_options,
        cache=cache,
        cache_bytes_max=cache_bytes_max,
        clock_tolerance=clock_tolerance,
        clients=NO_CLIENTS if clients is None else clients,
        engines=build_engines_factory(storage_options),
    )
