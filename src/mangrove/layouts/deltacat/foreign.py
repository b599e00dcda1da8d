"""Reading a catalog that has no guards, because another program wrote it, from one listing.

The names of files say nearly everything: which object or name, which revision,
which transaction; the log's own names say which transactions count and when they
ended. Only the names of namespaces and tables are in the bodies alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mangrove.betree.edit import apply
from mangrove.betree.node import Message, Node
from mangrove.errors import FormatError
from mangrove.layouts.deltacat.draft import DELETE
from mangrove.layouts.deltacat.files import CatalogFiles, Wanted
from mangrove.layouts.deltacat.guard import ForeignTransaction, Guard, Written
from mangrove.layouts.deltacat.index import SHAPE, Mapped, Named, Stored
from mangrove.layouts.deltacat.keys import below_of, deleted_key, key_of_below, mapping_key, name_key, object_key
from mangrove.layouts.deltacat.log_paths import FLAT_LOG, MINUTE_LOG, LoggedTransaction, logged_transaction
from mangrove.layouts.deltacat.packed import unpack
from mangrove.layouts.deltacat.paths import OURS, NumberedFile, numbered_file
from mangrove.layouts.deltacat.revision import DELTACAT_2, SEED, Revision, digest_of
from mangrove.metastore import Commit
from mangrove.model.locators import Kind
from mangrove.model.objects import Namespace, Table
from mangrove.storage.port import ObjectInfo, Prefix, Store

__all__ = ["ForeignHistory", "foreign_revision", "logged_transactions", "read_foreign"]

_NOT_OBJECTS: Final = frozenset({OURS, FLAT_LOG, "compute/", "data/", "version/"})
_DEPTHS: Final = {
    1: Kind.NAMESPACE,
    2: Kind.TABLE,
    3: Kind.TABLE_VERSION,
    4: Kind.STREAM,
    5: Kind.PARTITION,
    6: Kind.DELTA,
}


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
    for file in _numbered_files(files.store):
        if file.transaction in ends:
            by_transaction.setdefault(file.transaction, []).append(file)
    if only is None:
        # Transactions that only read are in the log, too.
        order = sorted(by_transaction, key=lambda transaction: (ends[transaction], transaction))
    else:
        order = [one.id for one in only]
    replay = _Replay(files, _names(files, by_transaction.values()))
    guards: list[Guard] = []
    lines = _log_lines(files, [logged[transaction] for transaction in order if transaction in logged])
    for version, transaction in enumerate(order):
        root, written = replay.apply(by_transaction.get(transaction, []))
        line = lines.get(transaction, {})
        message = line.get("commit_message")
        commit = Commit(
            version,
            files.revision.millis_of(ends[transaction]),
            transaction,
            message if isinstance(message, str) else "",
        )
        end = ends[transaction]
        guards.append(Guard(files.revision, version, commit, transaction, end, written, root, None, len(order)))
    return ForeignHistory(guards, frozenset(logged))


def logged_transactions(files: CatalogFiles) -> frozenset[str]:
    """Return which transactions the log has now."""
    return frozenset(_logged(files))


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


def _numbered_files(store: Store) -> Iterator[NumberedFile]:
    for entry in store.list("", delimiter=True):
        if isinstance(entry, Prefix) and entry.path not in _NOT_OBJECTS:
            for found in store.list(entry.path):
                if isinstance(found, ObjectInfo):
                    yield numbered_file(found.path)


def _names(files: CatalogFiles, transactions: Iterable[list[NumberedFile]]) -> dict[NumberedFile, str]:
    """Return the names that revisions of namespaces and tables give; the bodies of deletes are never read."""
    wanted: dict[NumberedFile, Wanted] = {}
    for written in transactions:
        for file in written:
            kind = _kind(file.object_folder)
            if file.object_folder is not None and kind in (Kind.NAMESPACE, Kind.TABLE) and file.operation != DELETE:
                stored = Stored(file.number, file.operation, file.transaction)
                wanted[file] = Wanted(kind, file.object_folder, stored)
    names: dict[NumberedFile, str] = {}
    for file, body in zip(wanted, files.bodies(list(wanted.values())), strict=True):
        assert isinstance(body.value, Namespace | Table)
        names[file] = body.value.name
    return names


def _kind(folder: str | None) -> Kind | None:
    return None if folder is None else _DEPTHS.get(folder.count("/") + 1)


@dataclass
class _Replay:
    """Applies transactions one after the other, keeping what the index needs to know of those before."""

    files: CatalogFiles
    names: dict[NumberedFile, str]
    _root: Node = field(default_factory=Node)
    _numbers: dict[str, int] = field(default_factory=dict)
    _named: dict[str, str] = field(default_factory=dict)

    def apply(self, written: Sequence[NumberedFile]) -> tuple[Node, tuple[Written, ...]]:
        """Return the index after a transaction that wrote these files, and the keys that it touched."""
        newest: dict[str, NumberedFile] = {}
        for file in sorted(written, key=lambda one: one.number):
            if file.number >= self._numbers.get(file.folder, 0):
                self._numbers[file.folder] = file.number
                newest[file.folder] = file
        messages: list[Message] = []
        for file in newest.values():
            messages.extend(Message(key, value, file.transaction) for key, value in self._values(file))
        self._root = apply(self._root, messages, SHAPE, self.files.nodes)
        return self._root, tuple(Written(message.key, message.key.replace("\t", " ")) for message in messages)

    def _values(self, file: NumberedFile) -> Iterator[tuple[str, str | None]]:
        folder = file.object_folder
        if folder is None:
            yield mapping_key(file.folder), Mapped(file.number, "" if file.operation == DELETE else file.target).text
            return
        kind = _kind(folder)
        if kind is None:
            raise FormatError(f"{file.folder}/{file.file_name} lies deeper than any object: run `mangrove check`")
        is_gone = file.operation == DELETE
        stored = Stored(file.number, file.operation, file.transaction)
        if kind in (Kind.NAMESPACE, Kind.TABLE):
            yield from self._name_values(file, folder, kind)
            yield object_key(folder), None if is_gone else replace(stored, names=1).text
        else:
            yield key_of_below(below_of(kind, folder.split("/"))), None if is_gone else stored.text
        yield deleted_key(folder), str(file.number) if is_gone else None

    def _name_values(self, file: NumberedFile, folder: str, kind: Kind) -> Iterator[tuple[str, str | None]]:
        parent = folder.rpartition("/")[0]
        before = self._named.pop(folder, None)
        name = self.names.get(file)
        key = None if name is None else name_key(kind, parent, name)
        if before is not None and before != key:
            yield before, None
        if name is not None and key is not None:
            self._named[folder] = key
            yield key, Named(folder, self._mapping_folder(kind, parent, name)).text

    def _mapping_folder(self, kind: Kind, parent: str, name: str) -> str:
        canonical = self.files.revision.canonical
        if kind is Kind.NAMESPACE:
            return digest_of(canonical("", name))
        above = self._named.get(parent, "").rpartition("\t")[2]
        return f"{parent}/{digest_of(canonical(above, name))}"
