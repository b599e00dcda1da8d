"""Group commit of concurrent transactions of one process as one version.

`process_group_commit.py` does the same for several processes.

A request commits immediately if no commit is running. Requests that arrive meanwhile
wait, and then one of their threads commits all that are compatible. It waits for a quarter
of the time of the last commit until as many requests have arrived as were there then: the
threads of that commit prepare their next requests. Without this, groups of one and of all
others would take turns. A single writer waits for nobody.

Requests whose base version is older than the newest version in memory are rebased on it
first: their commit could not be the next version. Changes are compatible if they have
the same base version then, and none conflicts with an earlier one of the group. Rows
are not compared within a group: a request that read or guards rows of a stream to which
an earlier member writes commits on its own, later. If a merged commit conflicts, only
one member may be the cause: the first member then commits on its own, and the others are
rebased on its version, which finds the cause, before they form the next group.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

from mangrove.errors import MangroveError, StorageError
from mangrove.metastore import (
    Changes,
    CommitResult,
    Guarded,
    Isolation,
    MetastoreSnapshot,
    ObjectRange,
    Parent,
    RowChangeDetector,
    RowRange,
    assume_rows_changed,
)
from mangrove.model.locators import DeltaLocator, Kind, Locator, PartitionLocator, StreamLocator
from mangrove.model.objects import Object
from mangrove.model.transaction_record import TransactionRecord, decode_members, encode_members, summarize_writes

__all__ = [
    "CommitTarget",
    "GroupCommitRequest",
    "GroupCommitter",
    "ThreadCondition",
    "detect_conflicts",
    "find_written_rows",
    "is_in_scan",
    "list_transactions",
    "merge_changes",
    "must_commit_alone",
    "select_group",
    "split_commit_result",
]


def is_in_scan(scan: ObjectRange, locator: Locator) -> bool:
    """Return whether a scan covers the object at `locator`."""
    if locator.kind is not scan.kind or locator.parent != scan.parent:
        return False
    return str(locator.parts[-1]).startswith(scan.prefix)


def detect_conflicts(changes: Changes, isolation: Isolation, written: Iterable[Locator]) -> list[Locator]:
    """Return the objects written by others that conflict with the changes."""
    single, scans = changes.targets_to_validate(isolation)
    if not scans:
        return sorted(single.intersection(written))
    # A transaction may have scanned as many partitions as another wrote.
    below: dict[tuple[Kind, Parent], list[ObjectRange]] = {}
    for scan in scans:
        below.setdefault((scan.kind, scan.parent), []).append(scan)
    return sorted(
        locator
        for locator in written
        if locator in single or any(is_in_scan(scan, locator) for scan in below.get((locator.kind, locator.parent), ()))
    )


def find_written_rows(
    changes: Changes, isolation: Isolation, written: Iterable[Locator]
) -> dict[RowRange, set[PartitionLocator]]:
    """Return the row ranges to validate whose streams others wrote to, with the partitions that these wrote."""
    ranges = changes.rows_to_validate(isolation)
    if not ranges:
        return {}
    partitions: dict[StreamLocator, set[PartitionLocator]] = {}
    for locator in written:
        if isinstance(locator, DeltaLocator):
            partitions.setdefault(locator.parent.parent, set()).add(locator.parent)
    return {rows: partitions[rows.stream] for rows in sorted(ranges, key=repr) if rows.stream in partitions}


_MEMBERS_MAX: Final = 64
_GATHER_MILLIS_MAX: Final = 250
"""The longest time that a commit waits for others, whatever the clock says about the last one."""


@dataclass(frozen=True, slots=True)
class GroupCommitRequest:
    """The commit request of one thread."""

    base: MetastoreSnapshot
    changes: Changes
    isolation: Isolation


def select_group(requests: Sequence[GroupCommitRequest]) -> tuple[list[GroupCommitRequest], list[GroupCommitRequest]]:
    """Return the requests that can be committed together with the first one, and the others."""
    first = requests[0]
    members, others = [first], []
    puts = dict(first.changes.puts)
    written = puts.keys() | first.changes.deletes
    for request in requests[1:]:
        changes = request.changes
        if (
            not must_commit_alone(first.changes)
            and not must_commit_alone(changes)
            and len(members) < _MEMBERS_MAX
            and request.base.version == first.base.version
            and not detect_conflicts(_drop_duplicate_puts(changes, puts), request.isolation, written)
            and not find_written_rows(changes, request.isolation, written)
            # Alone, the commit compares the default version with the one that the other transaction wrote.
            and written.isdisjoint(guard.table for guard in changes.default_versions)
        ):
            members.append(request)
            puts |= changes.puts
            written |= changes.puts.keys() | changes.deletes
        else:
            others.append(request)
    return members, others


def merge_changes(members: Sequence[GroupCommitRequest], transaction_id: str) -> Changes:
    """Return the merged changes of all members; later deltas of a partition follow earlier ones."""
    puts: dict[Locator, Object] = {}
    deletes: set[Locator] = set()
    guards: set[Guarded] = set()
    rows_guarded: set[RowRange] = set()
    last: dict[PartitionLocator, int] = {}
    for member in members:
        for locator, value in sorted(member.changes.puts.items()):
            place = locator
            if isinstance(locator, DeltaLocator):
                partition = locator.parent
                position = max(locator.position, last.get(partition, 0) + 1)
                last[partition] = position
                place = partition.at(position)
            puts[place] = value
        deletes |= member.changes.deletes
        guards |= member.changes.guards
        rows_guarded |= member.changes.rows_to_validate(member.isolation)
        if member.isolation is Isolation.SERIALIZABLE:
            guards |= member.changes.reads | member.changes.scans
    records = encode_members([record for member in members for record in list_transactions(member.changes)])
    limits = [limit for member in members if (limit := member.changes.commit_before_millis) is not None]
    return Changes(
        transaction_id,
        puts,
        frozenset(deletes),
        guards=frozenset(guards),
        rows_guarded=frozenset(rows_guarded),
        properties=records,
        commit_before_millis=min(limits, default=None),
    )


def split_commit_result(members: Sequence[GroupCommitRequest], committed: CommitResult) -> list[CommitResult]:
    """Return for each member its own changes as committed, with the positions of its deltas.

    Positions that must be read are read when somebody asks for them: an error after the commit is no failed commit.
    """

    def locate(place: int) -> Changes:
        return _split_changes(members, committed.changes)[place]

    return [
        CommitResult(committed.snapshot, member.changes, partial(locate, place)) for place, member in enumerate(members)
    ]


def _split_changes(members: Sequence[GroupCommitRequest], committed: Changes) -> list[Changes]:
    got: dict[PartitionLocator, list[DeltaLocator]] = {}
    for locator in sorted(committed.puts):
        if isinstance(locator, DeltaLocator):
            got.setdefault(locator.parent, []).append(locator)
    taken = {partition: iter(positions) for partition, positions in got.items()}
    return [
        replace(
            member.changes,
            puts={
                next(taken[locator.parent]) if isinstance(locator, DeltaLocator) else locator: value
                for locator, value in sorted(member.changes.puts.items())
            },
        )
        for member in members
    ]


def list_transactions(changes: Changes) -> tuple[TransactionRecord, ...]:
    """Return the transactions of merged changes, or the only one."""
    written = summarize_writes((*changes.puts, *changes.deletes))
    alone = TransactionRecord(changes.transaction_id, changes.message, changes.author, changes.properties, written)
    return decode_members(changes.properties, f"transaction {changes.transaction_id}") or (alone,)


def must_commit_alone(changes: Changes) -> bool:
    """Return whether the changes cannot be merged with others: names have another meaning before and after them."""
    written = (*changes.puts, *changes.deletes)
    return changes.settings is not None or any(locator.kind is Kind.NAMESPACE for locator in written)


def _drop_duplicate_puts(changes: Changes, there: Mapping[Locator, Object]) -> Changes:
    """Return the changes without puts that another member makes identically, such as a new partition."""
    puts = {
        locator: value
        for locator, value in changes.puts.items()
        if locator.kind is Kind.DELTA or there.get(locator) != value
    }
    return changes if len(puts) == len(changes.puts) else replace(changes, puts=puts)


class ThreadCondition(Protocol):
    """What a group commit uses of `threading.Condition`."""

    def notify(self) -> None:
        """Wake one thread that waits."""
        ...

    def notify_all(self) -> None:
        """Wake all threads that wait."""
        ...

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until the predicate holds, at most so many seconds; return whether it holds."""
        ...


