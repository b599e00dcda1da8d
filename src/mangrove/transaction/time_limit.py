"""How long a transaction may take, so that it never meets a version that expired under it.

Deleting an expired version frees its name. A writer that stalled long enough
could find the version after its own free and commit there. So a transaction is
refused once it is older than the limit, and no version is deleted before it has
been out of date for longer than the limit and one commit together can last.
"""

from typing import Final

from mangrove.errors import ConflictError
from mangrove.model.clock import TIME_LIMIT_PROPERTY, time_limit_millis
from mangrove.model.settings import LakehouseSettings

__all__ = ["check_time", "latest_commit_millis", "youngest_expirable_millis"]

_COMMIT_MILLIS_MAX: Final = 10 * 60 * 1000
"""What the exclusive create takes at most, after the time was checked."""


def youngest_expirable_millis(settings: LakehouseSettings) -> int:
    """Return how long each version must have been out of date before it may be deleted, whatever else is set.

    Twice the limit, because the clocks of those who write and those who delete differ.
    """
    return 2 * time_limit_millis(settings) + _COMMIT_MILLIS_MAX


def latest_commit_millis(settings: LakehouseSettings, now_millis: int) -> int:
    """Return until when somebody who reads a version now may commit what stands on it."""
    return now_millis + time_limit_millis(settings)


def check_time(transaction_id: str, began_at_millis: int, now_millis: int, limit_millis: int) -> None:
    """Refuse a transaction that is older than its limit."""
    age_millis = now_millis - began_at_millis
    if age_millis > limit_millis:
        raise ConflictError(
            f"transaction {transaction_id} began {age_millis / 1000:.0f} s ago and {limit_millis / 1000:.0f} s are "
            f"allowed. Nothing was committed; begin again, or for long work use a shared transaction or raise "
            f"{TIME_LIMIT_PROPERTY}"
        )
