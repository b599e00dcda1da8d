"""Reconstruction of versions from catalogs that DeltaCAT wrote.

The file names contain almost everything: the object or name, the revision and the
transaction. The names in the log tell which transactions are committed and when
they ended. Only the names of namespaces and tables are in the bodies.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mangrove.betree.edit import apply_messages
from mangrove.betree.node import Message
from mangrove.betree.search import scan
from mangrove.errors import FormatError
from mangrove.layouts.deltacat.files import DeltaCatFiles, RevisionRef
from mangrove.layouts.deltacat.guards import ForeignTransaction, Guard, WrittenKey, build_empty_guard
from mangrove.layouts.deltacat.index import (
    INDEX_SHAPE,
    MappingEntry,
    NameEntry,
    RevisionEntry,
    deleted_key,
    folder_of,
    key_of_locator,
    key_parts,
    locator_from_key,
    locator_from_parts,
    mapping_key,
    name_key,
    object_key,
    parse_mapping_entry,
    parse_name_entry,
    parse_revision_entry,
    range_of_kind,
)
from mangrove.layouts.deltacat.msgpack_maps import decode_map
from mangrove.layouts.deltacat.paths import MANGROVE_FOLDER, NumberedFile, is_numbered_path, parse_numbered_path
from mangrove.layouts.deltacat.revision import DELTACAT_2, SEED, DeltaCatRevision, digest_of
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot
from mangrove.layouts.deltacat.staging import DELETE
from mangrove.layouts.deltacat.transaction_log import FLAT_LOG, MINUTE_LOG, LoggedTransaction, parse_log_path
from mangrove.metastore import Commit
from mangrove.model.locators import Kind
from mangrove.model.objects import NamespaceEntry, TableEntry
from mangrove.storage.port import ObjectInfo, Prefix, Store

__all__ = [
    "ForeignHistory",
    "ReplayedTransaction",
    "detect_foreign_revision",
    "list_logged_transactions",
    "list_numbered_files",
    "load_foreign_history",
    "prefetch_names",
    "replay_transaction",
]

_DEPTHS: Final = {
    1: Kind.NAMESPACE,
    2: Kind.TABLE,
    3: Kind.TABLE_VERSION,
    4: Kind.STREAM,
    5: Kind.PARTITION,
    6: Kind.DELTA,
}
_NAMED: Final = (Kind.NAMESPACE, Kind.TABLE)


@dataclass(frozen=True, slots=True)
class ReplayedTransaction:
    """The index changes of a transaction, and its files that are superseded and ignored."""

    messages: Sequence[Message]
    written: Sequence[WrittenKey]
    overruled: Sequence[NumberedFile]


def replay_transaction(
    base: DeltaCatSnapshot, files: Iterable[NumberedFile], *, last_wins: bool
) -> ReplayedTransaction:
    """Return the index changes of a transaction that wrote these files after `base`.

    Two programs may have used the same revision number. Among files of DeltaCAT the
    transaction that ended last wins; a Mangrove file always wins.
    """
    newest: dict[str, NumberedFile] = {}
    for file in sorted(files, key=lambda one: one.number):
        newest[file.folder] = file
    values: dict[str, str | None] = {}
    overruled: list[NumberedFile] = []
    transaction = ""
    # A namespace precedes its tables, whose mapping folders may contain its name.
    for file in sorted(newest.values(), key=lambda one: one.folder.count("/")):
        transaction = file.transaction
        there = _number(base, file)
        if file.number > there or (last_wins and file.number == there):
            values |= dict(_values(base, file, values))
        else:
            overruled.append(file)
    messages = [Message(key, value, transaction) for key, value in values.items()]
    return ReplayedTransaction(messages, [WrittenKey(key, key.replace("\t", " ")) for key in values], overruled)


def prefetch_names(files: DeltaCatFiles, numbered: Iterable[NumberedFile]) -> None:
    """Read all bodies that contain names in one batch into the cache; bodies of deletes are not read."""
    files.bodies([requested for file in numbered if (requested := _name_revision_of(file)) is not None])


def _name_revision_of(file: NumberedFile) -> RevisionRef | None:
    """Return the body that contains a name, if the file is one."""
    folder = file.object_folder
    if folder is None or file.operation == DELETE or (kind := _kind(file)) not in _NAMED:
        return None
    return RevisionRef(kind, folder, RevisionEntry(file.number, file.operation, file.transaction))


def _kind(file: NumberedFile) -> Kind:
    folder = file.object_folder
    kind = None if folder is None else _DEPTHS.get(folder.count("/") + 1)
    if kind is None:
        raise FormatError(f"{file.folder}/{file.file_name} is nested deeper than any object; run `mangrove check`")
    return kind


def _current(base: DeltaCatSnapshot, file: NumberedFile, folder: str) -> RevisionEntry | None:
    kind = _kind(file)
    return base.stored_at(
        object_key(folder) if kind in _NAMED else key_of_locator(locator_from_parts(kind, folder.split("/")))
    )


def _number(base: DeltaCatSnapshot, file: NumberedFile) -> int:
    """Return the number of the newest committed file in the same folder."""
    folder = file.object_folder
    if folder is None:
        return parse_mapping_entry(base.value_of(mapping_key(file.folder))).number
    current = _current(base, file, folder)
    return current.number if current is not None else int(base.value_of(deleted_key(folder)) or 0)


def _values(
    base: DeltaCatSnapshot, file: NumberedFile, values: dict[str, str | None]
) -> Iterator[tuple[str, str | None]]:
    folder = file.object_folder
    if folder is None:
        yield mapping_key(file.folder), MappingEntry(file.number, "" if file.operation == DELETE else file.target).text
        return
    kind = _kind(file)
    is_gone = file.operation == DELETE
    current = _current(base, file, folder)
    stored = RevisionEntry(file.number, file.operation, file.transaction)
    if kind in _NAMED:
        names = 1 if current is None else current.names
        named = dict(_name_values(base, file, folder, kind, values))
        yield from named.items()
        name = next((key for key, value in named.items() if value is not None), "")
        yield object_key(folder), None if is_gone else replace(stored, names=names, name=name).text
    else:
        # Another program may add to a dropped object; the result is unreachable.
        is_gone = is_gone or _was_deleted(base, folder.rpartition("/")[0], values)
        yield key_of_locator(locator_from_parts(kind, folder.split("/"))), None if is_gone else stored.text
    yield deleted_key(folder), str(file.number) if is_gone else None
    if is_gone:
        yield from _delete_descendants(base, folder)


def _was_deleted(base: DeltaCatSnapshot, folder: str, values: dict[str, str | None]) -> bool:
    """Return whether the object in a folder is deleted after the transaction's changes so far."""
    key = deleted_key(folder)
    return (values[key] if key in values else base.value_of(key)) is not None


