"""The commit protocol, which publishes a version by the exclusive create of its guard.

    1. the log of the version before is written if its writer died before it could
    2. revisions, mappings and index nodes are written, in parallel; nothing counts them
    3. the guard of version v+1 is created if it is not there: now all of it is committed
    4. the log is written, which shows the transaction to DeltaCAT; if that fails, step 1 of the next commit does it
    5. the hint is written, later, and it does not matter if that fails

A writer that lost the race reads the guards that won it. Where they touched
nothing that matters to it, it counts on from the newest and tries the version
after that one. What it wrote in vain it deletes, because DeltaCAT looks at one
file of each revision number only, and that should not be an orphan.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mangrove.betree.build import write_new_nodes
from mangrove.betree.edit import apply_messages
from mangrove.betree.node import Node
from mangrove.conflicts import (
    assign_positions,
    build_conflict_error,
    build_rollback_conflict_error,
    drop_identical_writes,
)
from mangrove.effects import Effects
from mangrove.errors import ConflictError, StorageError
from mangrove.layouts.deltacat.conflict_detection import build_validation_set
from mangrove.layouts.deltacat.files import CatalogFiles
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
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.layouts.deltacat.staging import StagedCatalogWrite, stage_changes
from mangrove.layouts.deltacat.transaction_log import build_transaction_id, encode_log
from mangrove.metastore import Changes, Commit, CommitResult, Isolation, check_deadline, commit_time_after
from mangrove.model.version_search import check_no_gap

__all__ = [
    "IndexNodeWriter",
    "commit_changes",
    "commit_first",
    "commit_rollback",
    "complete_log",
    "create_guard",
    "rebase_on_newest",
]

_ATTEMPTS_MAX: Final = 100
_CONCURRENT_COMMITS_MAX: Final = 10_000
_LOST_RESPONSES_MAX: Final = 3
_PAUSE_SECONDS_MAX: Final = 0.2
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class _Started:
    """A transaction that has an id and a start, but no end yet."""

    id: str
    at_millis: int


class IndexNodeWriter:
    """The files of the new index nodes of one commit, as they are named."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self.files: dict[str, bytes] = {}
        self.nodes: dict[str, Node] = {}

    def write(self, node: Node) -> str:
        """Take the node's file, and return its path."""
        path = node_path(self._new_id())
        self.files[path] = encode_node(node)
        self.nodes[path] = node
        return path


def commit_changes(
    effects: Effects, files: CatalogFiles, base: CatalogSnapshot, changes: Changes, isolation: Isolation
) -> CommitResult:
    """Publish the changes as the next version."""
    if not base.guard.is_foreign:
        made_at, store = base.commit.created_at_millis, files.store
        check_no_gap(base.version, made_at, lambda version: store.exists(guard_path(version)), effects.now_millis())
    started = _start(effects, files, changes)
    with _delete_on_conflict(effects) as on_storage:
        for attempt in range(_ATTEMPTS_MAX):
            complete_log(files, base.guard)
            guard = _attempt(effects, base, changes, stage_changes(base, changes, started.id), started, on_storage)
            if guard is not None:
                return CommitResult(CatalogSnapshot(files, guard), changes)
            # First wait, then look: whoever looked before waiting would try a version that is long taken.
            _pause(effects, attempt)
            base, changes = rebase_on_newest(base, _read_concurrent_guards(files, base), changes, isolation)
        raise _too_many_attempts(changes.transaction_id)


def commit_first(effects: Effects, files: CatalogFiles, changes: Changes) -> Guard | None:
    """Publish version 0 of a new catalog, and return its guard, or None if somebody else just did so."""
    nothing = CatalogSnapshot(files, build_empty_guard(files.revision))
    started = _start(effects, files, changes)
    return _attempt(effects, nothing, changes, stage_changes(nothing, changes, started.id), started, {})


def commit_rollback(
    effects: Effects,
    files: CatalogFiles,
    newest: CatalogSnapshot,
    changes: Changes,
    stage_on: Callable[[CatalogSnapshot, str], StagedCatalogWrite],
) -> CatalogSnapshot:
    """Publish what `stage_on` makes of the newest version, whichever that is by then, as a rollback from there.

    Only a rival that is a rollback, too, stops it: then two people want different things.
    """
    started = _start(effects, files, changes)
    with _delete_on_conflict(effects) as on_storage:
        for attempt in range(_ATTEMPTS_MAX):
            complete_log(files, newest.guard)
            staged = stage_on(newest, started.id)
            guard = _attempt(effects, newest, changes, staged, started, on_storage, rolls_back=True)
            if guard is not None:
                return CatalogSnapshot(files, guard)
            _pause(effects, attempt)
            for concurrent_commit in _read_concurrent_guards(files, newest):
                if concurrent_commit.commit.rolled_back_from is not None:
                    raise build_rollback_conflict_error(concurrent_commit.commit)
                newest = CatalogSnapshot(files, concurrent_commit)
        raise _too_many_attempts(changes.transaction_id)


@contextlib.contextmanager
def _delete_on_conflict(effects: Effects) -> Iterator[dict[str, bytes]]:
    """Yield what a transaction has on storage; where a conflict ends it, which nothing survives, that is deleted."""
    on_storage: dict[str, bytes] = {}
    try:
        yield on_storage
    except ConflictError:
        _delete(effects, on_storage)
        raise


