"""The metadata files that catalog versions reference.

A version references its guard, its index nodes, and the revision files in its
index. DeltaCAT has no index: it reads the newest file of each folder whose
transaction is in the log. The following files are therefore live too:

* the mapping files that were the newest of their folder in one of the versions;
* the delete revision of an object or name, while an older file of the same folder is live;
* that of a name or table version whose parent exists: DeltaCAT would count from 1 again;
* the log of each transaction that wrote a live file;
* commits of another program from before the first guard, or not imported into a version yet.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Final, TypeAlias

from mangrove.betree.diff import diff_trees
from mangrove.betree.node import Node
from mangrove.betree.search import get_many, scan
from mangrove.errors import FormatError
from mangrove.layouts.deltacat.foreign_catalog import list_logged_transactions, list_numbered_files
from mangrove.layouts.deltacat.guards import read_takeover_guard
from mangrove.layouts.deltacat.index import (
    deleted_key,
    folder_of,
    folder_of_key,
    key_class_of,
    live_key,
    locator_from_key,
    mapping_key,
    parse_mapping_entry,
    parse_revision_entry,
)
from mangrove.layouts.deltacat.paths import (
    MANGROVE_FOLDER,
    NODE_FOLDER,
    SETTINGS_FOLDER,
    TAKEOVER_PATH,
    NumberedFile,
    alias_folder,
    is_numbered_path,
    parse_numbered_path,
    shared_transaction_folder,
    view_folder,
)
from mangrove.layouts.deltacat.revision import DeltaCatRevision
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot
from mangrove.layouts.deltacat.staging import DELETE
from mangrove.layouts.deltacat.transaction_log import FLAT_LOG, parse_log_path
from mangrove.storage.port import Store

__all__ = ["deletion_rank", "is_layout_file", "list_reachable_files"]

_NODES_PER_READ: Final = 64
_FOLDERS_AT_ONCE: Final = 256
_TABLE_VERSION_DEPTH: Final = 2

_Found: TypeAlias = tuple[str, NumberedFile]
"""A path and its parsed form."""


@dataclass
class _Needed:
    """The files in the indexes of some versions, and the transactions of their guards."""

    revisions: set[tuple[str, int, str]] = field(default_factory=set)
    mappings: set[tuple[str, int]] = field(default_factory=set)
    transactions: set[str] = field(default_factory=set)

    def add(self, snapshot: DeltaCatSnapshot, before: DeltaCatSnapshot | None) -> None:
        """Add the files in the index of a version that the index of the previous version does not have."""
        root = snapshot.guard.root
        entries: Iterable[tuple[str, str | None]] = (
            scan(root, "", None, snapshot.read_nodes)
            if before is None
            else ((key, after) for key, _, after in diff_trees(before.guard.root, root, snapshot.read_nodes))
        )
        for key, value in entries:
            sort = key_class_of(key)
            if value is None:
                continue
            if sort == "y":
                self.mappings.add((folder_of_key(key), parse_mapping_entry(value).number))
            elif sort in "o5678":
                stored = parse_revision_entry(value)
                folder = folder_of_key(key) if sort == "o" else folder_of(locator_from_key(key))
                self.revisions.add((folder, stored.number, stored.transaction))

    def holds(self, file: NumberedFile) -> bool:
        """Return whether this file is the newest of its folder in one of the versions."""
        folder = file.object_folder
        if folder is None:
            return (file.folder, file.number) in self.mappings
        return (folder, file.number, file.transaction) in self.revisions


def list_reachable_files(
    snapshots: Iterable[DeltaCatSnapshot], newest: Callable[[], DeltaCatSnapshot]
) -> Iterator[str]:
    """Yield the layout's files that these versions reference or that DeltaCAT needs to read the newest one."""
    met: set[str] = set()
    needed = _Needed()
    before: DeltaCatSnapshot | None = None
    for snapshot in snapshots:
        needed.add(snapshot, before)
        before = snapshot
        needed.transactions.add(snapshot.guard.transaction)
        if not snapshot.guard.is_foreign:
            yield snapshot.guard.path
            if snapshot.guard.first:
                yield TAKEOVER_PATH
        nodes: list[Node] = [snapshot.guard.root]
        waiting: list[str] = []
        while nodes:
            for node in nodes:
                fresh = [child for child in node.children if isinstance(child, str) and child not in met]
                met.update(fresh)
                waiting.extend(fresh)
            batch, waiting = waiting[-_NODES_PER_READ:], waiting[:-_NODES_PER_READ]
            yield from batch
            nodes = snapshot.read_nodes(batch) if batch else []
    if before is not None:
        yield from _numbered_and_logs(_Kept(newest(), needed))


def is_layout_file(path: str) -> bool:
    """Return whether `path` is the path of a revision, mapping, index node or log.

    Guards are removed by expiry, and the hint is overwritten.
    """
    return path.startswith(NODE_FOLDER) or is_numbered_path(path) or parse_log_path(path) is not None


def deletion_rank(path: str) -> int:
    """Return the step in which a file is deleted: files that its absence would expose to DeltaCAT go first.

    Without the delete revision of an object its previous revision would be live again;
    without the log of a transaction none of its files is live.
    """
    if parse_log_path(path) is not None:
        return 2
    return 1 if is_numbered_path(path) and parse_numbered_path(path).operation == DELETE else 0


