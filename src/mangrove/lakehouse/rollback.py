"""Rollback to an earlier version and undo of a single version."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from mangrove.effects import Effects
from mangrove.errors import ConflictError, InvalidInputError
from mangrove.metastore import Changes, Isolation, Metastore, MetastoreSnapshot
from mangrove.model.locators import Kind, Locator, TableIdentity, TableVersionLocator
from mangrove.model.objects import Object, TableVersion
from mangrove.transaction.catalog import load_table_names
from mangrove.transaction.history import ROLLED_BACK_TO
from mangrove.transaction.transaction import commit_deadline_millis
from mangrove.transaction.version_diff import (
    SupportsRollback,
    build_restore_changes,
    check_undoable,
    diff_snapshots,
    find_narrowed_versions,
    select_undone,
)

__all__ = ["LakeRollback"]

_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class LakeRollback:
    """Rollback and undo for one lakehouse.

    The files of an expired version are retained for some hours after expiry. A rollback
    therefore commits within the time limit of a transaction, counted from when the earlier
    version was read, or fails.
    """

    effects: Effects
    metastore: Metastore

    def roll_back(self, target: MetastoreSnapshot, read_at_millis: int, message: str, author: str) -> int:
        """Commit the content of the target, which was read after that time, and return the new version.

        If the target is already the newest version, nothing is committed.
        """
        if self.metastore.latest().version == target.version:
            return target.version
        text = message or f"roll back to version {target.version}"
        until_millis = commit_deadline_millis(target.settings, read_at_millis)
        if isinstance(self.metastore, SupportsRollback):
            changes = Changes(
                self.effects.new_id(),
                message=text,
                author=author,
                properties=_rollback_properties(target),
                commit_before_millis=until_millis,
            )
            return self.metastore.roll_back(target, changes).version
        return self._repeat_attempt(lambda: self._restore_version(target, text, author, until_millis))

    def undo(self, version: int, message: str, author: str) -> int:
        """Revert the changes of one version if nothing later changed the same objects; return the new version."""
        if version < 1:
            raise InvalidInputError(f"version {version} cannot be undone; the first version with changes is 1")
        text = message or f"undo version {version}"
        return self._repeat_attempt(lambda: self._undo_version(version, text, author))

    def _undo_version(self, version: int, message: str, author: str) -> int:
        began_at_millis = self.effects.now_millis()
        after = self.metastore.at_version(version)  # first, so that an error names the requested version
        before = self.metastore.at_version(version - 1)
        newest = self.metastore.latest()
        changed = select_undone(diff_snapshots(self.metastore, before, after))

        def name_table(identity: TableIdentity) -> str:
            return load_table_names({identity}, newest, after, before).get(identity, f"the table {identity.table_id}")

        def has_keys(locator: TableVersionLocator) -> bool:
            found = newest.get(locator)
            return isinstance(found, TableVersion) and bool(found.keys)

        check_undoable(changed, diff_snapshots(self.metastore, after, newest), version, name_table, has_keys)
        if before.settings != after.settings:
            raise InvalidInputError(
                f"version {version} changed the lakehouse's own settings, which undo leaves alone: set them again"
            )
        until_millis = commit_deadline_millis(newest.settings, began_at_millis)
        changes = build_restore_changes(changed, self.effects.new_id(), message)
        # Concurrent writes conflict with an unchanged stream that is written, as with a change of the columns.
        stopped = _find_streams(newest, find_narrowed_versions(changed))
        changes = replace(changes, puts={**stopped, **changes.puts})
        return self._committed(newest, changes, author, until_millis)

    def _restore_version(self, target: MetastoreSnapshot, message: str, author: str, until_millis: int) -> int:
        newest = self.metastore.latest()
        found = diff_snapshots(self.metastore, target, newest)
        changes = replace(
            build_restore_changes(found, self.effects.new_id(), message), properties=_rollback_properties(target)
        )
        return self._committed(newest, changes, author, until_millis)

    def _committed(self, newest: MetastoreSnapshot, changes: Changes, author: str, until_millis: int) -> int:
        timed = replace(changes, author=author, commit_before_millis=until_millis)
        return self.metastore.commit(newest, timed, Isolation.SNAPSHOT).snapshot.version

    def _repeat_attempt(self, attempt: Callable[[], int]) -> int:
        """Return the result of the attempt; after a conflict, retry it on the newest version."""
        for tries_left in reversed(range(_ATTEMPTS)):
            newest = self.metastore.latest().version
            try:
                return attempt()
            except ConflictError:
                if not tries_left or self.metastore.latest().version == newest:
                    raise
        raise AssertionError("the last attempt returns or raises")


def _find_streams(newest: MetastoreSnapshot, versions: Iterable[TableVersionLocator]) -> dict[Locator, Object]:
    return {stream: value for locator in versions for stream, value in newest.children(Kind.STREAM, locator)}


def _rollback_properties(target: MetastoreSnapshot) -> dict[str, str]:
    return {ROLLED_BACK_TO: str(target.version)}
