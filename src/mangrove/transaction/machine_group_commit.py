"""Group commit of the processes of one machine: transactions that lost a race wait in a queue.

    1. try the next version directly; without a concurrent commit nothing else happens
    2. after a lost race, or while others use the queue, add the transaction to it as an intent
    3. the process that gets the lock of the queue commits all committable intents as the next version
    4. it shows the file of that version to the others, which make no request

`intents.py` says who may commit an intent, and why it is committed once or not at all. The
lock decides nothing: without it two processes lead, and one of them loses the race. A
process whose intent waits for too long leads without the lock.
"""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mangrove.effects import Effects
from mangrove.errors import FormatError, MangroveError, StorageError
from mangrove.metastore import (
    Changes,
    CommitResult,
    Isolation,
    Metastore,
    MetastoreSnapshot,
    RowChangeDetector,
    assume_rows_changed,
)
from mangrove.storage.commit_queue import CommitQueue
from mangrove.transaction.group_commit import CommitTarget, GroupCommitRequest
from mangrove.transaction.intents import (
    BYTES_MAX,
    VERSIONS_MAX,
    ReadVersions,
    TrackedIntent,
    build_intent,
    build_result,
    build_unknown_outcome_error,
    commit_members,
    decode_or_skip,
    encode_intent,
    has_time_to_wait,
    is_publishable,
    select_members,
)

__all__ = ["MachineGroupCommitter"]

_INTENTS_MAX: Final = 64
_BACK_MAX: Final = 4
"""A leader reads so many versions before the ones that it knows, to commit intents that are based on them."""
_LEADS_MAX: Final = 4
_ALONE_MAX: Final = 2 * VERSIONS_MAX
_LEADS_ALONE_MAX: Final = 8
"""A process that was alone so many times in a row tries the next version directly again."""
_POLL_SECONDS_MIN: Final = 0.0005
_POLL_SECONDS_MAX: Final = 0.005
_POLLS_PER_COMMIT: Final = 20
_GATHER_POLLS_MAX: Final = 10
"""How long a leader waits for the writers of the last version: half the time of a commit, and often less."""
_SLEEP_SECONDS_MIN: Final = 0.02
_SLEEP_SECONDS_MAX: Final = 0.1
"""How long a process waits to be woken, before it looks whether the leader was killed: the time of a commit."""
_TURNS_MAX: Final = 10_000
_COMMITS_WITHOUT: Final = 64
_WAIT_MILLIS: Final = 2_000
_WAIT_MILLIS_MAX: Final = 10_000
_WAIT_COMMITS: Final = 20
"""How long a process waits for another one that has the lock: the time of so many commits, within the limits above."""


@dataclass(frozen=True)
class _ShownVersion:
    """A version as its leader shows it to the other processes."""

    parent: str
    """The transaction of the version before it: the version may belong to another history."""
    at_millis: int
    commit_millis: int
    """How long its leader needed."""
    writers: int
    """How many writers it has, together with those that waited meanwhile."""
    files: Mapping[str, bytes]

    def encode(self) -> bytes:
        """Return the version as bytes."""
        sizes = {path: len(data) for path, data in self.files.items()}
        head = json.dumps([self.parent, self.at_millis, self.commit_millis, self.writers, sizes])
        return b"".join((head.encode(), b"\n", *self.files.values()))

    @classmethod
    def decode(cls, content: bytes) -> "_ShownVersion":
        """Return the version in these bytes, whose checksum was verified; another release may have written them."""
        head, _, contents = content.partition(b"\n")
        try:
            parent, *figures, sizes = json.loads(head)
            at_millis, commit_millis, writers = map(int, figures)
            ends = itertools.accumulate(sizes.values())
            files = {path: contents[end - size : end] for (path, size), end in zip(sizes.items(), ends, strict=True)}
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise FormatError(f"a version in the queue of this machine cannot be read: {error}") from error
        return cls(parent, at_millis, commit_millis, writers, files)


