"""The commit protocol, which publishes a version by the exclusive create of its guard.

    1. write the log of the previous version if its writer crashed before that
    2. write revisions, mappings and index nodes in parallel; no version references them yet
    3. create the guard of version v+1 with a conditional put; this is the commit point
    4. write the log, which makes the transaction visible to DeltaCAT; after a failure the next commit does it in step 1
    5. write the hint in the background; a failure is ignored

A writer that loses the race reads the guards of the concurrent commits. If none of
them conflicts, it continues the numbering from the newest version and tries the
version after it. It deletes the files of the lost attempt, because DeltaCAT reads
only one file per revision number, which must not be an orphan.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mangrove.betree.build import write_new_nodes
from mangrove.betree.edit import apply_messages
from mangrove.betree.node import Node
from mangrove.effects import Effects
from mangrove.errors import ConflictError, StorageError
from mangrove.layouts.deltacat.conflict_detection import build_validation_set, find_written_partitions
from mangrove.layouts.deltacat.files import DeltaCatFiles
from mangrove.layouts.deltacat.guards import (
    Guard,
    build_empty_guard,
    decode_guard,
    encode_guard,
    encode_hint,
    read_guards,
)
from mangrove.layouts.deltacat.index import INDEX_SHAPE, encode_node
from mangrove.layouts.deltacat.msgpack_maps import encode_map
from mangrove.layouts.deltacat.paths import HINT_PATH, guard_path, node_path
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot
from mangrove.layouts.deltacat.staging import StagedCatalogWrite, stage_changes
from mangrove.layouts.deltacat.transaction_log import build_transaction_id, encode_log
from mangrove.layouts.lost_response import create_and_verify
from mangrove.metastore import (
    Changes,
    Commit,
    CommitResult,
    Isolation,
    RowChangeDetector,
    check_deadline,
    commit_time_after,
)
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
    "IndexNodeWriter",
    "check_not_expired",
    "commit_changes",
    "commit_first",
    "commit_next",
    "commit_rollback",
    "complete_log",
    "create_guard",
    "rebase_on_newest",
]

_ATTEMPTS_MAX: Final = 100
_CONCURRENT_COMMITS_MAX: Final = 10_000
_PAUSE_SECONDS_MAX: Final = 0.2
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class _Started:
    """A transaction with an id and a start time, but no end time yet."""

    id: str
    at_millis: int


class IndexNodeWriter:
    """Collects the files of the new index nodes of one commit."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self.files: dict[str, bytes] = {}
        self.nodes: dict[str, Node] = {}

    def write(self, node: Node) -> str:
        """Encode the node, assign its path, and return the path."""
        path = node_path(self._new_id())
        self.files[path] = encode_node(node)
        self.nodes[path] = node
        return path


def commit_changes(
    effects: Effects,
    files: DeltaCatFiles,
    base: DeltaCatSnapshot,
    changes: Changes,
    isolation: Isolation,
    have_rows_changed: RowChangeDetector,
) -> CommitResult:
    """Publish the changes as the next version."""
    _check_base(effects, base)
    started = _start(effects, files, changes)
    with _delete_on_conflict(effects) as on_storage:
        for attempt in range(_ATTEMPTS_MAX):
            complete_log(files, base.guard)
            guard = _attempt(effects, base, changes, stage_changes(base, changes, started.id), started, on_storage)
            if guard is not None:
                return CommitResult(DeltaCatSnapshot(files, guard), changes)
            # Pause before reading: otherwise the next attempt targets a version that is already taken.
            _pause(effects, attempt)
            concurrent_commits = _read_concurrent_guards(files, base)
            base, changes = rebase_on_newest(base, concurrent_commits, changes, isolation, have_rows_changed)
        raise _too_many_attempts(changes.transaction_id)


def commit_next(
    effects: Effects, files: DeltaCatFiles, base: DeltaCatSnapshot, changes: Changes
) -> CommitResult | None:
    """Publish the changes as the version after `base`, or return None if that version is taken."""
    _check_base(effects, base)
    started = _start(effects, files, changes)
    with _delete_on_conflict(effects) as on_storage:
        complete_log(files, base.guard)
        guard = _attempt(effects, base, changes, stage_changes(base, changes, started.id), started, on_storage)
        if guard is None:
            _delete(effects, on_storage)
            return None
        return CommitResult(DeltaCatSnapshot(files, guard), changes)


def _check_base(effects: Effects, base: DeltaCatSnapshot) -> None:
    if not base.guard.is_foreign:
        created_at_millis, store = base.commit.created_at_millis, base.files.store
        check_no_gap(
            base.version, created_at_millis, lambda version: store.exists(guard_path(version)), effects.now_millis()
        )


