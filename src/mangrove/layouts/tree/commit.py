"""The commit protocol, which publishes a version by the exclusive create of its root node.

    1. write definitions and new nodes in parallel; no version references them yet
    2. create root v+1 with a conditional put; this is the commit point
    3. write the hint in the background; a failure is ignored

A writer that loses the race reads the roots of the concurrent commits. If none of
them conflicts, it applies its messages to the newest version and tries the
version after it.
"""

from collections.abc import Sequence
from dataclasses import replace

from mangrove.betree.build import write_new_nodes
from mangrove.betree.edit import apply_messages
from mangrove.betree.node import Node, ReadNodes
from mangrove.effects import Effects
from mangrove.errors import ConflictError, StorageError
from mangrove.layouts.lost_response import create_and_verify
from mangrove.layouts.tree.conflict_detection import build_validation_set, find_written_partitions
from mangrove.layouts.tree.files import TreeFiles
from mangrove.layouts.tree.rewrites import NO_REWRITES, build_rewrites
from mangrove.layouts.tree.root import Root, build_system_rows, encode_root, list_written_since, shape_of
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.layouts.tree.staging import (
    StagedTreeWrite,
    TreeNodeWriter,
    build_next_root,
    compression_of,
    stage_changes,
)
from mangrove.layouts.tree.versions import StoredRoots, encode_hint, read_root
from mangrove.metastore import (
    Changes,
    CommitResult,
    Isolation,
    RowChangeDetector,
    check_deadline,
    commit_time_after,
)
from mangrove.model.settings import LakehouseSettings
from mangrove.model.version_search import check_no_gap
from mangrove.rebase import (
    assign_positions,
    build_conflict_error,
    build_rollback_conflict_error,
    check_default_versions,
    check_row_conflicts,
    drop_identical_writes,
)

__all__ = [
    "ATTEMPTS_MAX",
    "build_attempts_error",
    "check_not_expired",
    "commit_changes",
    "commit_next",
    "commit_rebuilt_tree",
    "create_root",
    "pause_before_retry",
    "read_concurrent_roots",
    "rebase_changes",
    "write_nodes",
]

ATTEMPTS_MAX = 100
_CONCURRENT_COMMITS_MAX = 10_000
_PAUSE_SECONDS_MAX = 0.2
_SHOWN_NODES_BYTES_MAX = 256 * 1024
"""A process that commits more than this in new nodes does not show them to the others of the machine.

They would stay in memory with the last versions, beside the cache of nodes and its limit.
"""


def commit_changes(
    effects: Effects,
    files: TreeFiles,
    base: TreeSnapshot,
    changes: Changes,
    isolation: Isolation,
    have_rows_changed: RowChangeDetector,
) -> CommitResult:
    """Publish the changes as the next version."""
    _check_base(effects, base)
    staged = stage_changes(base, changes, effects.new_id)
    for attempt in range(ATTEMPTS_MAX):
        committed = _attempt(effects, files, base, staged)
        if committed is not None:
            return committed
        staged = replace(staged, files={})
        # Pause before reading: otherwise the next attempt targets a version that is already taken.
        pause_before_retry(effects, attempt)
        base, staged = _rebase_on_newest(files, base, staged, isolation, have_rows_changed)
    raise build_attempts_error(changes.transaction_id)


def commit_next(effects: Effects, files: TreeFiles, base: TreeSnapshot, changes: Changes) -> CommitResult | None:
    """Publish the changes as the version after `base`, or return None if that version is taken."""
    _check_base(effects, base)
    return _attempt(effects, files, base, stage_changes(base, changes, effects.new_id))


def _check_base(effects: Effects, base: TreeSnapshot) -> None:
    names = base.root.revision.roots
    check_no_gap(
        base.version,
        base.root.created_at_millis,
        lambda version: effects.store.exists(names.path(version)),
        effects.now_millis(),
    )


