"""The metastore of the DeltaCAT layout: all versions of a catalog under one root URI."""

import threading
from collections.abc import Iterator
from dataclasses import replace

from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from mangrove.layouts.deltacat.absorption import absorb
from mangrove.layouts.deltacat.adoption import ForeignCatalog
from mangrove.layouts.deltacat.commit import commit, commit_first
from mangrove.layouts.deltacat.files import CatalogFiles
from mangrove.layouts.deltacat.foreign import foreign_revision
from mangrove.layouts.deltacat.guard import Guard
from mangrove.layouts.deltacat.paths import guard_path
from mangrove.layouts.deltacat.revision import SEED, Revision
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.layouts.deltacat.versions import find_newest, kept_versions, read_guard, read_guards
from mangrove.metastore import Changes, Commit, Committed, Isolation, Snapshot, newest_version, version_at
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.port import Store

__all__ = ["CatalogMetastore", "create_catalog", "has_catalog", "open_catalog"]

_HISTORY_PAGE = 32


class CatalogMetastore:
    """All versions of one catalog; one of these may be shared by threads."""

    def __init__(self, effects: Effects, files: CatalogFiles, known: Guard | None) -> None:
        """Take the newest guard that is known, or None for a catalog of another program that has none."""
        self._effects = effects
        self._files = files
        self._foreign = ForeignCatalog(effects, files)
        self._newest = None if known is None else CatalogSnapshot(files, known)
        self._lock = threading.Lock()

    @property
    def revision(self) -> Revision:
        """The format revision of the catalog."""
        return self._files.revision

    def latest(self) -> CatalogSnapshot:
        """Return the newest version that is committed now: one request where nobody else committed."""
        store, known = self._files.store, self._newest
        if known is None:
            found = find_newest(store)
            return self._foreign.latest() if found is None else self._seen(CatalogSnapshot(self._files, found))
        following = read_guard(store, known.version + 1)
        if following is None:
            return known
        newest = newest_version(lambda version: store.exists(guard_path(version)), following.version)
        guard = following if newest == following.version else self._guard(newest)
        return self._seen(CatalogSnapshot(self._files, guard))

    def at_version(self, version: int) -> CatalogSnapshot:
        """Return a version by its number."""
        known = self._newest
        if known is not None and version == known.version:
            return known
        return CatalogSnapshot(self._files, self._guard(version))

    def at_time(self, millis: int) -> CatalogSnapshot:
        """Return the newest version that was committed at that time or before."""
        newest = self.latest()
        read: dict[int, Guard | None] = {newest.version: newest.guard}

        def created_at(version: int) -> int | None:
            if version not in read:
                read[version] = self._guard_or_none(version)
            guard = read[version]
            return None if guard is None else guard.commit.created_at_millis

        if newest.commit.created_at_millis <= millis:
            return newest
        guard = read[version_at(created_at, newest.version, millis)]
        assert guard is not None
        return CatalogSnapshot(self._files, guard)

    def history(self, *, before: int | None = None) -> Iterator[Commit]:
        """Yield the versions that are kept, newest first."""
        newest = self.latest()
        following = newest.version + 1 if before is None else before
        first = newest.guard.first
        while following > first:
            versions = range(following - 1, max(first - 1, following - 1 - _HISTORY_PAGE), -1)
            guards = [guard for guard in read_guards(self._files.store, versions) if guard is not None]
            yield from (guard.commit for guard in guards)
            following = versions[-1]
            if len(guards) < len(versions):
                # Versions have expired here; what is left below lies far apart.
                older = [version for version in kept_versions(self._files.store) if version < following]
                kept = read_guards(self._files.store, older[::-1])
                yield from (guard.commit for guard in kept if guard is not None)
                return
        if first > 0:
            yield from (guard.commit for guard in reversed(self._foreign.guards()[:following]))

    def commit(self, base: Snapshot, changes: Changes, isolation: Isolation) -> Committed:
        """Make the changes real as the next version, or raise a `ConflictError` and change nothing."""
        if not isinstance(base, CatalogSnapshot) or base.files is not self._files:
            raise InvalidInputError("the base of a commit must be a snapshot of this very metastore")
        if changes.is_empty:
            return Committed(base, changes)
        if base.guard.is_foreign:
            base, changes = self._foreign.adopt(base, changes, isolation)
        committed = commit(self._effects, self._files, base, changes, isolation)
        assert isinstance(committed.snapshot, CatalogSnapshot)
        self._seen(committed.snapshot)
        return committed

    def absorb(self) -> list[CatalogSnapshot]:
        """Make a version of each transaction that DeltaCAT committed beside us, and return these versions."""
        newest = self.latest()
        if newest.guard.is_foreign and self._newest is None:
            return []
        absorbed = absorb(self._effects, newest)
        for snapshot in absorbed:
            self._seen(snapshot)
        return absorbed

    def _guard(self, version: int) -> Guard:
        guard = self._guard_or_none(version)
        if guard is None:
            raise NotFoundError(
                f"there is no version {version} in {self._files.store.uri}: it has expired or was never committed; "
                "see the history for what is there"
            )
        return guard

    def _guard_or_none(self, version: int) -> Guard | None:
        if version < 0:
            return None
        first = None if self._newest is None else self._newest.guard.first
        if first is None or version < first:
            guards = self._foreign.guards()
            return guards[version] if version < len(guards) else None
        return read_guard(self._files.store, version)

    def _seen(self, snapshot: CatalogSnapshot) -> CatalogSnapshot:
        with self._lock:
            if self._newest is None or snapshot.version > self._newest.version:
                self._newest = snapshot
        return snapshot


def create_catalog(
    effects: Effects, settings: LakehouseSettings, changes: Changes, revision: Revision = SEED
) -> CatalogMetastore:
    """Make a new, empty catalog under the store's root, which must not hold one."""
    if has_catalog(effects.store):
        raise _already_there(effects)
    files = CatalogFiles(effects.store, revision)
    made = commit_first(effects, files, replace(changes, settings=settings))
    if made is None:
        raise _already_there(effects)
    return CatalogMetastore(effects, files, made)


def has_catalog(store: Store) -> bool:
    """Return whether a catalog lies under the store's root, whoever made it."""
    return find_newest(store) is not None or foreign_revision(store) is not None


def open_catalog(effects: Effects) -> CatalogMetastore:
    """Return the catalog that lies under the store's root, in whichever format revision it is, whoever made it."""
    newest = find_newest(effects.store)
    revision = foreign_revision(effects.store) if newest is None else newest.revision
    if revision is None:
        raise NotFoundError(f"there is no catalog at {effects.store.uri}: create one there, or check the URI")
    return CatalogMetastore(effects, CatalogFiles(effects.store, revision), newest)


def _already_there(effects: Effects) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is a catalog at {effects.store.uri} already: open it, or choose another place for a new one"
    )
