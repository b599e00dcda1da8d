"""Change feed plans and stream offsets between versions of a table."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

from mangrove.errors import FormatError, InvalidInputError
from mangrove.expressions.predicates import Predicate
from mangrove.model.manifests import FileKind
from mangrove.model.objects import Delta, DeltaType
from mangrove.tables.scan_plan import FileScan, ScanPlan, plan_scan
from mangrove.tables.table_state import PartitionLog, TableState

__all__ = [
    "CHANGE_TYPE",
    "DELETE",
    "INSERT",
    "UPDATE_AFTER",
    "UPDATE_BEFORE",
    "BatchLimit",
    "StreamOffset",
    "StreamStep",
    "StreamUnit",
    "advance_offset",
    "compute_fingerprint",
    "find_changed_versions",
    "is_append_compatible",
    "leave_out_compactions",
    "offset_from_json",
    "plan_changed_files",
    "plan_initial_step",
    "plan_step_between",
    "select_batch_units",
]

CHANGE_TYPE: Final = "_change_type"
"""The column with the kind of change of a row."""
INSERT: Final = "insert"
DELETE: Final = "delete"
UPDATE_BEFORE: Final = "update_before"
UPDATE_AFTER: Final = "update_after"


def plan_changed_files(
    before: TableState, after: TableState, predicate: Predicate | None = None
) -> tuple[TableState, ScanPlan, ScanPlan]:
    """Return the earlier state with the columns of the later one, and the files to read of each to compare them.

    With a predicate, only files that can contain matching rows are compared.
    """
    if before.table_id != after.table_id:
        raise InvalidInputError(
            f"{after.name} was dropped and created again in between; read the changes of each table separately"
        )
    _check_same_table_version(before, after)
    # Old rows are read with the current columns, by column id.
    was = replace(before, version=after.version)
    old, new = plan_scan(was, predicate), plan_scan(after, predicate)
    common = {_identity(scan) for scan in old.scans} & {_identity(scan) for scan in new.scans}
    return was, _without(old, common), _without(new, common)


def _check_same_table_version(before: TableState, after: TableState) -> None:
    """Raise an error if the default version changed in between: columns of two table versions have unrelated ids."""
    was, now = before.version.version, after.version.version
    if was != now and any(log.deltas for log in before.logs):
        raise InvalidInputError(
            f"the default table version of {after.name} changed from {was} to {now}, and changes are computed within "
            f"one table version; name it, as in {after.name}.version_{now}"
        )
    is_same_stream = before.version.latest_stream_id == after.version.latest_stream_id
    is_related = is_same_stream or before.schema in after.version.schemas or after.schema in before.version.schemas
    if not is_related and any(log.deltas for log in before.logs):
        raise InvalidInputError(
            f"table version {now} of {after.name} was dropped and created again in between; read the changes of each "
            "separately"
        )


def _identity(scan: FileScan) -> tuple[str, tuple[str, ...]]:
    delete_files = [key_file.file.location for key_file in scan.equality_deletes]
    return scan.file.location, (*delete_files, *(file.location for file in scan.position_deletes))


def _without(plan: ScanPlan, common: set[tuple[str, tuple[str, ...]]]) -> ScanPlan:
    return replace(plan, scans=tuple(scan for scan in plan.scans if _identity(scan) not in common))


def leave_out_compactions(before: TableState, after: TableState) -> TableState:
    """Return the later state with the deltas that compactions replaced since, if no other delta depends on these.

    A compaction changes no rows, so its files need not be compared.
    """
    was = {log.values: log for log in before.logs}
    return replace(after, logs=tuple(_undo_compactions(was.get(log.values, log), log) for log in after.logs))


def _undo_compactions(before: PartitionLog, after: PartitionLog) -> PartitionLog:
    known = {delta.position: delta for delta in before.deltas}
    new = [delta for delta in after.deltas if known.get(delta.position) != delta]
    others = [delta for delta in new if not _is_compaction(before, delta)]
    # Position deletes and rewrites name files, which may be those of the compaction.
    is_independent = all(
        (delta.position or 0) > before.last_position
        and delta.type is not DeltaType.POSITION_DELETE
        and not delta.replaced_locations
        for delta in others
    )
    if len(others) == len(new) or not is_independent or not _is_explained(before, after, new):
        return after
    return PartitionLog(after.values, (*before.deltas, *others))


def is_append_compatible(written_for: TableState, now: TableState) -> bool:
    """Return whether files written for one state of a table can be added to another.

    Columns are matched by id, so added, renamed or widened columns are compatible. Other
    keys or partitions put rows into other logs, and a column that is not nullable now may
    have nulls in the files.
    """
    if written_for.table_id != now.table_id or written_for.log_scheme != now.log_scheme:
        return False
    was, version = written_for.version, now.version
    if (was.version, was.latest_stream_id, was.keys) != (version.version, version.latest_stream_id, version.keys):
        return False
    if was.partition_scheme != version.partition_scheme:
        return False
    certain = {column.id for column in written_for.schema.columns if not column.nullable}
    return all(column.nullable or column.id in certain for column in now.schema.columns)


_ADDING = frozenset({DeltaType.APPEND, DeltaType.ADD})


@dataclass(frozen=True, slots=True)
class StreamUnit:
    """The atomic unit of a batch: a file of new rows, or all changes of a version."""

    row_count: int
    size_bytes: int
    scan: FileScan | None = None
    """The file; None for changes, which are computed by comparing the version with the previous one."""


@dataclass(frozen=True, slots=True)
class StreamStep:
    """A version with its units, in a deterministic order."""

    version: int
    units: tuple[StreamUnit, ...]
    is_first: bool = False
    """Whether this is the initial snapshot of the whole table."""

    @property
    def is_change(self) -> bool:
        """Whether existing rows were changed or deleted."""
        return any(unit.scan is None for unit in self.units)


def plan_initial_step(state: TableState, version: int) -> StreamStep:
    """Return the whole table file by file, with the deletes of each."""
    return StreamStep(version, tuple(_unit(scan) for scan in plan_scan(state).scans), is_first=True)


def plan_step_between(before: TableState, after: TableState, version: int) -> StreamStep:
    """Return the rows that a version added, computed from its logs and those of the previous version.

    A compaction replaces files by others with the same rows, so it adds nothing.
    """
    _check_same_table_version(before, after)
    was = {log.values: log for log in before.logs}
    units: list[StreamUnit] = []
    remaining = {log.values for log in after.logs}
    is_change = any(log.deltas and log.values not in remaining for log in before.logs)
    for log in after.logs:
        there = was.get(log.values, PartitionLog(log.values))
        known = {delta.position: delta for delta in there.deltas}
        new = [delta for delta in log.deltas if known.get(delta.position) != delta]
        is_change = is_change or not _is_explained(there, log, new)
        for delta in new:
            if delta.type in _ADDING:
                units += _list_added_units(log, delta)
            elif not _is_compaction(there, delta):
                is_change = True
    if not is_change:
        return StreamStep(version, tuple(units))
    old = {file.location for log in before.logs for delta in log.deltas for file in delta.manifest.entries}
    entries = [file for log in after.logs for delta in log.deltas for file in delta.manifest.entries]
    new_files = [file for file in entries if file.location not in old]
    rows, size_bytes = sum(file.row_count for file in new_files), sum(file.size_bytes for file in new_files)
    return StreamStep(version, (StreamUnit(max(1, rows), max(1, size_bytes)),))


def find_changed_versions(low: int, high: int, logs_of: Callable[[int], tuple[PartitionLog, ...]]) -> Iterator[int]:
    """Yield the versions after `low` up to `high` whose logs differ from the previous version, in order.

    If both ends have the same logs, no version between them is read: an idle table costs
    two lookups, however many versions other tables committed.
    """
    if low >= high or logs_of(low) == logs_of(high):
        return
    if high - low == 1:
        yield high
        return
    middle = (low + high) // 2
    yield from find_changed_versions(low, middle, logs_of)
    yield from find_changed_versions(middle, high, logs_of)


def compute_fingerprint(state: TableState) -> str:
    """Return a short string that is equal for two versions only if they have the same deltas."""
    digest = sha256()
    for log in state.logs:
        digest.update(repr(log.values).encode())
        for delta in log.deltas:
            locations = [file.location for file in delta.manifest.entries]
            digest.update(repr((delta.position, delta.type.value, locations)).encode())
    return digest.hexdigest()[:16]


def _is_explained(before: PartitionLog, after: PartitionLog, new: list[Delta]) -> bool:
    """Return whether every missing delta was compacted; a rollback removes deltas too."""
    through = max((delta.replaces_through or 0 for delta in new if _is_compaction(before, delta)), default=0)
    left = {delta.position: delta for delta in after.deltas}
    return all((delta.position or 0) <= through for delta in before.deltas if left.get(delta.position) != delta)


def _is_compaction(before: PartitionLog, delta: Delta) -> bool:
    """Return whether a delta only contains rows that existed before.

    A delta that covers later positions was written together with unseen rows.
    """
    through = delta.replaces_through
    return delta.type is DeltaType.REPLACE and through is not None and through <= before.last_position


def _list_added_units(log: PartitionLog, delta: Delta) -> Iterator[StreamUnit]:
    assert delta.position is not None
    for file in delta.manifest.entries:
        if file.kind is FileKind.DATA and file.row_count:
            yield _unit(FileScan(file, delta.position, log.values))


def _unit(scan: FileScan) -> StreamUnit:
    return StreamUnit(scan.file.row_count, scan.file.size_bytes, scan)


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The position of a stream: all of `version`, and a number of files of the next step.

    At the start of a stream the next step is the table as of `version`; later it is what the
    next version added.
    """

    table_id: str
    version: int
    files: int = 0
    is_first: bool = False
    state: str = ""
    """The fingerprint of the table at `version`: it detects missed changes after that version expired."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form for a Spark checkpoint."""
        return {
            "table": self.table_id,
            "version": self.version,
            "files": self.files,
            "first": self.is_first,
            "state": self.state,
        }


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """The maximum size of a batch; at least one unit is always taken, so that a stream makes progress."""

    files: int | None = None
    rows: int | None = None
    size_bytes: int | None = None

    def holds(self, total: StreamUnit, files: int) -> bool:
        """Return whether a batch with this number of files and the rows and bytes of `total` is within the limit."""
        return (
            (self.files is None or files <= self.files)
            and (self.rows is None or total.row_count <= self.rows)
            and (self.size_bytes is None or total.size_bytes <= self.size_bytes)
        )


