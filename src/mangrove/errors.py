"""The exceptions that Mangrove raises, grouped by what a caller does next.

    MangroveError
    ├── InvalidInputError     correct the call; nothing was changed
    ├── NotFoundError         the named thing is not there
    ├── AlreadyExistsError    the name is taken
    ├── ConflictError         a rival committed first; read again and retry
    ├── StorageError          the store failed; the outcome is stated
    └── FormatError           a file breaks a rule of its format; run `mangrove check`

A message says what was wrong, where, and what to do about it.
"""

__all__ = [
    "AlreadyExistsError",
    "ConflictError",
    "FormatError",
    "InvalidInputError",
    "MangroveError",
    "NotFoundError",
    "StorageError",
]


class MangroveError(Exception):
    """The common base, for callers who treat all of them alike."""


class InvalidInputError(MangroveError):
    """What was asked for cannot be meant; nothing was changed."""


class NotFoundError(MangroveError):
    """What was named is not there."""


class AlreadyExistsError(MangroveError):
    """The name is taken."""


class ConflictError(MangroveError):
    """Another transaction committed first and touched the same things."""


class StorageError(MangroveError):
    """The store refused or failed, and retrying did not help."""


class FormatError(MangroveError):
    """A file on storage breaks a rule of its format."""
