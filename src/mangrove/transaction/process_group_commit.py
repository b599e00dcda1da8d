"""Group commit across processes: transactions that lost a race are published as intents.

    1. try the next version directly; without a concurrent commit nothing else happens
    2. after a lost race write an intent: the transaction as one object under a new name
    3. the first of the waiting writers commits all committable intents as the next version
    4. the others read the next version, which lists the transactions that it contains

An intent may be committed only by a writer that has read every version after the base of
the intent and found neither its transactions nor any write that concerns them, and only
into the next 48 versions. An intent for which this fails once is dead for everybody, so
its owner may then commit alone and report a conflict. Decision 63 has the argument.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
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
    split_commit_result,
)
from mangrove.transaction.shared_transactions import SharedWork, decode_work, encode_work

__all__ = [
    "INTENTS_FOLDER",
    "VERSIONS_MAX",
    "Intent",
    "ProcessGroupCommitter",
    "decode_intent",
    "encode_intent",
    "find_damaged_intents",
    "is_intent",
]

INTENTS_FOLDER: Final = "data/intents/"
VERSIONS_MAX: Final = 48
"""The number of versions after its base into which an intent may be committed."""
_FORM: Final = 2
_BYTES_MAX: Final = 256 * 1024
"""A group of 64 threads that append a few rows each fits."""
_OBJECTS_MAX: Final = 256
_INTENTS_MAX: Final = 64
_LISTED_MAX: Final = 1000
_TRANSACTIONS_MAX: Final = 256
_ROUNDS_MAX: Final = 4 * VERSIONS_MAX
_REMAINING_MILLIS_MIN: Final = 60_000
_BACK_MAX: Final = 4
"""A leader reads so many versions before the ones that it knows, to commit intents that are based on them."""
_LEADS_MAX: Final = 4
_PAUSE_SECONDS_MIN: Final = 0.005
_PAUSE_SECONDS_MAX: Final = 1.0
_POLLS_MAX: Final = 8
_POLLS_MORE: Final = 4
"""How many polls more than its rank a writer makes before it leads."""
_PAUSES: Final = 4
"""About as many requests follow the put of an intent until its leader has created the version."""
_VERSIONS_MISSED_MAX: Final = 2
_DIRECT_ATTEMPTS_MAX: Final = 3
"""A writer publishes an intent after it has lost so many races for one transaction."""
_FOLLOWERS_MIN: Final = 2
"""Groups of fewer followers are not worth the requests of their leader."""
_LEADS_SMALL_MAX: Final = 4
"""A leader of this many small groups in a row tries the next version directly again."""
_COMMITS_PER_LISTING: Final = 32
"""A writer that never loses a race looks for intents every so many commits: the others may never win one."""
_LISTINGS_MORE_MAX: Final = 3
_PAUSES_BEFORE_LISTING: Final = 2.2
"""A leader pauses for so many requests: the others read its last version and write their next intents."""
_ROUNDS_EXPECTED: Final = 2
"""A leader waits for the writers of so many groups before."""
_DELETES_MIN: Final = 16
"""A leader deletes so many intents with one request."""
_NAME: Final = re.compile(rf"{INTENTS_FOLDER}\d{{15}}-(\d{{1,20}})-([0-9a-f-]{{36}})\.intent")


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
class _TrackedIntent:
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

    def catch_up(self, tracked: _TrackedIntent, count: int = 1) -> None:
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

    def load_back_to(self, version: int) -> None:
        """Read the versions from that one on that were not read, unless they have expired."""
        for number in range(min(self._versions) - 1, version - 1, -1):
            try:
                self._insert(self._metastore.at_version(number))
            except NotFoundError:
                return

    def compare(self, tracked: _TrackedIntent) -> _TrackedIntent:
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
            or base.snapshot.commit.transaction_id != intent.base_transaction_id
            or self.newest.version >= intent.base_version + VERSIONS_MAX
            or self._metastore.is_affected(
                base.snapshot, [one.snapshot for one in later], intent.changes, intent.isolation
            )
        )
        return tracked

    def find_rank(self, tracked: _TrackedIntent) -> int:
        """Return the place of a committed intent in its version."""
        assert tracked.commit is not None
        ids = self._versions[tracked.commit.version].transaction_ids
        return next(place for place, one in enumerate(ids) if one in tracked.intent.transaction_ids)


class ProcessGroupCommitter:
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
        self._rank: int | None = None
        """The place of the last commit in its version: 0 if this process led, None if it is unknown."""
        self._writer_id = ""
        self._writers: dict[str, int] = {}
        """The writers of the last groups that this process led, and for how many groups more to expect each."""
        self._leads_small = 0
        self._direct_commits = 0
        self._obsolete: list[str] = []
        """Intents that are in a version; they are deleted together."""
        self._request_seconds = _PAUSE_SECONDS_MIN

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
        for _ in range(_DIRECT_ATTEMPTS_MAX):
            if self._is_contended and self._rank != 0:
                break
            committed = self._commit_unpublished(base, changes, isolation)
            if committed is not None:
                return committed
            is_grouped = self._remember(base).has_group_after(base.version)
            base, changes = metastore.rebase(base, changes, isolation, have_rows_changed)
            if is_grouped:
                break
        self._is_contended = True
        self._writer_id = self._writer_id or self._effects.new_id()
        intent = replace(_build_intent(base, changes, isolation), writer_id=self._writer_id)
        data = encode_intent(intent)
        if len(data) <= _BYTES_MAX:
            committed = self._commit_published(_TrackedIntent(intent), data, base)
            if committed is not None:
                return committed
        return metastore.commit(base, changes, isolation, have_rows_changed)

    def _is_publishable(self, changes: Changes) -> bool:
        limit_millis = changes.commit_before_millis
        has_time = limit_millis is None or limit_millis - self._effects.now_millis() >= _REMAINING_MILLIS_MIN
        is_small = len(changes.puts) + len(changes.deletes) <= _OBJECTS_MAX
        return has_time and is_small and not changes.resets_clock and not must_commit_alone(changes)

    def _commit_unpublished(
        self, base: MetastoreSnapshot, changes: Changes, isolation: Isolation
    ) -> CommitResult | None:
        """Try the next version once without an intent; after a contended commit with the intents of others.

        Return None if the version is taken.
        """
        own = _TrackedIntent(_build_intent(base, changes, isolation))
        self._direct_commits += 1
        committed, versions = None, self._remember(base)
        if not self._is_contended and not _is_listing_due(self._direct_commits):
            committed = self._metastore.commit_next(base, changes)
        elif versions.compare(own).is_committable:
            committed = self._lead(own, versions, self._gather_intents(versions))
        if committed is not None:
            versions.add(committed.snapshot)
            return committed
        self._rank = None
        # A delayed create may have succeeded although a later one was refused.
        versions.catch_up(own)
        return None if own.commit is None else CommitResult(own.commit, _locate_deltas(changes, own.commit))

    def _gather_intents(self, versions: _ReadVersions) -> dict[str, _TrackedIntent]:
        """Return the intents of others; if there are fewer than writers, some are probably on their way."""
        if len(self._writers) >= _FOLLOWERS_MIN:
            self._effects.pause(_PAUSES_BEFORE_LISTING * self._request_seconds)
        began_at_millis = self._effects.now_millis()
        listed = self._list_intents(versions)
        self._measure_request(began_at_millis)
        for _ in range(_LISTINGS_MORE_MAX):
            if len(_select_recent(versions, listed)) >= len(self._writers):
                break
            self._effects.pause(self._request_seconds / 2)
            listed = self._list_intents(versions)
        return self._read_intents(versions, listed)

    def _commit_published(self, own: _TrackedIntent, data: bytes, base: MetastoreSnapshot) -> CommitResult | None:
        """Publish the intent, and return the commit result; None if the intent is dead.

        From the put on others may commit the transaction, so no error means that it failed.
        """
        # The oldest intent leads. A wrong clock changes only the order.
        intent, when = own.intent, f"{max(0, self._effects.now_millis()):015d}"
        path = f"{INTENTS_FOLDER}{when}-{intent.base_version}-{min(intent.transaction_ids)}.intent"
        if _NAME.fullmatch(path) is None:
            path = f"{INTENTS_FOLDER}{when}-{intent.base_version}-{self._effects.new_id()}.intent"
        try:
            committed = self._publish_and_wait(own, path, data, self._remember(base))
        except MangroveError as error:
            raise StorageError(
                f"transaction {intent.changes.transaction_id} could not be followed to its end ({error}); other "
                "processes may commit it. It is unknown whether it is committed; check the history before you retry"
            ) from error
        if committed is None:
            self._delete([path])
        return committed

    def _publish_and_wait(
        self, own: _TrackedIntent, path: str, data: bytes, versions: _ReadVersions
    ) -> CommitResult | None:
        if not versions.compare(own).is_committable:
            return None
        began_at_millis = self._effects.now_millis()
        self._store.put(path, data)
        self._measure_request(began_at_millis)
        # While another writer leads there is time to delete what this one led before.
        self._delete_obsolete()
        versions_missed = 0
        for _ in range(_ROUNDS_MAX):
            listed = self._list_intents(versions) if self._rank is None else None
            if listed is not None and path not in listed:
                versions.catch_up(own)  # it is probably committed
            has_next = own.is_committable and self._wait_for_leader(versions, path, listed, versions_missed)
            if versions.compare(own).is_committable and not has_next:
                committed = self._lead_repeatedly(own, path, versions, listed)
                if committed is not None:
                    return committed
            if own.commit is not None:
                self._rank = max(1, versions.find_rank(own))
                return CommitResult(own.commit, _locate_deltas(own.intent.changes, own.commit))
            if own.is_dead:
                return None
            # While others commit groups, somebody lists intents.
            versions_missed += has_next and not versions.has_group_after(versions.newest.version - 1)
        raise StorageError(f"it was not decided after {_ROUNDS_MAX} rounds")

    def _wait_for_leader(
        self, versions: _ReadVersions, path: str, listed: Mapping[str, int] | None, versions_missed: int
    ) -> bool:
        """Return whether another writer creates the next version; the higher its rank, the longer a writer waits.

        The rank is the place in the last version, or in the listing if this writer was in none. A
        writer whose intent is missing in several versions does not wait: nobody may be listing intents.
        """
        if listed is not None:
            pauses, polls = 1, [*listed].index(path) if path in listed else 0
        else:
            pauses = _PAUSES if not versions_missed else _PAUSES - 1
            polls = (self._rank or 0) + _POLLS_MORE if versions_missed < _VERSIONS_MISSED_MAX else 0
        for _ in range(pauses if polls else 0):
            self._effects.pause(self._request_seconds)
        for _ in range(min(polls, _POLLS_MAX)):
            if versions.load_later(1):
                return True
            self._effects.pause(self._request_seconds / 2)
        return False

    def _lead_repeatedly(
        self, own: _TrackedIntent, path: str, versions: _ReadVersions, listed: Mapping[str, int] | None
    ) -> CommitResult | None:
        """Try to commit the intents, again at once if the version is taken: a slow writer would lose always."""
        others = self._read_intents(versions, self._list_intents(versions) if listed is None else listed, path)
        for _ in range(_LEADS_MAX):
            committed = self._lead(own, versions, others, path)
            if committed is not None:
                return committed
            versions.catch_up(own, 2)
            if not own.is_committable:
                return None
        return None

    def _read_intents(
        self, versions: _ReadVersions, listed: Mapping[str, int], own: str = ""
    ) -> dict[str, _TrackedIntent]:
        """Return the listed intents of others whose base versions are known or a few versions older."""
        committed = versions.list_transaction_ids()
        self._obsolete += [one for one in listed if one != own and _is_named_after(one, committed)]
        recent = [one for one in _select_recent(versions, listed) if one != own]
        versions.load_back_to(min((listed[one] for one in recent), default=versions.newest.version))
        paths = [one for one in recent if versions.has(listed[one])][:_INTENTS_MAX]
        found = zip(paths, self._store.read_many(paths) if paths else (), strict=True)
        intents = {path: _decode_or_skip(data, path) for path, data in found}
        return {path: _TrackedIntent(intent) for path, intent in intents.items() if intent is not None}

    def _lead(
        self, own: _TrackedIntent, versions: _ReadVersions, others: Mapping[str, _TrackedIntent], *published: str
    ) -> CommitResult | None:
        """Try to commit the intent with all that are compatible as the next version; return None if it is taken."""
        request = GroupCommitRequest(versions.newest, own.intent.changes, own.intent.isolation)
        members, obsolete = self._select_members(request, versions, others)
        committed = self._commit_members([request, *members.values()])
        if committed is None:
            return None
        versions.add(committed.snapshot)
        self._note_lead({others[path].intent.writer_id for path in members})
        self._obsolete += [*published, *members, *obsolete]
        if len(self._obsolete) >= _DELETES_MIN or not self._is_contended:
            self._delete_obsolete()
        return committed

    def _delete_obsolete(self) -> None:
        self._delete(self._obsolete)
        self._obsolete = []

    def _note_lead(self, followers: Set[str]) -> None:
        """Remember the group; lead the next one too if it is worth its listing and reads."""
        self._rank = 0
        self._writers = {
            **{writer: rounds - 1 for writer, rounds in self._writers.items() if rounds > 1},
            **dict.fromkeys(followers, _ROUNDS_EXPECTED),
        }
        is_small = len(followers) < _FOLLOWERS_MIN
        self._leads_small = self._leads_small + 1 if is_small else 0
        if self._is_contended and self._leads_small >= _LEADS_SMALL_MAX:
            self._is_contended, self._direct_commits, self._writers = False, 0, {}
        self._is_contended = self._is_contended or not is_small

    def _select_members(
        self, own: GroupCommitRequest, versions: _ReadVersions, others: Mapping[str, _TrackedIntent]
    ) -> tuple[dict[str, GroupCommitRequest], list[str]]:
        """Return the intents to commit after the own transaction, and those that can never be committed, by path."""
        candidates: dict[str, GroupCommitRequest] = {}
        obsolete: list[str] = []
        taken = {record.id for record in list_transactions(own.changes)}
        now_millis = self._effects.now_millis()
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

    def _commit_members(self, members: Sequence[GroupCommitRequest]) -> CommitResult | None:
        """Try to commit the members as the next version, and return the result of the first one."""
        newest = members[0].base
        # Each on its own: the deltas of one may have to keep positions of a partition to which others append.
        moved = [replace(one, changes=assign_positions(one.changes, newest)) for one in members]
        if len(moved) > 1:
            try:
                committed = self._metastore.commit_next(newest, merge_changes(moved, self._effects.new_id()))
                return None if committed is None else split_commit_result(moved, committed)[0]
            except StorageError:
                raise
            except MangroveError:
                pass  # one of the others may be the cause
        return self._metastore.commit_next(newest, moved[0].changes)

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
        self._delete([path for path, base in bases.items() if base < oldest])
        return {path: base for path, base in bases.items() if base >= oldest and path not in self._obsolete}

    def _measure_request(self, began_at_millis: int) -> None:
        """Remember how long a request took: the unit of all pauses."""
        seconds = (self._effects.now_millis() - began_at_millis) / 1000
        self._request_seconds = min(_PAUSE_SECONDS_MAX, max(_PAUSE_SECONDS_MIN, seconds))

    def _remember(self, base: MetastoreSnapshot) -> _ReadVersions:
        if self._versions is None:
            self._versions = _ReadVersions(self._metastore, base)
        self._versions.add(base)
        return self._versions

    def _delete(self, paths: Sequence[str]) -> None:
        try:
            if paths:
                self._store.delete_many(paths)
        except StorageError:
            return  # leaders skip them, and vacuum deletes them


def _select_recent(versions: _ReadVersions, listed: Mapping[str, int]) -> list[str]:
    """Return the paths of the intents whose base versions are known or a few versions older, without committed ones.

    The name of an intent contains one of its transaction ids, so that committed ones need not be read.
    """
    oldest, committed = versions.newest.version - _BACK_MAX, versions.list_transaction_ids()
    return [
        path
        for path, base in listed.items()
        if (base >= oldest or versions.has(base)) and not _is_named_after(path, committed)
    ]


def _is_named_after(path: str, transaction_ids: Set[str]) -> bool:
    match = _NAME.fullmatch(path)
    return match is not None and match[2] in transaction_ids


def _is_listing_due(commits: int) -> bool:
    """Return whether a writer looks for intents before a direct commit; often at first, as others may begin too.

    >>> [commit for commit in range(1, 100) if _is_listing_due(commit)]
    [4, 8, 16, 32, 64, 96]
    """
    return commits % _COMMITS_PER_LISTING == 0 or commits in (4, 8, 16)


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
