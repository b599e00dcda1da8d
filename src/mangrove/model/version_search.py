"""Binary search for the newest version and the version at a time."""

from collections.abc import Callable, Sequence
from typing import Final

from mangrove.errors import FormatError, NotFoundError
from mangrove.model.times import format_iso_time

__all__ = ["check_no_gap", "find_newest_version", "find_version_at"]

_GAP_CHECK_AFTER_MILLIS: Final = 60_000


def find_newest_version(exists: Callable[[int], bool], known: int) -> int:
    """Return the newest version, of which `known` is one that exists.

    Versions follow each other without a gap up to the newest, so steps that
    double find one that does not exist, and bisecting finds the last that does:
    as many probes as the gap has binary digits, twice. One more probe passes over a
    version that somebody deleted by hand, so that nobody commits into its place.
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
    """Return the newest version created at that time or before.

    `created_at` gives None for a version that has expired; those are the oldest.
    Times grow strictly with versions but for those in `clock_resets`, which are dated
    earlier than the one before them. So this bisects between two resets, the latest first.
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
        f"no version that is kept was committed at {format_iso_time(millis)} or before: "
        "ask for a later time, or see the history for what is there"
    )


def _newest_created_until(created_at: Callable[[int], int | None], versions: range, millis: int) -> int:
    """Return the last of the versions that was created at that time or before, or the one before all of them."""
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
    """Refuse to commit after `version` into the place of one that somebody deleted, while later ones are there.

    Only whoever stands on a version that is a minute old asks: nobody deletes by
    hand what was just made, and busy writers should not pay for the question.
    """
    is_checked = now_millis - created_at_millis > _GAP_CHECK_AFTER_MILLIS
    if is_checked and is_taken(version + 2) and not is_taken(version + 1):
        raise FormatError(
            f"version {version + 1} is missing, though version {version + 2} is there: somebody deleted its "
            "file. Nothing was committed; open the lakehouse again to stand on the newest, and run `mangrove check`"
        )
