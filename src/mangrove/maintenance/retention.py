"""Deciding which versions may go.

A version goes when it is older than its settings allow, is none of the newest
few, is held by nobody, and has been out of date for longer than a transaction
may last. The last of these keeps writers safe: see decision 0008.

Versions go from the old end only. Whoever looks for the newest version relies on
there being no gap above the one it knows, so a version in the middle stays until
those before it are gone or held.
"""

from collections.abc import Iterator, Sequence, Set

from mangrove.metastore import Commit
from mangrove.model.objects import SharedTransaction, SharedTransactionState
from mangrove.model.settings import LakehouseSettings
from mangrove.model.times import iso_time

__all__ = ["GRACE_MILLIS", "expirable", "is_live", "kept_because"]

GRACE_MILLIS = 24 * 60 * 60 * 1000
"""How old a file that nothing needs has to be before vacuum deletes it, unless it is told otherwise."""


def is_live(shared: SharedTransaction, now_millis: int, transaction_limit_millis: int) -> bool:
    """Return whether a shared transaction may still be published, with some time left for clocks that differ."""
    return (
        shared.state is SharedTransactionState.OPEN and now_millis < shared.expires_at_millis + transaction_limit_millis
    )


def expirable(
    kept: Sequence[Commit], settings: LakehouseSettings, held: Set[int], now_millis: int, safe_millis: int
) -> list[int]:
    """Return the versions that may go, oldest first; `kept` are all that there are, oldest first.

    `held` are those that an export names or a shared transaction stands on, and
    `safe_millis` is how long a version must have been out of date.
    """
    common_millis = settings.maximum_version_age_millis
    overrides = settings.maximum_version_age_millis_overrides
    gone: list[int] = []
    for version, created_at, outdated_at in _lives(kept, settings.minimum_versions_to_keep):
        if now_millis - outdated_at < safe_millis:
            break
        if version in held:
            continue
        age_millis = now_millis - created_at
        if age_millis > overrides.get(version, common_millis):
            gone.append(version)
        elif age_millis <= common_millis:
            break
    return gone


def kept_because(
    kept: Sequence[Commit], settings: LakehouseSettings, held: Set[int], now_millis: int, safe_millis: int
) -> list[str]:
    """Return what keeps the versions that stay, given all that there are, as people set it."""
    stay = max(1, settings.minimum_versions_to_keep)
    reasons = [f"the newest {min(stay, len(kept)):,} stay (minimum_versions_to_keep)"]
    named = sum(commit.version in held for commit in kept)
    if named:
        reasons.append(f"{named:,} are held by exports or shared transactions")
    common_millis = settings.maximum_version_age_millis
    for version, created_at, outdated_at in _lives(kept, stay):
        life_millis = settings.maximum_version_age_millis_overrides.get(version, common_millis)
        if version in held:
            continue
        if now_millis - created_at <= life_millis:
            until = iso_time(created_at + life_millis)
            reasons.append(
                f"version {version} and later ones are young enough until {until} (maximum_version_age_millis)"
            )
            break
        if now_millis - outdated_at < safe_millis:
            until = iso_time(outdated_at + safe_millis)
            reasons.append(
                f"version {version} was the newest so lately that a transaction may stand on it until {until} "
                "(transaction.time-limit-millis)"
            )
            break
    return reasons


def _lives(kept: Sequence[Commit], stay: int) -> Iterator[tuple[int, int, int]]:
    """Yield each version but the newest few, with the times at which it was made and at which the next one was.

    No version was made later than any that follows it, whatever a wrong clock wrote
    into it. A root that another program wrote may not say when: of that too it is
    known that it is older than the next.
    """
    made: list[int | None] = []
    known: int | None = None
    for commit in reversed(kept):
        own = commit.created_at_millis
        known = min(own or known, known) if known is not None else own or None
        made.append(known)
    made.reverse()
    for number, commit in enumerate(kept[: max(0, len(kept) - max(1, stay))]):
        created_at, outdated_at = made[number], made[number + 1]
        if created_at is None or outdated_at is None:
            return
        yield commit.version, created_at, outdated_at
