"""The metastore of the DeltaCAT layout."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from mangrove.layouts.deltacat.commit import (
    check_not_expired,
    commit_changes,
    commit_first,
    commit_next,
    rebase_on_newest,
)
from mangrove.layouts.deltacat.conflict_detection import is_affected
from mangrove.layouts.deltacat.files import DeltaCatFiles
from mangrove.layouts.deltacat.foreign_catalog import detect_foreign_revision
from mangrove.layouts.deltacat.foreign_commits import ForeignCatalog, import_foreign_commits, list_foreign_commits
from mangrove.layouts.deltacat.guards import (
    Guard,
    decode_guard,
    encode_guard,
    encode_hint,
    find_newest_guard,
    list_taken_versions,
    list_versions_since,
    read_guard,
    read_guards,
    read_live_guards,
    read_retired_guards,
)
from mangrove.layouts.deltacat.maintenance.check import find_problems
from mangrove.layouts.deltacat.maintenance.diff import diff_snapshots, scan_objects
from mangrove.layouts.deltacat.maintenance.expiry import expire_versions, repair_log_and_hint
from mangrove.layouts.deltacat.maintenance.reachability import deletion_rank, is_layout_file, list_reachable_files
from mangrove.layouts.deltacat.maintenance.rollback import roll_back
from mangrove.layouts.deltacat.object_codec import list_unmapped_fields
from mangrove.layouts.deltacat.object_history import ObjectRevision, list_revisions
from mangrove.layouts.deltacat.paths import HINT_PATH, guard_path
from mangrove.layouts.deltacat.revision import SEED, DeltaCatRevision
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot
from mangrove.layouts.recent_versions import RecentVersions
from mangrove.metastore import (
    Changes,
    Commit,
    CommitResult,
    Difference,
    Isolation,
    MetastoreSnapshot,
    Problem,
    RetiredVersion,
    RowChangeDetector,
    assume_rows_changed,
)
from mangrove.model.locators import Kind, Locator
from mangrove.model.objects import Object
from mangrove.model.settings import LakehouseSettings
from mangrove.model.version_search import find_newest_version, find_version_at
from mangrove.storage.port import Store

__all__ = ["DeltaCatMetastore", "create_catalog", "has_catalog", "open_catalog"]

_HISTORY_PAGE = 32
_LOOK_EVERY_MILLIS = 60_000


class DeltaCatMetastore:
    """All versions of one catalog and their maintenance; thread-safe."""

    def __init__(self, effects: Effects, files: DeltaCatFiles, known: Guard | None) -> None:
        """Take the newest known guard, or None for a catalog of another program without guards."""
        self._effects = effects
        self._files = files
        self._foreign = ForeignCatalog(effects, files)
        self._recent = RecentVersions(None if known is None else DeltaCatSnapshot(files, known), self._read_live)
        self._looked_at_millis: int | None = None

    @property
    def revision(self) -> DeltaCatRevision:
        """The format revision of the catalog."""
        return self._files.revision

    def latest(self) -> DeltaCatSnapshot:
        """Return the newest committed version; one request if there is no concurrent commit."""
        now_millis = self._effects.now_millis()
        store, known = self._files.store, self._recent.newest
        if known is None:
            found = find_newest_guard(store)
            if found is None:
                return self._foreign.latest()
            return self._recent.add(DeltaCatSnapshot(self._files, found), now_millis)
        following = read_guard(store, known.version + 1)
        if following is None:
            return self._recent.add(known, now_millis)
        newest = find_newest_version(lambda version: store.exists(guard_path(version)), following.version)
        guard = following if newest == following.version else self._guard(newest)
        return self._recent.add(DeltaCatSnapshot(self._files, guard), now_millis)

    def latest_since(self, millis: int) -> DeltaCatSnapshot | None:
        """Return the newest version in memory if it was the newest at that time or later. This makes no request."""
        return self._recent.newest_since(millis)

    def at_version(self, version: int) -> DeltaCatSnapshot:
        """Return a version by its number."""
        known = self._recent.newest
        if known is not None and version == known.version:
            return known
        return DeltaCatSnapshot(self._files, self._guard(version))

    def at_time(self, millis: int) -> DeltaCatSnapshot:
        """Return the newest version committed at or before that time."""
        newest = self.latest()
        read: dict[int, Guard | None] = {newest.version: newest.guard}

        def created_at(version: int) -> int | None:
            if version not in read:
                read[version] = self._guard_or_none(version)
            guard = read[version]
            return None if guard is None else guard.commit.created_at_millis

        if newest.commit.created_at_millis <= millis:
            return newest
        guard = read[find_version_at(created_at, newest.version, millis, newest.guard.clock_resets)]
        assert guard is not None
        return DeltaCatSnapshot(self._files, guard)

    def history(self, *, before: int | None = None) -> Iterator[Commit]:
        """Yield the live versions, newest first."""
        newest = self.latest()
        following = newest.version + 1 if before is None else before
        first = newest.guard.first
        while following > first:
            versions = range(following - 1, max(first - 1, following - 1 - _HISTORY_PAGE), -1)
            guards = read_live_guards(self._files.store, versions)
            yield from (guard.commit for guard in guards)
            following = versions[-1]
            if len(guards) < len(versions):
                # Versions have expired here; the remaining ones below are far apart.
                older = [version for version in list_taken_versions(self._files.store) if version < following]
                yield from (guard.commit for guard in read_live_guards(self._files.store, older[::-1]))
                return
        if first > 0:
            yield from (guard.commit for guard in reversed(self._foreign.guards()[:following]))

    def commit(
        self,
        base: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        have_rows_changed: RowChangeDetector = assume_rows_changed,
    ) -> CommitResult:
        """Commit the changes as the next version, or raise `ConflictError` and change nothing."""
        own, now_millis = self._own(base), self._effects.now_millis()
        if changes.is_empty:
            return CommitResult(own, changes)
        if own.guard.is_foreign:
            own, changes = self._foreign.take_over(own, changes, isolation, have_rows_changed)
        elif changes.resets_clock:
            self.import_foreign_commits(self._last_time_until_now())
        else:
            self._import_foreign_commits_periodically()
        committed = commit_changes(self._effects, self._files, own, changes, isolation, have_rows_changed)
        assert isinstance(committed.snapshot, DeltaCatSnapshot)
        # After a lost race other processes are active, and the next statement reads the newest version first.
        self._recent.add(committed.snapshot, now_millis if committed.snapshot.version == own.version + 1 else 0)
        return committed

    def commit_next(self, base: MetastoreSnapshot, changes: Changes) -> CommitResult | None:
        """Commit the changes as the version after `base`, or return None if that version is taken."""
        own, now_millis = self._own(base), self._effects.now_millis()
        if own.guard.is_foreign:
            raise InvalidInputError(f"version {own.version} was committed by another program; commit with a rebase")
        self._import_foreign_commits_periodically()
        committed = commit_next(self._effects, self._files, own, changes)
        if committed is not None:
            self._recent.add(self._own(committed.snapshot), now_millis)
        return committed

    def load_later(self, base: MetastoreSnapshot, count: int) -> list[DeltaCatSnapshot]:
        """Return those of the next `count` versions after `base` that exist, oldest first; read in parallel."""
        own, now_millis = self._own(base), self._effects.now_millis()
        numbers = range(own.version + 1, own.version + 1 + count)
        found: list[DeltaCatSnapshot] = []
        for guard in read_guards(self._files.store, numbers):
            if guard is None:
                break
            check_not_expired(guard, own)
            found.append(DeltaCatSnapshot(self._files, guard))
        self._recent.add_later(own, found, now_millis if len(found) < count else None)
        return found

    def encode_version(self, snapshot: MetastoreSnapshot) -> dict[str, bytes]:
        """Return the guard of a version, for another process of this machine."""
        return {guard_path(snapshot.version): encode_guard(self._own(snapshot).guard)}

    def decode_version(self, version: int, files: Mapping[str, bytes]) -> DeltaCatSnapshot:
        """Return the version whose guard `encode_version` of another process returned."""
        path = guard_path(version)
        return DeltaCatSnapshot(self._files, decode_guard(files.get(path, b""), path))

    def remember(self, snapshot: MetastoreSnapshot, at_millis: int = 0) -> None:
        """Keep a version in memory; it was the newest at that time or later."""
        self._recent.add(self._own(snapshot), at_millis)

    def is_affected(
        self, base: MetastoreSnapshot, later: Sequence[MetastoreSnapshot], changes: Changes, isolation: Isolation
    ) -> bool:
        """Return whether one of the versions after `base` wrote anything that concerns the changes."""
        return is_affected(self._own(base), [self._own(one).guard for one in later], changes, isolation)

    def rebase(
        self,
        base: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        have_rows_changed: RowChangeDetector = assume_rows_changed,
    ) -> tuple[DeltaCatSnapshot, Changes]:
        """Return the newest version that is in memory, and the changes rebased on it, or raise `ConflictError`."""
        own = self._own(base)
        if own.guard.is_foreign:
            return own, changes
        concurrent_commits = self._recent.list_after(own.version)
        if not concurrent_commits:
            return own, changes
        guards = [one.guard for one in concurrent_commits]
        newest, rebased = rebase_on_newest(own, guards, changes, isolation, have_rows_changed)
        return (own, changes) if rebased.is_empty else (newest, rebased)

    def _import_foreign_commits_periodically(self) -> None:
        """Import DeltaCAT's transactions before the first commit, and again after some time.

        This lists the log, so not every commit does it. Imported commits take part in
        conflict detection like any other version.
        """
        now_millis = self._effects.now_millis()
        if self._looked_at_millis is None or now_millis - self._looked_at_millis >= _LOOK_EVERY_MILLIS:
            self.import_foreign_commits()
            self._looked_at_millis = now_millis

    def _last_time_until_now(self) -> int:
        """Return the time of the newest version that is not in the future; 0 if there is none."""
        try:
            return self.at_time(self._effects.now_millis()).commit.created_at_millis
        except NotFoundError:
            return 0

    def import_foreign_commits(self, since_millis: int | None = None) -> list[DeltaCatSnapshot]:
        """Import each transaction that DeltaCAT committed as a version, and return these versions."""
        newest = self.latest()
        if newest.guard.is_foreign and self._recent.newest is None:
            return []
        imported_transactions = import_foreign_commits(self._effects, newest, since_millis)
        for snapshot in imported_transactions:
            self._recent.add(snapshot)
        return imported_transactions

    def list_foreign_commits(self) -> list[str]:
        """Return the transactions that DeltaCAT committed and that are not imported yet."""
        newest = self.latest()
        return [] if newest.guard.is_foreign else list_foreign_commits(newest, self._effects.now_millis())

    def list_revisions(self, snapshot: MetastoreSnapshot, locator: Locator) -> list[ObjectRevision]:
        """Return the history of one object up to a version, oldest first."""
        return list_revisions(self._own(snapshot), locator)

    def list_unmapped_fields(self, snapshot: MetastoreSnapshot, locators: Sequence[Locator]) -> list[tuple[str, ...]]:
        """Return for each object the fields of its body that a conversion would drop."""
        bodies = self._own(snapshot).bodies(locators)
        return [() if body is None else tuple(list_unmapped_fields(body)) for body in bodies]

    @property
    def is_read_only(self) -> bool:
        """Whether the catalog is read-only: never, because catalogs of DeltaCAT are taken over."""
        return False

    def list_retained(self) -> list[Commit]:
        """Return the live versions, oldest first."""
        return list(self.history())[::-1]

    def roll_back(self, to: MetastoreSnapshot, changes: Changes) -> DeltaCatSnapshot:
        """Commit the content of `to` as the next version; concurrent commits conflict only if they are rollbacks."""
        target = self._own(to)
        newest = self.latest()
        if newest.guard.is_foreign:
            newest, _ = self._foreign.take_over(newest, changes, Isolation.SNAPSHOT, assume_rows_changed)
        self._guard(target.version)  # it may have expired since it was read
        return self._recent.add(roll_back(self._effects, newest, target, changes))

    def differences(self, before: MetastoreSnapshot, after: MetastoreSnapshot) -> Iterator[Difference]:
        """Yield the objects that differ, in locator order; reads only what the versions do not share."""
        return diff_snapshots(self._own(before), self._own(after))

    def objects(self, snapshot: MetastoreSnapshot, kind: Kind) -> Iterator[tuple[Locator, Object]]:
        """Yield every object of a kind in the whole version."""
        return scan_objects(self._own(snapshot), kind)

    def files_of(self, snapshots: Iterable[MetastoreSnapshot]) -> Iterator[str]:
        """Yield the paths of the metadata files that these versions reference, each once, without data files."""
        return list_reachable_files(map(self._own, snapshots), self.latest)

    def owns(self, path: str) -> bool:
        """Return whether `path` belongs to the layout, so that the file may be deleted if it is unreferenced."""
        return is_layout_file(path)

    def deletion_rank(self, path: str) -> int:
        """Return the step in which vacuum deletes the file at `path`: the lowest number first."""
        return deletion_rank(path)

    def expire(self, versions: Iterable[int]) -> None:
        """Expire these versions; files that only they reference become garbage."""
        expire_versions(self._effects, self.latest(), versions)

    def list_retired(self, since_millis: int, kept: Set[int]) -> list[RetiredVersion]:
        """Return the versions that expired at that time or later and can still be read, oldest first."""
        store = self._files.store
        maybe = [version for version in list_versions_since(store, since_millis) if version not in kept]
        return [
            RetiredVersion(path, DeltaCatSnapshot(self._files, guard))
            for path, guard in read_retired_guards(store, maybe)
        ]

    def problems(self, snapshot: MetastoreSnapshot) -> Iterator[Problem]:
        """Yield each violated invariant of this version."""
        return find_problems(self._own(snapshot))

    def encode_hint(self, snapshot: MetastoreSnapshot) -> tuple[str, bytes]:
        """Return the path and content of the hint file of a copy whose newest version is this one."""
        return HINT_PATH, encode_hint(snapshot.version)

    def repair(self) -> list[str]:
        """Import DeltaCAT's commits, rewrite a wrong log or hint, and return what was repaired."""
        imported_transactions = [
            f"version {one.version} holds what DeltaCAT committed in its transaction {one.guard.transaction}"
            for one in self.import_foreign_commits()
        ]
        return imported_transactions + repair_log_and_hint(self.latest())

    def _own(self, snapshot: MetastoreSnapshot) -> DeltaCatSnapshot:
        if not isinstance(snapshot, DeltaCatSnapshot) or snapshot.files is not self._files:
            raise InvalidInputError("the snapshot belongs to another metastore")
        return snapshot

    def _guard(self, version: int) -> Guard:
        guard = self._guard_or_none(version)
        if guard is None:
            raise NotFoundError(
                f"version {version} does not exist in {self._files.store.uri}; it has expired or was never committed; "
                "see the history for the available versions"
            )
        return guard

    def _guard_or_none(self, version: int) -> Guard | None:
        if version < 0:
            return None
        first = None if self._recent.newest is None else self._recent.newest.guard.first
        if first is None or version < first:
            guards = self._foreign.guards()
            return guards[version] if version < len(guards) else None
        guard = read_guard(self._files.store, version)
        return None if guard is None or guard.is_expired else guard

    def _read_live(self, versions: Sequence[int]) -> list[DeltaCatSnapshot | None]:
        guards = read_guards(self._files.store, versions)
        return [None if guard is None or guard.is_expired else DeltaCatSnapshot(self._files, guard) for guard in guards]


