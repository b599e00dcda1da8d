"""The commit of the tree layout: the exclusive create of the next root is the only thing that counts.

    1. definitions and new nodes are written, in parallel; nothing points to them
    2. root v+1 is created if it is not there: now all of it is committed
    3. the hint is written, later, and it does not matter if that fails

A writer that lost the race reads the roots that won it. Where they touched
nothing that matters to it, it applies its messages on the newest and tries the
version after that one.
"""

from collections.abc import Sequence
from dataclasses import replace

from mangrove.betree.build import stored
from mangrove.betree.edit import apply
from mangrove.betree.node import Node, ReadNodes
from mangrove.effects import Effects
from mangrove.errors import ConflictError, StorageError
from mangrove.layouts.tree.contest import footprint_of
from mangrove.layouts.tree.files import TreeFiles
from mangrove.layouts.tree.hint import encode_hint
from mangrove.layouts.tree.root import Root, encode_root, shape_of, system_after
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.layouts.tree.staging import NodeFiles, Staged, compression_of, next_root, stage
from mangrove.layouts.tree.versions import read_root, read_roots
from mangrove.metastore import Changes, Committed, Isolation, check_in_time, commit_time_after
from mangrove.model.settings import LakehouseSettings
from mangrove.model.version_search import check_no_gap
from mangrove.rivals import after_rivals, contested_by, positioned, rolled_back_by

__all__ = [
    "ATTEMPTS_MAX",
    "commit",
    "commit_rebuilt",
    "lost_too_often",
    "pause",
    "publish",
    "rivals_after",
]

ATTEMPTS_MAX = 100
_RIVALS_MAX = 10_000
_ANSWERS_LOST_MAX = 3
_PAUSE_SECONDS_MAX = 0.2


def commit(effects: Effects, files: TreeFiles, base: TreeSnapshot, changes: Changes, isolation: Isolation) -> Committed:
    """Publish the changes as the next version."""
    names = base.root.revision.roots
    check_no_gap(
        base.version,
        base.root.created_at_millis,
        lambda version: effects.store.exists(names.path(version)),
        effects.now_millis(),
    )
    staged = stage(base, changes, effects.new_id)
    unwritten = dict(staged.files)
    for attempt in range(ATTEMPTS_MAX):
        now = effects.now_millis()
        nodes = NodeFiles(base.root, base.settings, now, effects.new_id)
        created_at_millis = commit_time_after(base, staged.changes, now, effects.clock_tolerance_millis)
        root = next_root(base, staged, nodes, created_at_millis)
        files.write(unwritten | nodes.files)
        unwritten = {}
        check_in_time(changes, effects.now_millis())
        if publish(effects, root, base.settings):
            for path, node in nodes.nodes.items():
                files.hold_node(path, node, len(nodes.files[path]))
            return Committed(TreeSnapshot(files, root), staged.changes)
        # Whoever looks first and pauses then tries a version that is long taken.
        pause(effects, attempt)
        base, staged = _after_rivals(files, base, staged, isolation)
    raise lost_too_often(changes.transaction_id)


def commit_rebuilt(
    effects: Effects, files: TreeFiles, base: TreeSnapshot, changes: Changes, rebuilt: Node
) -> TreeSnapshot:
    """Publish a tree that holds the same as `base` in other nodes, which are written already.

    What others commit meanwhile is applied on top of it, so that however long it
    took to build, it is never built in vain.
    """
    for attempt in range(ATTEMPTS_MAX):
        now = effects.now_millis()
        created_at_millis = commit_time_after(base, changes, now, effects.clock_tolerance_millis)
        system = system_after(base.root, changes, base.root.definition_path, base.root.key_names, created_at_millis)
        root = Root(base.version + 1, rebuilt, system, base.root.revision, base.root.key_names)
        check_in_time(changes, effects.now_millis())
        if publish(effects, root, base.settings):
            return TreeSnapshot(files, root)
        pause(effects, attempt)
        nodes = NodeFiles(base.root, base.settings, now, effects.new_id)
        for rival in rivals_after(files, base):
            if rival.is_rollback:
                raise rolled_back_by(rival.commit)
            edited = apply(rebuilt, rival.written, shape_of(base.settings), _reader(nodes, base))
            rebuilt = stored(edited, nodes.write)
            base = TreeSnapshot(files, rival)
        files.write(nodes.files)
    raise lost_too_often(changes.transaction_id)