def _delete_descendants(base: DeltaCatSnapshot, folder: str) -> Iterator[tuple[str, str | None]]:
    """Yield the deletes of all descendants: another program deletes a stream, but not the objects below it.

    The revision numbers stay known, so that none is used twice.
    """
    parts = folder.split("/")
    for kind in (kind for kind in _DEPTHS.values() if kind not in _NAMED):
        first, end = range_of_kind(kind, *key_parts(parts))
        for key, value in scan(base.guard.root, first, end, base.read_nodes):
            yield key, None
            yield deleted_key(folder_of(locator_from_key(key))), str(parse_revision_entry(value).number)


def _name_values(
    base: DeltaCatSnapshot, file: NumberedFile, folder: str, kind: Kind, values: dict[str, str | None]
) -> Iterator[tuple[str, str | None]]:
    parent = folder.rpartition("/")[0]
    current = base.stored_at(object_key(folder))
    before = None if current is None else _name(base, RevisionRef(kind, folder, current))
    requested = _name_revision_of(file)
    after = None if requested is None else _name(base, requested)
    if before is not None and before != after:
        key = name_key(kind, parent, before)
        led_to = base.value_of(key)
        if key not in values and led_to is not None and parse_name_entry(led_to).folder == folder:
            yield key, None
    if after is not None:
        mapping_folder = _mapping_folder(base, kind, parent, after, values)
        yield name_key(kind, parent, after), NameEntry(folder, mapping_folder).text


def _name(base: DeltaCatSnapshot, requested: RevisionRef) -> str:
    (body,) = base.files.bodies([requested])
    assert isinstance(body.value, NamespaceEntry | TableEntry)
    return body.value.name


def _mapping_folder(base: DeltaCatSnapshot, kind: Kind, parent: str, name: str, values: dict[str, str | None]) -> str:
    canonical = base.files.revision.canonical
    if kind is Kind.NAMESPACE:
        return digest_of(canonical("", name))
    return f"{parent}/{digest_of(canonical(_namespace_name(base, parent, values), name))}"


def _namespace_name(base: DeltaCatSnapshot, folder: str, values: dict[str, str | None]) -> str:
    """Return the name of the namespace after this transaction, which may create it."""
    for key, value in values.items():
        if (
            value is not None
            and key.startswith(name_key(Kind.NAMESPACE, "", ""))
            and parse_name_entry(value).folder == folder
        ):
            return key.rpartition("\t")[2]
    current = base.stored_at(object_key(folder))
    return "" if current is None else _name(base, RevisionRef(Kind.NAMESPACE, folder, current))


_NOT_OBJECTS: Final = frozenset({MANGROVE_FOLDER, FLAT_LOG, "compute/", "data/", "version/"})