def _attempt(effects: Effects, files: TreeFiles, base: TreeSnapshot, staged: StagedTreeWrite) -> CommitResult | None:
    """Write the staged files and new nodes, and try to create the root after `base`."""
    now = effects.now_millis()
    nodes = TreeNodeWriter(base.root, base.settings, now, effects.new_id)
    created_at_millis = commit_time_after(base, staged.changes, now, effects.clock_tolerance_millis)
    root = write_nodes(effects, files, base, staged, nodes, created_at_millis)
    if not create_root(effects, root, base.settings, staged.changes):
        return None
    for path, node in nodes.nodes.items():
        files.cache_node(path, node, len(nodes.files[path]))
    shown = nodes.files if sum(map(len, nodes.files.values())) <= _SHOWN_NODES_BYTES_MAX else {}
    return CommitResult(base.build_next(root, staged.changes, shown), staged.changes)


def write_nodes(
    effects: Effects,
    files: TreeFiles,
    base: TreeSnapshot,
    staged: StagedTreeWrite,
    nodes: TreeNodeWriter,
    created_at_millis: int,
) -> Root:
    """Write the staged files and new nodes, and return the root after `base`, which is not written."""
    rewrites = build_rewrites(base, staged.changes, effects.new_id) if base.settings.is_strict_tree else NO_REWRITES
    root = build_next_root(base, staged, rewrites, nodes, created_at_millis)
    files.write({**staged.files, **rewrites.files, **nodes.files})
    return root


def commit_rebuilt_tree(
    effects: Effects, files: TreeFiles, base: TreeSnapshot, changes: Changes, rebuilt: Node
) -> TreeSnapshot:
    """Publish a tree that holds the same entries as `base` in other nodes, which are already written.

    Concurrent commits are applied on top of it, so a long rebuild is never discarded.
    """
    for attempt in range(ATTEMPTS_MAX):
        now = effects.now_millis()
        created_at_millis = commit_time_after(base, changes, now, effects.clock_tolerance_millis)
        system = build_system_rows(
            base.root, changes, base.root.definition_path, base.root.key_names, created_at_millis
        )
        root = Root(base.version + 1, rebuilt, system, base.root.revision, base.root.key_names)
        if create_root(effects, root, base.settings, changes):
            return TreeSnapshot(files, root)
        pause_before_retry(effects, attempt)
        nodes = TreeNodeWriter(base.root, base.settings, now, effects.new_id)
        for concurrent_commit in read_concurrent_roots(files, base):
            check_not_expired(concurrent_commit, base)
            _check_comparable(concurrent_commit, base)
            edited = apply_messages(
                rebuilt, concurrent_commit.written, shape_of(base.settings, base.root.revision), _reader(nodes, base)
            )
            rebuilt = write_new_nodes(edited, nodes.write)
            base = TreeSnapshot(files, concurrent_commit)
        files.write(nodes.files)
    raise build_attempts_error(changes.transaction_id)


def create_root(effects: Effects, root: Root, settings: LakehouseSettings, changes: Changes | None = None) -> bool:
    """Create the file of the root node if its version is free, and return whether this call created it.

    The deadline of the changes is checked before each request. The hint is written later.
    """
    data = encode_root(root, settings.order, compression_of(settings))

    def create() -> bool:
        if changes is not None:
            check_deadline(changes, effects.now_millis())
        return effects.store.create(root.path, data)

    def is_own() -> bool | None:
        there = read_root(effects.store, root.revision.roots, root.version)
        return None if there is None else there.transaction_id == root.transaction_id

    is_created = create_and_verify(create, is_own, root.version, "root")
    if is_created:
        effects.later(lambda: _write_hint(effects, root))
    return is_created


def _write_hint(effects: Effects, root: Root) -> None:
    try:
        effects.store.put(root.revision.hint_path, encode_hint(root.version))
    except StorageError:
        return  # readers find the newest version without the hint


