"""The metastore of the tree layout: all versions of a lakehouse under one root URI."""

import threading
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace

from mangrove.betree.build import stored
from mangrove.betree.compact import compact
from mangrove.betree.node import Entry, Node
from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from mangrove.layouts.tree.commit import commit, commit_rebuilt, publish
from mangrove.layouts.tree.definitions import encode_definition
from mangrove.layouts.tree.files import TreeFiles
from mangrove.layouts.tree.key_names import KeyNames
from mangrove.layouts.tree.paths import RootNames, lakehouse_definition_path
from mangrove.layouts.tree.rebuilding import built, entries_in
from mangrove.layouts.tree.revision import NEWER, Revision
from mangrove.layouts.tree.root import Root, shape_of, system_after
from mangrove.layouts.tree.seal import sealed
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.layouts.tree.staging import NodeFiles, first_entries, stage
from mangrove.layouts.tree.upkeep_differences import Birthplaces, differences, objects
from mangrove.layouts.tree.upkeep_expiry import expire, repair_hint
from mangrove.layouts.tree.upkeep_files import files_of, owns
from mangrove.layouts.tree.upkeep_problems import problems
from mangrove.layouts.tree.upkeep_rollback import roll_back
from mangrove.layouts.tree.versions import (
    find_newest_root,
    find_root_names,
    newest_root,
    read_kept,
    read_retired,
    read_root,
    taken_versions,
    written_since,
)
from mangrove.metastore import (
    Changes,
    Commit,
    Committed,
    Difference,
    Isolation,
    Problem,
    Retired,
    Snapshot,
    check_in_time,
    commit_time_after,
)
from mangrove.model.locators import Kind, Locator
from mangrove.model.objects import Object
from mangrove.model.settings import LakehouseSettings
from mangrove.model.times import iso_time
from mangrove.model.version_search import version_at

__all__ = ["TreeMetastore", "create_tree", "open_tree"]

_HISTORY_PAGE = 32
_UPGRADES_MAX = 10


