"""Exports of a version as a full, minimal or partial copy.

    minimal   the root node; everything else is read from the source
    partial   all metadata, and the data of the named tables
    full      every file that the version references

The name is recorded first, which pins the version: expiry does not delete it during
the copy. Files that are not copied stay pinned in the source for as long as the name
is recorded. A full copy needs no name; copies of read-only lakehouses have none.
"""

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mangrove.errors import AlreadyExistsError, ConflictError, FormatError, InvalidInputError, StorageError
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.copy import Copier, copy_files, find_missing_copies, load_file_sizes
from mangrove.maintenance.expiry import find_pins, select_expirable
from mangrove.maintenance.export_records import (
    EXPORT_RECORD_PATH,
    Export,
    ExportRecord,
    check_export_name,
    decode_export_record,
    encode_export_record,
    find_export,
    format_export_location,
)
from mangrove.maintenance.progress import ProgressCallback, format_bytes, ignore_progress
from mangrove.maintenance.reachability import resolve_paths, visit_reachable_files
from mangrove.maintenance.version_files import HINT_PATHS, find_version_file
from mangrove.metastore import Changes, Isolation, MetastoreSnapshot, Parent
from mangrove.model.locators import (
    Kind,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableIdentity,
    TableVersionLocator,
)
from mangrove.model.objects import Delta, TableEntry
from mangrove.storage.port import Store
from mangrove.transaction.canonical_names import resolve_text
from mangrove.transaction.transaction import commit_deadline_millis, youngest_expirable_millis

__all__ = ["ExportMode", "ExportReport", "drop_export", "export_version", "pin_version", "plan_pin"]

_ATTEMPTS_MAX = 20
_LISTINGS_MAX = 3


class ExportMode(enum.Enum):
    """How much of a version is copied."""

    FULL = "full"
    MINIMAL = "minimal"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The copied files, and those that existed from an earlier attempt."""

    export: Export
    mode: ExportMode
    files_copied: int
    bytes_copied: int
    files_there: int
    is_kept: bool = True
    """Whether the name is recorded in the lakehouse, which pins the version."""

    def __str__(self) -> str:
        copied = f"{self.files_copied:,} files ({format_bytes(self.bytes_copied)}) copied"
        there = f", {self.files_there:,} were there already" if self.files_there else ""
        kept = "" if self.is_kept else "; the name is not recorded in the lakehouse"
        return f"{self.mode.value} export {self.export}: {copied}{there}{kept}"


def export_version(
    lake: MaintenanceContext,
    destination: Store,
    name: str,
    *,
    version: int | None = None,
    mode: ExportMode = ExportMode.FULL,
    tables: Sequence[str] = (),
    keep: bool = True,
    copier: Copier = copy_files,
    watch: ProgressCallback = ignore_progress,
) -> ExportReport:
    """Copy a version to another location, where it opens as a lakehouse of its own.

    `tables` are for a partial export: names of tables, or of namespaces for all tables
    in them. Repeating the call resumes an interrupted export; a complete one is refused
    if there is a newer version. Without `keep` nothing is written to the lakehouse.
    """
    check_export_name(name)
    _check_place(lake, destination)
    keep = keep and not lake.maintenance.is_read_only
    plan = _plan_export(lake, destination, name, version, mode, tables)
    _check_possible(lake, plan, keep=keep)
    _check_free(destination, plan.record)
    if version is None:
        _check_newest(lake, destination, plan)
    made = Export(
        name, plan.snapshot.version, format_export_location(destination.uri, plan.snapshot.version, plan.root)
    )
    if keep:
        _record(lake, made)
    destination.put(EXPORT_RECORD_PATH, encode_export_record(plan.record))
    required = _load_required_sizes(lake, plan)
    missing = find_missing_copies(required, destination.list())
    # The root is copied last: without it a copy is not a lakehouse.
    copier(lake.store, destination, missing, watch, last=plan.root)
    _check_complete(destination, required)
    _write_hint(lake, destination, plan)
    return ExportReport(made, mode, len(missing), sum(missing.values()), len(required) - len(missing), keep)


def pin_version(lake: MaintenanceContext, name: str, version: int | None = None) -> Export:
    """Name a version without copying it, so that it does not expire."""
    check_export_name(name)
    pinned = plan_pin(lake, name, _snapshot(lake, name, version).version)
    _record(lake, pinned)
    return pinned


def plan_pin(lake: MaintenanceContext, name: str, version: int, until_millis: int | None = None) -> Export:
    """Return the record that names a version without copying it; raise an error if the version may be expiring."""
    _check_retained(lake, version)
    root = find_version_file(lake.store, version)
    return Export(name, version, format_export_location("", version, root, until_millis))


def drop_export(lake: MaintenanceContext, name: str) -> Export:
    """Remove the name of an export, so that its version may expire; the copy stays."""
    dropped = find_export(lake.metastore.latest().settings, name)

    def without(recorded: Mapping[str, str]) -> dict[str, str]:
        return {other: location for other, location in recorded.items() if other != name}

    _change_names(lake, without, f"Drop the export {name}")
    return dropped


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is copied: the version, its file, and the tables of a partial export."""

    snapshot: MetastoreSnapshot
    root: str | None
    mode: ExportMode
    tables: tuple[TableEntry, ...]
    record: ExportRecord


