"""Group commit of concurrent transactions of one process as one version.

Whoever comes while nobody commits does so at once. Those who come meanwhile wait,
and then one of them commits for all that can go together. Nobody waits for others
to come, so a lone writer is as fast as ever.

Changes go together when they stand on the same version and none contests one
before it, exactly as if that one had committed first. What a merged commit is
refused for may concern one member only, so then each commits by itself.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mangrove.errors import MangroveError, StorageError
from mangrove.metastore import Changes, CommitResult, Isolation, Parent, Scan, Snapshot
from mangrove.model.locators import DeltaLocator, Kind, Locator, PartitionLocator
from mangrove.model.objects import Object
from mangrove.model.transaction_record import TransactionRecord, encode_members, summarize_writes
from mangrove.transaction.transaction import Committer

__all__ = [
    "GroupCommitRequest",
    "GroupCommitter",
    "detect_conflicts",
    "is_in_scan",
    "merge_changes",
    "select_group",
    "split_commit_result",
]


def is_in_scan(scan: Scan, locator: Locator) -> bool:
    """Return whether what a scan lists can include the object at `locator`."""
    if locator.kind is not scan.kind or locator.parent != scan.parent:
        return False
    return str(locator.parts[-1]).startswith(scan.prefix)


def detect_conflicts(changes: Changes, isolation: Isolation, written: Iterable[Locator]) -> list[Locator]:
    """Return those of the objects that others wrote which stop the changes from following."""
    single, scans = changes.targets_to_validate(isolation)
    # A transaction may have scanned as many partitions as another wrote.
    below: dict[tuple[Kind, Parent], list[Scan]] = {}
    for scan in scans:
        below.setdefault((scan.kind, scan.parent), []).append(scan)
    return sorted(
        locator
        for locator in written
        if locator in single or any(is_in_scan(scan, locator) for scan in below.get((locator.kind, locator.parent), ()))
    )


_MEMBERS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class GroupCommitRequest:
    """What one thread wants to be committed."""

    base: Snapshot
    changes: Changes
    isolation: Isolation


def select_group(requests: Sequence[GroupCommitRequest]) -> tuple[list[GroupCommitRequest], list[GroupCommitRequest]]:
    """Return those that become one version with the first of them, and the others.

    What writes namespaces or the lakehouse's own definition goes alone: names mean
    something else before and after it.
    """
    first = requests[0]
    members, others = [first], []
    written = {*first.changes.puts, *first.changes.deletes}
    for request in requests[1:]:
        changes = request.changes
        if (
            not _must_commit_alone(first.changes)
            and not _must_commit_alone(changes)
            and len(members) < _MEMBERS_MAX
            and request.base.version == first.base.version
            and not detect_conflicts(_drop_duplicate_puts(changes, members), request.isolation, written)
        ):
            members.append(request)
            written |= changes.puts.keys() | changes.deletes
        else:
            others.append(request)
    return members, others


def merge_changes(members: Sequence[GroupCommitRequest], transaction_id: str) -> Changes:
    """Return the changes of all members as one; later deltas of a partition stand behind earlier ones."""
    puts: dict[Locator, Object] = {}
    deletes: set[Locator] = set()
    guards: set[Locator | Scan] = set()
    last: dict[PartitionLocator, int] = {}
    for member in members:
        for locator, value in sorted(member.changes.puts.items()):
            place = locator
            if isinstance(locator, DeltaLocator):
                position = max(locator.position, last.get(locator.parent, 0) + 1)
                last[locator.parent] = position
                place = replace(locator, position=position)
            puts[place] = value
        deletes |= member.changes.deletes
        guards |= member.changes.guards
        if member.isolation is Isolation.SERIALIZABLE:
            guards |= member.changes.reads | member.changes.scans
    records = encode_members([_record(member.changes) for member in members])
    limits = [limit for member in members if (limit := member.changes.commit_before_millis) is not None]
    return Changes(
        transaction_id,
        puts,
        frozenset(deletes),
        guards=frozenset(guards),
        properties=records,
        commit_before_millis=min(limits, default=None),
    )


def split_commit_result(members: Sequence[GroupCommitRequest], committed: CommitResult) -> list[CommitResult]:
    """Return for each member its own changes as they were made real, with the positions that its deltas got."""
    got: dict[PartitionLocator, list[DeltaLocator]] = {}
    for locator in sorted(committed.changes.puts):
        if isinstance(locator, DeltaLocator):
            got.setdefault(locator.parent, []).append(locator)
    taken = {partition: iter(positions) for partition, positions in got.items()}
    return [
        CommitResult(
            committed.snapshot,
            replace(
                member.changes,
                puts={
                    next(taken[locator.parent]) if isinstance(locator, DeltaLocator) else locator: value
                    for locator, value in sorted(member.changes.puts.items())
                },
            ),
        )
        for member in members
    ]


def _record(changes: Changes) -> TransactionRecord:
    written = summarize_writes((*changes.puts, *changes.deletes))
    return TransactionRecord(changes.transaction_id, changes.message, changes.author, changes.properties, written)


def _must_commit_alone(changes: Changes) -> bool:
    written = (*changes.puts, *changes.deletes)
    return changes.settings is not None or any(locator.kind is Kind.NAMESPACE for locator in written)


def _drop_duplicate_puts(changes: Changes, members: Sequence[GroupCommitRequest]) -> Changes:
    """Return the changes without what a member puts in just the same way, such as a new partition."""
    there = {locator: value for member in members for locator, value in member.changes.puts.items()}
    return replace(
        changes,
        puts={
            locator: value
            for locator, value in changes.puts.items()
            if locator.kind is Kind.DELTA or there.get(locator) != value
        },
    )


@dataclass(eq=False)
class _PendingRequest:
    """A request with its outcome, once there is one."""

    request: GroupCommitRequest
    outcome: CommitResult | MangroveError | None = None


@dataclass(eq=False)
class GroupCommitter:
    """Commits through a metastore, for many threads at once."""

    metastore: Committer
    new_id: Callable[[], str]
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _waiting: list[_PendingRequest] = field(default_factory=list)
    _is_busy: bool = False

    def commit(self, base: Snapshot, changes: Changes, isolation: Isolation) -> CommitResult:
        """Make the changes real as the next version, perhaps together with those of other threads."""
        if changes.is_empty:
            return self.metastore.commit(base, changes, isolation)
        mine = _PendingRequest(GroupCommitRequest(base, changes, isolation))
        with self._changed:
            self._waiting.append(mine)
            self._changed.notify_all()
        try:
            while mine.outcome is None:
                self._commit_next_or_wait(mine)
        except BaseException as error:
            self._withdraw(mine, error)
            raise
        if isinstance(mine.outcome, CommitResult):
            return mine.outcome
        raise mine.outcome

    def _commit_next_or_wait(self, mine: _PendingRequest) -> None:
        """Commit for those who have waited longest, unless somebody else does until mine has its outcome."""
        with self._changed:
            self._changed.wait_for(lambda: mine.outcome is not None or not self._is_busy)
            if mine.outcome is not None:
                return
            self._is_busy = True
            group = self._take()
        try:
            self._commit_all(group)
        finally:
            with self._changed:
                # Whoever was left without an outcome, because this thread was stopped, comes first again.
                self._waiting = [*(one for one in group if one.outcome is None), *self._waiting]
                self._is_busy = False
                self._changed.notify_all()

    def _withdraw(self, mine: _PendingRequest, error: BaseException) -> None:
        """Let nobody begin to commit what its own thread, which was stopped, no longer waits for."""
        with self._changed:
            mine.outcome = mine.outcome or _unknown_outcome_error(error)
            self._waiting = [one for one in self._waiting if one is not mine]

    def _take(self) -> list[_PendingRequest]:
        """Return those that are committed next, and leave the others to wait."""
        members, _ = select_group([one.request for one in self._waiting])
        chosen = {id(request) for request in members}
        group = [one for one in self._waiting if id(one.request) in chosen]
        self._waiting = [one for one in self._waiting if id(one.request) not in chosen]
        return group

    def _commit_all(self, group: list[_PendingRequest]) -> None:
        if len(group) > 1 and self._commit_merged(group):
            return
        for one in group:
            if one.outcome is None:
                self._commit_one(one)

    def _commit_merged(self, group: list[_PendingRequest]) -> bool:
        """Return whether all have their outcome; else what stopped them may concern one only, and each asks alone."""
        members = [one.request for one in group]
        try:
            changes = merge_changes(members, self.new_id())
            committed = self.metastore.commit(members[0].base, changes, Isolation.SNAPSHOT)
        except StorageError as error:
            for one in group:
                one.outcome = StorageError(str(error))
            return True
        except MangroveError:
            return False
        except BaseException as error:
            for one in group:
                one.outcome = _unknown_outcome_error(error)
            raise
        for one, outcome in zip(group, split_commit_result(members, committed), strict=True):
            one.outcome = outcome
        return True

    def _commit_one(self, one: _PendingRequest) -> None:
        request = one.request
        try:
            one.outcome = self.metastore.commit(request.base, request.changes, request.isolation)
        except MangroveError as error:
            one.outcome = error
        except BaseException as error:
            one.outcome = _unknown_outcome_error(error)
            raise


def _unknown_outcome_error(error: BaseException) -> StorageError:
    return StorageError(
        f"the thread that was committing was stopped by {error!r}; whether the transaction was made real is not known. "
        "Look at the history before trying again"
    )