def _attempt(
    effects: Effects,
    base: CatalogSnapshot,
    changes: Changes,
    staged: StagedCatalogWrite,
    started: _Started,
    on_storage: dict[str, bytes],
    *,
    rolls_back: bool = False,
) -> Guard | None:
    """Try to publish what is staged right after `base`; what this transaction wrote so far is in `on_storage`."""
    files = base.files
    nodes = IndexNodeWriter(effects.new_id)
    guard = _next_guard(effects, base, staged, changes, nodes, started)
    if rolls_back:
        guard = replace(guard, commit=replace(guard.commit, rolled_back_from=base.version))
    needed = {**staged.files, **nodes.files}
    files.write({path: data for path, data in needed.items() if on_storage.get(path) != data})
    on_storage |= needed
    check_deadline(changes, effects.now_millis())
    if not create_guard(effects, guard, guard.path):
        return None
    _cache_written(files, staged, nodes)
    _write_log(files, guard)
    _delete(effects, on_storage.keys() - needed.keys())
    effects.later(lambda: _write_hint(effects, guard.version))
    return guard


def create_guard(effects: Effects, guard: Guard, path: str) -> bool:
    """Create the guard if its version is free, and return whether this call did.

    The answer may get lost when the file was made; then whoever's transaction the
    file names has won.
    """
    data = encode_guard(guard)
    for tries_left in reversed(range(_LOST_RESPONSES_MAX)):
        try:
            return effects.store.create(path, data)
        except StorageError as error:
            (there,) = effects.store.read_many([path])
            if there is not None:
                return decode_guard(there, path).transaction == guard.transaction
            if not tries_left:
                raise StorageError(
                    f"version {guard.version} could not be committed ({error}); when asked again it was not there. "
                    "Nothing was changed unless the store still makes it; look at the history before trying again"
                ) from error
    raise AssertionError("the loop always returns or raises")


def complete_log(files: CatalogFiles, guard: Guard) -> None:
    """Write the log of a version whose writer could not, so that DeltaCAT sees what is committed."""
    if guard.log is None or files.logged == guard.log_path:
        return
    if not files.store.exists(guard.log_path):
        files.store.put(guard.log_path, encode_map(guard.log))
    files.logged = guard.log_path


def _start(effects: Effects, files: CatalogFiles, changes: Changes) -> _Started:
    now = effects.now_millis()
    unique = changes.transaction_id if _UUID.fullmatch(changes.transaction_id) else effects.new_id()
    return _Started(build_transaction_id(files.revision.start_at(now), unique), now)


def _next_guard(
    effects: Effects,
    base: CatalogSnapshot,
    staged: StagedCatalogWrite,
    changes: Changes,
    nodes: IndexNodeWriter,
    started: _Started,
) -> Guard:
    """Return the guard that follows `base`; the index nodes below it that are new are in `nodes`."""
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


def _cache_written(files: CatalogFiles, staged: StagedCatalogWrite, nodes: IndexNodeWriter) -> None:
    """Hold what was written, because whoever wrote it is likely to read it."""
    for path, node in nodes.nodes.items():
        files.cache_node(path, node, len(nodes.files[path]))
    for path, body in staged.bodies.items():
        files.cache_body(path, body, len(staged.files[path]))


def _write_log(files: CatalogFiles, guard: Guard) -> None:
    assert guard.log is not None
    try:
        files.store.put(guard.log_path, encode_map(guard.log))
    except StorageError:
        return  # the version is committed all the same, and whoever commits the next one writes this log first
    files.logged = guard.log_path


def _write_hint(effects: Effects, version: int) -> None:
    try:
        effects.store.put(HINT_PATH, encode_hint(version))
    except StorageError:
        return  # a hint is advice, and readers find the version without it


def _delete(effects: Effects, paths: Iterable[str]) -> None:
    listed = sorted(paths)
    try:
        if listed:
            effects.store.delete_many(listed)
    except StorageError:
        return  # nothing counts these files, and vacuum knows them


def rebase_on_newest(
    base: CatalogSnapshot, concurrent_commits: Sequence[Guard], changes: Changes, isolation: Isolation
) -> tuple[CatalogSnapshot, Changes]:
    """Return the newest version and the changes as they follow it, or refuse when a rival stands in the way."""
    if not concurrent_commits:
        return base, changes
    newest = CatalogSnapshot(base.files, concurrent_commits[-1])
    written = {one.key for concurrent_commit in concurrent_commits for one in concurrent_commit.written}
    changes, commuting = drop_identical_writes(changes, base, newest, lambda locator: newest.key_of(locator) in written)
    validation_set = build_validation_set(changes, isolation, base, commuting)
    for concurrent_commit in concurrent_commits:
        if concurrent_commit.is_expired:
            raise ConflictError(
                f"version {concurrent_commit.version} was committed and has expired since this transaction "
                f"began on version "
                f"{base.version}. Nothing was committed; begin it again on the newest"
            )
        if concurrent_commit.commit.rolled_back_from is not None:
            raise build_rollback_conflict_error(concurrent_commit.commit)
        touched = validation_set.detect_conflicts(concurrent_commit.written)
        if touched:
            raise build_conflict_error(concurrent_commit.commit, set(touched))
    return newest, assign_positions(changes, newest)


def _read_concurrent_guards(files: CatalogFiles, base: CatalogSnapshot) -> list[Guard]:
    """Return the guards after `base`, reading more of them at once the more there are."""
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
        "on which this transaction "
        "stands: begin it again on the newest"
    )


def _pause(effects: Effects, attempt: int) -> None:
    if attempt:
        effects.pause(min(_PAUSE_SECONDS_MAX, 0.002 * 2**attempt))


def _too_many_attempts(transaction: str) -> ConflictError:
    return ConflictError(
        f"transaction {transaction} lost the race for the next version {_ATTEMPTS_MAX} times in a row. "
        "Nothing was committed; try again when fewer writers are at work"
    )
