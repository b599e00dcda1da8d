"""Mangrove: a lakehouse that is nothing but files in your bucket."""

from mangrove.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    InvalidInputError,
    MangroveError,
    NotFoundError,
    StorageError,
)
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create, open  # noqa: A004 - `mangrove.open` is what people type
from mangrove.metastore import Isolation

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
