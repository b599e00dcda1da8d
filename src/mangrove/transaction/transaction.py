"""One transaction from its begin to its end: committed whole, or as if it had never been."""

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from mangrove.errors import ConflictError, InvalidInputError
from mangrove.metastore import Changes, Committed, Isolation, Snapshot
from mangrove.model.clock import time_limit_millis
from mangrove.model.locators import TableIdentity
from mangrove.model.names import check_text
from mangrove.model.properties import NO_PROPERTIES, Properties
from mangrove.transaction.time_limit import check_time
from mangrove.transaction.workspace import Workspace

__all__ = ["Committer", "State", "Transaction", "with_names"]


class Committer(Protocol):
    """Whoever makes changes real: a metastore, or something before one."""

    def commit(self, base: Snapshot, changes: Changes, isolation: Isolation) -> Committed:
        """Make the changes real as the next version, or raise a `ConflictError` and change nothing."""
        ...


class State(enum.Enum):
    """How far a transaction is."""

    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    FAILED = "failed"


class Transaction:
    """A workspace with an end. Nothing of it is visible, or even on storage, before `commit`."""

    def __init__(
        self,
        committer: Committer,
        snapshot: Snapshot,
        transaction_id: str,
        now_millis: Callable[[], int],
        isolation: Isolation = Isolation.SNAPSHOT,
        *,
        message: str = "",
        author: str = "",
        properties: Mapping[str, str] = NO_PROPERTIES,
        limit_millis: int | None = None,
        workspace: Workspace | None = None,
    ) -> None:
        check_text(message, "the message of a transaction")
        check_text(author, "the author of a transaction")
        self.id = transaction_id
        self.isolation = isolation
        self.message = message
        self.author = author
        self.properties = Properties(properties)
        self.state = State.OPEN
        self.began_at_millis = now_millis()
        self._committer = committer
        self._now_millis = now_millis
        allowed_millis = time_limit_millis(snapshot.settings)
        self._limit_millis = allowed_millis if limit_millis is None else limit_millis
        if not 0 < self._limit_millis <= allowed_millis:
            raise InvalidInputError(
                f"a time limit of {self._limit_millis} ms was asked for: this lakehouse allows 1 to {allowed_millis}, "
                "since versions expire on the promise that no transaction takes longer"
            )
        self._workspace = workspace or Workspace(snapshot)

    @property
    def workspace(self) -> Workspace:
        """What it sees and has staged, as long as it is open."""
        if self.state is not State.OPEN:
            raise InvalidInputError(f"transaction {self.id} is {self.state.value}: begin another one")
        return self._workspace

    @property
    def base_version(self) -> int:
        """The version on which it stands."""
        return self._workspace.snapshot.version

    def commit(self) -> Committed:
        """Make all of it real, and return its changes as they were made real: deltas may have moved."""
        workspace = self.workspace
        self.state = State.FAILED
        try:
            changes = workspace.changes(self.id, self.message, self.author, self.properties)
            check_time(self.id, self.began_at_millis, self._now_millis(), self._limit_millis)
            changes = replace(changes, commit_before_millis=self.began_at_millis + self._limit_millis)
            committed = self._committer.commit(workspace.snapshot, changes, self.isolation)
        except ConflictError as error:
            raise with_names(error, workspace.met) from error
        self.state = State.COMMITTED
        return committed

    def rollback(self) -> None:
        """Forget all of it."""
        if self.state is State.COMMITTED:
            raise InvalidInputError(f"transaction {self.id} is committed: undo its version, or roll back to an earlier")
        self.state = State.ROLLED_BACK


def with_names(error: ConflictError, met: Mapping[TableIdentity, object]) -> ConflictError:
    """Return the conflict with the names of tables in the place of their ids; deltas are the rows of their table."""
    text = str(error)
    for identity, locator in met.items():
        text = text.replace(str(identity), str(locator)).replace(identity.table_id, str(locator))
        text = re.sub(rf"(?:delta|partition) {re.escape(str(locator))}[.|][^\s,:]+", f"rows of table {locator}", text)
    objects, colon, rest = text.partition(": ")
    return ConflictError(f"{', '.join(dict.fromkeys(objects.split(', ')))}{colon}{rest}")