@dataclass(frozen=True, slots=True)
class ForeignHistory:
    """The versions committed by another program, oldest first."""

    guards: Sequence[Guard]
    logged: frozenset[str]
    """All transactions in the log when it was read, including those that wrote nothing."""

    @property
    def transactions(self) -> tuple[ForeignTransaction, ...]:
        """The transactions in the order of their end times."""
        return tuple(ForeignTransaction(guard.transaction, guard.end) for guard in self.guards)


def detect_foreign_revision(store: Store) -> DeltaCatRevision | None:
    """Return the format revision of a catalog without guards, or None if there is no catalog."""
    for entry in store.list(FLAT_LOG, delimiter=True):
        if isinstance(entry, Prefix):
            return DELTACAT_2
        if parse_log_path(entry.path) is not None:
            return SEED
    return DELTACAT_2 if any(True for _ in store.list("version/")) else None


def load_foreign_history(files: DeltaCatFiles, only: Sequence[ForeignTransaction] | None = None) -> ForeignHistory:
    """Return the versions committed without guards: all, or only the given transactions, in order."""
    logged = _read_log_paths(files)
    ends = _read_end_times(files, logged) if only is None else {one.id: one.end for one in only}
    by_transaction: dict[str, list[NumberedFile]] = {}
    for _, file in list_numbered_files(files.store):
        if file.transaction in ends:
            by_transaction.setdefault(file.transaction, []).append(file)
    if only is None:
        # The log also contains read-only transactions.
        order = sorted(by_transaction, key=lambda transaction: (ends[transaction], transaction))
    else:
        order = [one.id for one in only]
    prefetch_names(files, (file for written in by_transaction.values() for file in written))
    lines = _log_lines(files, [logged[transaction] for transaction in order if transaction in logged])
    before = DeltaCatSnapshot(files, build_empty_guard(files.revision))
    guards: list[Guard] = []
    for version, transaction in enumerate(order):
        replayed = replay_transaction(before, by_transaction.get(transaction, []), last_wins=True)
        root = apply_messages(before.guard.root, replayed.messages, INDEX_SHAPE, files.nodes)
        message = lines.get(transaction, {}).get("commit_message")
        end = ends[transaction]
        commit = Commit(
            version, files.revision.millis_of(end), transaction, message if isinstance(message, str) else ""
        )
        guard = Guard(files.revision, version, commit, transaction, end, replayed.written, root, None, len(order))
        guards.append(guard)
        before = DeltaCatSnapshot(files, guard)
    return ForeignHistory(guards, frozenset(logged))


def list_logged_transactions(files: DeltaCatFiles) -> dict[str, str]:
    """Return the transactions in the log, each with the path of its log file."""
    return {transaction: path for transaction, (_, path) in _read_log_paths(files).items()}


def _read_log_paths(files: DeltaCatFiles) -> dict[str, tuple[LoggedTransaction, str]]:
    folder = MINUTE_LOG if files.revision.fans_out else FLAT_LOG
    found: dict[str, tuple[LoggedTransaction, str]] = {}
    for entry in files.store.list(folder):
        logged = parse_log_path(entry.path)
        if logged is not None:
            found[logged.id] = (logged, entry.path)
    return found


def _read_end_times(files: DeltaCatFiles, logged: dict[str, tuple[LoggedTransaction, str]]) -> dict[str, int]:
    """Return the end time of each transaction; the start time if neither path nor content has it."""
    without_end = [place for place in logged.values() if place[0].end is None]
    lines = _log_lines(files, without_end)
    ends: dict[str, int] = {}
    for transaction, (one, _) in logged.items():
        end = one.end if one.end is not None else lines.get(transaction, {}).get("end_time")
        ends[transaction] = end if isinstance(end, int) else one.start
    return ends


def _log_lines(files: DeltaCatFiles, places: Sequence[tuple[LoggedTransaction, str]]) -> dict[str, dict[str, Any]]:
    contents = files.store.read_many([path for _, path in places])
    lines: dict[str, dict[str, Any]] = {}
    for (logged, path), data in zip(places, contents, strict=True):
        if data:
            lines[logged.id] = decode_map(data, path)
    return lines


def list_numbered_files(store: Store) -> Iterator[tuple[str, NumberedFile]]:
    """Yield the revisions and mappings in DeltaCAT's folders, committed or not, with their paths.

    Other files in these folders are ignored.
    """
    for entry in store.list("", delimiter=True):
        if isinstance(entry, Prefix) and entry.path not in _NOT_OBJECTS:
            for found in store.list(entry.path):
                if isinstance(found, ObjectInfo) and is_numbered_path(found.path):
                    yield found.path, parse_numbered_path(found.path)
