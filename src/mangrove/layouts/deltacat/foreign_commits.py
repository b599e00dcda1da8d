"""Import of commits that DeltaCAT made without a version guard."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from mangrove.betree.build import write_new_nodes
from mangrove.betree.edit import apply_messages
from mangrove.effects import Effects
from mangrove.errors import ConflictError, FormatError
from mangrove.layouts.deltacat.commit import IndexNodeWriter, complete_log, create_guard, rebase_on_newest
from mangrove.layouts.deltacat.fields import BodyFields
from mangrove.layouts.deltacat.files import DeltaCatFiles
from mangrove.layouts.deltacat.foreign_catalog import (
    ForeignHistory,
    list_logged_transactions,
    load_foreign_history,
    prefetch_names,
    replay_transaction,
)
from mangrove.layouts.deltacat.guards import Guard, build_empty_guard, read_guard, read_takeover_guard
from mangrove.layouts.deltacat.index import INDEX_SHAPE
from mangrove.layouts.deltacat.msgpack_maps import decode_map
from mangrove.layouts.deltacat.paths import TAKEOVER_PATH, NumberedFile, parse_numbered_path
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot
from mangrove.layouts.deltacat.transaction_log import MINUTE_LOG, minute_folder_of, parse_log_path, start_time_of
from mangrove.metastore import Changes, Commit, Isolation, RowChangeDetector

__all__ = ["ForeignCatalog", "import_foreign_commits", "list_foreign_commits"]


class ForeignCatalog:
    """The versions of another program, read once and again when its log has grown."""

    def __init__(self, effects: Effects, files: DeltaCatFiles) -> None:
        self._effects = effects
        self._files = files
        self._history: ForeignHistory | None = None
        self._is_fixed = False
        self._lock = threading.Lock()

    def latest(self) -> DeltaCatSnapshot:
        """Return the newest version; lists the log to detect newer ones."""
        history = self._history
        if history is None or list_logged_transactions(self._files).keys() != history.logged:
            history = self._read()
        return DeltaCatSnapshot(
            self._files, history.guards[-1] if history.guards else build_empty_guard(self._files.revision)
        )

    def guards(self) -> Sequence[Guard]:
        """Return the imported versions, or the current ones if they are not imported yet."""
        return (self._history or self._read()).guards

    def take_over(
        self, base: DeltaCatSnapshot, changes: Changes, isolation: Isolation, have_rows_changed: RowChangeDetector
    ) -> tuple[DeltaCatSnapshot, Changes]:
        """Fix the other program's transactions and their order, and return the base for the changes.

        The file that records them has a fixed name, so the first writer decides for all.
        """
        taken_over = read_takeover_guard(self._files.store)
        if taken_over is None:
            guard = self._guard_to_take_over()
            taken_over = (
                guard if create_guard(self._effects, guard, TAKEOVER_PATH) else read_takeover_guard(self._files.store)
            )
        assert taken_over is not None, "it could not be created because it was there"
        if (base.version, base.guard.transaction) == (taken_over.version, taken_over.transaction):
            return DeltaCatSnapshot(self._files, taken_over), changes
        guards = self._read(taken_over).guards
        if base.version >= 0 and guards[base.version].transaction != base.guard.transaction:
            raise ConflictError(
                f"another program concurrently committed to {self._files.store.uri}, with an end time before that of "
                f"version {base.version}. Nothing was committed; repeat the transaction on the newest version"
            )
        return rebase_on_newest(
            base, [*guards[base.version + 1 : -1], taken_over], changes, isolation, have_rows_changed
        )

    def _guard_to_take_over(self) -> Guard:
        """Return the guard of the newest version, with its index written, that imports all versions before it."""
        history = self._read()
        newest = history.guards[-1] if history.guards else build_empty_guard(self._files.revision)
        nodes = IndexNodeWriter(self._effects.new_id)
        root = write_new_nodes(newest.root, nodes.write)
        self._files.write(nodes.files)
        return replace(newest, root=root, foreign=history.transactions)

    def _read(self, taken_over: Guard | None = None) -> ForeignHistory:
        with self._lock:
            if self._history is None or not self._is_fixed:
                taken_over = taken_over or read_takeover_guard(self._files.store)
                self._history = load_foreign_history(self._files, None if taken_over is None else taken_over.foreign)
                self._is_fixed = taken_over is not None
            return self._history


_WINDOW_MILLIS: Final = 60 * 60 * 1000
"""How long before the newest version a DeltaCAT transaction that is not imported may have started."""
_ATTEMPTS_MAX: Final = 100
_OVERRULED_PROPERTY: Final = "deltacat.overruled"
"""The property of an imported version that lists the DeltaCAT files superseded by earlier Mangrove files."""


@dataclass(frozen=True, slots=True)
class _ForeignCommit:
    """A transaction in DeltaCAT's log that is not imported yet."""

    id: str
    end: int
    message: str
    files: tuple[NumberedFile, ...]


