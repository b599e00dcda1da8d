"""Mangrove is a lakehouse with ACID transactions that needs nothing but object storage."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from mangrove.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    ConflictError,
    FormatError,
    InvalidInputError,
    MangroveError,
    NotFoundError,
    StorageError,
)
from mangrove.wiring import check, create, load_public_name, open  # noqa: A004 - the product's word: mangrove.open

if TYPE_CHECKING:
    from mangrove.expressions.sql_expression import Expr, col, expr, lit
    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.lakehouse.snapshot import Snapshot
    from mangrove.lakehouse.table import Table
    from mangrove.lakehouse.transaction import Transaction
    from mangrove.metastore import Isolation
    from mangrove.model.schema import Schema

    __version__: str

__all__ = [
    "AccessDeniedError",
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
    """Import a class or function when it is first used: the command line imports this package."""
    value = _load_notebook_extension() if name == "load_ipython_extension" else load_public_name(name)
    globals()[name] = value
    return value


def _load_notebook_extension() -> object:
    if find_spec("pyspark") is None and find_spec("duckdb") is None:
        raise InvalidInputError("SQL in a notebook needs DuckDB or Spark: pip install 'mangrove-lake[duckdb]'")
    from mangrove.notebook import load_ipython_extension  # noqa: PLC0415 - the notebook imports this package

    return load_ipython_extension


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
