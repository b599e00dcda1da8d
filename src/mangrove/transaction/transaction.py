"""The transaction lifecycle, its states and its time limit.

Deleting an expired version frees its name. A writer that stalled long enough could
then find the version after its own free and commit there. A transaction is therefore
refused once it exceeds its time limit, and a version is deleted only after it has
been superseded for longer than the time limit plus one commit.
"""

import enum
import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from mangrove.errors import ConflictError, InvalidInputError
from mangrove.metastore import Changes, CommitResult, Isolation, MetastoreSnapshot
from mangrove.model.locators import TableIdentity
from mangrove.model.names import check_text
from mangrove.model.properties import NO_PROPERTIES, freeze_mapping
from mangrove.model.settings import TIME_LIMIT_PROPERTY, LakehouseSettings, time_limit_millis
from mangrove.transaction.workspace import Workspace

__all__ = [
    "Committer",
    "StagedTransaction",
    "TransactionState",
    "check_time_limit",
    "commit_deadline_millis",
    "name_conflicting_tables",
    "youngest_expirable_millis",
]

_COMMIT_MILLIS_MAX: Final = 10 * 60 * 1000
"""The maximum duration of the exclusive create after the time check."""


def youngest_expirable_millis(settings: LakehouseSettings) -> int:
    """Return how long a version must have been superseded before it may be deleted.

    Twice the limit, because the clocks of writers and of maintenance differ.
    """
    return 2 * time_limit_millis(settings) + _COMMIT_MILLIS_MAX


def commit_deadline_millis(settings: LakehouseSettings, now_millis: int) -> int:
    """Return the deadline for a commit that is based on a version read now."""
    return now_millis + time_limit_millis(settings)


def check_time_limit(transaction_id: str, began_at_millis: int, now_millis: int, limit_millis: int) -> None:
    """Raise `ConflictError` for a transaction that exceeds its time limit."""
    age_millis = now_millis - began_at_millis
    if age_millis > limit_millis:
        raise ConflictError(
            f"transaction {transaction_id} is {age_millis / 1000:.0f} s old; the limit is {limit_millis / 1000:.0f} s. "
            f"Nothing was committed; restart it, or use a shared transaction for long work, or increase "
            f"{TIME_LIMIT_PROPERTY}"
        )


class Committer(Protocol):
    """Commits changes: a metastore, or a group commit in front of one."""

    def commit(self, base: MetastoreSnapshot, changes: Changes, isolation: Isolation) -> CommitResult:
        """Commit the changes as the next version, or raise `ConflictError` and change nothing."""
        ...


class TransactionState(enum.Enum):
    """The state of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    FAILED = "failed"


class StagedTransaction:
    """A workspace that can be committed. Nothing is visible or written to storage before `commit`."""

    def __init__(
        self,
        committer: Committer,
        snapshot: MetastoreSnapshot,
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
        self.properties = freeze_mapping(properties)
        self.state = TransactionState.OPEN
        self.began_at_millis = now_millis()
        self._committer = committer
        self._now_millis = now_millis
        allowed_millis = time_limit_millis(snapshot.settings)
        self._limit_millis = allowed_millis if limit_millis is None else limit_millis
        if not 0 < self._limit_millis <= allowed_millis:
            raise InvalidInputError(
                f"invalid time limit of {self._limit_millis} ms; this lakehouse allows 1 to {allowed_millis} ms, "
                "because version expiry relies on this limit"
            )
        self._workspace = workspace or Workspace(snapshot)

    @property
    def workspace(self) -> Workspace:
        """The reads and staged writes of the open transaction."""
        if self.state is not TransactionState.OPEN:
            raise InvalidInputError(f"transaction {self.id} is {self.state.value}; begin another one")
        return self._workspace

    @property
    def base_version(self) -> int:
        """The version on which the transaction is based."""
        return self._workspace.snapshot.version

    def commit(self) -> CommitResult:
        """Commit, and return the changes as committed: deltas may have moved."""
        workspace = self.workspace
        self.state = TransactionState.FAILED
        try:
            check_time_limit(self.id, self.began_at_millis, self._now_millis(), self._limit_millis)
            changes = workspace.changes(
                self.id,
                self.message,
                self.author,
                self.properties,
                commit_before_millis=self.began_at_millis + self._limit_millis,
            )
            committed = self._committer.commit(workspace.snapshot, changes, self.isolation)
        except ConflictError as error:
            raise name_conflicting_tables(error, workspace.met) from error
        self.state = TransactionState.COMMITTED
        return committed

    def rollback(self) -> None:
        """Discard all changes."""
        if self.state is TransactionState.COMMITTED:
            raise InvalidInputError(
                f"transaction {self.id} is committed; undo its version, or roll back to an earlier one"
            )
        self.state = TransactionState.ROLLED_BACK


def name_conflicting_tables(error: ConflictError, met: Mapping[TableIdentity, object]) -> ConflictError:
    """Return the conflict with table names in place of ids; deltas are described as rows of their table."""
    text = str(error)
    for identity, locator in met.items():
        text = text.replace(identity.canonical, str(locator)).replace(identity.table_id, str(locator))
        name = f"({re.escape(str(locator))})"
        text = re.sub(rf"(?:delta|partition) {name}[.|][^\s,:]+", r"rows of table \1", text)
        text = re.sub(rf"table version {name}[.|](\d+)", r"table version \2 of \1", text)
        text = re.sub(rf"stream {name}[.|](\d+)[.|]([^\s,:]+)", r"stream \3 of \1.version_\2", text)
    objects, colon, rest = text.partition(": ")
    return ConflictError(f"{', '.join(dict.fromkeys(objects.split(', ')))}{colon}{rest}")