def _rebase_on_newest(
    files: TreeFiles,
    base: TreeSnapshot,
    staged: StagedTreeWrite,
    isolation: Isolation,
    have_rows_changed: RowChangeDetector,
) -> tuple[TreeSnapshot, StagedTreeWrite]:
    """Return the newest version and the changes staged on it; raise `ConflictError` on a conflicting commit."""
    concurrent_commits = read_concurrent_roots(files, base)
    if not concurrent_commits:
        return base, staged
    check_not_expired(concurrent_commits[-1], base)
    newest = TreeSnapshot(files, concurrent_commits[-1])
    following = _check_concurrent_commits(
        base, concurrent_commits, newest, staged.changes, isolation, have_rows_changed
    )
    changes = assign_positions(following, newest)
    pointers = {
        now: staged.pointers[locator]
        for now, locator in zip(changes.puts, following.puts, strict=True)
        if locator in staged.pointers
    }
    return newest, replace(staged, changes=changes, pointers=pointers)


def rebase_changes(
    base: TreeSnapshot,
    concurrent_commits: Sequence[Root],
    newest: TreeSnapshot,
    changes: Changes,
    isolation: Isolation,
    have_rows_changed: RowChangeDetector,
) -> Changes:
    """Return the changes rebased on the last of the concurrent commits; raise `ConflictError` on a conflict."""
    following = _check_concurrent_commits(base, concurrent_commits, newest, changes, isolation, have_rows_changed)
    return assign_positions(following, newest)


def _check_concurrent_commits(
    base: TreeSnapshot,
    concurrent_commits: Sequence[Root],
    newest: TreeSnapshot,
    changes: Changes,
    isolation: Isolation,
    have_rows_changed: RowChangeDetector,
) -> Changes:
    """Return the changes without those that concurrent commits made too; raise `ConflictError` on a conflict.

    `newest` is the last of the concurrent commits.
    """
    following = _check_written_keys(base, concurrent_commits, newest, changes, isolation)
    if following is None:
        following = _check_each_commit(base, concurrent_commits, changes, isolation, have_rows_changed)
    check_default_versions(following, newest)
    return following


def _check_written_keys(
    base: TreeSnapshot,
    concurrent_commits: Sequence[Root],
    newest: TreeSnapshot,
    changes: Changes,
    isolation: Isolation,
) -> Changes | None:
    """Return what `_check_concurrent_commits` returns if the keys that were written show that nothing conflicts.

    Each of many writers reads the versions of all others, and needs only few of them decoded for this.
    """
    # A strict tree adds messages that do not conflict.
    if changes.settings is not None or base.settings.is_strict_tree:
        return None
    if base.version not in newest.written_since:
        newest.written_since[base.version] = _list_written(base.root, concurrent_commits, 0, len(concurrent_commits))
    written = newest.written_since[base.version]
    if written is None:
        return None
    following, commuting = drop_identical_writes(
        changes, base, newest, lambda locator: newest.keys.key_of(locator) in written
    )
    if build_validation_set(following, isolation, base.keys, commuting).detect_conflicts(written, base.keys):
        return None
    streams = [rows.stream for rows in following.rows_to_validate(isolation)]
    return None if any(find_written_partitions(written, stream, base.keys) for stream in streams) else following


def _list_written(before: Root, roots: Sequence[Root], first: int, end: int) -> set[str] | None:
    """Return the keys that the roots from `first` to `end` wrote; None if one of them is not a usual commit.

    `before` is the root before the first. Where messages were flushed, both halves are searched.
    """
    later = roots[end - 1]
    if end - first == 1:
        is_usual = not later.is_rollback and not later.is_expired and later.revision.name == before.revision.name
        return {message.key for message in later.changed} if is_usual else None
    written = list_written_since(before, later)
    if written is not None:
        return set(written)
    middle = (first + end) // 2
    left = _list_written(before, roots, first, middle)
    right = None if left is None else _list_written(roots[middle - 1], roots, middle, end)
    return None if left is None or right is None else left | right


