"""Binary search for the newest version and the version at a time."""

from collections.abc import Callable, Sequence
from typing import Final

from mangrove.errors import FormatError, NotFoundError
from mangrove.model.times import format_iso_time

__all__ = ["check_no_gap", "find_newest_version", "find_version_at"]

_GAP_CHECK_AFTER_MILLIS: Final = 60_000


def find_newest_version(exists: Callable[[int], bool], known: int) -> int:
    """Return the newest version; `known` is an existing one.

    Versions have no gap up to the newest, so doubling steps find a missing one, and a
    bisection finds the last existing one: twice as many probes as the distance has binary
    digits. One more probe skips a manually deleted version, so that nothing is committed in
    its place.
    """
    newest = _last_in_sequence(exists, known)
    while exists(newest + 2):
        newest = _last_in_sequence(exists, newest + 2)
    return newest


def _last_in_sequence(exists: Callable[[int], bool], known: int) -> int:
    step = 1
    while exists(known + step):
        known += step
        step *= 2
    low, high = known, known + step
    while high - low > 1:
        middle = (low + high) // 2
        if exists(middle):
            low = middle
        else:
            high = middle
    return low


def find_version_at(
    created_at: Callable[[int], int | None], newest: int, millis: int, clock_resets: Sequence[int] = ()
) -> int:
    """Return the newest version created at or before that time.

    `created_at` returns None for an expired version; those are the oldest. Times increase
    strictly with versions except for those in `clock_resets`. This bisects between two
    resets, the latest first.
    """
    end = newest + 1
    for start in (*reversed(clock_resets), 0):
        found = _newest_created_until(created_at, range(start, end), millis)
        if found >= start:
            if created_at(found) is not None:
                return found
            break
        end = start
    raise NotFoundError(
        f"no live version was committed at or before {format_iso_time(millis)}; "
        "use a later time, or see the history for the available versions"
    )


def _newest_created_until(created_at: Callable[[int], int | None], versions: range, millis: int) -> int:
    """Return the last version created at or before that time, or the one before all of them."""
    low, high = versions.start - 1, versions.stop
    while high - low > 1:
        middle = (low + high) // 2
        created = created_at(middle)
        if created is None or created <= millis:
            low = middle
        else:
            high = middle
    return low


def check_no_gap(version: int, created_at_millis: int, is_taken: Callable[[int], bool], now_millis: int) -> None:
    """Raise an error if the version after `version` was deleted manually while later ones exist.

    This is checked only for a base version older than a minute: recent versions are not
    deleted manually, and busy writers should not pay for the request.
    """
    is_checked = now_millis - created_at_millis > _GAP_CHECK_AFTER_MILLIS
    if is_checked and is_taken(version + 2) and not is_taken(version + 1):
        raise FormatError(
            f"version {version + 1} is missing, but version {version + 2} exists: its file "
            "was deleted. Nothing was committed; reopen the lakehouse, and run `mangrove check`"
        )