def offset_from_json(given: Mapping[str, Any]) -> StreamOffset:
    """Return the offset in a checkpoint."""
    try:
        found = StreamOffset(
            str(given["table"]), int(given["version"]), int(given["files"]), bool(given["first"]), str(given["state"])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"invalid stream offset {dict(given)} in the checkpoint; use a new checkpoint") from error
    return found


def advance_offset(start: StreamOffset, steps: Iterable[StreamStep], limit: BatchLimit) -> StreamOffset:
    """Return the end offset of the next batch; `steps` begin with the step after `start`.

    It is `start` itself if there is nothing new. It is after versions that added no rows, such as compactions,
    because a stream that stays before them loses its place when they expire.
    """
    total, files = StreamUnit(0, 0), 0
    end = start
    for step in steps:
        skipped = start.files if end is start else 0
        for place, unit in enumerate(step.units[skipped:], skipped):
            total = StreamUnit(total.row_count + unit.row_count, total.size_bytes + unit.size_bytes)
            if files and not limit.holds(total, files + 1):
                return _inside(start, step, place)
            files += 1
        end = StreamOffset(start.table_id, step.version)
    return end if files or not start.is_first else start


def select_batch_units(
    start: StreamOffset, end: StreamOffset, steps: Iterable[StreamStep]
) -> list[tuple[StreamStep, tuple[StreamUnit, ...]]]:
    """Return the units of a batch by version."""
    found: list[tuple[StreamStep, tuple[StreamUnit, ...]]] = []
    skipped = start.files
    for step in steps:
        is_partial = end.is_first if step.is_first else step.version > end.version
        units = step.units[skipped : end.files if is_partial else None]
        if units:
            found.append((step, units))
        if is_partial:
            break
        skipped = 0
    return found


def _inside(start: StreamOffset, step: StreamStep, place: int) -> StreamOffset:
    """Return the offset before the unit at `place` of a step."""
    before = step.version if step.is_first else step.version - 1
    return StreamOffset(start.table_id, before, place, is_first=step.is_first)
