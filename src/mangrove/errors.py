"""The exceptions that Mangrove raises, grouped by what a caller does next.

    MangroveError
    ├── InvalidInputError     correct the call; nothing was changed
    ├── NotFoundError         the named object does not exist
    ├── AlreadyExistsError    the name is taken
    ├── AccessDeniedError     the principal lacks a privilege; have it granted
    ├── ConflictError         a concurrent commit conflicts; read again and retry
    ├── StorageError          the store failed; the outcome is stated
    └── FormatError           a file violates its format; run `mangrove check`

A message states what is wrong, where, and what to do.
"""

__all__ = [
    "AccessDeniedError",
    "AlreadyExistsError",
    "ConflictError",
    "FormatError",
    "InvalidInputError",
    "MangroveError",
    "NotFoundError",
    "StorageError",
]


class MangroveError(Exception):
    """The common base class."""


class InvalidInputError(MangroveError):
    """The input is invalid; nothing was changed."""


class NotFoundError(MangroveError):
    """The named object does not exist."""


class AlreadyExistsError(MangroveError):
    """The name is taken."""


class AccessDeniedError(MangroveError):
    """The principal lacks a privilege; nothing was changed."""


class ConflictError(MangroveError):
    """A concurrent commit conflicts with the transaction."""


class StorageError(MangroveError):
    """The store failed, and retrying did not help."""


class FormatError(MangroveError):
    """A file on storage violates its format."""
