"""Group commit across processes: transactions that lost a race are published as intents.

    1. try the next version directly; without a concurrent commit nothing else happens
    2. after a lost race write an intent: the transaction as one object under a new name
    3. the first of the waiting writers commits all committable intents as the next version
    4. the others read the next version, which lists the transactions that it contains

An intent may be committed only by a writer that has read every version after the base of
the intent and found neither its transactions nor any write that concerns them, and only
into the next 32 versions. An intent for which this fails once is dead for everybody, so
its owner may then commit alone and report a conflict. Decision 63 has the argument.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from mangrove.effects import Effects
from mangrove.errors import FormatError, InvalidInputError, MangroveError, NotFoundError, StorageError
from mangrove.metastore import (
    Changes,
    CommitResult,
    Isolation,
    Metastore,
    MetastoreSnapshot,
    RowChangeDetector,
    assume_rows_changed,
)
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
)
from mangrove.transaction.shared import SharedWork, decode_work, encode_work

__all__ = [
    "INTENTS_FOLDER",
    "VERSIONS_MAX",
    "Intent",
    "IntentCommitter",
    "decode_intent",
    "encode_intent",
    "find_damaged_intents",
    "is_intent",
]

INTENTS_FOLDER: Final = "data/intents/"
VERSIONS_MAX: Final = 32
"""An intent may be committed into the next so many versions after its base."""
_FORM: Final = 1
_BYTES_MAX: Final = 64 * 1024
_OBJECTS_MAX: Final = 256
_INTENTS_MAX: Final = 64
_LISTED_MAX: Final = 1000
_TRANSACTIONS_MAX: Final = 256
_ROUNDS_MAX: Final = 4 * VERSIONS_MAX
_REMAINING_MILLIS_MIN: Final = 60_000
_BACK_MAX: Final = 4
"""A leader reads so many versions before the ones that it knows, to commit intents that are based on them."""
_LEADS_MAX: Final = 4
_PAUSES_MAX: Final = 8
_PAUSE_SECONDS_MIN: Final = 0.005
_PAUSE_SECONDS_MAX: Final = 1.0
_NAME: Final = re.compile(rf"{INTENTS_FOLDER}\d{{15}}-(\d{{1,20}})-[0-9a-f-]{{36}}\.intent")


@dataclass(frozen=True, slots=True)
class Intent:
    """A transaction that any process may commit."""

    base_version: int
    base_transaction_id: str
    """The transaction of the base version, which tells two lakehouses or histories apart."""
    changes: Changes
    isolation: Isolation
    transaction_ids: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        if type(self.base_version) is not int or self.base_version < 0:
            raise InvalidInputError(f"invalid base version {self.base_version!r} of an intent")
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
        return Intent(head["base"], head["base_transaction"], changes, work.isolation)
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


@dataclass(frozen=True, slots=True)
class _ReadVersion:
    """A version that this process has read, with the ids of its transactions."""

    snapshot: MetastoreSnapshot
    transaction_ids: frozenset[str]


class _ReadVersions:
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
        self._versions = {
            number: one for number, one in self._versions.items() if number >= snapshot.version - VERSIONS_MAX
        }
        self.newest = snapshot

    def _insert(self, snapshot: MetastoreSnapshot) -> None:
        ids = frozenset(record.id for record in snapshot.commit.transactions)
        self._versions[snapshot.version] = _ReadVersion(snapshot, ids)

    def load_later(self, count: int) -> bool:
        """Read up to `count` versions after the newest one; return whether there may be more."""
        found = self._metastore.load_later(self.newest, count)
        for snapshot in found:
            self.add(snapshot)
        return len(found) == count

    def catch_up(self, intent: Intent, count: int = 1) -> None:
        """Read later versions, `count` at a time, until the outcome of the intent is known or there is none."""
        while self.is_committable(intent) and self.load_later(count):
            pass

    def has(self, version: int) -> bool:
        """Return whether the version was read."""
        return version in self._versions

    def load_back_to(self, version: int) -> None:
        """Read the versions from that one on that were not read, unless they have expired."""
        for number in range(min(self._versions) - 1, version - 1, -1):
            try:
                self._insert(self._metastore.at_version(number))
            except NotFoundError:
                return

    def find_commit(self, intent: Intent) -> MetastoreSnapshot | None:
        """Return the version after its base that contains the intent, or None."""
        for one in self._list_after(intent.base_version):
            if intent.transaction_ids & one.transaction_ids:
                return one.snapshot
        return None

    def is_committable(self, intent: Intent) -> bool:
        """Return whether the intent, whose base was read, may be committed next; once false, it stays false."""
        base = self._versions.get(intent.base_version)
        return (
            base is not None
            and base.snapshot.commit.transaction_id == intent.base_transaction_id
            and self.newest.version < intent.base_version + VERSIONS_MAX
            and self.find_commit(intent) is None
            and not self._metastore.is_affected(
                base.snapshot,
                [one.snapshot for one in self._list_after(intent.base_version)],
                intent.changes,
                intent.isolation,
            )
        )

    def _list_after(self, version: int) -> list[_ReadVersion]:
        return [self._versions[number] for number in range(version + 1, self.newest.version + 1)]


class IntentCommitter:
    """Commits through a metastore, together with other processes if they compete.

    One thread at a time: a `GroupCommitter` is in front of it.
    """

    def __init__(self, effects: Effects, metastore: Metastore, *, is_contended: bool = False) -> None:
        """Take the effects and the metastore; with `is_contended` the first commit publishes an intent at once."""
        self._effects = effects
        self._store = effects.store
        self._metastore = metastore
        self._versions: _ReadVersions | None = None
        self._is_contended = is_contended
        """Whether the last commit met others, so that a direct attempt would probably lose."""

    def rebase(
        self,
        base: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        have_rows_changed: RowChangeDetector = assume_rows_changed,
    ) -> tuple[MetastoreSnapshot, Changes]:
        """Return the newest version that is in memory, and the changes rebased on it, or raise `ConflictError`."""
        return self._metastore.rebase(base, changes, isolation, have_rows_changed)

    def commit(
        self,
        base: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        have_rows_changed: RowChangeDetector = assume_rows_changed,
    ) -> CommitResult:
        """Commit the changes as a version, or as a part of one; raise `ConflictError` if nothing was committed."""
        metastore = self._metastore
        if changes.is_empty or not base.settings.has_intents or not self._is_publishable(changes):
            return metastore.commit(base, changes, isolation, have_rows_changed)
        if not self._is_contended:
            committed = metastore.commit_next(base, changes)
            if committed is not None:
                return committed
            self._is_contended = True
            # A delayed create may have succeeded although a later one was refused.
            intent, versions = _build_intent(base, changes, isolation), self._remember(base)
            versions.catch_up(intent)
            found = versions.find_commit(intent)
            if found is not None:
                return CommitResult(found, _locate_deltas(changes, found))
            base, changes = metastore.rebase(base, changes, isolation, have_rows_changed)
        intent = _build_intent(base, changes, isolation)
        data = encode_intent(intent)
        if len(data) <= _BYTES_MAX:
            committed = self._commit_published(intent, data, base)
            if committed is not None:
                return committed
        return metastore.commit(base, changes, isolation, have_rows_changed)

    def _is_publishable(self, changes: Changes) -> bool:
        limit_millis = changes.commit_before_millis
        has_time = limit_millis is None or limit_millis - self._effects.now_millis() >= _REMAINING_MILLIS_MIN
        is_small = len(changes.puts) + len(changes.deletes) <= _OBJECTS_MAX
        return has_time and is_small and not changes.resets_clock and not must_commit_alone(changes)

    def _commit_published(self, intent: Intent, data: bytes, base: MetastoreSnapshot) -> CommitResult | None:
        """Publish the intent, and return the commit result; None if the intent is dead.

        From the put on others may commit the transaction, so no error means that it failed.
        """
        # The oldest intent leads. A wrong clock changes only the order.
        when = f"{max(0, self._effects.now_millis()):015d}"
        path = f"{INTENTS_FOLDER}{when}-{intent.base_version}-{self._effects.new_id()}.intent"
        try:
            committed = self._publish_and_wait(intent, path, data, self._remember(base))
        except MangroveError as error:
            raise StorageError(
                f"transaction {intent.changes.transaction_id} could not be followed to its end ({error}); other "
                "processes may commit it. It is unknown whether it is committed; check the history before you retry"
            ) from error
        if committed is None:
            self._delete([path])
        return committed

    def _publish_and_wait(self, intent: Intent, path: str, data: bytes, versions: _ReadVersions) -> CommitResult | None:
        if not versions.is_committable(intent):
            return None
        began_at_millis = self._effects.now_millis()
        self._store.put(path, data)
        read: dict[str, Intent | None] = {path: intent}
        pause_seconds = 0.0
        for _ in range(_ROUNDS_MAX):
            listed = self._list_intents(versions)
            # A leader makes two more requests, as many as these.
            elapsed_seconds = (self._effects.now_millis() - began_at_millis) / 1000
            pause_seconds = pause_seconds or min(_PAUSE_SECONDS_MAX, max(_PAUSE_SECONDS_MIN, elapsed_seconds))
            rank = [*listed].index(path) if path in listed else 0
            has_next = self._has_next(versions, rank, pause_seconds)
            if has_next or path not in listed:
                versions.catch_up(intent)
            if not has_next and versions.is_committable(intent):
                self._lead_repeatedly(intent, path, versions, listed, read)
            found = versions.find_commit(intent)
            if found is not None:
                return CommitResult(found, _locate_deltas(intent.changes, found))
            if not versions.is_committable(intent):
                return None
        raise StorageError(f"it was not decided after {_ROUNDS_MAX} rounds")

    def _has_next(self, versions: _ReadVersions, rank: int, pause_seconds: float) -> bool:
        """Wait for the next version; the later its place in the order, the longer a writer waits before it leads."""
        for _ in range(min(rank, _PAUSES_MAX)):
            self._effects.pause(pause_seconds)
            if versions.load_later(1):
                return True
        return False

    def _lead_repeatedly(
        self,
        intent: Intent,
        path: str,
        versions: _ReadVersions,
        listed: Mapping[str, int],
        read: dict[str, Intent | None],
    ) -> None:
        """Try to commit the listed intents, again at once if the version is taken: a slow writer would lose always."""
        oldest = versions.newest.version - _BACK_MAX
        recent = [one for one, base in listed.items() if one != path and (base >= oldest or versions.has(base))]
        versions.load_back_to(min((listed[one] for one in recent), default=versions.newest.version))
        others = [one for one in recent if versions.has(listed[one])][:_INTENTS_MAX]
        unread = [one for one in others if one not in read]
        for one, data in zip(unread, self._store.read_many(unread) if unread else (), strict=True):
            read[one] = _decode_or_skip(data, one)
        for _ in range(_LEADS_MAX):
            if self._lead(intent, path, versions, {one: read[one] for one in others}):
                return
            versions.catch_up(intent, 2)
            if not versions.is_committable(intent):
                return

    def _lead(self, intent: Intent, path: str, versions: _ReadVersions, others: Mapping[str, Intent | None]) -> bool:
        """Try to commit the intent with all that are compatible as the next version; return whether it was free."""
        own = GroupCommitRequest(versions.newest, intent.changes, intent.isolation)
        members, obsolete = self._select_members(own, versions, others)
        committed = self._commit_members([own, *members.values()])
        if committed is None:
            return False
        versions.add(committed.snapshot)
        self._is_contended = bool(others)
        self._delete([path, *members, *obsolete])
        return True

    def _select_members(
        self, own: GroupCommitRequest, versions: _ReadVersions, others: Mapping[str, Intent | None]
    ) -> tuple[dict[str, GroupCommitRequest], list[str]]:
        """Return the intents to commit after the own transaction, and those that can never be committed, by path."""
        candidates: dict[str, GroupCommitRequest] = {}
        obsolete: list[str] = []
        taken = {record.id for record in list_transactions(own.changes)}
        now_millis = self._effects.now_millis()
        for path, intent in others.items():
            if intent is None:
                continue
            limit_millis = intent.changes.commit_before_millis
            if not versions.is_committable(intent):
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

    def _commit_members(self, members: Sequence[GroupCommitRequest]) -> CommitResult | None:
        """Try to commit the members as the next version."""
        own, newest = members[0], members[0].base
        if len(members) > 1:
            try:
                merged = merge_changes(members, self._effects.new_id())
                return self._metastore.commit_next(newest, assign_positions(merged, newest))
            except StorageError:
                raise
            except MangroveError:
                pass  # one of the others may be the cause
        return self._metastore.commit_next(newest, assign_positions(own.changes, newest))

    def _list_intents(self, versions: _ReadVersions) -> dict[str, int]:
        """Return the base versions of the intents by path, oldest intent first; delete those that are too old."""
        oldest = versions.newest.version - VERSIONS_MAX + 1
        bases = {
            entry.path: int(match[1])
            for entry in islice(self._store.list(INTENTS_FOLDER), _LISTED_MAX)
            if isinstance(entry, ObjectInfo)
            and entry.size <= _BYTES_MAX
            and (match := _NAME.fullmatch(entry.path)) is not None
        }
        outdated = [path for path, base in bases.items() if base < oldest]
        if outdated:
            self._delete(outdated)
        return {path: base for path, base in bases.items() if base >= oldest}

    def _remember(self, base: MetastoreSnapshot) -> _ReadVersions:
        if self._versions is None:
            self._versions = _ReadVersions(self._metastore, base)
        self._versions.add(base)
        return self._versions

    def _delete(self, paths: Sequence[str]) -> None:
        try:
            self._store.delete_many(paths)
        except StorageError:
            return  # leaders skip them, and vacuum deletes them


def _build_intent(base: MetastoreSnapshot, changes: Changes, isolation: Isolation) -> Intent:
    return Intent(base.version, base.commit.transaction_id, changes, isolation)


def _decode_or_skip(data: bytes | None, path: str) -> Intent | None:
    try:
        return None if data is None else decode_intent(data, path)
    except FormatError:
        return None  # `check` reports it


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