class MachineGroupCommitter:
    """Commits through a metastore, together with the other processes of this machine if they compete.

    One thread at a time: a `GroupCommitter` is in front of it.
    """

    def __init__(self, effects: Effects, queue: CommitQueue, metastore: Metastore, inner: CommitTarget) -> None:
        """Take the queue, and the target of commits that do not use it."""
        self._effects = effects
        self._queue = queue
        self._metastore = metastore
        self._inner = inner
        self._versions: ReadVersions | None = None
        """The versions that this process knows since it joined the queue."""
        self._joined_at_millis = 0
        self._is_contended = False
        """Whether the last commits met others, so that a direct attempt would probably lose."""
        self._leads_alone = 0
        self._expected = 1
        """How many writers the last version had, together with those that waited meanwhile."""
        self._commit_millis = 0
        """The unit of all pauses: how long the last version took its leader, or the last attempt this process."""
        self._commits_without = 0
        """How many of the next commits do not use the queue, because one waited in vain."""

    def rebase(
        self,
        base: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        have_rows_changed: RowChangeDetector = assume_rows_changed,
    ) -> tuple[MetastoreSnapshot, Changes]:
        """Return the newest version that is in memory, and the changes rebased on it, or raise `ConflictError`."""
        return self._inner.rebase(base, changes, isolation, have_rows_changed)

    def commit(
        self,
        base: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        have_rows_changed: RowChangeDetector = assume_rows_changed,
    ) -> CommitResult:
        """Commit the changes as a version, or as a part of one; raise `ConflictError` if nothing was committed."""
        if self._commits_without:
            self._commits_without -= 1
        elif not changes.is_empty and not base.settings.has_intents and base.allows_groups:
            is_queued = is_publishable(changes, self._effects.now_millis())
            committed = self._commit_with_others(base, changes, isolation) if is_queued else None
            if committed is not None:
                return committed
            if self._is_in_use():
                return self._commit_by_itself(base, changes, isolation, have_rows_changed)
        return self._inner.commit(base, changes, isolation, have_rows_changed)

    def _is_in_use(self) -> bool:
        return self._is_contended or self._queue.is_active(self._effects.now_millis())

    def _commit_by_itself(
        self,
        base: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        have_rows_changed: RowChangeDetector,
    ) -> CommitResult:
        """Commit the changes with the lock: otherwise each attempt would probably lose a race against a leader."""
        name, is_locked = self._build_name(), False
        try:
            if not self._commits_without and has_time_to_wait(changes, self._effects.now_millis()):
                is_locked = self._wait_for_lock(name)
            versions = self._versions or self._join(base)
            self._load_shared(versions)
            newest, rebased = self._inner.rebase(base, changes, isolation, have_rows_changed)
            began_at_millis = self._effects.now_millis()
            committed = self._inner.commit(newest, rebased, isolation, have_rows_changed)
            if is_locked and committed.snapshot.version == newest.version + 1:
                self._measure_commit(began_at_millis)
                versions.add(committed.snapshot)
                self._show(name, newest, committed.snapshot, {})
            return committed
        finally:
            if is_locked:
                self._queue.unlock()
            self._queue.remove([name])

    def _wait_for_lock(self, name: str) -> bool:
        """Wait for the lock like a transaction in the queue, with an entry that is no intent."""
        until_millis = self._effects.now_millis() + self._wait_millis
        for _ in range(_TURNS_MAX):
            if not self._queue.contains(name) and not self._queue.put(name, b""):
                return False
            if self._queue.try_lock():
                return True
            if self._effects.now_millis() > until_millis:
                break
            self._queue.wait(name, self._sleep_seconds, self._effects.pause)
        self._commits_without = _COMMITS_WITHOUT
        return False

    def _build_name(self) -> str:
        return f"{max(0, self._effects.now_millis()):015d}-{self._effects.new_id()}.intent"

    def _commit_with_others(
        self, base: MetastoreSnapshot, changes: Changes, isolation: Isolation
    ) -> CommitResult | None:
        """Try the next version once, then wait in the queue; return None if the transaction commits by itself."""
        began_at_millis = self._effects.now_millis()
        if not self._is_in_use():
            self._versions = None
            committed = self._metastore.commit_next(base, changes)
            self._measure_commit(began_at_millis)
            if committed is not None:
                return committed
            self._is_contended = True
        versions = self._versions or self._join(base)
        versions.add(base)
        return self._commit_queued(TrackedIntent(build_intent(base, changes, isolation)), versions, began_at_millis)

    def _join(self, base: MetastoreSnapshot) -> ReadVersions:
        """Read the versions after `base` in the store, and use only what the queue shows from now on.

        Versions that it has shown before may be those of a copy that was restored to the same place.
        """
        versions = ReadVersions(self._metastore, base)
        for _ in range(VERSIONS_MAX):
            if not versions.load_later(2):
                break
        self._versions, self._joined_at_millis = versions, self._effects.now_millis()
        return versions

    def _commit_queued(self, own: TrackedIntent, versions: ReadVersions, began_at_millis: int) -> CommitResult | None:
        """Add the intent to the queue, and return the commit result; None if the intent is dead or was not added.

        From the put on others may commit the transaction, so no error means that it failed.
        """
        data, name = encode_intent(own.intent), self._build_name()
        if len(data) > BYTES_MAX:
            return None
        try:
            if not self._queue.put(name, data):
                return None
            return self._wait_or_lead(own, name, data, versions, began_at_millis)
        except MangroveError as error:
            raise build_unknown_outcome_error(own.intent, error) from error
        finally:
            self._queue.remove([name])

    def _wait_or_lead(
        self, own: TrackedIntent, name: str, data: bytes, versions: ReadVersions, began_at_millis: int
    ) -> CommitResult | None:
        until_millis = self._effects.now_millis() + self._wait_millis
        for _ in range(_TURNS_MAX):
            is_waiting = self._queue.contains(name)
            is_leader = is_waiting and self._queue.try_lock()
            if is_leader:
                try:
                    committed = self._lead(own, name, versions)
                finally:
                    self._queue.unlock()
                if committed is not None:
                    return committed
            is_undecided = is_waiting and not is_leader
            if not is_undecided:
                self._load_shared(versions)
                versions.catch_up(own, 2)
                if not own.is_committable:
                    return self._report(own, began_at_millis)
                if not self._queue.put(name, data):
                    break
            if self._effects.now_millis() > until_millis:
                break
            if is_undecided:
                self._queue.wait(name, self._sleep_seconds, self._effects.pause)
            else:
                self._effects.pause(self._poll_seconds)
        self._commits_without = _COMMITS_WITHOUT
        return self._commit_alone(own, versions, began_at_millis)

    def _measure_commit(self, began_at_millis: int) -> None:
        """Remember how long an attempt took, also one that was refused: it makes the same requests."""
        self._commit_millis = max(0, self._effects.now_millis() - began_at_millis)

    @property
    def _wait_millis(self) -> int:
        return min(_WAIT_MILLIS_MAX, max(_WAIT_MILLIS, _WAIT_COMMITS * self._commit_millis))

    @property
    def _poll_seconds(self) -> float:
        seconds = self._commit_millis / 1000 / _POLLS_PER_COMMIT
        return min(_POLL_SECONDS_MAX, max(_POLL_SECONDS_MIN, seconds))

    @property
    def _sleep_seconds(self) -> float:
        return min(_SLEEP_SECONDS_MAX, max(_SLEEP_SECONDS_MIN, self._commit_millis / 1000))

    def _lead(self, own: TrackedIntent, name: str, versions: ReadVersions) -> CommitResult | None:
        """Try to commit the intent with all that are compatible; return None if somebody else decides about it."""
        if not self._queue.contains(name):
            return None
        self._load_shared(versions)
        waiting = self._gather(name, versions)
        self._leads_alone = 0 if waiting else self._leads_alone + 1
        self._is_contended = self._leads_alone < _LEADS_ALONE_MAX
        for _ in range(_LEADS_MAX):
            if not versions.compare(own).is_committable:
                return None
            before, began_at_millis = versions.newest, self._effects.now_millis()
            others = {path: one for path, one in waiting.items() if versions.has_base(one.intent)}
            request = GroupCommitRequest(before, own.intent.changes, own.intent.isolation)
            members, obsolete = select_members(request, versions, others, began_at_millis)
            committed = commit_members(self._metastore, [request, *members.values()], self._effects.new_id)
            if committed is not None:
                self._measure_commit(began_at_millis)
                versions.add(committed.snapshot)
                self._show(name, before, committed.snapshot, others)
                self._queue.remove([name, *obsolete])
                return committed
            versions.load_later(2)
        return None

    def _gather(self, name: str, versions: ReadVersions) -> dict[str, TrackedIntent]:
        """Return the intents of others, after a pause if writers are missing.

        The writers of the last version write again now. Without the pause they would have to wait for this
        version and for the next one, and two groups of half the size would take turns.
        """
        waiting = self._queue.list()
        for _ in range(_GATHER_POLLS_MAX):
            if len(waiting) >= self._expected:
                break
            self._effects.pause(self._poll_seconds)
            waiting = self._queue.list()
        names = [one for one in waiting if one != name][:_INTENTS_MAX]
        read = {one: decode_or_skip(self._queue.read(one), one) for one in names}
        found = {one: TrackedIntent(intent) for one, intent in read.items() if intent is not None}
        bases = [one.intent.base_version for one in found.values()]
        oldest = versions.newest.version - _BACK_MAX
        versions.load_back_to(min((base for base in bases if base >= oldest), default=versions.newest.version))
        return found

    def _show(
        self, name: str, before: MetastoreSnapshot, after: MetastoreSnapshot, others: Mapping[str, TrackedIntent]
    ) -> None:
        """Show the new version to the others, and then remove those of their intents that it contains."""
        committed = {record.id for record in after.commit.transactions}
        members = [path for path, one in others.items() if not committed.isdisjoint(one.intent.transaction_ids)]
        self._expected = 1 + len({*members, *self._queue.list()} - {name})
        shown = _ShownVersion(
            before.commit.transaction_id,
            self._effects.now_millis(),
            self._commit_millis,
            self._expected,
            self._metastore.encode_version(after),
        )
        self._queue.put_version(after.version, shown.encode(), is_group=bool(members))
        self._queue.remove(members)

    def _load_shared(self, versions: ReadVersions) -> None:
        """Add the versions that the others have shown since this process joined.

        Each names the transaction of the version before it, as it may belong to another history.
        """
        for _ in range(VERSIONS_MAX):
            newest = versions.newest
            content = self._queue.read_version(newest.version + 1)
            if content is None:
                return
            try:
                shown = _ShownVersion.decode(content)
                if shown.parent != newest.commit.transaction_id:
                    return
                if not self._joined_at_millis <= shown.at_millis <= self._effects.now_millis():
                    return
                snapshot = self._metastore.decode_version(newest.version + 1, shown.files)
            except FormatError:
                return  # the store has the version
            self._metastore.remember(snapshot)
            versions.add(snapshot)
            self._expected, self._commit_millis = shown.writers, shown.commit_millis

    def _report(self, own: TrackedIntent, began_at_millis: int) -> CommitResult | None:
        """Return the commit result of an intent that was decided; None if it is dead."""
        if own.commit is None:
            return None
        # The version contains a transaction that began waiting at that time.
        self._metastore.remember(own.commit, began_at_millis)
        return build_result(own.intent.changes, own.commit)

    def _commit_alone(self, own: TrackedIntent, versions: ReadVersions, began_at_millis: int) -> CommitResult | None:
        """Commit the intent without the lock, whose owner may have stopped."""
        for _ in range(_ALONE_MAX):
            versions.catch_up(own, 2)
            if not own.is_committable:
                return self._report(own, began_at_millis)
            request = GroupCommitRequest(versions.newest, own.intent.changes, own.intent.isolation)
            attempted_at_millis = self._effects.now_millis()
            committed = commit_members(self._metastore, [request], self._effects.new_id)
            self._measure_commit(attempted_at_millis)
            if committed is not None:
                versions.add(committed.snapshot)
                return committed
        raise StorageError(f"it was not decided after {_ALONE_MAX} attempts")
