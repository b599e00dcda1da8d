"""The exclusive create that commits a version, and the read-back after a lost response."""

from collections.abc import Callable
from typing import Final

from mangrove.errors import ConflictError, StorageError

__all__ = ["create_and_verify"]

_ATTEMPTS_MAX: Final = 3


def create_and_verify(create: Callable[[], bool], is_own: Callable[[], bool | None], version: int, file: str) -> bool:
    """Create the file that commits a version, and return whether this call created it.

    If the response is lost, `is_own` reads the file back and returns whether it is this
    transaction's, which then has committed. It returns None if there is no file; the
    create is then repeated, and if it is refused, the delayed first one may be the cause.
    `create` raises ConflictError after the commit deadline: then nothing was committed,
    unless an earlier response was lost. `file` is the kind of the file, for the error message.
    """
    lost: StorageError | None = None
    for _ in range(_ATTEMPTS_MAX):
        try:
            return create() or (lost is not None and bool(is_own()))
        except ConflictError:
            if lost is None:
                raise
            break
        except StorageError as error:
            is_created = is_own()
            if is_created is not None:
                return is_created
            lost = error
    raise StorageError(
        f"version {version} could not be committed ({lost}), and its {file} does not exist. "
        "The store may still create it; check the history before you retry"
    ) from lost
