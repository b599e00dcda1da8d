"""Making versions of what DeltaCAT committed beside us, without a guard."""

from dataclasses import dataclass
from typing import Final

from mangrove.betree.build import stored
from mangrove.betree.edit import apply
from mangrove.effects import Effects
from mangrove.errors import ConflictError, FormatError
from mangrove.layouts.deltacat.commit import NodeFiles, finish_log, publish
from mangrove.layouts.deltacat.fields import Fields
from mangrove.layouts.deltacat.files import CatalogFiles
from mangrove.layouts.deltacat.guard import Guard
from mangrove.layouts.deltacat.index import SHAPE
from mangrove.layouts.deltacat.log_paths import MINUTE_LOG, logged_transaction, minute_of, start_of
from mangrove.layouts.deltacat.packed import unpack
from mangrove.layouts.deltacat.paths import NumberedFile, numbered_file
from mangrove.layouts.deltacat.replay import hold_names, replay
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.layouts.deltacat.versions import read_adopted, read_guard
from mangrove.metastore import Commit

__all__ = ["absorb", "unabsorbed"]

_WINDOW_MILLIS: Final = 60 * 60 * 1000
"""How much longer than our newest version a transaction of DeltaCAT may have been on its way."""
_ATTEMPTS_MAX: Final = 100
_OVERRULED: Final = "deltacat.overruled"
"""The property of an absorbing version that names the files of DeltaCAT's which do not count: ours were first."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """A transaction in DeltaCAT's log that is in no version yet."""

    id: str
    end: int
    message: str
    files: tuple[NumberedFile, ...]


def absorb(effects: Effects, newest: CatalogSnapshot, since_millis: int | None = None) -> list[CatalogSnapshot]:
    """Return the versions that DeltaCAT's transactions became, in the order in which they ended.

    They are searched since the newest version was made, or since an earlier time where
    that one is dated by a wrong clock.

    Where one of them wrote a revision number that we had given already, ours
    stays, and the version's properties name the file that does not count.
    """
    if not newest.files.revision.start_offset:
        return []  # nobody else writes this form, and nothing would tell theirs from ours
    made: list[CatalogSnapshot] = []
    for pending in _pending(newest.files, newest.guard, effects.now_millis(), since_millis):
        for _ in range(_ATTEMPTS_MAX):
            if pending.id in newest.guard.absorbed:
                break
            finish_log(newest.files, newest.guard)
            guard = _absorbing(effects, newest, pending)
            if publish(effects, guard, guard.path):
                newest = CatalogSnapshot(newest.files, guard)
                made.append(newest)
                break
            rival = read_guard(newest.files.store, newest.version + 1)
            newest = newest if rival is None else CatalogSnapshot(newest.files, rival)
        else:
            raise ConflictError(
                f"others committed {_ATTEMPTS_MAX} times while transaction {pending.id} of DeltaCAT was to become a "
                "version. Nothing is lost; try again when fewer writers are at work"
            )
    return made


def unabsorbed(newest: CatalogSnapshot, now_millis: int) -> list[str]:
    """Return the transactions of DeltaCAT that are in no version yet, in the order in which they ended."""
    if not newest.files.revision.start_offset:
        return []
    pending = _pending(newest.files, newest.guard, now_millis)
    return [one.id for one in pending if one.id not in newest.guard.absorbed]


def _pending(files: CatalogFiles, guard: Guard, now_millis: int, since_millis: int | None = None) -> list[_Pending]:
    revision = files.revision
    made_at_millis = min(guard.commit.created_at_millis, now_millis) if since_millis is None else since_millis
    since = revision.start_at(max(0, made_at_millis - _WINDOW_MILLIS))
    adopted = read_adopted(files.store) if guard.first else None
    known = {*guard.absorbed, *(one.id for one in (adopted.foreign if adopted else ()))}
    found: dict[str, tuple[int, str]] = {}
    for entry in files.store.list(MINUTE_LOG, start_after=minute_of(since)):
        logged = logged_transaction(entry.path)
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


def _read(transaction: str, end: int, path: str, data: bytes) -> _Pending:
    log = Fields(unpack(data, path), path)
    if log.extras:
        return _Pending(transaction, end, "", ())  # one of ours all the same, from a clock with coarser ticks
    written = [
        numbered_file(file)
        for operation in log.each("operations")
        for name in ("metafile_write_paths", "locator_write_paths")
        for file in operation.texts(name)
    ]
    if any(file.transaction != transaction for file in written):
        raise FormatError(f"{path} names files of another transaction: run `mangrove check`")
    return _Pending(transaction, end, log.maybe("commit_message", str) or "", tuple(written))


def _absorbing(effects: Effects, base: CatalogSnapshot, pending: _Pending) -> Guard:
    """Return the guard by which the transaction follows `base`, with its index nodes written."""
    revision = base.files.revision
    hold_names(base.files, pending.files)
    replayed = replay(base, pending.files, last_wins=False)
    nodes = NodeFiles(effects.new_id)
    root = stored(apply(base.guard.root, replayed.messages, SHAPE, base.read_nodes), nodes.write)
    base.files.write(nodes.files)
    created_at_millis = max(revision.millis_of(pending.end), base.commit.created_at_millis + 1)
    overruled = ", ".join(f"{file.folder}/{file.file_name}" for file in replayed.overruled)
    # A wrong clock that dates one of these in the future must not make the others forgotten.
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
            properties={_OVERRULED: overruled} if overruled else {},
        ),
        transaction=pending.id,
        end=pending.end,
        written=replayed.written,
        root=root,
        log=None,
        first=base.guard.first,
        absorbed=[*(one for one in base.guard.absorbed if start_of(one) >= since), pending.id],
        clock_resets=base.guard.clock_resets,
    )
