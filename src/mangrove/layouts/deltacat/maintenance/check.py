"""Integrity checks of a catalog version and diagnosis of unreadable catalogs."""

from collections.abc import Iterator
from itertools import islice

from mangrove.betree.search import scan, scan_all
from mangrove.betree.verify import verify_tree
from mangrove.effects import Effects
from mangrove.errors import FormatError
from mangrove.layouts.deltacat.files import DeltaCatFiles, RevisionRef
from mangrove.layouts.deltacat.foreign_catalog import list_logged_transactions, list_numbered_files
from mangrove.layouts.deltacat.guards import list_taken_versions, read_guard, read_hint, read_live_guards
from mangrove.layouts.deltacat.index import (
    INDEX_SHAPE,
    MappingEntry,
    folder_of,
    locator_from_key,
    mapping_folder_of,
    name_of,
    object_key,
    parse_mapping_entry,
    parse_name_entry,
    parse_revision_entry,
    range_of_kind,
    range_of_mappings,
)
from mangrove.layouts.deltacat.maintenance.diff import load_namespace_names
from mangrove.layouts.deltacat.msgpack_maps import decode_map, encode_map
from mangrove.layouts.deltacat.paths import MANGROVE_FOLDER, guard_path, is_numbered_path
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot
from mangrove.layouts.deltacat.staging import DELETE
from mangrove.metastore import OpenFailure, Problem
from mangrove.model.locators import Kind
from mangrove.storage.port import ObjectInfo

__all__ = ["diagnose_catalog", "find_problems"]

_BODIES_PER_READ = 256
_GUARDS_PER_READ = 128
_NAMED = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW, Kind.SHARED_TRANSACTION, Kind.ALIAS)


def find_problems(snapshot: DeltaCatSnapshot) -> Iterator[Problem]:
    """Yield each violated invariant of the version; damage only masks problems below it."""
    files = DeltaCatFiles(snapshot.files.store, snapshot.files.revision)
    fresh = DeltaCatSnapshot(files, snapshot.guard)
    path = snapshot.guard.path
    try:
        for broken in verify_tree(fresh.guard.root, INDEX_SHAPE, fresh.read_nodes):
            yield Problem(broken.pointer or path, broken.rule)
        requested = list(_list_revisions(fresh))
    except FormatError as error:
        yield Problem(path, str(error))
        return
    yield from _history_problems(fresh)
    yield from _find_unknown_files(fresh)
    yield from _find_lost_newest(fresh)
    yield from _find_unlogged_revisions(files, requested)
    yield from _find_lost_mappings(fresh, requested)
    yield from _find_unlisted_aliases(fresh)
    yield from _find_damaged_deletions(fresh)
    bodies = iter(requested)
    while batch := list(islice(bodies, _BODIES_PER_READ)):
        yield from _body_problems(files, batch)


def _find_unlogged_revisions(files: DeltaCatFiles, requested: list[RevisionRef]) -> Iterator[Problem]:
    """Yield the revisions that DeltaCAT does not see because their transactions are not in the log.

    A shallow copy has neither such revisions nor their logs: both are in the source,
    which is checked separately.
    """
    logged = list_logged_transactions(files)
    unlogged = [one for one in requested if one.stored.transaction not in logged]
    here = {entry.path for entry in files.store.list()} if unlogged else set()
    for one in unlogged:
        if files.path_of(one) in here:
            yield Problem(files.path_of(one), f"its transaction {one.stored.transaction} is not in the log")