class TreeMetastore:
    """All versions of one lakehouse, and their upkeep; one of these may be shared by threads."""

    def __init__(self, effects: Effects, files: TreeFiles, names: RootNames, known: TreeSnapshot) -> None:
        self._effects = effects
        self._files = files
        self._names = names
        self._newest = known
        self._birthplaces = Birthplaces()
        self._lock = threading.Lock()

    def latest(self) -> TreeSnapshot:
        """Return the newest version that is committed now: one request where nobody else committed."""
        known = self._newest
        following = read_root(self._files.store, self._names, known.version + 1)
        if following is None:
            return known
        return self._seen(
            TreeSnapshot(self._files, newest_root(self._files.store, self._names, following.version, following))
        )

    def at_version(self, version: int) -> TreeSnapshot:
        """Return a version by its number."""
        if version == self._newest.version:
            return self._newest
        root = read_root(self._files.store, self._names, version) if version >= 0 else None
        if root is None or root.is_expired:
            raise NotFoundError(
                f"there is no version {version} in {self._files.store.uri}: it has expired or was never committed; "
                "see the history for what is there"
            )
        return TreeSnapshot(self._files, root)

    def at_time(self, millis: int) -> TreeSnapshot:
        """Return the newest version that was committed at that time or before."""
        newest = self.latest()
        read: dict[int, Root | None] = {newest.version: newest.root}

        def created_at(version: int) -> int | None:
            if version not in read:
                read[version] = read_root(self._files.store, self._names, version)
            root = read[version]
            return None if root is None else root.created_at_millis

        if newest.root.created_at_millis <= millis:
            return newest
        root = read[version_at(created_at, newest.version, millis, newest.root.clock_resets)]
        assert root is not None
        if root.is_expired:
            raise NotFoundError(
                f"version {root.version}, the newest at {iso_time(millis)}, has expired: ask for a later time, "
                "or see the history for what is there"
            )
        return TreeSnapshot(self._files, root)

    def history(self, *, before: int | None = None) -> Iterator[Commit]:
        """Yield the versions that are kept, newest first."""
        following = self.latest().version + 1 if before is None else before
        while following > 0:
            versions = range(following - 1, max(-1, following - 1 - _HISTORY_PAGE), -1)
            roots = list(read_kept(self._files.store, self._names, versions))
            for root in roots:
                yield root.commit
            following = versions[-1]
            if len(roots) < len(versions):
                # Versions have expired here; what is left below are exports, far apart.
                older = [version for version in taken_versions(self._files.store, self._names) if version < following]
                yield from (root.commit for root in read_kept(self._files.store, self._names, older[::-1]))
                return

    def commit(self, base: Snapshot, changes: Changes, isolation: Isolation) -> Committed:
        """Make the changes real as the next version, or raise a `ConflictError` and change nothing."""
        known = self._own(base)
        if changes.is_empty:
            return Committed(base, changes)
        known.root.revision.check_writable()
        committed = commit(self._effects, self._files, known, changes, isolation)
        assert isinstance(committed.snapshot, TreeSnapshot)
        self._seen(committed.snapshot)
        return committed

    def compact(self, changes: Changes) -> TreeSnapshot:
        """Commit the newest version again in nodes that are at least half full and hold no messages."""
        base = self.latest()
        base.root.revision.check_writable()
        nodes = NodeFiles(base.root, base.settings, self._effects.now_millis(), self._effects.new_id)
        rebuilt = stored(compact(base.root.node, shape_of(base.settings), base.read_nodes), nodes.write)
        self._files.write(nodes.files)
        return self._seen(commit_rebuilt(self._effects, self._files, base, changes, rebuilt))

    def upgrade(self, changes: Changes) -> TreeSnapshot:
        """Commit the newest version again in the newer format revision, if it is not in it yet."""
        for _ in range(_UPGRADES_MAX):
            upgraded = self._upgraded(self.latest(), changes)
            if upgraded is not None:
                return upgraded
        raise ConflictError(
            f"others committed {_UPGRADES_MAX} times while {self._files.store.uri} was being upgraded. "
            "Nothing was changed; stop the writers for a moment and try again"
        )

    def _upgraded(self, base: TreeSnapshot, changes: Changes) -> TreeSnapshot | None:
        base.root.revision.check_writable()
        if base.root.revision.name == NEWER.name:
            return base
        revision = NEWER.with_roots(self._names)
        effects = self._effects
        created_at_millis = commit_time_after(base, changes, effects.now_millis(), effects.clock_tolerance_millis)
        system = system_after(base.root, changes, base.root.definition_path, base.root.key_names, created_at_millis)
        like = Root(base.version + 1, Node(), system, revision, base.root.key_names)
        entries = entries_in(revision, base)
        root = replace(like, node=built(self._effects, self._files, like, base.settings, entries))
        check_in_time(changes, self._effects.now_millis())
        return self._seen(TreeSnapshot(self._files, root)) if publish(self._effects, root, base.settings) else None

    def left_behind(self, snapshot: Snapshot, locators: Sequence[Locator]) -> list[tuple[str, ...]]:
        """Return for each object what its definition says that the object does not, and that a conversion loses."""
        own = self._own(snapshot)
        own.get_many(locators)
        return [("fields that this release does not know",) if own.carried(one) else () for one in locators]

    @property
    def is_read_only(self) -> bool:
        """Whether the lakehouse is another program's, whose files are read here and never written."""
        return self.latest().root.revision.write_rows is None

    def kept(self) -> list[Commit]:
        """Return the versions that are kept, oldest first."""
        taken = taken_versions(self._files.store, self._names)
        return [root.commit for root in read_kept(self._files.store, self._names, taken)]

    def roll_back(self, to: Snapshot, changes: Changes) -> TreeSnapshot:
        """Commit what `to` holds as the next version; whatever else is being committed contests it."""
        newest = self.latest()
        newest.root.revision.check_writable()
        return self._seen(roll_back(self._effects, self._files, newest, self._own(to), changes))

    def differences(self, before: Snapshot, after: Snapshot) -> Iterator[Difference]:
        """Yield the objects that differ, in order of their locators, reading only what the two do not share."""
        return differences(self._own(before), self._own(after), self._birthplaces)

    def objects(self, snapshot: Snapshot, kind: Kind) -> Iterator[tuple[Locator, Object]]:
        """Yield every object of a kind in the whole version."""
        return objects(self._own(snapshot), kind, self._birthplaces)

    def files_of(self, snapshots: Iterable[Snapshot]) -> Iterator[str]:
        """Yield the paths of the layout's own files that these versions need, each once, data files not among them."""
        return files_of(map(self._own, snapshots))

    def owns(self, path: str) -> bool:
        """Return whether a file at `path` can only be the layout's own, so that it may go when nothing needs it."""
        return owns(path)

    def deletion_rank(self, path: str) -> int:  # noqa: ARG002
        """Return in which step a file at `path` is deleted: whatever is garbage here, nobody finds."""
        return 0

    def expire(self, versions: Iterable[int]) -> None:
        """Forget these versions; what only they needed becomes garbage."""
        expire(self._effects, self.latest().root, versions)

    def retired(self, since_millis: int, kept: Set[int]) -> list[Retired]:
        """Return the versions that expired at that time or later, oldest first, as far as they can still be read."""
        store = self._files.store
        maybe = [version for version in written_since(store, self._names, since_millis) if version not in kept]
        found = read_retired(store, self._names, maybe)
        return [Retired(path, TreeSnapshot(self._files, root)) for path, root in found]

    def problems(self, snapshot: Snapshot) -> Iterator[Problem]:
        """Yield each rule of the layout that this version breaks; nothing when it is sound."""
        return problems(self._own(snapshot))

    def repair(self) -> list[str]:
        """Write a hint that is missing or wrong anew, and say so."""
        return repair_hint(self._effects, self.latest().root)

    def _own(self, snapshot: Snapshot) -> TreeSnapshot:
        if not isinstance(snapshot, TreeSnapshot) or snapshot.files is not self._files:
            raise InvalidInputError(
                "a snapshot that is committed on, compared or looked into must be one of this very metastore"
            )
        return snapshot

    def _seen(self, snapshot: TreeSnapshot) -> TreeSnapshot:
        with self._lock:
            if snapshot.version > self._newest.version:
                self._newest = snapshot
        return snapshot


