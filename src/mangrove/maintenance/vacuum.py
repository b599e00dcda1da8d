"""Deletion of unreferenced files, including outdated Iceberg metadata.

Iceberg metadata can always be written again, but engines may be reading that of the
newest state, and the next one reuses files of the last published one. All other
Iceberg metadata is garbage, and so is that of dropped tables. Metadata that lists
snapshots of expired versions is deleted whatever its age, because their files are.

Files are listed first and references collected afterwards, so that concurrent
commits are seen. An unreferenced file is deleted only if it is older than any
transaction can be: see decision 0008.
"""

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, Protocol, TypeAlias, runtime_checkable

from mangrove.effects import wait_for_pending
from mangrove.errors import ConflictError, FormatError, InvalidInputError, NotFoundError
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.expiry import GRACE_MILLIS, find_pins
from mangrove.maintenance.progress import Progress, ProgressCallback, format_bytes, ignore_progress
from mangrove.maintenance.reachability import visit_reachable_files
from mangrove.metastore import MetastoreSnapshot, RetiredVersion
from mangrove.model.locators import Kind, TableLocator
from mangrove.model.objects import TableEntry, TableType
from mangrove.storage.port import ListEntry, ObjectInfo, Store
from mangrove.tables.iceberg_names import (
    LIST_SUFFIX,
    METADATA_SUFFIX,
    PARTS_SUFFIX,
    VERSION_KEY,
    compute_published_name,
    decode_part_paths,
)
from mangrove.tables.table_state import TableState, load_opened_table_state
from mangrove.transaction.deltas import TableTarget, open_table
from mangrove.transaction.intents import is_intent
from mangrove.transaction.table_versions import load_table_versions
from mangrove.transaction.transaction import youngest_expirable_millis

__all__ = [
    "DATA_FOLDER",
    "DeleteFiles",
    "IcebergMetadataFiles",
    "VacuumReport",
    "delete_files",
    "is_iceberg_metadata",
    "select_candidates",
    "vacuum_files",
]

_FOLDER: Final = re.compile(r"data/([^/]+)/")
_METADATA: Final = re.compile(
    _FOLDER.pattern + r"metadata/[0-9a-f]{32}-\d+(?:-v(\d+)(?:-[0-9a-f]+)?)?" + re.escape(METADATA_SUFFIX)
)

_WITHOUT_PARTS: Final = f"-0{METADATA_SUFFIX}"
"""The suffix of the metadata of a table without data."""


def is_iceberg_metadata(path: str) -> bool:
    """Return whether a file is the metadata file that engines open first; vacuum deletes it first."""
    return _METADATA.fullmatch(path) is not None


class IcebergMetadataFiles:
    """The listed Iceberg metadata files."""

    def __init__(self) -> None:
        self._last: dict[str, ObjectInfo] = {}
        self._histories: dict[str, list[tuple[int, ObjectInfo]]] = {}

    def note(self, entries: Iterator[ListEntry]) -> Iterator[ListEntry]:
        """Pass a listing on, and record the last published metadata of each table and all with a history."""
        for entry in entries:
            match = _METADATA.fullmatch(entry.path) if isinstance(entry, ObjectInfo) else None
            if match is not None and isinstance(entry, ObjectInfo):
                table_id, version = match[1], match[2]
                known = self._last.get(table_id)
                if version is not None:
                    self._histories.setdefault(table_id, []).append((int(version), entry))
                elif known is None or entry.modified_at_millis > known.modified_at_millis:
                    self._last[table_id] = entry
            yield entry

    def select_garbage(self, lake: MaintenanceContext, garbage: Mapping[str, int], live: Set[int]) -> dict[str, int]:
        """Return the garbage without the live Iceberg files, and with all histories that list expired versions."""
        selected = dict(garbage)
        touched = {match[1] for path in garbage if (match := _FOLDER.match(path)) is not None}
        touched &= self._last.keys() | self._histories.keys()
        if not touched:
            return selected
        newest = lake.metastore.latest()
        for locator, table in lake.maintenance.objects(newest, Kind.TABLE):
            if isinstance(locator, TableLocator) and isinstance(table, TableEntry) and table.id in touched:
                for path in self._list_live(lake, newest, locator, table):
                    selected.pop(path, None)
                histories = self._histories.get(table.id, [])
                history: list[str] = []
                if histories:
                    _, last = max(histories, key=lambda one: (one[0], one[1].modified_at_millis))
                    history = _list_history_files(lake, last.path, live)
                if not history or not is_iceberg_metadata(history[0]):
                    selected |= {one.path: one.size for _, one in histories}
                for path in history:
                    selected.pop(path, None)
        return selected

    def _list_live(
        self, lake: MaintenanceContext, newest: MetastoreSnapshot, locator: TableLocator, table: TableEntry
    ) -> Iterator[str]:
        """Yield the files of the newest state and of the one that was published last."""
        if table.id in self._last:
            yield from _list_referenced_files(lake, self._last[table.id].path)
        for state in _load_states(newest, locator, table):
            yield from _list_referenced_files(lake, compute_published_name(state, lake.store.uri).metadata_path)