def _find_lost_mappings(snapshot: DeltaCatSnapshot, requested: list[RevisionRef]) -> Iterator[Problem]:
    """Yield the missing mapping files that map a name to an object or unmap it.

    Files of aborted attempts have a transaction that is not in the log, and are ignored.
    A shallow copy has a mapping only if it has the object's first revision.
    """
    files = snapshot.files
    committed = {*list_logged_transactions(files), snapshot.guard.transaction}
    listed = {path: file for path, file in list_numbered_files(files.store) if file.transaction in committed}
    there = listed.values()
    is_copy = any(not one.folder.startswith(MANGROVE_FOLDER) and files.path_of(one) not in listed for one in requested)
    led_to = {(file.folder, file.number, "" if file.operation == DELETE else file.target) for file in there}
    numbers = {(file.folder, file.number) for file in there}
    made_here = {file.object_folder for file in there if file.number == 1 or not is_copy}
    first, end = range_of_mappings()
    for key, value in scan(snapshot.guard.root, first, end, snapshot.read_nodes):
        folder, mapped = mapping_folder_of(key), parse_mapping_entry(value)
        beside = f"{folder.rpartition('/')[0]}/{mapped.target}".lstrip("/")
        is_here = beside in made_here if mapped.target else (folder, mapped.number - 1) in numbers
        if is_here and (folder, mapped.number, mapped.target) not in led_to:
            yield _lost_mapping_problem(files, folder, mapped)


def _find_unlisted_aliases(snapshot: DeltaCatSnapshot) -> Iterator[Problem]:
    """Yield the aliases of tables that only a mapping records.

    A mapping is an empty file in a folder named by a digest, so the name is unknown.
    """
    root, read_nodes = snapshot.guard.root, snapshot.read_nodes
    ranges = sorted([range_of_kind(Kind.TABLE), range_of_kind(Kind.ALIAS)])
    known = {parse_name_entry(value).mapping_folder for _, value in scan_all(root, ranges, read_nodes)}
    first, end = range_of_mappings()
    for key, value in scan(root, first, end, read_nodes):
        folder, target_id = mapping_folder_of(key), parse_mapping_entry(value).target
        namespace_id, *below = folder.split("/")
        stored = snapshot.stored_at(object_key(f"{namespace_id}/{target_id}")) if len(below) == 1 else None
        if folder not in known and stored is not None:
            yield Problem(
                folder,
                f"it maps an alias, known only by its digest, to table {name_of(stored.name) or target_id}; a rename "
                "of the namespace, or a move of the table, loses the alias: record it with create_alias, under the "
                "name that the namespace had when the alias was created",
            )


def _find_damaged_deletions(snapshot: DeltaCatSnapshot) -> Iterator[Problem]:
    """Yield the delete revisions that DeltaCAT cannot read; the index references none of them."""
    files = snapshot.files
    committed = {*list_logged_transactions(files), snapshot.guard.transaction}
    paths = iter(
        path
        for path, file in list_numbered_files(files.store)
        if file.operation == DELETE and file.object_folder is not None and file.transaction in committed
    )
    while batch := list(islice(paths, _BODIES_PER_READ)):
        for path, data in zip(batch, files.store.read_many(batch), strict=True):
            try:
                decode_map(data or b"", path)
            except FormatError as error:
                yield Problem(path, str(error))


def _lost_mapping_problem(files: DeltaCatFiles, folder: str, mapped: MappingEntry) -> Problem:
    does = f"maps a name to {mapped.target}" if mapped.target else "removes the mapping of a name"
    return Problem(
        files.revision.numbered_path(folder, mapped.number, f"{mapped.number:020}_*"),
        f"the file that {does} is missing, so DeltaCAT sees another state; restore it from an export",
    )


def _history_problems(snapshot: DeltaCatSnapshot) -> Iterator[Problem]:
    """Yield the problems of the logs and definitions of all versions up to this one."""
    files = snapshot.files
    for start in range(snapshot.guard.first, snapshot.version + 1, _GUARDS_PER_READ):
        try:
            guards = read_live_guards(files.store, range(start, min(start + _GUARDS_PER_READ, snapshot.version + 1)))
        except FormatError as error:
            yield Problem(guard_path(start), str(error))
            continue
        logs = files.store.read_many([guard.log_path for guard in guards])
        for guard, log in zip(guards, logs, strict=True):
            if guard.log is not None and log is None and guard.version < snapshot.version:
                yield Problem(
                    guard.log_path, f"the log of version {guard.version} is missing, so DeltaCAT does not see it"
                )
            if guard.log is not None and log is not None and log != encode_map(guard.log):
                yield Problem(guard.log_path, f"it differs from the log in the guard of version {guard.version}")
            try:
                _ = DeltaCatSnapshot(files, guard).settings
            except FormatError as error:
                yield Problem(guard.path, str(error))