def create_catalog(
    effects: Effects, settings: LakehouseSettings, changes: Changes, revision: DeltaCatRevision = SEED
) -> DeltaCatMetastore:
    """Create an empty catalog under the store's root, which must not contain one."""
    if has_catalog(effects.store):
        raise _already_there(effects)
    files = DeltaCatFiles(effects.store, revision)
    made = commit_first(effects, files, replace(changes, settings=settings))
    if made is None:
        raise _already_there(effects)
    return DeltaCatMetastore(effects, files, made)


def has_catalog(store: Store) -> bool:
    """Return whether there is a catalog under the store's root, of Mangrove or DeltaCAT."""
    return find_newest_guard(store) is not None or detect_foreign_revision(store) is not None


def open_catalog(effects: Effects) -> DeltaCatMetastore:
    """Return the catalog under the store's root, in any format revision, of Mangrove or DeltaCAT."""
    newest = find_newest_guard(effects.store)
    revision = detect_foreign_revision(effects.store) if newest is None else newest.revision
    if revision is None:
        raise NotFoundError(f"no catalog at {effects.store.uri}; create one there, or check the URI")
    return DeltaCatMetastore(effects, DeltaCatFiles(effects.store, revision), newest)


def _already_there(effects: Effects) -> AlreadyExistsError:
    return AlreadyExistsError(f"a catalog already exists at {effects.store.uri}; open it, or choose another location")
