"""Rollback and undo: putting an earlier state back as the newest version."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from mangrove.effects import Effects
from mangrove.errors import ConflictError, InvalidInputError
from mangrove.metastore import Changes, Isolation, Metastore, Snapshot
from mangrove.transaction.comparing import RollsBack, differences_of, restoring
from mangrove.transaction.history import ROLLED_BACK_TO
from mangrove.transaction.time_limit import latest_commit_millis
from mangrove.transaction.undo import check_undoable, taken_back

__all__ = ["TakingBack"]

_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class TakingBack:
    """Takes changes of one lakehouse back.

    What an expired version needs is spared for some hours after it expired. So
    whoever puts an earlier version back commits within the time limit of a
    transaction from when that version was read, or not at all.
    """

    effects: Effects
    metastore: Metastore

    def roll_back(self, target: Snapshot, read_at_millis: int, message: str, author: str) -> int:
        """Commit what the target holds, which was read after that time, and return the version that does so.

        Where it is the newest already, there is nothing to commit.
        """
        if self.metastore.latest().version == target.version:
            return target.version
        text = message or f"roll back to version {target.version}"
        until_millis = latest_commit_millis(target.settings, read_at_millis)
        if isinstance(self.metastore, RollsBack):
            changes = Changes(
                self.effects.new_id(),
                message=text,
                author=author,
                properties=_went_to(target),
                commit_before_millis=until_millis,
            )
            return self.metastore.roll_back(target, changes).version
        return self._repeated(lambda: self._restored(target, text, author, until_millis))

    def undo(self, version: int, message: str, author: str) -> int:
        """Take back what one version changed, if nothing later touched the same; return the version that does so."""
        if version < 1:
            raise InvalidInputError(f"version {version} cannot be undone: the first one that can is 1")
        text = message or f"undo version {version}"
        return self._repeated(lambda: self._undone(version, text, author))

    def _undone(self, version: int, message: str, author: str) -> int:
        began_at_millis = self.effects.now_millis()
        after = self.metastore.at_version(version)  # first, so that one that is not there is named as it was asked for
        before = self.metastore.at_version(version - 1)
        newest = self.metastore.latest()
        changed = taken_back(differences_of(self.metastore, before, after))
        check_undoable(changed, differences_of(self.metastore, after, newest), version)
        if before.settings != after.settings:
            raise InvalidInputError(
                f"version {version} changed the lakehouse's own settings, which undo leaves alone: set them again"
            )
        until_millis = latest_commit_millis(newest.settings, began_at_millis)
        changes = restoring(changed, self.effects.new_id(), message)
        return self._committed(newest, changes, author, until_millis)

    def _restored(self, target: Snapshot, message: str, author: str, until_millis: int) -> int:
        newest = self.metastore.latest()
        found = differences_of(self.metastore, target, newest)
        changes = replace(restoring(found, self.effects.new_id(), message), properties=_went_to(target))
        return self._committed(newest, changes, author, until_millis)

    def _committed(self, newest: Snapshot, changes: Changes, author: str, until_millis: int) -> int:
        timed = replace(changes, author=author, commit_before_millis=until_millis)
        return self.metastore.commit(newest, timed, Isolation.SNAPSHOT).snapshot.version

    def _repeated(self, attempt: Callable[[], int]) -> int:
        """Return what the attempt gives, and try again on the newest version where a rival was faster."""
        for tries_left in reversed(range(_ATTEMPTS)):
            newest = self.metastore.latest().version
            try:
                return attempt()
            except ConflictError:
                if not tries_left or self.metastore.latest().version == newest:
                    raise
        raise AssertionError("the last attempt returns or raises")


def _went_to(target: Snapshot) -> dict[str, str]:
    return {ROLLED_BACK_TO: str(target.version)}