def _find_unknown_files(snapshot: DeltaCatSnapshot) -> Iterator[Problem]:
    """Yield the unknown files in namespace folders, which are neither read nor deleted."""
    for folder in load_namespace_names(snapshot):
        for entry in snapshot.files.store.list(f"{folder}/"):
            if isinstance(entry, ObjectInfo) and not is_numbered_path(entry.path):
                yield Problem(entry.path, "it is not a catalog file; move it out of the namespace folder")


def _find_lost_newest(snapshot: DeltaCatSnapshot) -> Iterator[Problem]:
    """Yield a problem if the hint names a version after the newest: the hint is written after its guard."""
    store = snapshot.files.store
    hinted = read_hint(store)
    if hinted is None or hinted <= snapshot.version:
        return
    if not any(store.exists(guard_path(version)) for version in (snapshot.version + 1, hinted)):
        yield Problem(
            guard_path(hinted),
            f"the file is missing: the hint names version {hinted}, but the newest version is {snapshot.version}. "
            "Restore it from a copy before the next commit, or repair the hint",
        )


def _list_revisions(snapshot: DeltaCatSnapshot) -> Iterator[RevisionRef]:
    """Yield every revision that the index references."""
    for kind in Kind:
        if kind is Kind.LAKEHOUSE:
            continue
        first, end = range_of_kind(kind)
        for key, value in scan(snapshot.guard.root, first, end, snapshot.read_nodes):
            if kind not in _NAMED:
                yield RevisionRef(kind, folder_of(locator_from_key(key)), parse_revision_entry(value))
                continue
            folder = parse_name_entry(value).folder
            stored = snapshot.stored_at(object_key(folder))
            if stored is None:
                raise FormatError(f"the index maps a name to {folder}, but has no revision of it")
            yield RevisionRef(kind, folder, stored)


def _body_problems(files: DeltaCatFiles, requested: list[RevisionRef]) -> Iterator[Problem]:
    try:
        files.bodies(requested)
    except FormatError as error:
        if len(requested) == 1:
            yield Problem(files.path_of(requested[0]), str(error))
            return
        half = len(requested) // 2
        yield from _body_problems(files, requested[:half])
        yield from _body_problems(files, requested[half:])


_VERSIONS_MAX = 1000


def diagnose_catalog(effects: Effects) -> OpenFailure | None:
    """Return why the catalog at the store's root cannot be opened; None if it has no guards."""
    taken = list_taken_versions(effects.store)
    broken: list[Problem] = []
    for version in reversed(taken[-_VERSIONS_MAX:]):
        try:
            guard = read_guard(effects.store, version)
        except FormatError as error:
            broken.append(Problem(guard_path(version), f"version {version} cannot be opened: {error}"))
            continue
        if guard is not None and not guard.is_expired:
            snapshot = DeltaCatSnapshot(DeltaCatFiles(effects.store, guard.revision), guard)
            return OpenFailure((*(_with_advice(one, version) for one in broken), *find_problems(snapshot)), version)
    return OpenFailure(tuple(broken), None) if taken else None


def _with_advice(problem: Problem, opens: int) -> Problem:
    return Problem(
        problem.path,
        f"{problem.rule}. Version {opens} can be opened. Restore it from an export or a backup; if there is none and "
        f"there are no writers, move it away: then version {opens} is the newest, and later changes are lost",
    )
