"""Expiry: forgetting the versions that the settings no longer keep."""

from dataclasses import dataclass
from itertools import islice

from mangrove.maintenance.held import held_by
from mangrove.maintenance.maintained import Maintained
from mangrove.maintenance.progress import Progress, Watch, unwatched
from mangrove.maintenance.retention import expirable, kept_because
from mangrove.maintenance.version_files import with_files
from mangrove.transaction.time_limit import youngest_expirable_millis

__all__ = ["ExpiryReport", "expire"]

_VERSIONS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class ExpiryReport:
    """Which versions went, or would go."""

    versions: tuple[int, ...]
    kept: int
    dry_run: bool
    reasons: tuple[str, ...] = ()
    """What keeps those that stay: which setting, and until when."""

    def __str__(self) -> str:
        verb = "would expire" if self.dry_run else "expired"
        if not self.versions:
            why = f": {'; '.join(self.reasons)}" if self.reasons else ""
            return f"no version {verb}, {self.kept:,} are kept{why}"
        bounds = f"from {self.versions[0]} to {self.versions[-1]}"
        return f"{len(self.versions):,} versions {verb}, {bounds}; {self.kept:,} are kept"


def expire(lake: Maintained, *, dry_run: bool = False, alone: bool = False, watch: Watch = unwatched) -> ExpiryReport:
    """Forget the versions that may go, oldest first, so that what an interruption leaves is in order too.

    `alone` promises that nobody else reads or writes meanwhile: then also a
    version goes that was the newest until just now.
    """
    newest = lake.metastore.latest()
    now_millis = lake.effects.now_millis()
    safe_millis = 0 if alone else youngest_expirable_millis(newest.settings)
    kept = lake.upkeep.kept()
    held = held_by(newest, now_millis).versions
    old = expirable(kept, newest.settings, held, now_millis, safe_millis)
    going = set(old)
    stay = [commit for commit in kept if commit.version not in going]
    reasons = tuple(kept_because(stay, newest.settings, held, now_millis, safe_millis))
    # A version that another program made in its own way has nothing that we could take away.
    versions = with_files(lake.store, old)
    if dry_run:
        return ExpiryReport(tuple(versions), len(kept) - len(versions), dry_run=True, reasons=reasons)
    gone: list[int] = []
    waiting = iter(versions)
    while batch := list(islice(waiting, _VERSIONS_AT_ONCE)):
        # An export or a shared transaction may have been made since, and is worth one request.
        held = held_by(lake.metastore.latest(), now_millis).versions
        batch = [version for version in batch if version not in held]
        lake.upkeep.expire(batch)
        gone += batch
        watch(Progress("expiring versions", len(gone), len(versions)))
    return ExpiryReport(tuple(gone), len(kept) - len(gone), dry_run=False, reasons=reasons)