@dataclass(eq=False)
class _PendingRequest:
    """A request and, once known, its outcome."""

    request: GroupCommitRequest
    changed: ThreadCondition
    """Notified when the outcome is known, and when its thread may commit."""
    outcome: CommitResult | MangroveError | None = None


class CommitTarget(Protocol):
    """Commits the changes of one thread at a time: a metastore, or a group commit across processes."""

    def commit(
        self, base: MetastoreSnapshot, changes: Changes, isolation: Isolation, have_rows_changed: RowChangeDetector
    ) -> CommitResult:
        """Commit the changes as the next version, or raise `ConflictError` and change nothing."""
        ...

    def rebase(
        self, base: MetastoreSnapshot, changes: Changes, isolation: Isolation, have_rows_changed: RowChangeDetector
    ) -> tuple[MetastoreSnapshot, Changes]:
        """Return the newest version that is in memory, and the changes rebased on it, or raise `ConflictError`."""
        ...


@dataclass(eq=False)
class GroupCommitter:
    """Commits through a metastore for many threads."""

    metastore: CommitTarget
    new_id: Callable[[], str]
    now_millis: Callable[[], int]
    have_rows_changed: RowChangeDetector = assume_rows_changed
    new_condition: Callable[[threading.Lock], ThreadCondition] = threading.Condition
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _gathered: ThreadCondition = field(init=False)
    """Notified when as many requests wait as are expected: a thread that wakes earlier takes the interpreter lock."""
    _waiting: list[_PendingRequest] = field(default_factory=list)
    """The requests without an outcome, also those of the group that is being committed."""
    _leader: _PendingRequest | None = None
    """The request whose thread commits."""
    _expected: int = 1
    """How many requests there were at the last commit, in its group and waiting."""
    _gather_millis: int = 0

    def __post_init__(self) -> None:
        self._gathered = self.new_condition(self._lock)

    def commit(self, base: MetastoreSnapshot, changes: Changes, isolation: Isolation) -> CommitResult:
        """Commit the changes as the next version, possibly together with those of other threads."""
        if changes.is_empty:
            return self.metastore.commit(base, changes, isolation, self.have_rows_changed)
        mine = _PendingRequest(GroupCommitRequest(base, changes, isolation), self.new_condition(self._lock))
        try:
            with self._lock:
                self._waiting.append(mine)
                if self._is_complete():
                    self._gathered.notify()
            while mine.outcome is None:
                self._commit_next_or_wait(mine)
        except BaseException as error:
            # An interrupt can come at any point; nothing before this handler has to be undone where it happens.
            with self._lock:
                mine.outcome = mine.outcome or _unknown_outcome_error(error)
                self._go_on(mine)
            raise
        if isinstance(mine.outcome, CommitResult):
            return mine.outcome
        raise mine.outcome

    def _commit_next_or_wait(self, mine: _PendingRequest) -> None:
        """Commit the oldest waiting requests, or wait until another thread has committed this one."""
        with self._lock:
            mine.changed.wait_for(lambda: mine.outcome is not None or self._leader is None)
            if mine.outcome is not None:
                return
            self._leader = mine
            # A pause if there are fewer requests than before.
            self._gathered.wait_for(self._is_complete, self._gather_millis / 1000)
            group = self._waiting.copy()
        began_at_millis = self.now_millis()
        self._commit_compatible(group)
        self._gather_millis = min(_GATHER_MILLIS_MAX, max(0, self.now_millis() - began_at_millis) // 4)
        with self._lock:
            self._go_on(mine)

    def _is_complete(self) -> bool:
        return len(self._waiting) >= self._expected

    def _go_on(self, mine: _PendingRequest) -> None:
        """Remove the requests that have their outcome, and let the thread of the oldest other one commit."""
        if self._leader is mine:
            self._expected = len(self._waiting)
            self._leader = None
        done = [one for one in self._waiting if one.outcome is not None]
        self._waiting = [one for one in self._waiting if one.outcome is None]
        for one in done:
            one.changed.notify()
        if self._waiting and self._leader is None:
            self._waiting[0].changed.notify()

    def _commit_compatible(self, waiting: list[_PendingRequest]) -> None:
        """Commit the first request that can be committed, together with those that are compatible with it."""
        for one in waiting:
            self._rebase(one)
        ready = [one for one in waiting if one.outcome is None]
        if ready:
            members, _ = select_group([one.request for one in ready])
            chosen = {id(request) for request in members}
            self._commit_all([one for one in ready if id(one.request) in chosen])

    def _rebase(self, one: _PendingRequest) -> None:
        """Rebase the request on the newest version in memory; a conflict is its outcome."""
        request = one.request
        try:
            base, changes = self.metastore.rebase(
                request.base, request.changes, request.isolation, self.have_rows_changed
            )
        except MangroveError as error:
            one.outcome = error
        else:
            if base is not request.base:
                one.request = replace(request, base=base, changes=changes)

    def _commit_all(self, group: list[_PendingRequest]) -> None:
        """Commit the requests, or the first one on its own; then the others are first in line."""
        if len(group) == 1 or not self._commit_merged(group):
            self._commit_one(group[0])

    def _commit_merged(self, group: list[_PendingRequest]) -> bool:
        """Return whether all requests have their outcome; otherwise one of them conflicts."""
        members = [one.request for one in group]
        try:
            changes = merge_changes(members, self.new_id())
            committed = self.metastore.commit(members[0].base, changes, Isolation.SNAPSHOT, self.have_rows_changed)
            for one, outcome in zip(group, split_commit_result(members, committed), strict=True):
                one.outcome = outcome
        except StorageError as error:
            for one in group:
                one.outcome = StorageError(str(error))
            return True
        except MangroveError:
            return False
        except BaseException as error:
            for one in group:
                one.outcome = one.outcome or _unknown_outcome_error(error)
            raise
        return True

    def _commit_one(self, one: _PendingRequest) -> None:
        request = one.request
        try:
            one.outcome = self.metastore.commit(
                request.base, request.changes, request.isolation, self.have_rows_changed
            )
        except MangroveError as error:
            one.outcome = error
        except BaseException as error:
            one.outcome = _unknown_outcome_error(error)
            raise


def _unknown_outcome_error(error: BaseException) -> StorageError:
    return StorageError(
        f"the committing thread was interrupted by {error!r}; it is unknown whether the transaction is committed. "
        "Check the history before you retry"
    )
