"""The commit of the DeltaCAT layout: the exclusive create of the next guard is the only thing that counts.

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

from mangrove.betree.build import stored
from mangrove.betree.edit import apply
from mangrove.betree.node import Node
from mangrove.effects import Effects
from mangrove.errors import ConflictError, StorageError
from mangrove.layouts.deltacat.contest import footprint_of
from mangrove.layouts.deltacat.draft import Staged
from mangrove.layouts.deltacat.files import CatalogFiles
from mangrove.layouts.deltacat.guard import Guard, decode_guard, encode_guard, nothing_yet
from mangrove.layouts.deltacat.index import SHAPE, encode_node
from mangrove.layouts.deltacat.log import log_map
from mangrove.layouts.deltacat.log_paths import transaction_id
from mangrove.layouts.deltacat.packed import pack
from mangrove.layouts.deltacat.paths import HINT_PATH, guard_path, node_path
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.layouts.deltacat.staging import stage
from mangrove.layouts.deltacat.versions import encode_hint, read_guards
from mangrove.metastore import Changes, Commit, Committed, Isolation, check_in_time, commit_time_after
from mangrove.model.version_search import check_no_gap
from mangrove.rivals import after_rivals, contested_by, positioned, rolled_back_by

__all__ = ["NodeFiles", "commit", "commit_first", "finish_log", "follow", "publish", "replace_newest"]

_ATTEMPTS_MAX: Final = 100
_RIVALS_MAX: Final = 10_000
_ANSWERS_LOST_MAX: Final = 3
_PAUSE_SECONDS_MAX: Final = 0.2
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class _Started:
    """A transaction that has an id and a start, but no end yet."""

    id: str
    at_millis: int


class NodeFiles:
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


def commit(
    effects: Effects, files: CatalogFiles, base: CatalogSnapshot, changes: Changes, isolation: Isolation
) -> Committed:
    """Publish the changes as the next version."""
    if not base.guard.is_foreign:
        made_at, store = base.commit.created_at_millis, files.store
        check_no_gap(base.version, made_at, lambda version: store.exists(guard_path(version)), effects.now_millis())
    started = _start(effects, files, changes)
    with _deleted_if_in_vain(effects) as on_storage:
        for attempt in range(_ATTEMPTS_MAX):
            finish_log(files, base.guard)
            guard = _attempt(effects, base, changes, stage(base, changes, started.id), started, on_storage)
            if guard is not None:
                return Committed(CatalogSnapshot(files, guard), changes)
            # First wait, then look: whoever looked before waiting would try a version that is long taken.
            _pause(effects, attempt)
            base, changes = follow(base, _rivals(files, base), changes, isolation)
        raise _lost_too_often(changes.transaction_id)


def commit_first(effects: Effects, files: CatalogFiles, changes: Changes) -> Guard | None:
    """Publish version 0 of a new catalog, and return its guard, or None if somebody else just did so."""
    nothing = CatalogSnapshot(files, nothing_yet(files.revision))
    started = _start(effects, files, changes)
    return _attempt(effects, nothing, changes, stage(nothing, changes, started.id), started, {})


def replace_newest(
    effects: Effects,
    files: CatalogFiles,
    newest: CatalogSnapshot,
    changes: Changes,
    stage_on: Callable[[CatalogSnapshot, str], Staged],
) -> CatalogSnapshot:
    """Publish what `stage_on` makes of the newest version, whichever that is by then, as a rollback from there.

    Only a rival that is a rollback, too, stops it: then two people want different things.
    """
    started = _start(effects, files, changes)
    with _deleted_if_in_vain(effects) as on_storage:
        for attempt in range(_ATTEMPTS_MAX):
            finish_log(files, newest.guard)
            staged = stage_on(newest, started.id)
            guard = _attempt(effects, newest, changes, staged, started, on_storage, rolls_back=True)
            if guard is not None:
                return CatalogSnapshot(files, guard)
            _pause(effects, attempt)
            for rival in _rivals(files, newest):
                if rival.commit.rolled_back_from is not None:
                    raise rolled_back_by(rival.commit)
                newest = CatalogSnapshot(files, rival)
        raise _lost_too_often(changes.transaction_id)


@contextlib.contextmanager
def _deleted_if_in_vain(effects: Effects) -> Iterator[dict[str, bytes]]:
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
    staged: Staged,
    started: _Started,
    on_storage: dict[str, bytes],
    *,
    rolls_back: bool = False,
) -> Guard | None:
    """Try to publish what is staged right after `base`; what this transaction wrote so far is in `on_storage`."""
    files = base.files
    nodes = NodeFiles(effects.new_id)
    guard = _next_guard(effects, base, staged, changes, nodes, started)
    if rolls_back:
        guard = replace(guard, commit=replace(guard.commit, rolled_back_from=base.version))
    needed = {**staged.files, **nodes.files}
    files.write({path: data for path, data in needed.items() if on_storage.get(path) != data})
    on_storage |= needed
    check_in_time(changes, effects.now_millis())
    if not publish(effects, guard, guard.path):
        return None
    _keep(files, staged, nodes)
    _write_log(files, guard)
    _delete(effects, on_storage.keys() - needed.keys())
    effects.later(lambda: _write_hint(effects, guard.version))
    return guard


def publish(effects: Effects, guard: Guard, path: str) -> bool:
    """Create the guard if its version is free, and return whether this call did.

    The answer may get lost when the file was made; then whoever's transaction the
    file names has won.
    """
    data = encode_guard(guard)
    for tries_left in reversed(range(_ANSWERS_LOST_MAX)):
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


def finish_log(files: CatalogFiles, guard: Guard) -> None:
    """Write the log of a version whose writer could not, so that DeltaCAT sees what is committed."""
    if guard.log is None or files.logged == guard.log_path:
        return
    if not files.store.exists(guard.log_path):
        files.store.put(guard.log_path, pack(guard.log))
    files.logged = guard.log_path


def _start(effects: Effects, files: CatalogFiles, changes: Changes) -> _Started:
    now = effects.now_millis()
    unique = changes.transaction_id if _UUID.fullmatch(changes.transaction_id) else effects.new_id()
    return _Started(transaction_id(files.revision.start_at(now), unique), now)


def _next_guard(
    effects: Effects,
    base: CatalogSnapshot,
    staged: Staged,
    changes: Changes,
    nodes: NodeFiles,
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
        root=stored(apply(base.guard.root, staged.messages, SHAPE, base.read_nodes), nodes.write),
        log=log_map(started.id, end, staged.operations, changes),
        first=base.guard.first,
        absorbed=base.guard.absorbed,
        clock_resets=(*resets, version) if changes.resets_clock else resets,
    )


def _keep(files: CatalogFiles, staged: Staged, nodes: NodeFiles) -> None:
    """Hold what was written, because whoever wrote it is likely to read it."""
    for path, node in nodes.nodes.items():
        files.hold_node(path, node, len(nodes.files[path]))
    for path, body in staged.bodies.items():
        files.hold_body(path, body, len(staged.files[path]))


def _write_log(files: CatalogFiles, guard: Guard) -> None:
    assert guard.log is not None
    try:
        files.store.put(guard.log_path, pack(guard.log))
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


def follow(
    base: CatalogSnapshot, rivals: Sequence[Guard], changes: Changes, isolation: Isolation
) -> tuple[CatalogSnapshot, Changes]:
    """Return the newest version and the changes as they follow it, or refuse when a rival stands in the way."""
    if not rivals:
        return base, changes
    newest = CatalogSnapshot(base.files, rivals[-1])
    written = {one.key for rival in rivals for one in rival.written}
    changes, commuting = after_rivals(changes, base, newest, lambda locator: newest.key_of(locator) in written)
    footprint = footprint_of(changes, isolation, base, commuting)
    for rival in rivals:
        if rival.is_expired:
            raise ConflictError(
                f"version {rival.version} was committed and has expired since this transaction began on version "
                f"{base.version}. Nothing was committed; begin it again on the newest"
            )
        if rival.commit.rolled_back_from is not None:
            raise rolled_back_by(rival.commit)
        touched = footprint.touched_by(rival.written)
        if touched:
            raise contested_by(rival.commit, set(touched))
    return newest, positioned(changes, newest)


def _rivals(files: CatalogFiles, base: CatalogSnapshot) -> list[Guard]:
    """Return the guards after `base`, reading more of them at once the more there are."""
    rivals: list[Guard] = []
    batch = 1
    while len(rivals) < _RIVALS_MAX:
        first = base.version + 1 + len(rivals)
        for guard in read_guards(files.store, range(first, first + batch)):
            if guard is None:
                return rivals
            rivals.append(guard)
        batch = min(2 * batch, 32)
    raise ConflictError(
        f"more than {_RIVALS_MAX} versions were committed since version {base.version}, on which this transaction "
        "stands: begin it again on the newest"
    )


def _pause(effects: Effects, attempt: int) -> None:
    if attempt:
        effects.pause(min(_PAUSE_SECONDS_MAX, 0.002 * 2**attempt))


def _lost_too_often(transaction: str) -> ConflictError:
    return ConflictError(
        f"transaction {transaction} lost the race for the next version {_ATTEMPTS_MAX} times in a row. "
        "Nothing was committed; try again when fewer writers are at work"
    )