def _list_history_files(lake: MaintenanceContext, metadata_path: str, live: Set[int]) -> list[str]:
    """Return the metadata file of a history and the files of all its snapshots.

    If an earlier version of it expired, only the files of the last snapshot, which an
    engine may be reading. None if files are unknown.
    """
    (data,) = lake.store.read_many([metadata_path])
    try:
        snapshots = json.loads(data or b"{}").get("snapshots", [])
        versions = [int(one["summary"][VERSION_KEY]) for one in snapshots]
        folder = posixpath.dirname(metadata_path)
        lists = [f"{folder}/{posixpath.basename(one['manifest-list'])}" for one in snapshots]
    except (ValueError, LookupError, TypeError, AttributeError):
        return []
    parts_paths = [path.removesuffix(LIST_SUFFIX) + PARTS_SUFFIX for path in lists]
    parts = lake.store.read_many(parts_paths)
    if None in parts:
        return []
    referenced = [[path, *_decode_parts(path, data or b"")] for path, data in zip(parts_paths, parts, strict=True)]
    if live >= set(versions):
        return [metadata_path, *chain.from_iterable(referenced)]
    return referenced[-1] if versions[-1] in live else []


def _decode_parts(parts_path: str, content: bytes) -> list[str]:
    try:
        return decode_part_paths(content.decode())
    except UnicodeDecodeError as error:
        metadata = parts_path.removesuffix(PARTS_SUFFIX) + METADATA_SUFFIX
        raise FormatError(
            f"{parts_path} is damaged; delete it and {posixpath.basename(metadata)}; they are derived files"
        ) from error


def _list_referenced_files(lake: MaintenanceContext, metadata_path: str) -> Iterator[str]:
    """Yield the files of a published state; none if they are not all known, since they are written again."""
    parts_path = metadata_path.removesuffix(METADATA_SUFFIX) + PARTS_SUFFIX
    (parts,) = lake.store.read_many([parts_path])
    if parts is None and not metadata_path.endswith(_WITHOUT_PARTS):
        return
    yield metadata_path
    yield parts_path
    yield from _decode_parts(parts_path, parts or b"")


def _load_states(newest: MetastoreSnapshot, locator: TableLocator, table: TableEntry) -> Iterator[TableState]:
    """Yield the states of the table versions that can be published."""
    if table.table_type is not TableType.MANAGED:
        return
    for number in load_table_versions(newest, table):
        try:
            opened = open_table(newest, TableTarget(locator, number))
        except InvalidInputError:
            continue  # it is deleted
        if opened.version.schema is not None:
            yield load_opened_table_state(newest, opened)


DATA_FOLDER = "data/"
"""The folder of the tables' data files."""

_FILES_PER_BATCH = 1000
_ATTEMPTS_MAX = 3
_PENDING_SECONDS_MAX = 60.0

