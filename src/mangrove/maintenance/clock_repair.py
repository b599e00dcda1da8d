"""Repair of the clock: dating versions correctly again after one that a wrong clock dated in the future."""

from typing import Final

from mangrove.errors import ConflictError
from mangrove.maintenance.context import MaintenanceContext
from mangrove.metastore import Changes, Isolation
from mangrove.transaction.transaction import commit_deadline_millis

__all__ = ["repair_clock"]

_ATTEMPTS_MAX: Final = 10


def repair_clock(lake: MaintenanceContext, message: str = "", author: str = "") -> int:
    """Commit a version that is dated by the clock of this machine, unless the newest is not in its future; return it.

    It holds what the newest version holds. The versions before it keep the times that
    are written in them, and count as made no later than this one.
    """
    for _ in range(_ATTEMPTS_MAX):
        now_millis = lake.effects.now_millis()
        newest = lake.metastore.latest()
        if newest.commit.created_at_millis <= now_millis:
            return newest.version
        changes = Changes(
            lake.effects.new_id(),
            settings=newest.settings,
            message=message or f"repair the clock: version {newest.version} is dated in the future",
            author=author,
            commit_before_millis=commit_deadline_millis(newest.settings, now_millis),
            resets_clock=True,
        )
        try:
            return lake.metastore.commit(newest, changes, Isolation.SNAPSHOT).snapshot.version
        except ConflictError:
            continue
    raise ConflictError(
        f"others committed {_ATTEMPTS_MAX} times while the clock of {lake.store.uri} was being repaired. "
        "Nothing was changed; try again when fewer writers are at work"
    )
