"""Reading a catalog that has no guards, because another program wrote it, from one listing.

The names of files say nearly everything: which object or name, which revision,
which transaction; the log's own names say which transactions count and when they
ended. Only the names of namespaces and tables are in the bodies alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mangrove.betree.edit import apply
from mangrove.layouts.deltacat.files import CatalogFiles
from mangrove.layouts.deltacat.guard import ForeignTransaction, Guard, nothing_yet
from mangrove.layouts.deltacat.index import SHAPE
from mangrove.layouts.deltacat.log_paths import FLAT_LOG, MINUTE_LOG, LoggedTransaction, logged_transaction
from mangrove.layouts.deltacat.packed import unpack
from mangrove.layouts.deltacat.paths import OURS, NumberedFile, is_numbered, numbered_file
from mangrove.layouts.deltacat.replay import hold_names, replay
from mangrove.layouts.deltacat.revision import DELTACAT_2, SEED, Revision
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.metastore import Commit
from mangrove.storage.port import ObjectInfo, Prefix, Store

__all__ = ["ForeignHistory", "foreign_revision", "logged_transactions", "numbered_files", "read_foreign"]

_NOT_OBJECTS: Final = frozenset({OURS, FLAT_LOG, "compute/", "data/", "version/"})


@dataclass(frozen=True, slots=True)
class ForeignHistory:
    """The versions that another program's transactions made, oldest first."""

    guards: Sequence[Guard]
    logged: frozenset[str]
    """All transactions that the log had when it was read, those that wrote nothing too."""

    @property
    def transactions(self) -> tuple[ForeignTransaction, ...]:
        """The transactions in the order in which they ended."""
        return tuple(ForeignTransaction(guard.transaction, guard.end) for guard in self.guards)


def foreign_revision(store: Store) -> Revision | None:
    """Return the format revision of a catalog without guards, or None if there is no catalog."""
    for entry in store.list(FLAT_LOG, delimiter=True):
        if isinstance(entry, Prefix):
            return DELTACAT_2
        if logged_transaction(entry.path) is not None:
            return SEED
    return DELTACAT_2 if any(True for _ in store.list("version/")) else None


def read_foreign(files: CatalogFiles, only: Sequence[ForeignTransaction] | None = None) -> ForeignHistory:
    """Return what was committed without guards: all of it, or only the transactions given, in their order."""
    logged = _logged(files)
    ends = _ends(files, logged) if only is None else {one.id: one.end for one in only}
    by_transaction: dict[str, list[NumberedFile]] = {}
    for _, file in numbered_files(files.store):
        if file.transaction in ends:
            by_transaction.setdefault(file.transaction, []).append(file)
    if only is None:
        # Transactions that only read are in the log, too.
        order = sorted(by_transaction, key=lambda transaction: (ends[transaction], transaction))
    else:
        order = [one.id for one in only]
    hold_names(files, (file for written in by_transaction.values() for file in written))
    lines = _log_lines(files, [logged[transaction] for transaction in order if transaction in logged])
    before = CatalogSnapshot(files, nothing_yet(files.revision))
    guards: list[Guard] = []
    for version, transaction in enumerate(order):
        replayed = replay(before, by_transaction.get(transaction, []), last_wins=True)
        root = apply(before.guard.root, replayed.messages, SHAPE, files.nodes)
        message = lines.get(transaction, {}).get("commit_message")
        end = ends[transaction]
        commit = Commit(
            version, files.revision.millis_of(end), transaction, message if isinstance(message, str) else ""
        )
        guard = Guard(files.revision, version, commit, transaction, end, replayed.written, root, None, len(order))
        guards.append(guard)
        before = CatalogSnapshot(files, guard)
    return ForeignHistory(guards, frozenset(logged))


def logged_transactions(files: CatalogFiles) -> dict[str, str]:
    """Return which transactions the log has now, each with the path of its file there."""
    return {transaction: path for transaction, (_, path) in _logged(files).items()}


def _logged(files: CatalogFiles) -> dict[str, tuple[LoggedTransaction, str]]:
    folder = MINUTE_LOG if files.revision.fans_out else FLAT_LOG
    found: dict[str, tuple[LoggedTransaction, str]] = {}
    for entry in files.store.list(folder):
        logged = logged_transaction(entry.path)
        if logged is not None:
            found[logged.id] = (logged, entry.path)
    return found


def _ends(files: CatalogFiles, logged: dict[str, tuple[LoggedTransaction, str]]) -> dict[str, int]:
    """Return when each transaction ended; where neither path nor content says it, it ended as it started."""
    unsaid = [place for place in logged.values() if place[0].end is None]
    lines = _log_lines(files, unsaid)
    ends: dict[str, int] = {}
    for transaction, (one, _) in logged.items():
        end = one.end if one.end is not None else lines.get(transaction, {}).get("end_time")
        ends[transaction] = end if isinstance(end, int) else one.start
    return ends


def _log_lines(files: CatalogFiles, places: Sequence[tuple[LoggedTransaction, str]]) -> dict[str, dict[str, Any]]:
    contents = files.store.read_many([path for _, path in places])
    lines: dict[str, dict[str, Any]] = {}
    for (logged, path), data in zip(places, contents, strict=True):
        if data:
            lines[logged.id] = unpack(data, path)
    return lines


def numbered_files(store: Store) -> Iterator[tuple[str, NumberedFile]]:
    """Yield the revisions and mappings that DeltaCAT knows, whether they count or not, with their paths.

    What others put into these folders is none of them, and nobody's business here.
    """
    for entry in store.list("", delimiter=True):
        if isinstance(entry, Prefix) and entry.path not in _NOT_OBJECTS:
            for found in store.list(entry.path):
                if isinstance(found, ObjectInfo) and is_numbered(found.path):
                    yield found.path, numbered_file(found.path)