def import_foreign_commits(
    effects: Effects, newest: DeltaCatSnapshot, since_millis: int | None = None
) -> list[DeltaCatSnapshot]:
    """Import DeltaCAT's transactions as versions, in the order of their end times, and return them.

    The log is searched from the time of the newest version, or from an earlier time if
    that one is dated by a wrong clock.

    If a transaction used a revision number that Mangrove had already used, Mangrove's
    file wins, and the properties of the version list the superseded file.
    """
    if not newest.files.revision.start_offset:
        return []  # only Mangrove writes this form, so there are no foreign transactions
    made: list[DeltaCatSnapshot] = []
    for pending in _list_pending(newest.files, newest.guard, effects.now_millis(), since_millis):
        for _ in range(_ATTEMPTS_MAX):
            if pending.id in newest.guard.imported_transactions:
                break
            complete_log(newest.files, newest.guard)
            guard = _build_import_guard(effects, newest, pending)
            if create_guard(effects, guard, guard.path):
                newest = DeltaCatSnapshot(newest.files, guard)
                made.append(newest)
                break
            concurrent_commit = read_guard(newest.files.store, newest.version + 1)
            newest = newest if concurrent_commit is None else DeltaCatSnapshot(newest.files, concurrent_commit)
        else:
            raise ConflictError(
                f"the import of DeltaCAT transaction {pending.id} lost the race for a version {_ATTEMPTS_MAX} times. "
                "Nothing is lost; retry when fewer writers are active"
            )
    return made


def list_foreign_commits(newest: DeltaCatSnapshot, now_millis: int) -> list[str]:
    """Return the transactions of DeltaCAT that are not imported yet, in the order of their end times."""
    if not newest.files.revision.start_offset:
        return []
    pending = _list_pending(newest.files, newest.guard, now_millis)
    return [one.id for one in pending if one.id not in newest.guard.imported_transactions]


def _list_pending(
    files: DeltaCatFiles, guard: Guard, now_millis: int, since_millis: int | None = None
) -> list[_ForeignCommit]:
    revision = files.revision
    made_at_millis = min(guard.commit.created_at_millis, now_millis) if since_millis is None else since_millis
    since = revision.start_at(max(0, made_at_millis - _WINDOW_MILLIS))
    taken_over = read_takeover_guard(files.store) if guard.first else None
    known = {*guard.imported_transactions, *(one.id for one in (taken_over.foreign if taken_over else ()))}
    found: dict[str, tuple[int, str]] = {}
    for entry in files.store.list(MINUTE_LOG, start_after=minute_folder_of(since)):
        logged = parse_log_path(entry.path)
        is_ours = logged is not None and logged.start % revision.time_units_per_milli == revision.start_offset
        if logged is not None and logged.end is not None and not is_ours and logged.id not in known:
            found[logged.id] = (logged.end, entry.path)
    order = sorted(found, key=lambda transaction: (found[transaction][0], transaction))
    contents = files.store.read_many([found[transaction][1] for transaction in order])
    pending = [
        _read(transaction, *found[transaction], data)
        for transaction, data in zip(order, contents, strict=True)
        if data is not None
    ]
    return [one for one in pending if one.files]


def _read(transaction: str, end: int, path: str, data: bytes) -> _ForeignCommit:
    log = BodyFields(decode_map(data, path), path)
    if log.extras:
        return _ForeignCommit(transaction, end, "", ())  # a Mangrove transaction, from a clock with coarser ticks
    written = [
        parse_numbered_path(file)
        for operation in log.each("operations")
        for name in ("metafile_write_paths", "locator_write_paths")
        for file in operation.texts(name)
    ]
    if any(file.transaction != transaction for file in written):
        raise FormatError(f"{path} lists files of another transaction; run `mangrove check`")
    return _ForeignCommit(transaction, end, log.maybe("commit_message", str) or "", tuple(written))


def _build_import_guard(effects: Effects, base: DeltaCatSnapshot, pending: _ForeignCommit) -> Guard:
    """Return the guard that imports the transaction after `base`, with its index nodes written."""
    revision = base.files.revision
    prefetch_names(base.files, pending.files)
    replayed = replay_transaction(base, pending.files, last_wins=False)
    nodes = IndexNodeWriter(effects.new_id)
    root = write_new_nodes(
        apply_messages(base.guard.root, replayed.messages, INDEX_SHAPE, base.read_nodes), nodes.write
    )
    base.files.write(nodes.files)
    created_at_millis = max(revision.millis_of(pending.end), base.commit.created_at_millis + 1)
    overruled = ", ".join(f"{file.folder}/{file.file_name}" for file in replayed.overruled)
    # A wrong clock that dates one of these in the future must not drop the others.
    ended_at_millis = min(revision.millis_of(pending.end), base.commit.created_at_millis, effects.now_millis())
    since = revision.start_at(max(0, ended_at_millis - _WINDOW_MILLIS))
    return Guard(
        revision=revision,
        version=base.version + 1,
        commit=Commit(
            base.version + 1,
            created_at_millis,
            pending.id,
            pending.message,
            properties={_OVERRULED_PROPERTY: overruled} if overruled else {},
        ),
        transaction=pending.id,
        end=pending.end,
        written=replayed.written,
        root=root,
        log=None,
        first=base.guard.first,
        imported_transactions=[
            *(one for one in base.guard.imported_transactions if start_time_of(one) >= since),
            pending.id,
        ],
        clock_resets=base.guard.clock_resets,
    )