def _numbered_and_logs(kept: "_Kept") -> Iterator[str]:
    store = kept.newest.files.store
    folders = (list(group) for _, group in groupby(_all_numbered(store), lambda found: found[1].folder))
    while batch := list(islice(folders, _FOLDERS_AT_ONCE)):
        for path, file in kept.of_folders(batch):
            kept.transactions.add(file.transaction)
            yield path
    for entry in store.list(FLAT_LOG):
        logged = parse_log_path(entry.path)
        if logged is not None and (
            logged.id in kept.transactions or not _is_ours(kept.newest.files.revision, logged.start)
        ):
            yield entry.path


def _is_ours(revision: DeltaCatRevision, start: int) -> bool:
    """Return whether Mangrove committed a transaction; in the first format revision all that were not imported."""
    return start % revision.time_units_per_milli == revision.start_offset


class _Kept:
    """Selects the live revisions and mappings folder by folder."""

    def __init__(self, newest: DeltaCatSnapshot, needed: _Needed) -> None:
        self.newest = newest
        self._needed = needed
        self._committed = (
            list_logged_transactions(newest.files).keys() | needed.transactions | {newest.guard.transaction}
        )
        taken_over = None if newest.guard.is_foreign else read_takeover_guard(newest.files.store)
        self._foreign = frozenset(one.id for one in taken_over.foreign) if taken_over is not None else frozenset()
        self.transactions = {*needed.transactions, *self._foreign}
        """The transactions of live files; their logs are live too."""

    def of_folders(self, folders: list[list[_Found]]) -> Iterator[_Found]:
        """Yield the live files of several folders, each given with all its files."""
        if self.newest.guard.is_foreign:
            # There are no guards: the versions of the other program are read from all its files.
            yield from (found for folder in folders for found in folder if found[1].transaction in self._committed)
            return
        plain = [all(self._needed.holds(file) and file.operation != DELETE for _, file in folder) for folder in folders]
        keys = {key for folder, is_plain in zip(folders, plain, strict=True) if not is_plain for key in _keys(folder)}
        values = get_many(self.newest.guard.root, keys, self.newest.read_nodes)
        for folder, is_plain in zip(folders, plain, strict=True):
            yield from folder if is_plain else self._of_folder(folder, values)

    def _of_folder(self, folder: list[_Found], values: Mapping[str, str]) -> Iterator[_Found]:
        known = _newest_number(folder[0][1], values)
        keeps_older = False
        for path, file in sorted(folder, key=lambda found: found[1].number):
            if self._stays(file, known, values, keeps_older=keeps_older):
                keeps_older = True
                yield path, file

    def _stays(self, file: NumberedFile, known: int | None, values: Mapping[str, str], *, keeps_older: bool) -> bool:
        if file.transaction in self._foreign:
            return True
        is_needed = self._needed.holds(file)
        if file.transaction not in self._committed:
            return is_needed and file.object_folder is not None
        if known is None or file.number > known:
            return True  # a commit of another program that is not imported yet
        if file.operation == DELETE:
            return keeps_older or (file.number == known and _is_remembered(file, values))
        # DeltaCAT may have used the same number and reads its own file; Mangrove's file wins.
        return is_needed or (file.number == known and _is_overruled(file, values))


def _keys(folder: list[_Found]) -> Iterator[str]:
    """Yield the index keys of the newest file of a folder, and whether its parent is deleted."""
    file = folder[0][1]
    object_folder = file.object_folder
    if object_folder is None:
        yield mapping_key(file.folder)
        yield deleted_key(file.folder.rpartition("/")[0])
        return
    key = _live_key(object_folder)
    if key is not None:
        yield key
    yield deleted_key(object_folder)
    yield deleted_key(object_folder.rpartition("/")[0])


def _live_key(object_folder: str) -> str | None:
    try:
        return live_key(object_folder)
    except FormatError:
        return None  # unknown content


def _newest_number(file: NumberedFile, values: Mapping[str, str]) -> int | None:
    """Return the number of the newest file of a folder from the index; None for an unknown folder."""
    if file.object_folder is None:
        mapped = values.get(mapping_key(file.folder))
        return None if mapped is None else parse_mapping_entry(mapped).number
    text = _live_value(file, values)
    if text is not None:
        return parse_revision_entry(text).number
    deleted = values.get(deleted_key(file.object_folder))
    return None if deleted is None else int(deleted)


def _live_value(file: NumberedFile, values: Mapping[str, str]) -> str | None:
    assert file.object_folder is not None
    key = _live_key(file.object_folder)
    return None if key is None else values.get(key)


def _is_overruled(file: NumberedFile, values: Mapping[str, str]) -> bool:
    text = None if file.object_folder is None else _live_value(file, values)
    return text is not None and parse_revision_entry(text).transaction != file.transaction


def _is_remembered(file: NumberedFile, values: Mapping[str, str]) -> bool:
    """Return whether DeltaCAT may use the same name or number again and must continue from this file.

    All other objects have ids or positions that are never reused.
    """
    folder = file.folder if file.object_folder is None else file.object_folder
    if folder.startswith(MANGROVE_FOLDER) or (
        file.object_folder is not None and folder.count("/") != _TABLE_VERSION_DEPTH
    ):
        return False
    return deleted_key(folder.rpartition("/")[0]) not in values


def _all_numbered(store: Store) -> Iterator[_Found]:
    """Yield the revisions and mappings, including kinds unknown to DeltaCAT, folder by folder."""
    yield from list_numbered_files(store)
    for folder in (SETTINGS_FOLDER, view_folder(""), alias_folder(""), shared_transaction_folder("")):
        for entry in store.list(folder):
            if is_numbered_path(entry.path):
                yield entry.path, parse_numbered_path(entry.path)
