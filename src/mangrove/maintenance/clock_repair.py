"""Repair of the clock: dating versions correctly again after one that a wrong clock dated in the future."""

from typing import Final

from mangrove.errors import ConflictError
from mangrove.maintenance.context import MaintenanceContext
from mangrove.metastore import Changes, Isolation
from mangrove.transaction.transaction import commit_deadline_millis

__all__ = ["repair_clock"]

_ATTEMPTS_MAX: Final = 10


def repair_clock(lake: MaintenanceContext, message: str = "", author: str = "") -> int:
    """Commit a version dated by this machine's clock if the newest version is in its future; return it.

    It has the content of the newest version. Earlier versions keep their recorded times,
    and count as committed no later than this one.
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
        f"the clock repair of {lake.store.uri} lost the race against {_ATTEMPTS_MAX} concurrent commits. "
        "Nothing was changed; retry when fewer writers are active"
    )