def _check_each_commit(
    base: TreeSnapshot,
    concurrent_commits: Sequence[Root],
    changes: Changes,
    isolation: Isolation,
    have_rows_changed: RowChangeDetector,
) -> Changes:
    """Return the changes without those that concurrent commits made too; the error names the conflicting commit."""
    for root in concurrent_commits:
        check_not_expired(root, base)
        _check_comparable(root, base)
    snapshots = [TreeSnapshot(base.files, root) for root in concurrent_commits]
    newest = snapshots[-1]
    written = {message.key for concurrent_commit in concurrent_commits for message in concurrent_commit.changed}
    following, commuting = drop_identical_writes(
        changes, base, newest, lambda locator: newest.keys.key_of(locator) in written
    )
    validation_set = build_validation_set(following, isolation, base.keys, commuting)
    for before, concurrent_commit in zip([base.root, *concurrent_commits], concurrent_commits, strict=False):
        touched = validation_set.detect_conflicts((message.key for message in concurrent_commit.changed), base.keys)
        if touched:
            raise build_conflict_error(concurrent_commit.commit, {base.keys.describe_object(key) for key in touched})
        if following.settings is not None and concurrent_commit.definition_path != before.definition_path:
            raise build_conflict_error(concurrent_commit.commit, ["the lakehouse definition"])
    check_row_conflicts(
        following,
        isolation,
        base,
        snapshots,
        lambda number, stream: find_written_partitions(
            (message.key for message in concurrent_commits[number].written), stream, base.keys
        ),
        have_rows_changed,
    )
    return following


def read_concurrent_roots(files: TreeFiles, base: TreeSnapshot) -> StoredRoots:
    """Return the roots after `base`; the batch size grows with their number."""
    concurrent_commits = StoredRoots(base.root.revision.roots, base.version + 1)
    batch = 1
    while len(concurrent_commits) < _CONCURRENT_COMMITS_MAX:
        if not concurrent_commits.read_next(files.store, batch):
            return concurrent_commits
        batch = min(2 * batch, 32)
    raise ConflictError(
        f"more than {_CONCURRENT_COMMITS_MAX} versions were committed since version {base.version}, "
        "the base of this transaction; restart it on the newest version"
    )


def _reader(nodes: TreeNodeWriter, base: TreeSnapshot) -> ReadNodes:
    """Return a reader that also returns nodes which have a path but are not written yet."""

    def read(pointers: Sequence[str]) -> list[Node]:
        return [nodes.nodes.get(pointer) or base.read_nodes([pointer])[0] for pointer in pointers]

    return read


def pause_before_retry(effects: Effects, attempt: int) -> None:
    """Wait after a lost race; the pause grows with the number of attempts."""
    if attempt:
        effects.pause(min(_PAUSE_SECONDS_MAX, 0.002 * 2**attempt))


def _check_comparable(concurrent_commit: Root, base: TreeSnapshot) -> None:
    """Raise `ConflictError` for a rollback or a format upgrade: their keys are not comparable with those of `base`."""
    if concurrent_commit.is_rollback:
        raise build_rollback_conflict_error(concurrent_commit.commit)
    if concurrent_commit.revision.name != base.root.revision.name:
        commit = concurrent_commit.commit
        raise ConflictError(
            f"the format was upgraded by {commit.by(())} in version {commit.version}. "
            "Nothing was committed; repeat the transaction on the newest version"
        )


def check_not_expired(root: Root, base: TreeSnapshot) -> None:
    """Raise `ConflictError` if a version after `base` has expired, so that its writes are unknown."""
    if root.is_expired:
        raise ConflictError(
            f"version {base.version}, the base of this transaction, is too old: version {root.version} after it "
            "has expired. Nothing was committed; repeat the transaction on the newest version"
        )


def build_attempts_error(transaction_id: str) -> ConflictError:
    """Return the error for a transaction that lost the race on every attempt."""
    return ConflictError(
        f"transaction {transaction_id} lost the race for the next version {ATTEMPTS_MAX} times in a row. "
        "Nothing was committed; retry when fewer writers are active"
    )