def _plan_export(
    lake: MaintenanceContext,
    destination: Store,
    name: str,
    version: int | None,
    mode: ExportMode,
    tables: Sequence[str],
) -> _Plan:
    there = _record_there(destination)
    if version is None and there is not None and (there.source, there.name) == (lake.store.uri, name):
        version = there.version
    snapshot = _snapshot(lake, name, version)
    if (mode is ExportMode.PARTIAL) != bool(tables):
        raise InvalidInputError("tables are required for a partial export, and only for that")
    root = find_version_file(lake.store, snapshot.version)
    record = ExportRecord(lake.store.uri, name, snapshot.version, mode.value, tuple(sorted(tables)))
    return _Plan(snapshot, root, mode, tuple(_resolve_tables(snapshot, tables)), record)


def _check_possible(lake: MaintenanceContext, plan: _Plan, *, keep: bool) -> None:
    """Raise an error if the copy depends on files that nothing pins, or on a missing file."""
    if plan.mode is ExportMode.FULL:
        return
    if not keep:
        raise InvalidInputError(
            f"a {plan.mode.value} export reads other files from {lake.store.uri}, where nothing pins them; "
            "use a full export"
        )
    if plan.mode is ExportMode.MINIMAL and plan.root is None:
        raise InvalidInputError(
            f"version {plan.snapshot.version} of {lake.store.uri} has no file of its own; use a full or partial export"
        )
    _check_retained(lake, plan.snapshot.version)


def _snapshot(lake: MaintenanceContext, name: str, version: int | None) -> MetastoreSnapshot:
    """Return the requested version, or that of an earlier attempt, or the newest."""
    newest = lake.metastore.latest()
    earlier = newest.settings.exported_snapshots.get(name)
    if version is None and earlier is not None:
        version = find_export(newest.settings, name).version
    return newest if version is None else lake.metastore.at_version(version)


def _check_place(lake: MaintenanceContext, destination: Store) -> None:
    here, there = lake.store.uri, destination.uri
    if there.startswith(here) or here.startswith(there):
        raise InvalidInputError(f"{there} and the lakehouse {here} are nested; export to another location")


def _record_there(destination: Store) -> ExportRecord | None:
    """Return the record of an earlier export to that location."""
    (data,) = destination.read_many([EXPORT_RECORD_PATH])
    return None if data is None else decode_export_record(data, f"{EXPORT_RECORD_PATH} in {destination.uri}")


def _check_free(destination: Store, record: ExportRecord) -> None:
    """Raise an error if the location contains anything but an earlier attempt of the same export."""
    there = _record_there(destination)
    if there is None:
        first = next(iter(destination.list()), None)
        if first is not None:
            raise AlreadyExistsError(
                f"{destination.uri} is not empty (it contains {first.path}); export to another location"
            )
        return
    if there != record:
        raise AlreadyExistsError(
            f"{destination.uri} contains the {there.mode} export {there.name!r} of version {there.version} of "
            f"{there.source}; export to another location"
        )


def _check_newest(lake: MaintenanceContext, destination: Store, plan: _Plan) -> None:
    """Raise an error on repeating a complete export of an outdated version: the copy would not change."""
    newest = lake.metastore.latest()
    # Recording the name is a version too, without other changes.
    own = 1 if plan.record.name in newest.settings.exported_snapshots else 0
    if newest.version <= plan.snapshot.version + own or _record_there(destination) is None:
        return
    if not _is_complete(lake, destination, plan):
        return
    exported = plan.snapshot.version
    raise AlreadyExistsError(
        f"the export {plan.record.name!r} in {destination.uri} is complete with version {exported}, but the newest is "
        f"{newest.version}; export to another location under another name or after dropping this one, or pass "
        f"version {exported} to check the copy"
    )


def _is_complete(lake: MaintenanceContext, destination: Store, plan: _Plan) -> bool:
    """Return whether an earlier attempt completed: the root is copied last."""
    if plan.root is not None:
        return destination.exists(plan.root)
    return not find_missing_copies(_load_required_sizes(lake, plan), destination.list())


def _check_retained(lake: MaintenanceContext, version: int) -> None:
    """Raise an error for a version that a concurrent expiry may be deleting."""
    newest = lake.metastore.latest()
    now_millis = lake.effects.now_millis()
    pinned = find_pins(newest, now_millis).versions
    safe_millis = youngest_expirable_millis(newest.settings)
    if version in select_expirable(lake.maintenance.list_retained(), newest.settings, pinned, now_millis, safe_millis):
        raise ConflictError(
            f"version {version} may expire at any time and cannot be pinned; use a full export "
            "of it, or increase maximum_version_age_millis first"
        )


