"""The metastore of the tree layout."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from mangrove.betree.build import write_new_nodes
from mangrove.betree.compact import compact_tree
from mangrove.betree.node import Entry, Node
from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from mangrove.layouts.recent_versions import RecentVersions
from mangrove.layouts.tree.commit import (
    check_not_expired,
    commit_changes,
    commit_next,
    commit_rebuilt_tree,
    create_root,
    rebase_changes,
)
from mangrove.layouts.tree.conflict_detection import is_affected
from mangrove.layouts.tree.definition_files import append_checksum
from mangrove.layouts.tree.definitions import encode_definition
from mangrove.layouts.tree.files import TreeFiles
from mangrove.layouts.tree.java_formats import list_java_revisions
from mangrove.layouts.tree.keys import KeyNames
from mangrove.layouts.tree.maintenance.check import find_problems
from mangrove.layouts.tree.maintenance.diff import TableOrigins, diff_snapshots, scan_objects
from mangrove.layouts.tree.maintenance.expiry import expire_versions, repair_hint
from mangrove.layouts.tree.maintenance.reachability import is_layout_file, list_reachable_files
from mangrove.layouts.tree.maintenance.rollback import roll_back
from mangrove.layouts.tree.paths import RootNames, lakehouse_definition_path
from mangrove.layouts.tree.revision import NEWER, TreeRevision
from mangrove.layouts.tree.rewrites import NO_REWRITES, build_rewrites
from mangrove.layouts.tree.root import Root, build_system_rows, decode_root, encode_root, shape_of
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.layouts.tree.staging import (
    TreeNodeWriter,
    build_first_entries,
    compression_of,
    rebuild_tree,
    scan_entries,
    stage_changes,
)
from mangrove.layouts.tree.versions import (
    encode_hint,
    find_newest_root,
    find_root_names,
    list_taken_versions,
    list_versions_since,
    read_live_roots,
    read_newest_root,
    read_retired_roots,
    read_root,
    read_roots,
)
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
    commit_time_after,
)
from mangrove.model.locators import Kind, Locator
from mangrove.model.objects import Object
from mangrove.model.settings import LakehouseSettings
from mangrove.model.times import format_iso_time
from mangrove.model.version_search import find_version_at

__all__ = ["TreeMetastore", "create_tree", "open_tree"]

_HISTORY_PAGE = 32
_UPGRADES_MAX = 10


class TreeMetastore:
    """All versions of one lakehouse and their maintenance; thread-safe."""

    def __init__(self, effects: Effects, files: TreeFiles, names: RootNames, known: TreeSnapshot) -> None:
        self._effects = effects
        self._files = files
        self._names = names
        self._recent = RecentVersions(known, self._read_live)
        self._birthplaces = TableOrigins()

    @property
    def _newest(self) -> TreeSnapshot:
        assert self._recent.newest is not None, "a tree is opened at its newest root"
        return self._recent.newest

    def latest(self) -> TreeSnapshot:
        """Return the newest committed version; one request if there is no concurrent commit."""
        now_millis, known = self._effects.now_millis(), self._newest
        following = read_root(self._files.store, self._names, known.version + 1)
        if following is None:
            return self._recent.add(known, now_millis)
        newest = read_newest_root(self._files.store, self._names, following.version, following)
        return self._recent.add(TreeSnapshot(self._files, newest), now_millis)

    def latest_since(self, millis: int) -> TreeSnapshot | None:
        """Return the newest version in memory if it was the newest at that time or later. This makes no request."""
        return self._recent.newest_since(millis)

    def at_version(self, version: int) -> TreeSnapshot:
        """Return a version by its number."""
        if version == self._newest.version:
            return self._newest
        root = read_root(self._files.store, self._names, version) if version >= 0 else None
        if root is None or root.is_expired:
            raise NotFoundError(
                f"version {version} does not exist in {self._files.store.uri}; it has expired or was never committed; "
                "see the history for the available versions"
            )
        return TreeSnapshot(self._files, root)

    def at_time(self, millis: int) -> TreeSnapshot:
        """Return the newest version committed at or before that time."""
        newest = self.latest()
        read: dict[int, Root | None] = {newest.version: newest.root}

        def created_at(version: int) -> int | None:
            if version not in read:
                read[version] = read_root(self._files.store, self._names, version)
            root = read[version]
            return None if root is None else root.created_at_millis

        if newest.root.created_at_millis <= millis:
            return newest
        root = read[find_version_at(created_at, newest.version, millis, newest.root.clock_resets)]
        assert root is not None
        if root.is_expired:
            raise NotFoundError(
                f"version {root.version}, the newest at {format_iso_time(millis)}, has expired; use a later time, "
                "or see the history for the available versions"
            )
        return TreeSnapshot(self._files, root)

    def history(self, *, before: int | None = None) -> Iterator[Commit]:
        """Yield the live versions, newest first."""
        following = self.latest().version + 1 if before is None else before
        while following > 0:
            versions = range(following - 1, max(-1, following - 1 - _HISTORY_PAGE), -1)
            roots = list(read_live_roots(self._files.store, self._names, versions))
            for root in roots:
                yield root.commit
            following = versions[-1]
            if len(roots) < len(versions):
                # Versions have expired here; the remaining ones below are exports, far apart.
                older = [
                    version for version in list_taken_versions(self._files.store, self._names) if version < following
                ]
                yield from (root.commit for root in read_live_roots(self._files.store, self._names, older[::-1]))
                return

    def commit(
        self,
        base: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        have_rows_changed: RowChangeDetector = assume_rows_changed,
    ) -> CommitResult:
        """Commit the changes as the next version, or raise `ConflictError` and change nothing."""
        known = self._own(base)
        if changes.is_empty:
            return CommitResult(base, changes)
        known.root.revision.check_writable()
        now_millis = self._effects.now_millis()
        committed = commit_changes(self._effects, self._files, known, changes, isolation, have_rows_changed)
        assert isinstance(committed.snapshot, TreeSnapshot)
        # After a lost race other processes are active, and the next statement reads the newest version first.
        self._recent.add(committed.snapshot, now_millis if committed.snapshot.version == known.version + 1 else 0)
        return committed

    def commit_next(self, base: MetastoreSnapshot, changes: Changes) -> CommitResult | None:
        """Commit the changes as the version after `base`, or return None if that version is taken."""
        known, now_millis = self._own(base), self._effects.now_millis()
        known.root.revision.check_writable()
        committed = commit_next(self._effects, self._files, known, changes)
        if committed is not None:
            self._recent.add(self._own(committed.snapshot), now_millis)
        return committed

    def load_later(self, base: MetastoreSnapshot, count: int) -> list[TreeSnapshot]:
        """Return those of the next `count` versions after `base` that exist, oldest first; read in parallel."""
        own, now_millis = self._own(base), self._effects.now_millis()
        numbers = range(own.version + 1, own.version + 1 + count)
        found: list[TreeSnapshot] = []
        for root in read_roots(self._files.store, self._names, numbers):
            if root is None:
                break
            check_not_expired(root, own)
            found.append(TreeSnapshot(self._files, root))
        self._recent.add_later(own, found, now_millis if len(found) < count else None)
        return found

    def encode_version(self, snapshot: MetastoreSnapshot) -> dict[str, bytes]:
        """Return the root of a version and its new nodes, for another process of this machine."""
        own = self._own(snapshot)
        root = encode_root(own.root, own.settings.order, compression_of(own.settings))
        return {own.root.path: root, **own.new_nodes}

    def decode_version(self, version: int, files: Mapping[str, bytes]) -> TreeSnapshot:
        """Return the version whose files `encode_version` of another process returned, and cache its new nodes."""
        path, revisions = self._names.path(version), list_java_revisions(self._names)
        snapshot = TreeSnapshot(self._files, decode_root(files.get(path, b""), version, path, revisions))
        self._files.add_nodes(
            {one: data for one, data in files.items() if one != path}, snapshot.settings.order, revisions
        )
        return snapshot

    def remember(self, snapshot: MetastoreSnapshot, at_millis: int = 0) -> None:
        """Keep a version in memory; it was the newest at that time or later."""
        self._recent.add(self._own(snapshot), at_millis)

    def is_affected(
        self, base: MetastoreSnapshot, later: Sequence[MetastoreSnapshot], changes: Changes, isolation: Isolation
    ) -> bool:
        """Return whether one of the versions after `base` wrote anything that concerns the changes."""
        return is_affected(self._own(base), [self._own(one).root for one in later], changes, isolation)

    def rebase(
        self,
        base: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        have_rows_changed: RowChangeDetector = assume_rows_changed,
    ) -> tuple[TreeSnapshot, Changes]:
        """Return the newest version that is in memory, and the changes rebased on it, or raise `ConflictError`."""
        known = self._own(base)
        concurrent_commits = self._recent.list_after(known.version)
        if not concurrent_commits:
            return known, changes
        newest, roots = concurrent_commits[-1], [one.root for one in concurrent_commits]
        rebased = rebase_changes(known, roots, newest, changes, isolation, have_rows_changed)
        return (known, changes) if rebased.is_empty else (newest, rebased)

    def compact(self, changes: Changes) -> TreeSnapshot:
        """Commit the newest version again with compacted nodes: at least half full, without messages."""
        base = self.latest()
        base.root.revision.check_writable()
        nodes = TreeNodeWriter(base.root, base.settings, self._effects.now_millis(), self._effects.new_id)
        rebuilt = write_new_nodes(
            compact_tree(base.root.node, shape_of(base.settings, base.root.revision), base.read_nodes), nodes.write
        )
        self._files.write(nodes.files)
        return self._recent.add(commit_rebuilt_tree(self._effects, self._files, base, changes, rebuilt))

    def upgrade(self, changes: Changes) -> TreeSnapshot:
        """Commit the newest version again in the newer format revision, unless it already uses it."""
        for _ in range(_UPGRADES_MAX):
            upgraded = self._upgrade_once(self.latest(), changes)
            if upgraded is not None:
                return upgraded
        raise ConflictError(
            f"the upgrade of {self._files.store.uri} lost the race against {_UPGRADES_MAX} concurrent commits. "
            "Nothing was changed; pause the writers and retry"
        )

    def _upgrade_once(self, base: TreeSnapshot, changes: Changes) -> TreeSnapshot | None:
        base.root.revision.check_writable()
        if base.root.revision.name == NEWER.name:
            return base
        revision = NEWER.with_roots(self._names)
        effects = self._effects
        created_at_millis = commit_time_after(base, changes, effects.now_millis(), effects.clock_tolerance_millis)
        system = build_system_rows(
            base.root, changes, base.root.definition_path, base.root.key_names, created_at_millis
        )
        like = Root(base.version + 1, Node(), system, revision, base.root.key_names)
        entries = scan_entries(revision, base)
        root = replace(like, node=rebuild_tree(self._effects, self._files, like, base.settings, entries))
        return (
            self._recent.add(TreeSnapshot(self._files, root))
            if create_root(self._effects, root, base.settings, changes)
            else None
        )

    def list_unmapped_fields(self, snapshot: MetastoreSnapshot, locators: Sequence[Locator]) -> list[tuple[str, ...]]:
        """Return for each object the fields of its definition that a conversion would drop."""
        own = self._own(snapshot)
        own.get_many(locators)
        return [("unknown fields",) if own.carried(one) else () for one in locators]

    @property
    def is_read_only(self) -> bool:
        """Whether the lakehouse was written by another program and cannot be changed."""
        return self.latest().root.revision.write_rows is None

    def list_retained(self) -> list[Commit]:
        """Return the live versions, oldest first."""
        taken = list_taken_versions(self._files.store, self._names)
        return [root.commit for root in read_live_roots(self._files.store, self._names, taken)]

    def roll_back(self, to: MetastoreSnapshot, changes: Changes) -> TreeSnapshot:
        """Commit the content of `to` as the next version; concurrent commits conflict only if they are rollbacks."""
        newest = self.latest()
        newest.root.revision.check_writable()
        return self._recent.add(roll_back(self._effects, self._files, newest, self._own(to), changes))

    def differences(self, before: MetastoreSnapshot, after: MetastoreSnapshot) -> Iterator[Difference]:
        """Yield the objects that differ, in locator order; reads only what the versions do not share."""
        return diff_snapshots(self._own(before), self._own(after), self._birthplaces)

    def objects(self, snapshot: MetastoreSnapshot, kind: Kind) -> Iterator[tuple[Locator, Object]]:
        """Yield every object of a kind in the whole version."""
        return scan_objects(self._own(snapshot), kind, self._birthplaces)

    def files_of(self, snapshots: Iterable[MetastoreSnapshot]) -> Iterator[str]:
        """Yield the paths of the metadata files that these versions reference, each once, without data files."""
        return list_reachable_files(map(self._own, snapshots))

    def owns(self, path: str) -> bool:
        """Return whether `path` belongs to the layout, so that the file may be deleted if it is unreferenced."""
        return is_layout_file(path)

    def deletion_rank(self, path: str) -> int:  # noqa: ARG002
        """Return the step in which vacuum deletes the file at `path`; here all files are in the first step."""
        return 0

    def expire(self, versions: Iterable[int]) -> None:
        """Expire these versions; files that only they reference become garbage."""
        expire_versions(self._effects, self.latest().root, versions)

    def list_retired(self, since_millis: int, kept: Set[int]) -> list[RetiredVersion]:
        """Return the versions that expired at that time or later and can still be read, oldest first."""
        store = self._files.store
        maybe = [version for version in list_versions_since(store, self._names, since_millis) if version not in kept]
        found = read_retired_roots(store, self._names, maybe)
        return [RetiredVersion(path, TreeSnapshot(self._files, root)) for path, root in found]

    def problems(self, snapshot: MetastoreSnapshot) -> Iterator[Problem]:
        """Yield each violated invariant of this version."""
        return find_problems(self._own(snapshot))

    def encode_hint(self, snapshot: MetastoreSnapshot) -> tuple[str, bytes]:
        """Return the path and content of the hint file of a copy whose newest version is this one."""
        return self._own(snapshot).root.revision.hint_path, encode_hint(snapshot.version)

    def repair(self) -> list[str]:
        """Rewrite a missing or wrong hint, and return what was repaired."""
        return repair_hint(self._effects, self.latest().root)

    def _own(self, snapshot: MetastoreSnapshot) -> TreeSnapshot:
        if not isinstance(snapshot, TreeSnapshot) or snapshot.files is not self._files:
            raise InvalidInputError("the snapshot belongs to another metastore")
        return snapshot

    def _read_live(self, versions: Sequence[int]) -> list[TreeSnapshot | None]:
        roots = read_roots(self._files.store, self._names, versions)
        return [None if root is None or root.is_expired else TreeSnapshot(self._files, root) for root in roots]


def create_tree(
    effects: Effects,
    settings: LakehouseSettings,
    changes: Changes,
    revision: TreeRevision = NEWER,
    entries: Iterable[Entry] = (),
) -> TreeMetastore:
    """Create a lakehouse under the store's root, which must not contain one.

    It is empty, or contains the objects of the changes, or `entries`: sorted tree keys
    with their pointers.
    """
    if find_root_names(effects.store) is not None:
        raise _already_there(effects)
    revision.check_limits(settings)
    files = TreeFiles(effects.store)
    path = lakehouse_definition_path(effects.new_id())
    effects.store.put(path, append_checksum(encode_definition(settings), Kind.LAKEHOUSE))
    system = build_system_rows(None, changes, path, KeyNames(), effects.now_millis())
    empty = Root(0, Node(), system, revision, KeyNames())
    if changes.puts:
        base = TreeSnapshot(files, empty)
        staged = stage_changes(base, changes, effects.new_id)
        rewrites = build_rewrites(base, changes, effects.new_id) if settings.is_strict_tree else NO_REWRITES
        files.write({**staged.files, **rewrites.files})
        entries = build_first_entries(base, {**staged.pointers, **rewrites.pointers})
    root = replace(empty, node=rebuild_tree(effects, files, empty, settings, entries))
    if not create_root(effects, root, settings):
        raise _already_there(effects)
    return TreeMetastore(effects, files, revision.roots, TreeSnapshot(files, root))


def open_tree(effects: Effects) -> TreeMetastore:
    """Return the lakehouse under the store's root, in any format revision."""
    found = find_newest_root(effects.store)
    if found is None:
        raise NotFoundError(f"no lakehouse at {effects.store.uri}; create one there, or check the URI")
    names, newest = found
    files = TreeFiles(effects.store)
    return TreeMetastore(effects, files, names, TreeSnapshot(files, newest))


def _already_there(effects: Effects) -> AlreadyExistsError:
    return AlreadyExistsError(f"a lakehouse already exists at {effects.store.uri}; open it, or choose another location")
