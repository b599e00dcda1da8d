"""The metastore of the tree layout: all versions of a lakehouse under one root URI."""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace

from mangrove.betree.build import build, stored
from mangrove.betree.compact import compact
from mangrove.betree.node import Entry, Node
from mangrove.betree.search import scan
from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from mangrove.layouts.tree.commit import commit, commit_rebuilt, publish
from mangrove.layouts.tree.definitions import encode_definition
from mangrove.layouts.tree.files import TreeFiles
from mangrove.layouts.tree.key_names import KeyNames
from mangrove.layouts.tree.paths import RootNames, lakehouse_definition_path
from mangrove.layouts.tree.revision import NEWER, Revision
from mangrove.layouts.tree.root import Root, shape_of, system_after
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.layouts.tree.staging import NodeFiles
from mangrove.layouts.tree.versions import (
    find_root_names,
    kept_versions,
    read_root,
    read_roots,
)
from mangrove.metastore import Changes, Commit, Committed, Isolation, Snapshot, newest_version, version_at
from mangrove.model.settings import LakehouseSettings

__all__ = ["TreeMetastore", "create_tree", "open_tree"]

_HISTORY_PAGE = 32
_UPGRADES_MAX = 10
_NODES_AT_ONCE = 128


class TreeMetastore:
    """All versions of one lakehouse; one of these may be shared by threads."""

    def __init__(self, effects: Effects, files: TreeFiles, names: RootNames, known: TreeSnapshot) -> None:
        self._effects = effects
        self._files = files
        self._names = names
        self._newest = known
        self._lock = threading.Lock()

    def latest(self) -> TreeSnapshot:
        """Return the newest version that is committed now: one request where nobody else committed."""
        known = self._newest
        following = read_root(self._files.store, self._names, known.version + 1)
        if following is None:
            return known
        newest = newest_version(lambda version: self._files.store.exists(self._names.path(version)), following.version)
        return self._seen(
            TreeSnapshot(self._files, following) if newest == following.version else self.at_version(newest)
        )

    def at_version(self, version: int) -> TreeSnapshot:
        """Return a version by its number."""
        if version == self._newest.version:
            return self._newest
        root = read_root(self._files.store, self._names, version) if version >= 0 else None
        if root is None:
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
        root = read[version_at(created_at, newest.version, millis)]
        assert root is not None
        return TreeSnapshot(self._files, root)

    def history(self, *, before: int | None = None) -> Iterator[Commit]:
        """Yield the versions that are kept, newest first."""
        following = self.latest().version + 1 if before is None else before
        while following > 0:
            versions = range(following - 1, max(-1, following - 1 - _HISTORY_PAGE), -1)
            roots = [root for root in read_roots(self._files.store, self._names, versions) if root is not None]
            for root in roots:
                yield root.commit
            following = versions[-1]
            if len(roots) < len(versions):
                # Versions have expired here; what is left below are exports, far apart.
                older = [version for version in kept_versions(self._files.store, self._names) if version < following]
                expired = read_roots(self._files.store, self._names, older[::-1])
                yield from (root.commit for root in expired if root is not None)
                return

    def commit(self, base: Snapshot, changes: Changes, isolation: Isolation) -> Committed:
        """Make the changes real as the next version, or raise a `ConflictError` and change nothing."""
        if not isinstance(base, TreeSnapshot) or base.files is not self._files:
            raise InvalidInputError("the base of a commit must be a snapshot of this very metastore")
        if changes.is_empty:
            return Committed(base, changes)
        committed = commit(self._effects, self._files, base, changes, isolation)
        assert isinstance(committed.snapshot, TreeSnapshot)
        self._seen(committed.snapshot)
        return committed

    def compact(self, changes: Changes) -> TreeSnapshot:
        """Commit the newest version again in nodes that are at least half full and hold no messages."""
        base = self.latest()
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
        if base.root.revision.name == NEWER.name:
            return base
        revision = NEWER.with_roots(self._names)
        now = self._effects.now_millis()
        system = system_after(base.root, changes, base.root.definition_path, base.root.key_names, now)
        like = Root(base.version + 1, Node(), system, revision, base.root.key_names)
        entries = _entries_in(revision, base)
        root = replace(like, node=_built(self._effects, self._files, like, base.settings, entries))
        return self._seen(TreeSnapshot(self._files, root)) if publish(self._effects, root, base.settings) else None

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

    It is empty, or holds `entries`: tree keys with their pointers, in order, as
    many as there may be.
    """
    if find_root_names(effects.store) is not None:
        raise _already_there(effects)
    files = TreeFiles(effects.store)
    path = lakehouse_definition_path(effects.new_id())
    effects.store.put(path, encode_definition(settings))
    system = system_after(None, changes, path, KeyNames(), effects.now_millis())
    empty = Root(0, Node(), system, revision, KeyNames())
    root = replace(empty, node=_built(effects, files, empty, settings, entries))
    if not publish(effects, root, settings):
        raise _already_there(effects)
    return TreeMetastore(effects, files, revision.roots, TreeSnapshot(files, root))


def open_tree(effects: Effects) -> TreeMetastore:
    """Return the lakehouse that lies under the store's root, in whichever format revision it is."""
    found = find_root_names(effects.store)
    if found is None:
        raise NotFoundError(f"there is no lakehouse at {effects.store.uri}: create one there, or check the URI")
    names, version = found
    files = TreeFiles(effects.store)
    newest = newest_version(lambda probed: effects.store.exists(names.path(probed)), version)
    root = read_root(effects.store, names, newest)
    if root is None:
        raise NotFoundError(f"version {newest} of {effects.store.uri} expired while it was opened: open it again")
    return TreeMetastore(effects, files, names, TreeSnapshot(files, root))


def _built(
    effects: Effects, files: TreeFiles, like: Root, settings: LakehouseSettings, entries: Iterable[Entry]
) -> Node:
    """Return the root of a tree of the entries, whose other nodes are written many at a time."""
    nodes = NodeFiles(like, settings, effects.now_millis(), effects.new_id)

    def write(node: Node) -> str:
        if len(nodes.files) == _NODES_AT_ONCE:
            files.write(nodes.files)
            nodes.files.clear()
            nodes.nodes.clear()
        return nodes.write(node)

    root = build(entries, shape_of(settings), write)
    files.write(nodes.files)
    return root


def _entries_in(revision: Revision, base: TreeSnapshot) -> Iterator[Entry]:
    """Yield what the version holds, in the order and with the tree keys of another format revision."""
    old, sizes = base.keys.encoding, base.keys.sizes
    entries = scan(base.root.node, "", None, base.read_nodes)
    ways = ((old.parts_of(key, sizes), value) for key, value in entries)
    return iter(sorted(Entry(revision.keys.key_of(kind, parts, sizes), value) for (kind, parts), value in ways))


def _already_there(effects: Effects) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is a lakehouse at {effects.store.uri} already: open it, or choose another place for a new one"
    )