def create_tree(
    effects: Effects,
    settings: LakehouseSettings,
    changes: Changes,
    revision: Revision = NEWER,
    entries: Iterable[Entry] = (),
) -> TreeMetastore:
    """Make a new lakehouse under the store's root, which must not hold one.

    It is empty, or holds what the changes put, or `entries`: tree keys with their
    pointers, in order, as many as there may be.
    """
    if find_root_names(effects.store) is not None:
        raise _already_there(effects)
    files = TreeFiles(effects.store)
    path = lakehouse_definition_path(effects.new_id())
    effects.store.put(path, sealed(encode_definition(settings), Kind.LAKEHOUSE))
    system = system_after(None, changes, path, KeyNames(), effects.now_millis())
    empty = Root(0, Node(), system, revision, KeyNames())
    if changes.puts:
        base = TreeSnapshot(files, empty)
        staged = stage(base, changes, effects.new_id)
        files.write(staged.files)
        entries = first_entries(base, staged)
    root = replace(empty, node=built(effects, files, empty, settings, entries))
    if not publish(effects, root, settings):
        raise _already_there(effects)
    return TreeMetastore(effects, files, revision.roots, TreeSnapshot(files, root))


def open_tree(effects: Effects) -> TreeMetastore:
    """Return the lakehouse that lies under the store's root, in whichever format revision it is."""
    found = find_newest_root(effects.store)
    if found is None:
        raise NotFoundError(f"there is no lakehouse at {effects.store.uri}: create one there, or check the URI")
    names, newest = found
    files = TreeFiles(effects.store)
    return TreeMetastore(effects, files, names, TreeSnapshot(files, newest))


def _already_there(effects: Effects) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is a lakehouse at {effects.store.uri} already: open it, or choose another place for a new one"
    )