_Visit: TypeAlias = Callable[[str], object]
"""Called with each referenced path."""
DeleteFiles: TypeAlias = Callable[[Store, Mapping[str, int], ProgressCallback], None]
"""Deletes files of known sizes from a store; Spark provides a distributed one."""


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """The files that were deleted, or would be in a dry run."""

    paths: tuple[str, ...]
    size_bytes: int
    files_listed: int
    dry_run: bool

    def __str__(self) -> str:
        verb = "would be deleted" if self.dry_run else "were deleted"
        return f"{len(self.paths):,} of {self.files_listed:,} files ({format_bytes(self.size_bytes)}) {verb}"


@runtime_checkable
class _HasTemporaryFiles(Protocol):
    """A store whose crashed writers leave unlisted temporary files."""

    def leftovers(self) -> Iterator[ObjectInfo]: ...

    def delete_leftovers(self, paths: Iterable[str]) -> None: ...


def select_candidates(
    listed: Iterable[ListEntry], owns: Callable[[str], bool], written_before_millis: int | None
) -> Iterator[ObjectInfo]:
    """Yield the files that may be deleted if unreferenced: managed and old enough; None is any age."""
    for entry in listed:
        if (
            isinstance(entry, ObjectInfo)
            and (written_before_millis is None or entry.modified_at_millis < written_before_millis)
            and (entry.path.startswith(DATA_FOLDER) or owns(entry.path))
        ):
            yield entry


def vacuum_files(
    lake: MaintenanceContext,
    *,
    dry_run: bool = False,
    grace_millis: int | None = None,
    alone: bool = False,
    deleter: DeleteFiles | None = None,
    watch: ProgressCallback = ignore_progress,
) -> VacuumReport:
    """Delete the files that no live version, export or open shared transaction references.

    A file younger than `grace_millis` stays, because a running transaction may commit
    it; the default is a day, or longer if transactions may take longer. With `alone`
    there are no concurrent writers, and age is ignored. An interrupted vacuum can be
    repeated.
    """
    if alone:
        # Otherwise the temporary file of a hint written in the background would count as garbage.
        wait_for_pending(lake.effects, _PENDING_SECONDS_MAX)
    now_millis = lake.effects.now_millis()
    before_millis = _cutoff_millis(lake, grace_millis, now_millis, alone=alone)
    retired_since = None if alone else now_millis - youngest_expirable_millis(lake.metastore.latest().settings)
    garbage: dict[str, int] = {}
    listed = _CountedListing(lake.store.list(), watch)
    iceberg_files = IcebergMetadataFiles()
    for entry in select_candidates(iceberg_files.note(iter(listed)), lake.maintenance.owns, before_millis):
        garbage[entry.path] = entry.size
    folders = _visit_reachable(lake, retired_since, lambda path: garbage.pop(path, None))
    for path in [path for path in garbage if path.startswith(tuple(folders))]:
        del garbage[path]
    retained = {commit.version for commit in lake.maintenance.list_retained()}
    garbage = iceberg_files.select_garbage(lake, garbage, retained)
    if not dry_run:
        # Iceberg metadata and intents are deleted before the files that they reference.
        first = {path: size for path, size in garbage.items() if is_iceberg_metadata(path) or is_intent(path)}
        _delete(lake.store.delete_many, first, watch)
        for step in _deletion_steps(garbage, lake.maintenance.deletion_rank):
            (deleter or delete_files)(lake.store, step, watch)
    left = _list_temporary_files(lake.store, before_millis)
    if not dry_run and isinstance(lake.store, _HasTemporaryFiles):
        _delete(lake.store.delete_leftovers, left, watch)
    deleted = garbage | left
    return VacuumReport(tuple(deleted), sum(deleted.values()), listed.files + len(left), dry_run)


def _deletion_steps(garbage: Mapping[str, int], rank: Callable[[str], int]) -> list[dict[str, int]]:
    """Split the files into deletion steps, so that an interruption leaves no misleading state."""
    steps: dict[int, dict[str, int]] = {}
    for path, size in garbage.items():
        steps.setdefault(rank(path), {})[path] = size
    return [steps[number] for number in sorted(steps)]


