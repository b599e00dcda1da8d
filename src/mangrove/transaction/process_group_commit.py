"""Group commit across processes: transactions that lost a race are published as intents.

    1. try the next version directly; without a concurrent commit nothing else happens
    2. after a lost race write an intent: the transaction as one object under a new name
    3. the first of the waiting writers commits all committable intents as the next version
    4. the others read the next version, which lists the transactions that it contains

`intents.py` says who may commit an intent, and why it is committed once or not at all.
`machine_group_commit.py` groups the processes of one machine, without requests.
"""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from itertools import islice
from typing import Final

from mangrove.effects import Effects
from mangrove.errors import MangroveError, StorageError
from mangrove.metastore import (
    Changes,
    CommitResult,
    Isolation,
    Metastore,
    MetastoreSnapshot,
    RowChangeDetector,
    assume_rows_changed,
)
from mangrove.storage.port import ObjectInfo
from mangrove.transaction.group_commit import GroupCommitRequest
from mangrove.transaction.intents import (
    BYTES_MAX,
    INTENTS_FOLDER,
    VERSIONS_MAX,
    ReadVersions,
    TrackedIntent,
    build_intent,
    build_result,
    build_unknown_outcome_error,
    commit_members,
    decode_or_skip,
    encode_intent,
    is_publishable,
    select_members,
)

__all__ = ["ProcessGroupCommitter"]

_INTENTS_MAX: Final = 64
_LISTED_MAX: Final = 1000
_ROUNDS_MAX: Final = 4 * VERSIONS_MAX
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


class ProcessGroupCommitter:
    """Commits through a metastore, together with other processes if they compete.

    One thread at a time: a `GroupCommitter` is in front of it.
    """

    def __init__(self, effects: Effects, metastore: Metastore, *, is_contended: bool = False) -> None:
        """Take the effects and the metastore; with `is_contended` the first commit publishes an intent at once."""
        self._effects = effects
        self._store = effects.store
        self._metastore = metastore
        self._versions: ReadVersions | None = None
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
        if changes.is_empty or not base.settings.has_intents or not is_publishable(changes, self._effects.now_millis()):
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
        intent = replace(build_intent(base, changes, isolation), writer_id=self._writer_id)
        data = encode_intent(intent)
        if len(data) <= BYTES_MAX:
            committed = self._commit_published(TrackedIntent(intent), data, base)
            if committed is not None:
                return committed
        return metastore.commit(base, changes, isolation, have_rows_changed)

    def _commit_unpublished(
        self, base: MetastoreSnapshot, changes: Changes, isolation: Isolation
    ) -> CommitResult | None:
        """Try the next version once without an intent; after a contended commit with the intents of others.

        Return None if the version is taken.
        """
        own = TrackedIntent(build_intent(base, changes, isolation))
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
        return None if own.commit is None else build_result(changes, own.commit)

    def _gather_intents(self, versions: ReadVersions) -> dict[str, TrackedIntent]:
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

    def _commit_published(self, own: TrackedIntent, data: bytes, base: MetastoreSnapshot) -> CommitResult | None:
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
            raise build_unknown_outcome_error(intent, error) from error
        if committed is None:
            self._delete([path])
        return committed

    def _publish_and_wait(
        self, own: TrackedIntent, path: str, data: bytes, versions: ReadVersions
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
                return build_result(own.intent.changes, own.commit)
            if own.is_dead:
                return None
            # While others commit groups, somebody lists intents.
            versions_missed += has_next and not versions.has_group_after(versions.newest.version - 1)
        raise StorageError(f"it was not decided after {_ROUNDS_MAX} rounds")

    def _wait_for_leader(
        self, versions: ReadVersions, path: str, listed: Mapping[str, int] | None, versions_missed: int
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
        self, own: TrackedIntent, path: str, versions: ReadVersions, listed: Mapping[str, int] | None
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
        self, versions: ReadVersions, listed: Mapping[str, int], own: str = ""
    ) -> dict[str, TrackedIntent]:
        """Return the listed intents of others whose base versions are known or a few versions older."""
        committed = versions.list_transaction_ids()
        self._obsolete += [one for one in listed if one != own and _is_named_after(one, committed)]
        recent = [one for one in _select_recent(versions, listed) if one != own]
        versions.load_back_to(min((listed[one] for one in recent), default=versions.newest.version))
        paths = [one for one in recent if versions.has(listed[one])][:_INTENTS_MAX]
        found = zip(paths, self._store.read_many(paths) if paths else (), strict=True)
        intents = {path: decode_or_skip(data, path) for path, data in found}
        return {path: TrackedIntent(intent) for path, intent in intents.items() if intent is not None}

    def _lead(
        self, own: TrackedIntent, versions: ReadVersions, others: Mapping[str, TrackedIntent], *published: str
    ) -> CommitResult | None:
        """Try to commit the intent with all that are compatible as the next version; return None if it is taken."""
        request = GroupCommitRequest(versions.newest, own.intent.changes, own.intent.isolation)
        members, obsolete = select_members(request, versions, others, self._effects.now_millis())
        committed = commit_members(self._metastore, [request, *members.values()], self._effects.new_id)
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

    def _list_intents(self, versions: ReadVersions) -> dict[str, int]:
        """Return the base versions of the intents by path, oldest intent first; delete those that are too old."""
        oldest = versions.newest.version - VERSIONS_MAX + 1
        bases = {
            entry.path: int(match[1])
            for entry in islice(self._store.list(INTENTS_FOLDER), _LISTED_MAX)
            if isinstance(entry, ObjectInfo)
            and entry.size <= BYTES_MAX
            and (match := _NAME.fullmatch(entry.path)) is not None
        }
        self._delete([path for path, base in bases.items() if base < oldest])
        return {path: base for path, base in bases.items() if base >= oldest and path not in self._obsolete}

    def _measure_request(self, began_at_millis: int) -> None:
        """Remember how long a request took: the unit of all pauses."""
        seconds = (self._effects.now_millis() - began_at_millis) / 1000
        self._request_seconds = min(_PAUSE_SECONDS_MAX, max(_PAUSE_SECONDS_MIN, seconds))

    def _remember(self, base: MetastoreSnapshot) -> ReadVersions:
        if self._versions is None:
            self._versions = ReadVersions(self._metastore, base)
        self._versions.add(base)
        return self._versions

    def _delete(self, paths: Sequence[str]) -> None:
        try:
            if paths:
                self._store.delete_many(paths)
        except StorageError:
            return  # leaders skip them, and vacuum deletes them


def _select_recent(versions: ReadVersions, listed: Mapping[str, int]) -> list[str]:
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