def _record(lake: MaintenanceContext, made: Export) -> None:
    """Record the export in the lakehouse definition, unless it is recorded already."""

    def with_it(recorded: Mapping[str, str]) -> dict[str, str]:
        there = recorded.get(made.name)
        if there not in (None, made.location):
            raise AlreadyExistsError(
                f"the export {made.name!r} is already recorded at {there}; choose another name, or drop that one"
            )
        return {**recorded, made.name: made.location}

    _change_names(lake, with_it, f"Export version {made.version} as {made.name}")
    lake.metastore.at_version(made.version)


def _change_names(
    lake: MaintenanceContext, change: Callable[[Mapping[str, str]], dict[str, str]], message: str
) -> None:
    for _ in range(_ATTEMPTS_MAX):
        began_at_millis = lake.effects.now_millis()
        newest = lake.metastore.latest()
        changed = replace(newest.settings, exported_snapshots=change(newest.settings.exported_snapshots))
        if changed == newest.settings:
            return
        changes = Changes(
            lake.effects.new_id(),
            settings=changed,
            message=message,
            commit_before_millis=commit_deadline_millis(newest.settings, began_at_millis),
        )
        try:
            lake.metastore.commit(newest, changes, Isolation.SNAPSHOT)
        except ConflictError:
            continue
        return
    raise ConflictError(
        f"recording the export lost the race against {_ATTEMPTS_MAX} concurrent changes of {lake.store.uri}. "
        "Nothing was copied; retry"
    )


def _load_required_sizes(lake: MaintenanceContext, plan: _Plan) -> dict[str, int]:
    """Return the files to copy with their sizes; raise an error if one is missing.

    In the DeltaCAT layout a listing may contain a file of an attempt to commit that lost its
    race, which is deleted right after the transaction is committed; so files are listed again.
    """
    for _ in range(_LISTINGS_MAX - 1):
        try:
            return load_file_sizes(lake.store, _list_files_to_copy(lake, plan))
        except FormatError:
            continue
    return load_file_sizes(lake.store, _list_files_to_copy(lake, plan))


def _list_files_to_copy(lake: MaintenanceContext, plan: _Plan) -> set[str]:
    required: set[str] = set()
    match plan.mode:
        case ExportMode.FULL:
            visit_reachable_files(lake, [plan.snapshot], required.add)
        case ExportMode.PARTIAL:
            required.update(lake.maintenance.files_of([plan.snapshot]))
            for table in plan.tables:
                for delta in _deltas(plan.snapshot, TableIdentity(table.namespace_id, table.id)):
                    for file in delta.manifest.stored_files:
                        required.update(resolve_paths(file.location, lake.store.uri))
        case ExportMode.MINIMAL:
            assert plan.root is not None
            required.add(plan.root)
    # The source's hint names versions that the copy does not have.
    return required - HINT_PATHS


def _resolve_tables(snapshot: MetastoreSnapshot, names: Sequence[str]) -> list[TableEntry]:
    chosen: list[TableEntry] = []
    for name in names:
        resolved = resolve_text(snapshot, name)
        match resolved.locator, resolved.value:
            case NamespaceLocator() as namespace, _:
                tables = snapshot.children(Kind.TABLE, namespace)
                chosen += [table for _, table in tables if isinstance(table, TableEntry)]
            case _, TableEntry() as table:
                chosen.append(table)
            case _:
                raise InvalidInputError(f"{name} is a {resolved.kind.word}; expected a table or namespace")
    return chosen


def _deltas(snapshot: MetastoreSnapshot, table: TableIdentity) -> Iterator[Delta]:
    parents: list[Parent] = [table]
    for kind in (Kind.TABLE_VERSION, Kind.STREAM, Kind.PARTITION):
        found = [locator for parent in parents for locator, _ in snapshot.children(kind, parent)]
        parents = [
            locator for locator in found if isinstance(locator, TableVersionLocator | StreamLocator | PartitionLocator)
        ]
    for parent in parents:
        for _, delta in snapshot.children(Kind.DELTA, parent):
            if isinstance(delta, Delta):
                yield delta


def _write_hint(lake: MaintenanceContext, destination: Store, plan: _Plan) -> None:
    """Write the hint to the only version of the copy; later commits to the copy have written their own."""
    path, data = lake.maintenance.encode_hint(plan.snapshot)
    if plan.root is not None and not destination.exists(path):
        destination.put(path, data)


def _check_complete(destination: Store, required: Mapping[str, int]) -> None:
    missing = find_missing_copies(required, destination.list())
    if missing:
        raise StorageError(
            f"{min(missing)} and {len(missing) - 1} other files are incomplete in {destination.uri}. "
            "The name is recorded; repeat the export to complete it"
        )