def commit_first(effects: Effects, files: DeltaCatFiles, changes: Changes) -> Guard | None:
    """Publish version 0 of a new catalog and return its guard, or None if a concurrent writer did so first."""
    nothing = DeltaCatSnapshot(files, build_empty_guard(files.revision))
    started = _start(effects, files, changes)
    return _attempt(effects, nothing, changes, stage_changes(nothing, changes, started.id), started, {})


def commit_rollback(
    effects: Effects,
    files: DeltaCatFiles,
    newest: DeltaCatSnapshot,
    changes: Changes,
    stage_on: Callable[[DeltaCatSnapshot, str], StagedCatalogWrite],
) -> DeltaCatSnapshot:
    """Publish the changes that `stage_on` stages on the newest version, as a rollback.

    Only a concurrent rollback conflicts with it.
    """
    started = _start(effects, files, changes)
    with _delete_on_conflict(effects) as on_storage:
        for attempt in range(_ATTEMPTS_MAX):
            complete_log(files, newest.guard)
            staged = stage_on(newest, started.id)
            guard = _attempt(effects, newest, changes, staged, started, on_storage, rolls_back=True)
            if guard is not None:
                return DeltaCatSnapshot(files, guard)
            _pause(effects, attempt)
            for concurrent_commit in _read_concurrent_guards(files, newest):
                if concurrent_commit.commit.rolled_back_from is not None:
                    raise build_rollback_conflict_error(concurrent_commit.commit)
                newest = DeltaCatSnapshot(files, concurrent_commit)
        raise _too_many_attempts(changes.transaction_id)


@contextlib.contextmanager
def _delete_on_conflict(effects: Effects) -> Iterator[dict[str, bytes]]:
    """Yield the files that a transaction has written; a `ConflictError` deletes them."""
    on_storage: dict[str, bytes] = {}
    try:
        yield on_storage
    except ConflictError:
        _delete(effects, on_storage)
        raise


def _attempt(
    effects: Effects,
    base: DeltaCatSnapshot,
    changes: Changes,
    staged: StagedCatalogWrite,
    started: _Started,
    on_storage: dict[str, bytes],
    *,
    rolls_back: bool = False,
) -> Guard | None:
    """Try to publish the staged files as the version after `base`; `on_storage` has the files written so far."""
    files = base.files
    nodes = IndexNodeWriter(effects.new_id)
    guard = _next_guard(effects, base, staged, changes, nodes, started)
    if rolls_back:
        guard = replace(guard, commit=replace(guard.commit, rolled_back_from=base.version))
    needed = {**staged.files, **nodes.files}
    files.write({path: data for path, data in needed.items() if on_storage.get(path) != data})
    on_storage |= needed
    if not create_guard(effects, guard, guard.path, changes):
        return None
    _cache_written(files, staged, nodes)
    _write_log(files, guard)
    _delete(effects, on_storage.keys() - needed.keys())
    effects.later(lambda: _write_hint(effects, guard.version))
    return guard


def create_guard(effects: Effects, guard: Guard, path: str, changes: Changes | None = None) -> bool:
    """Create the guard if its version is free, and return whether this call created it.

    The deadline of the changes is checked before each request.
    """
    data = encode_guard(guard)

    def create() -> bool:
        if changes is not None:
            check_deadline(changes, effects.now_millis())
        return effects.store.create(path, data)

    def is_own() -> bool | None:
        (there,) = effects.store.read_many([path])
        return None if there is None else decode_guard(there, path).transaction == guard.transaction

    return create_and_verify(create, is_own, guard.version, "guard")


def complete_log(files: DeltaCatFiles, guard: Guard) -> None:
    """Write the log of a version whose writer crashed before it did, so that DeltaCAT sees the version."""
    if guard.log is None or files.logged == guard.log_path:
        return
    if not files.store.exists(guard.log_path):
        files.store.put(guard.log_path, encode_map(guard.log))
    files.logged = guard.log_path


def _start(effects: Effects, files: DeltaCatFiles, changes: Changes) -> _Started:
    now = effects.now_millis()
    unique = changes.transaction_id if _UUID.fullmatch(changes.transaction_id) else effects.new_id()
    return _Started(build_transaction_id(files.revision.start_at(now), unique), now)


def _next_guard(
    effects: Effects,
    base: DeltaCatSnapshot,
    staged: StagedCatalogWrite,
    changes: Changes,
    nodes: IndexNodeWriter,
    started: _Started,
) -> Guard:
    """Return the guard that follows `base`; new index nodes are added to `nodes`."""
    revision = base.files.revision
    now_millis = max(effects.now_millis(), started.at_millis)
    created_at_millis = commit_time_after(base, changes, now_millis, effects.clock_tolerance_millis)
    end = revision.end_at(created_at_millis)
    version = base.version + 1
    resets = base.guard.clock_resets
    return Guard(
        revision=revision,
        version=version,
        commit=Commit(
            version, created_at_millis, changes.transaction_id, changes.message, changes.author, changes.properties
        ),
        transaction=started.id,
        end=end,
        written=staged.written,
        root=write_new_nodes(
            apply_messages(base.guard.root, staged.messages, INDEX_SHAPE, base.read_nodes), nodes.write
        ),
        log=encode_log(started.id, end, staged.operations, changes),
        first=base.guard.first,
        imported_transactions=base.guard.imported_transactions,
        clock_resets=(*resets, version) if changes.resets_clock else resets,
    )


