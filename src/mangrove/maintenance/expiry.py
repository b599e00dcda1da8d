"""Version expiry according to retention settings, exports and shared transactions.

A version expires if it is older than the retention settings allow, is not among the
newest few, is not pinned, and has been superseded for longer than the transaction
time limit. The last condition protects writers: see decision 0008.

Versions expire from the oldest on. The lookup of the newest version relies on there
being no gap after a known version, so a version in the middle stays until all
versions before it are expired or pinned.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import islice

from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.export_records import list_exports
from mangrove.maintenance.progress import Progress, ProgressCallback, ignore_progress
from mangrove.maintenance.version_files import filter_versions_with_file
from mangrove.metastore import Commit, MetastoreSnapshot
from mangrove.model.locators import Kind
from mangrove.model.objects import SharedTransactionEntry, SharedTransactionState
from mangrove.model.settings import LakehouseSettings, time_limit_millis
from mangrove.model.times import format_iso_time
from mangrove.transaction.transaction import youngest_expirable_millis

__all__ = [
    "GRACE_MILLIS",
    "ExpiryReport",
    "RetentionPins",
    "expire_versions",
    "explain_retention",
    "find_pins",
    "is_live",
    "select_expirable",
]

GRACE_MILLIS = 24 * 60 * 60 * 1000
"""The default minimum age of an unreferenced file before vacuum deletes it."""


def is_live(shared: SharedTransactionEntry, now_millis: int, transaction_limit_millis: int) -> bool:
    """Return whether a shared transaction may still be published, allowing for clock differences."""
    return (
        shared.state is SharedTransactionState.OPEN and now_millis < shared.expires_at_millis + transaction_limit_millis
    )


def select_expirable(
    live: Sequence[Commit], settings: LakehouseSettings, pinned: Set[int], now_millis: int, safe_millis: int
) -> list[int]:
    """Return the versions that may expire, oldest first; `live` are all live versions, oldest first.

    `pinned` are the versions pinned by exports or shared transactions. `safe_millis` is
    how long a version must have been superseded.
    """
    common_millis = settings.maximum_version_age_millis
    overrides = settings.maximum_version_age_millis_overrides
    expired: list[int] = []
    for version, created_at, outdated_at in _version_lifetimes(live, settings.minimum_versions_to_keep):
        if now_millis - outdated_at < safe_millis:
            break
        if version in pinned:
            continue
        age_millis = now_millis - created_at
        if age_millis > overrides.get(version, common_millis):
            expired.append(version)
        elif age_millis <= common_millis:
            break
    return expired


def explain_retention(
    live: Sequence[Commit], settings: LakehouseSettings, pinned: Set[int], now_millis: int, safe_millis: int
) -> list[str]:
    """Return the settings that retain the remaining versions."""
    stay = max(1, settings.minimum_versions_to_keep)
    reasons = [f"the newest {min(stay, len(live)):,} stay (minimum_versions_to_keep)"]
    named = sum(commit.version in pinned for commit in live)
    if named:
        reasons.append(f"{named:,} are pinned by exports or shared transactions")
    common_millis = settings.maximum_version_age_millis
    for version, created_at, outdated_at in _version_lifetimes(live, stay):
        life_millis = settings.maximum_version_age_millis_overrides.get(version, common_millis)
        if version in pinned:
            continue
        if now_millis - created_at <= life_millis:
            until = format_iso_time(created_at + life_millis)
            reasons.append(f"version {version} and later ones are retained until {until} (maximum_version_age_millis)")
            break
        if now_millis - outdated_at < safe_millis:
            until = format_iso_time(outdated_at + safe_millis)
            reasons.append(
                f"version {version} may be the base of a running transaction until {until} "
                "(transaction.time-limit-millis)"
            )
            break
    return reasons


def _version_lifetimes(live: Sequence[Commit], stay: int) -> Iterator[tuple[int, int, int]]:
    """Yield each version but the newest few, with its commit time and that of the next version.

    A version counts as committed no later than any that follows it, whatever a wrong
    clock recorded. A root of another program may have no time; it too is older than the
    next version.
    """
    creation_times: list[int | None] = []
    known: int | None = None
    for commit in reversed(live):
        own = commit.created_at_millis
        known = min(own or known, known) if known is not None else own or None
        creation_times.append(known)
    creation_times.reverse()
    for number, commit in enumerate(live[: max(0, len(live) - max(1, stay))]):
        created_at, outdated_at = creation_times[number], creation_times[number + 1]
        if created_at is None or outdated_at is None:
            return
        yield commit.version, created_at, outdated_at


@dataclass(frozen=True, slots=True)
class RetentionPins:
    """The versions that are retained at any age, and the time since which all files are retained."""

    versions: frozenset[int] = frozenset()
    files_since_millis: int | None = None
    """Files of a shared transaction are written after it began, so they are protected by age."""


def find_pins(newest: MetastoreSnapshot, now_millis: int) -> RetentionPins:
    """Return the pins of the newest version."""
    limit_millis = time_limit_millis(newest.settings)
    live = [
        shared
        for _, shared in newest.children(Kind.SHARED_TRANSACTION, None)
        if isinstance(shared, SharedTransactionEntry) and is_live(shared, now_millis, limit_millis)
    ]
    named = {export.version for export in list_exports(newest.settings) if export.pins_at(now_millis)}
    # Files have the store's time, the start has the client's; they differ by less than the limit.
    began = min((shared.began_at_millis - limit_millis for shared in live), default=None)
    return RetentionPins(frozenset(named | {shared.base_version for shared in live}), began)


_VERSIONS_PER_BATCH = 1000


@dataclass(frozen=True, slots=True)
class ExpiryReport:
    """The versions that expired, or would expire in a dry run."""

    versions: tuple[int, ...]
    kept: int
    dry_run: bool
    reasons: tuple[str, ...] = ()
    """Why the remaining versions are retained: which setting, and until when."""

    def __str__(self) -> str:
        verb = "would expire" if self.dry_run else "expired"
        if not self.versions:
            why = f": {'; '.join(self.reasons)}" if self.reasons else ""
            return f"no version {verb}, {self.kept:,} are kept{why}"
        bounds = f"from {self.versions[0]} to {self.versions[-1]}"
        return f"{len(self.versions):,} versions {verb}, {bounds}; {self.kept:,} are kept"


def expire_versions(
    lake: MaintenanceContext, *, dry_run: bool = False, alone: bool = False, watch: ProgressCallback = ignore_progress
) -> ExpiryReport:
    """Expire all versions that may expire, oldest first, so that an interruption is harmless.

    With `alone` there are no other readers or writers: then recently superseded versions
    expire too.
    """
    newest = lake.metastore.latest()
    now_millis = lake.effects.now_millis()
    safe_millis = 0 if alone else youngest_expirable_millis(newest.settings)
    live = lake.maintenance.list_retained()
    pinned = find_pins(newest, now_millis).versions
    old = select_expirable(live, newest.settings, pinned, now_millis, safe_millis)
    going = set(old)
    stay = [commit for commit in live if commit.version not in going]
    reasons = tuple(explain_retention(stay, newest.settings, pinned, now_millis, safe_millis))
    # A version committed by another program has no file that could be replaced.
    versions = filter_versions_with_file(lake.store, old)
    if dry_run:
        return ExpiryReport(tuple(versions), len(live) - len(versions), dry_run=True, reasons=reasons)
    expired: list[int] = []
    waiting = iter(versions)
    while batch := list(islice(waiting, _VERSIONS_PER_BATCH)):
        # Check again for new exports and shared transactions, which costs one request.
        pinned = find_pins(lake.metastore.latest(), now_millis).versions
        batch = [version for version in batch if version not in pinned]
        lake.maintenance.expire(batch)
        expired += batch
        watch(Progress("expiring versions", len(expired), len(versions)))
    return ExpiryReport(tuple(expired), len(live) - len(expired), dry_run=False, reasons=reasons)