def delete_files(store: Store, sizes: Mapping[str, int], watch: ProgressCallback) -> None:
    """Delete the files from this process, in batched requests."""
    _delete(store.delete_many, sizes, watch)


class _CountedListing:
    """A listing that reports progress."""

    def __init__(self, entries: Iterator[ListEntry], watch: ProgressCallback) -> None:
        self._entries = entries
        self._watch = watch
        self.files = 0

    def __iter__(self) -> Iterator[ListEntry]:
        for entry in self._entries:
            self.files += 1
            if self.files % _FILES_PER_BATCH == 0:
                self._watch(Progress("listing", self.files))
            yield entry


def _cutoff_millis(lake: MaintenanceContext, grace_millis: int | None, now_millis: int, *, alone: bool) -> int | None:
    """Return the time before which a deletable file was written, or None for any age."""
    newest = lake.metastore.latest()
    least_millis = youngest_expirable_millis(newest.settings)
    if grace_millis is None:
        grace_millis = max(GRACE_MILLIS, least_millis)
    if not alone and grace_millis < least_millis:
        raise InvalidInputError(
            f"a grace period of {grace_millis} ms could delete files of a running transaction; use at "
            f"least {least_millis} ms, or assert that there are no other writers"
        )
    pinned_since = find_pins(newest, now_millis).files_since_millis
    times = [pinned_since, None if alone else now_millis - grace_millis]
    return min((millis for millis in times if millis is not None), default=None)


def _visit_reachable(lake: MaintenanceContext, retired_since: int | None, visit: _Visit) -> frozenset[str]:
    """Visit the files of the live versions, again if some of them expired meanwhile.

    Recently expired versions count too: a rollback to one may be in progress. An
    unreadable live version stops the vacuum, because its references are unknown.
    """
    for _ in range(_ATTEMPTS_MAX):
        kept = [commit.version for commit in lake.maintenance.list_retained()]
        retired = [] if retired_since is None else lake.maintenance.list_retired(retired_since, set(kept))
        try:
            folders = visit_reachable_files(lake, map(lake.metastore.at_version, kept), visit, with_iceberg=True)
        except (NotFoundError, FormatError):
            if {commit.version for commit in lake.maintenance.list_retained()}.issuperset(kept):
                raise
        else:
            return folders | _visit_retired(lake, retired, visit)
    raise ConflictError(
        f"versions of {lake.store.uri} expired {_ATTEMPTS_MAX} times during the vacuum. "
        "Nothing was deleted; repeat it after the expiry"
    )


def _visit_retired(lake: MaintenanceContext, retired: Sequence[RetiredVersion], visit: _Visit) -> frozenset[str]:
    """Visit the files of recently expired versions.

    An unreadable one is skipped: it cannot be in use, because its files may have been
    deleted by a vacuum without concurrent writers.
    """
    for one in retired:
        visit(one.path)
    try:
        return visit_reachable_files(lake, (one.snapshot for one in retired), visit, with_iceberg=True)
    except FormatError:
        if len(retired) == 1:
            return frozenset()
    half = len(retired) // 2
    return _visit_retired(lake, retired[:half], visit) | _visit_retired(lake, retired[half:], visit)


def _list_temporary_files(store: Store, written_before_millis: int | None) -> dict[str, int]:
    """Return the temporary files of crashed writers, with their sizes."""
    if not isinstance(store, _HasTemporaryFiles):
        return {}
    return {
        entry.path: entry.size
        for entry in store.leftovers()
        if written_before_millis is None or entry.modified_at_millis < written_before_millis
    }


def _delete(delete: Callable[[Iterable[str]], None], garbage: Mapping[str, int], watch: ProgressCallback) -> None:
    waiting = iter(garbage)
    done = bytes_done = 0
    total, bytes_total = len(garbage), sum(garbage.values())
    while batch := list(islice(waiting, _FILES_PER_BATCH)):
        delete(batch)
        done += len(batch)
        bytes_done += sum(garbage[path] for path in batch)
        watch(Progress("deleting", done, total, bytes_done, bytes_total))
