"""Intents: transactions that any process may commit, and how everybody learns their outcome.

An intent may be committed only by a writer that has read every version after the base of
the intent and found neither its transactions nor any write that concerns them, and only
into the next 48 versions. An intent for which this fails once is dead for everybody, so
its owner may then commit alone and report a conflict. Decision 63 has the argument.

`process_group_commit.py` passes intents through the store, `machine_group_commit.py`
through a queue of the machine.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Final

from mangrove.errors import FormatError, InvalidInputError, MangroveError, NotFoundError, StorageError
from mangrove.metastore import Changes, CommitResult, Isolation, Metastore, MetastoreSnapshot
from mangrove.model.locators import DeltaLocator, Kind, Locator
from mangrove.model.objects import Delta, Object
from mangrove.rebase import assign_positions
from mangrove.storage.port import ObjectInfo, Store
from mangrove.transaction.group_commit import (
    GroupCommitRequest,
    list_transactions,
    merge_changes,
    must_commit_alone,
    select_group,
    split_commit_result,
)
from mangrove.transaction.shared_transactions import SharedWork, decode_work, encode_work

__all__ = [
    "BYTES_MAX",
    "INTENTS_FOLDER",
    "VERSIONS_MAX",
    "Intent",
    "ReadVersions",
    "TrackedIntent",
    "build_intent",
    "build_result",
    "build_unknown_outcome_error",
    "commit_members",
    "decode_intent",
    "decode_or_skip",
    "encode_intent",
    "find_damaged_intents",
    "has_time_to_wait",
    "is_intent",
    "is_publishable",
    "select_members",
]

INTENTS_FOLDER: Final = "data/intents/"
VERSIONS_MAX: Final = 48
"""The number of versions after its base into which an intent may be committed."""
BYTES_MAX: Final = 256 * 1024
"""A group of 64 threads that append a few rows each fits."""
_FORM: Final = 2
_OBJECTS_MAX: Final = 256
_LISTED_MAX: Final = 1000
_TRANSACTIONS_MAX: Final = 256
_REMAINING_MILLIS_MIN: Final = 60_000


@dataclass(frozen=True, slots=True)
class Intent:
    """A transaction that any process may commit."""

    base_version: int
    base_transaction_id: str
    """The transaction of the base version, which tells two lakehouses or histories apart."""
    changes: Changes
    isolation: Isolation
    writer_id: str = ""
    """The same for all intents of a process, so that leaders know for how many to wait."""
    transaction_ids: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        if type(self.base_version) is not int or self.base_version < 0:
            raise InvalidInputError(f"invalid base version {self.base_version!r} of an intent")
        if not isinstance(self.writer_id, str):
            raise InvalidInputError(f"invalid writer {self.writer_id!r} of an intent")
        limit_millis = self.changes.commit_before_millis
        if limit_millis is not None and type(limit_millis) is not int:
            raise InvalidInputError(f"invalid commit deadline {limit_millis!r} of an intent")
        if must_commit_alone(self.changes) or self.changes.is_empty:
            raise InvalidInputError("an intent changes at least one object, and no namespace")
        found = frozenset(record.id for record in list_transactions(self.changes))
        object.__setattr__(self, "transaction_ids", found)


def encode_intent(intent: Intent) -> bytes:
    """Return the object of an intent: a line with a checksum, and the changes."""
    changes = intent.changes
    payload = encode_work(
        SharedWork(
            changes.transaction_id,
            intent.isolation,
            changes.message,
            changes.author,
            changes.properties,
            changes.puts,
            changes.deletes,
            changes.reads,
            changes.scans,
            changes.guards,
            rows_read=changes.rows_read,
            rows_guarded=changes.rows_guarded,
        )
    )
    head = {
        "form": _FORM,
        "base": intent.base_version,
        "base_transaction": intent.base_transaction_id,
        "commit_before_millis": changes.commit_before_millis,
        "writer": intent.writer_id,
    }
    body = json.dumps(head).encode() + b"\n" + payload
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def decode_intent(data: bytes, path: str) -> Intent:
    """Return the intent in an object; raise `FormatError` if it is damaged or of another release."""
    checksum, _, body = data.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != checksum:
        raise FormatError(f"{path} is damaged: its checksum does not match; delete it")
    line, _, payload = body.partition(b"\n")
    work = decode_work(payload, path)
    try:
        head = json.loads(line)
        if head["form"] != _FORM:
            raise FormatError(f"{path} was written by another release of mangrove-lake")
        changes = Changes(
            work.transaction_id,
            work.puts,
            work.deletes,
            work.reads,
            work.scans,
            work.guards,
            work.rows_read,
            work.rows_guarded,
            message=work.message,
            author=work.author,
            properties=work.properties,
            commit_before_millis=head["commit_before_millis"],
        )
        return Intent(head["base"], head["base_transaction"], changes, work.isolation, head["writer"])
    except (ValueError, TypeError, LookupError, InvalidInputError) as error:
        raise FormatError(f"{path} has invalid content ({error!r}); delete it") from error


def is_intent(path: str) -> bool:
    """Return whether a file is an intent."""
    return path.startswith(INTENTS_FOLDER)


def find_damaged_intents(store: Store) -> Iterator[tuple[str, str]]:
    """Yield the path of each damaged intent, and what is wrong with it."""
    entries = islice(store.list(INTENTS_FOLDER), _LISTED_MAX)
    paths = [entry.path for entry in entries if isinstance(entry, ObjectInfo)]
    for path, data in zip(paths, store.read_many(paths), strict=True):
        try:
            if data is not None:
                decode_intent(data, path)
        except FormatError as error:
            yield path, str(error)


class _ReadVersion:
    """A version that this process has read."""

    def __init__(self, snapshot: MetastoreSnapshot) -> None:
        self.snapshot = snapshot

    @cached_property
    def transaction_ids(self) -> tuple[str, ...]:
        """The ids of its transactions."""
        return tuple(record.id for record in self.snapshot.commit.transactions)


@dataclass(slots=True)
class TrackedIntent:
    """An intent, and its outcome according to the versions that were compared with it."""

    intent: Intent
    compared_through: int = field(init=False)
    commit: MetastoreSnapshot | None = None
    """The version that contains the intent."""
    is_dead: bool = False
    """Whether nobody can commit the intent any more."""

    def __post_init__(self) -> None:
        self.compared_through = self.intent.base_version

    @property
    def is_committable(self) -> bool:
        """Whether the intent may be committed after the versions that were compared; once false, it stays false."""
        return self.commit is None and not self.is_dead


class ReadVersions:
    """The last versions that this process has read, without a gap."""

    def __init__(self, metastore: Metastore, first: MetastoreSnapshot) -> None:
        self._metastore = metastore
        self._versions: dict[int, _ReadVersion] = {}
        self.add(first)

    def add(self, snapshot: MetastoreSnapshot) -> None:
        """Add a version; the versions before a gap are dropped."""
        if snapshot.version in self._versions:
            return
        if snapshot.version - 1 not in self._versions:
            self._versions.clear()
        self._insert(snapshot)
        self._versions.pop(snapshot.version - VERSIONS_MAX - 1, None)
        self.newest = snapshot

    def _insert(self, snapshot: MetastoreSnapshot) -> None:
        self._versions[snapshot.version] = _ReadVersion(snapshot)

    def load_later(self, count: int) -> bool:
        """Read up to `count` versions after the newest one; return whether there may be more."""
        found = self._metastore.load_later(self.newest, count)
        for snapshot in found:
            self.add(snapshot)
        return len(found) == count

    def catch_up(self, tracked: TrackedIntent, count: int = 1) -> None:
        """Read later versions, `count` at a time, until the outcome of the intent is known or there is none."""
        while self.compare(tracked).is_committable and self.load_later(count):
            pass
        self.compare(tracked)

    def has_group_after(self, version: int) -> bool:
        """Return whether one of the versions after that one contains several transactions."""
        return any(len(one.transaction_ids) > 1 for number, one in self._versions.items() if number > version)

    def list_transaction_ids(self) -> set[str]:
        """Return the ids of the transactions of all versions that were read."""
        return {one for version in self._versions.values() for one in version.transaction_ids}

    def has(self, version: int) -> bool:
        """Return whether the version was read."""
        return version in self._versions

    def has_base(self, intent: Intent) -> bool:
        """Return whether the base version of the intent was read, and is of the same history."""
        base = self._versions.get(intent.base_version)
        return base is not None and base.snapshot.commit.transaction_id == intent.base_transaction_id

    def load_back_to(self, version: int) -> None:
        """Read the versions from that one on that were not read, unless they have expired."""
        for number in range(min(self._versions) - 1, version - 1, -1):
            try:
                self._insert(self._metastore.at_version(number))
            except (NotFoundError, FormatError):
                return

    def compare(self, tracked: TrackedIntent) -> TrackedIntent:
        """Compare the intent with the versions that were read since the last time, and return it."""
        if not tracked.is_committable:
            return tracked
        intent, base = tracked.intent, self._versions.get(tracked.intent.base_version)
        numbers = range(tracked.compared_through + 1, self.newest.version + 1)
        later = [self._versions[number] for number in numbers if number in self._versions]
        tracked.compared_through = self.newest.version
        tracked.commit = next(
            (one.snapshot for one in later if not intent.transaction_ids.isdisjoint(one.transaction_ids)), None
        )
        tracked.is_dead = tracked.commit is None and (
            base is None
            or not self.has_base(intent)
            or self.newest.version >= intent.base_version + VERSIONS_MAX
            or self._metastore.is_affected(
                base.snapshot, [one.snapshot for one in later], intent.changes, intent.isolation
            )
        )
        return tracked

    def find_rank(self, tracked: TrackedIntent) -> int:
        """Return the place of a committed intent in its version."""
        assert tracked.commit is not None
        ids = self._versions[tracked.commit.version].transaction_ids
        return next(place for place, one in enumerate(ids) if one in tracked.intent.transaction_ids)


def is_publishable(changes: Changes, now_millis: int) -> bool:
    """Return whether the changes may be an intent: few objects, time until the deadline, and nothing that is alone."""
    is_small = len(changes.puts) + len(changes.deletes) <= _OBJECTS_MAX
    return (
        has_time_to_wait(changes, now_millis)
        and is_small
        and not changes.resets_clock
        and not must_commit_alone(changes)
    )


def has_time_to_wait(changes: Changes, now_millis: int) -> bool:
    """Return whether there is time until the deadline of the changes to wait for other processes."""
    limit_millis = changes.commit_before_millis
    return limit_millis is None or limit_millis - now_millis >= _REMAINING_MILLIS_MIN


def select_members(
    own: GroupCommitRequest, versions: ReadVersions, others: Mapping[str, TrackedIntent], now_millis: int
) -> tuple[dict[str, GroupCommitRequest], list[str]]:
    """Return the intents to commit after the own transaction, and those that can never be committed, by path."""
    candidates: dict[str, GroupCommitRequest] = {}
    obsolete: list[str] = []
    taken = {record.id for record in list_transactions(own.changes)}
    for path, tracked in others.items():
        intent = tracked.intent
        limit_millis = intent.changes.commit_before_millis
        if not versions.compare(tracked).is_committable:
            obsolete.append(path)
        elif (
            (limit_millis is None or now_millis < limit_millis)
            # A copy of an intent under another name is the same transaction.
            and taken.isdisjoint(intent.transaction_ids)
            and len(taken) + len(intent.transaction_ids) <= _TRANSACTIONS_MAX
        ):
            taken |= intent.transaction_ids
            candidates[path] = GroupCommitRequest(versions.newest, intent.changes, intent.isolation)
    chosen = {id(one) for one in select_group([own, *candidates.values()])[0]}
    return {path: one for path, one in candidates.items() if id(one) in chosen}, obsolete


def commit_members(
    metastore: Metastore, members: Sequence[GroupCommitRequest], new_id: Callable[[], str]
) -> CommitResult | None:
    """Try to commit the members as the next version, and return the result of the first one."""
    newest = members[0].base
    # Each on its own: the deltas of one may have to keep positions of a partition to which others append.
    moved = [replace(one, changes=assign_positions(one.changes, newest)) for one in members]
    if len(moved) > 1:
        try:
            committed = metastore.commit_next(newest, merge_changes(moved, new_id()))
            return None if committed is None else split_commit_result(moved, committed)[0]
        except StorageError:
            raise
        except MangroveError:
            pass  # one of the others may be the cause
    return metastore.commit_next(newest, moved[0].changes)


def build_intent(base: MetastoreSnapshot, changes: Changes, isolation: Isolation) -> Intent:
    """Return the intent of changes that are based on a version."""
    return Intent(base.version, base.commit.transaction_id, changes, isolation)


def build_unknown_outcome_error(intent: Intent, error: MangroveError) -> StorageError:
    """Return the error for a writer that does not know whether others commit its intent."""
    return StorageError(
        f"transaction {intent.changes.transaction_id} could not be followed to its end ({error}); other "
        "processes may commit it. It is unknown whether it is committed; check the history before you retry"
    )


def decode_or_skip(data: bytes | None, path: str) -> Intent | None:
    """Return the intent in an object, or None if there is none or it is damaged."""
    try:
        return None if data is None else decode_intent(data, path)
    except FormatError:
        return None  # `check` reports it


def build_result(changes: Changes, snapshot: MetastoreSnapshot) -> CommitResult:
    """Return the result of a transaction that another process has committed."""
    return CommitResult(snapshot, changes, partial(_locate_deltas, changes, snapshot))


def _locate_deltas(changes: Changes, snapshot: MetastoreSnapshot) -> Changes:
    """Return the changes with the positions that their deltas have in the version that contains them."""
    puts: dict[Locator, Object] = {}
    for locator, value in sorted(changes.puts.items()):
        place: Locator = locator
        if isinstance(locator, DeltaLocator) and isinstance(value, Delta):
            after = replace(locator, position=locator.position - 1) if locator.position > 1 else None
            found = snapshot.children(Kind.DELTA, locator.parent, after=after)
            place = next(
                (
                    one
                    for one, there in found
                    if isinstance(there, Delta) and replace(there, position=value.position) == value and one not in puts
                ),
                locator,
            )
        puts[place] = value
    return replace(changes, puts=puts)