def _cache_written(files: DeltaCatFiles, staged: StagedCatalogWrite, nodes: IndexNodeWriter) -> None:
    """Cache the written nodes and bodies, because the writer is likely to read them."""
    for path, node in nodes.nodes.items():
        files.cache_node(path, node, len(nodes.files[path]))
    for path, body in staged.bodies.items():
        files.cache_body(path, body, len(staged.files[path]))


def _write_log(files: DeltaCatFiles, guard: Guard) -> None:
    assert guard.log is not None
    try:
        files.store.put(guard.log_path, encode_map(guard.log))
    except StorageError:
        return  # the version is committed; the next commit writes this log first
    files.logged = guard.log_path


def _write_hint(effects: Effects, version: int) -> None:
    try:
        effects.store.put(HINT_PATH, encode_hint(version))
    except StorageError:
        return  # readers find the newest version without the hint


def _delete(effects: Effects, paths: Iterable[str]) -> None:
    listed = sorted(paths)
    try:
        if listed:
            effects.store.delete_many(listed)
    except StorageError:
        return  # these files are unreferenced, and vacuum deletes them


def rebase_on_newest(
    base: DeltaCatSnapshot,
    concurrent_commits: Sequence[Guard],
    changes: Changes,
    isolation: Isolation,
    have_rows_changed: RowChangeDetector,
) -> tuple[DeltaCatSnapshot, Changes]:
    """Return the newest version and the changes rebased on it; raise `ConflictError` on a conflicting commit."""
    if not concurrent_commits:
        return base, changes
    newest = DeltaCatSnapshot(base.files, concurrent_commits[-1])
    written = {one.key for concurrent_commit in concurrent_commits for one in concurrent_commit.written}
    changes, commuting = drop_identical_writes(changes, base, newest, lambda locator: newest.key_of(locator) in written)
    validation_set = build_validation_set(changes, isolation, base, commuting)
    for concurrent_commit in concurrent_commits:
        check_not_expired(concurrent_commit, base)
        if concurrent_commit.commit.rolled_back_from is not None:
            raise build_rollback_conflict_error(concurrent_commit.commit)
        touched = validation_set.detect_conflicts(concurrent_commit.written)
        if touched:
            raise build_conflict_error(concurrent_commit.commit, set(touched))
    check_row_conflicts(
        changes,
        isolation,
        base,
        [DeltaCatSnapshot(base.files, guard) for guard in concurrent_commits],
        lambda number, stream: find_written_partitions(concurrent_commits[number].written, stream),
        have_rows_changed,
    )
    check_default_versions(changes, newest)
    return newest, assign_positions(changes, newest)


def check_not_expired(guard: Guard, base: DeltaCatSnapshot) -> None:
    """Raise `ConflictError` if a version after `base` has expired, so that its writes are unknown."""
    if guard.is_expired:
        raise ConflictError(
            f"version {guard.version} has expired since this transaction began on version {base.version}. "
            "Nothing was committed; restart it on the newest version"
        )


def _read_concurrent_guards(files: DeltaCatFiles, base: DeltaCatSnapshot) -> list[Guard]:
    """Return the guards after `base`; the batch size grows with their number."""
    concurrent_commits: list[Guard] = []
    batch = 1
    while len(concurrent_commits) < _CONCURRENT_COMMITS_MAX:
        first = base.version + 1 + len(concurrent_commits)
        for guard in read_guards(files.store, range(first, first + batch)):
            if guard is None:
                return concurrent_commits
            concurrent_commits.append(guard)
        batch = min(2 * batch, 32)
    raise ConflictError(
        f"more than {_CONCURRENT_COMMITS_MAX} versions were committed since version {base.version}, "
        "the base of this transaction; "
        "restart it on the newest version"
    )


def _pause(effects: Effects, attempt: int) -> None:
    if attempt:
        effects.pause(min(_PAUSE_SECONDS_MAX, 0.002 * 2**attempt))


def _too_many_attempts(transaction: str) -> ConflictError:
    return ConflictError(
        f"transaction {transaction} lost the race for the next version {_ATTEMPTS_MAX} times in a row. "
        "Nothing was committed; retry when fewer writers are active"
    )