def publish(effects: Effects, root: Root, settings: LakehouseSettings) -> bool:
    """Create the root node's file if its version is free, and return whether this call did.

    The answer may get lost when the file was made; then whoever's transaction the
    file names has won. The hint follows later, by someone who may fail.
    """
    data = encode_root(root, settings.order, compression_of(settings))
    for tries_left in reversed(range(_ANSWERS_LOST_MAX)):
        try:
            won = effects.store.create(root.path, data)
        except StorageError as error:
            there = read_root(effects.store, root.revision.roots, root.version)
            if there is None and tries_left:
                continue
            if there is None:
                raise StorageError(
                    f"version {root.version} could not be committed ({error}); when asked again it was not there. "
                    "Nothing was changed unless the store still makes it; look at the history before trying again"
                ) from error
            won = there.transaction_id == root.transaction_id
        if won:
            effects.later(lambda: _write_hint(effects, root))
        return won
    raise AssertionError("the loop always returns or raises")


def _write_hint(effects: Effects, root: Root) -> None:
    try:
        effects.store.put(root.revision.hint_path, encode_hint(root.version))
    except StorageError:
        return  # a hint is advice, and readers find the version without it


def _after_rivals(
    files: TreeFiles, base: TreeSnapshot, staged: Staged, isolation: Isolation
) -> tuple[TreeSnapshot, Staged]:
    """Return the newest version and what is staged on it, or refuse when a rival stands in the way."""
    rivals = rivals_after(files, base)
    if not rivals:
        return base, staged
    newest = TreeSnapshot(files, rivals[-1])
    written = {message.key for rival in rivals for message in rival.written}
    following, commuting = after_rivals(
        staged.changes, base, newest, lambda locator: newest.keys.key_of(locator) in written
    )
    staged = replace(staged, changes=following)
    footprint = footprint_of(following, isolation, base.keys, commuting)
    for before, rival in zip([base.root, *rivals], rivals, strict=False):
        if rival.is_rollback:
            raise rolled_back_by(rival.commit)
        touched = footprint.touched_by((message.key for message in rival.written), base.keys)
        if touched:
            raise contested_by(rival.commit, {base.keys.said_of(key) for key in touched})
        if staged.changes.settings is not None and rival.definition_path != before.definition_path:
            raise contested_by(rival.commit, ["the lakehouse's own definition"])
    changes = positioned(staged.changes, newest)
    pointers = dict(zip(changes.puts, (staged.pointers[locator] for locator in staged.changes.puts), strict=True))
    return newest, replace(staged, changes=changes, pointers=pointers)


def rivals_after(files: TreeFiles, base: TreeSnapshot) -> list[Root]:
    """Return the roots after `base`, reading more of them at once the more there are."""
    rivals: list[Root] = []
    batch = 1
    while len(rivals) < _RIVALS_MAX:
        first = base.version + 1 + len(rivals)
        found = read_roots(files.store, base.root.revision.roots, range(first, first + batch))
        for root in found:
            if root is None:
                return rivals
            if root.is_expired:
                raise _slept_too_long(root, base)
            rivals.append(root)
        batch = min(2 * batch, 32)
    raise ConflictError(
        f"more than {_RIVALS_MAX} versions were committed since version {base.version}, on which this transaction "
        "stands: begin it again on the newest"
    )


def _reader(nodes: NodeFiles, base: TreeSnapshot) -> ReadNodes:
    """Return a reader that also knows the nodes which are named but not yet written."""

    def read(pointers: Sequence[str]) -> list[Node]:
        return [nodes.nodes.get(pointer) or base.read_nodes([pointer])[0] for pointer in pointers]

    return read


def pause(effects: Effects, attempt: int) -> None:
    """Wait after a lost race, longer the more of them were lost."""
    if attempt:
        effects.pause(min(_PAUSE_SECONDS_MAX, 0.002 * 2**attempt))


def _slept_too_long(expired: Root, base: TreeSnapshot) -> ConflictError:
    return ConflictError(
        f"version {base.version}, on which this transaction stands, is so old that version {expired.version} after it "
        "has expired. Nothing was committed; read again as of the newest version, and repeat the transaction"
    )


def lost_too_often(transaction_id: str) -> ConflictError:
    """Return the error for a transaction that found every name taken."""
    return ConflictError(
        f"transaction {transaction_id} lost the race for the next version {ATTEMPTS_MAX} times in a row. "
        "Nothing was committed; try again when fewer writers are at work"
    )
