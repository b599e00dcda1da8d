"""Compaction planning: file selection, bounds, automatic compaction and flushes of inline rows.

Files that are large enough and have no deleted rows stay as they are, unless the key
ranges of two of them overlap, because a lookup would open both. With bounds only the
oldest files are selected. Their rows are written at the end of the compacted range, so
newer deltas still apply to the same rows.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.names import split_path
from mangrove.model.objects import Delta, DeltaType
from mangrove.model.types import is_nested
from mangrove.model.values import Value
from mangrove.tables.scan_plan import FileScan, ScanPlan, list_live_files, plan_scan
from mangrove.tables.table_state import PartitionLog, TableState
from mangrove.tables.write_plan import FILE_SIZE_BYTES, PlannedWrite, build_compaction_delta, build_rewrite_delta

__all__ = [
    "AUTO_COMPACTION",
    "AUTO_COMPACTION_BYTES",
    "AUTO_COMPACTION_DELTAS",
    "CLUSTER_BY",
    "UNBOUNDED",
    "Compaction",
    "CompactionBounds",
    "CompactionReport",
    "PlannedCompaction",
    "TableCompaction",
    "auto_compaction_bounds_of",
    "can_skip_rewrite",
    "is_auto_compaction_enabled",
    "is_compaction_due",
    "needs_compaction",
    "parse_auto_compaction_number",
    "parse_clustering_columns",
    "plan_compaction",
    "plan_table_compaction",
    "resolve_clustering_columns",
    "resolve_clustering_property",
    "sum_log_bytes",
    "to_retained_file",
]

CLUSTER_BY: Final = "write.cluster-by"
"""The table property with comma-separated clustering columns."""
_BETWEEN_COMMAS: Final = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+")
AUTO_COMPACTION: Final = "compaction.auto"
"""The table property that enables automatic, bounded compaction after writes ("true")."""
AUTO_COMPACTION_DELTAS: Final = "compaction.deltas-min"
"""The table property with the number of deltas in a log that triggers automatic compaction; default 20."""
AUTO_COMPACTION_BYTES: Final = "compaction.bytes-max"
"""The table property with the maximum bytes that automatic compaction rewrites; default 256 MiB."""
_DEFAULTS: Final = {AUTO_COMPACTION_DELTAS: 20, AUTO_COMPACTION_BYTES: FILE_SIZE_BYTES}


@dataclass(frozen=True, slots=True)
class CompactionBounds:
    """The maximum work of one compaction; None is unbounded. The rest is left for the next one."""

    bytes_max: int | None = None
    files_max: int | None = None
    is_full: bool = False
    """Whether all files are rewritten, so that all rows are clustered together."""

    def __post_init__(self) -> None:
        for name, value in (("bytes", self.bytes_max), ("files", self.files_max)):
            if value is not None and value < 1:
                raise InvalidInputError(f"invalid limit of {value} {name} for a compaction; expected at least 1")

    def within(self, size_bytes: int) -> int:
        """Return how many of these bytes one compaction may rewrite."""
        return size_bytes if self.bytes_max is None else min(size_bytes, self.bytes_max)

    def allows(self, files: int, size_bytes: int) -> bool:
        """Return whether this much may be rewritten."""
        return (self.files_max is None or files <= self.files_max) and (
            self.bytes_max is None or size_bytes <= self.bytes_max
        )

    def after(self, files: int, size_bytes: int) -> "CompactionBounds | None":
        """Return the remaining bounds after this much work, or None if they are exhausted."""
        bytes_max = None if self.bytes_max is None else self.bytes_max - size_bytes
        files_max = None if self.files_max is None else self.files_max - files
        if any(left is not None and left < 1 for left in (bytes_max, files_max)):
            return None
        return replace(self, bytes_max=bytes_max, files_max=files_max)


UNBOUNDED: Final = CompactionBounds()


@dataclass(frozen=True, slots=True)
class Compaction:
    """The files of one log to rewrite, and the retained files."""

    state: TableState
    """The table with only this log."""
    merged: ScanPlan
    """The scan plan of the rewritten files."""
    retained: tuple[DataFile, ...]
    """The retained files of a replace of the whole log; empty if only some files are replaced."""
    removed_paths: tuple[str, ...]
    """The locations removed by a replace of some files; empty if the whole log is replaced."""
    left: tuple[FileScan, ...] = ()
    """The files that are left for the next compaction because of the bounds."""

    @property
    def log_values(self) -> tuple[Value | None, ...]:
        """The partition values of the log."""
        (log,) = self.state.logs
        return log.values

    @property
    def row_count(self) -> int:
        """The number of rows read, including deleted ones."""
        return sum(scan.file.row_count for scan in self.merged.scans)

    @property
    def size_bytes(self) -> int:
        """The size in memory of the rows read."""
        return sum(_size(scan) for scan in self.merged.scans)

    def delta(self, files: Sequence[DataFile]) -> Delta:
        """Return the delta that replaces the rewritten files by new ones."""
        (log,) = self.state.logs
        if self.removed_paths:
            return replace(build_rewrite_delta(self.removed_paths, files), replaces_through=log.last_position)
        return build_compaction_delta([*self.retained, *files], log.last_position)


def needs_compaction(log: PartitionLog) -> bool:
    """Return whether a compaction would reduce the merge work or the number of files to open."""
    if len(log.deltas) != 1:
        return bool(log.deltas)
    alive = list_live_files(log.deltas)
    if any(live.file.is_inline for live in alive):
        return True
    if log.deltas[0].type is DeltaType.REPLACE:
        return False
    return len(alive) > 1 or any(live.deletes_earlier_rows or not live.is_data for live in alive)


def plan_compaction(
    state: TableState, log: PartitionLog, file_size_bytes: int, bounds: CompactionBounds = UNBOUNDED
) -> Compaction | None:
    """Return the compaction of a log, or None if it would change nothing."""
    if not needs_compaction(log) and not bounds.is_full:
        return None
    alone = replace(state, logs=(log,))
    plan = plan_scan(alone)
    waiting = _select_candidates(alone, plan.scans, file_size_bytes, bounds)
    chosen = _limit_to_bounds(waiting, bounds)
    merged = replace(plan, scans=tuple(chosen), skipped=())
    taken = {scan.file.location for scan in chosen}
    retained = [scan for scan in plan.scans if scan.file.location not in taken]
    if len(chosen) == len(waiting):
        return Compaction(alone, merged, tuple(to_retained_file(scan) for scan in retained), ())
    return Compaction(alone, merged, (), _list_removed(log, taken, retained), tuple(waiting[len(chosen) :]))


@dataclass(frozen=True, slots=True)
class TableCompaction:
    """The compactions of a table by log, and what the bounds leave for the next one."""

    of_logs: tuple[Compaction, ...]
    files_left: int = 0
    bytes_left: int = 0

    @property
    def files(self) -> int:
        """The number of files read."""
        return sum(len(one.merged.scans) for one in self.of_logs)

    @property
    def size_bytes(self) -> int:
        """The size in memory of the rows read."""
        return sum(one.size_bytes for one in self.of_logs)


def plan_table_compaction(
    state: TableState, file_size_bytes: int, bounds: CompactionBounds = UNBOUNDED
) -> TableCompaction:
    """Return the compaction of a table; the bounds apply to all its logs together.

    The first selection may exceed the bounds, so that every compaction makes progress.
    """
    chosen: list[Compaction] = []
    left: list[FileScan] = []
    still: CompactionBounds | None = bounds
    for log in state.logs:
        planned = plan_compaction(state, log, file_size_bytes, still or bounds)
        if planned is None:
            continue
        files, size = len(planned.merged.scans), planned.size_bytes
        is_first = not any(one.merged.scans for one in chosen)
        left += planned.left
        if files and not is_first and (still is None or not still.allows(files, size)):
            left += planned.merged.scans
            continue
        chosen.append(planned)
        still = still and still.after(files, size)
    return TableCompaction(tuple(chosen), len(left), sum(map(_size, left)))


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What a compaction read, wrote and left for the next one; bytes are sizes in memory."""

    logs: int = 0
    """The number of changed logs; 0 if nothing was compacted."""
    files_read: int = 0
    bytes_read: int = 0
    files_written: int = 0
    files_left: int = 0
    bytes_left: int = 0


@dataclass(frozen=True, slots=True)
class PlannedCompaction(PlannedWrite):
    """The deltas of a compaction and its report."""

    report: CompactionReport = CompactionReport()


def can_skip_rewrite(scan: FileScan, file_size_bytes: int) -> bool:
    """Return whether a file is large enough and has no deleted rows; inline rows are always rewritten."""
    return scan.is_whole and not scan.file.is_inline and 2 * _size(scan) > file_size_bytes


def to_retained_file(scan: FileScan) -> DataFile:
    """Return the entry of a retained file, as plain data without deletes."""
    return replace(scan.file, key_ids=())


def resolve_clustering_columns(state: TableState) -> tuple[int, ...]:
    """Return the ids of the clustering columns: from the table property, else the sort order, else the keys.

    Several columns of the property have equal weight (Z-order); otherwise the first has the
    most.
    """
    named = resolve_clustering_property(state)
    if named:
        return named
    ordered = tuple(field.source_id for field in state.version.sort_scheme.fields)
    return ordered or state.version.keys


def parse_clustering_columns(text: str) -> list[str]:
    """Return the comma-separated parts of the property, as written.

    >>> parse_clustering_columns("a, `b,c`.d")
    ['a', '`b,c`.d']
    """
    return [name.strip() for name in _BETWEEN_COMMAS.findall(text) if name.strip()]


def resolve_clustering_property(state: TableState) -> tuple[int, ...]:
    """Return the columns of the table property; empty if it is not set."""
    text = state.properties.get(CLUSTER_BY, "")
    try:
        columns = [state.schema.column(*split_path(name)) for name in parse_clustering_columns(text)]
    except (InvalidInputError, NotFoundError) as error:
        raise InvalidInputError(
            f"invalid {CLUSTER_BY} {text!r} of {state.name}: {error}; set it to other columns or remove it"
        ) from error
    for column in columns:
        if is_nested(column.type):
            raise InvalidInputError(
                f"invalid {CLUSTER_BY} {text!r} of {state.name}: column {column.name!r} has no order"
            )
    return tuple(column.id for column in columns)


def is_auto_compaction_enabled(properties: Mapping[str, str]) -> bool:
    """Return whether writes to the table trigger automatic compaction."""
    return properties.get(AUTO_COMPACTION, "false").casefold() == "true"


def is_compaction_due(properties: Mapping[str, str], logs: Sequence[PartitionLog]) -> bool:
    """Return whether automatic compaction is enabled and a log has enough deltas."""
    return is_auto_compaction_enabled(properties) and any(
        len(log.deltas) >= parse_auto_compaction_number(properties, AUTO_COMPACTION_DELTAS) for log in logs
    )


def sum_log_bytes(logs: Sequence[PartitionLog]) -> int:
    """Return the approximate size in memory of all rows of the logs."""
    files = [live.file for log in logs for live in list_live_files(log.deltas)]
    return sum(file.source_size_bytes or file.size_bytes for file in files)


def auto_compaction_bounds_of(properties: Mapping[str, str]) -> CompactionBounds:
    """Return the bounds of automatic compaction."""
    return CompactionBounds(bytes_max=parse_auto_compaction_number(properties, AUTO_COMPACTION_BYTES))


def parse_auto_compaction_number(properties: Mapping[str, str], name: str) -> int:
    """Return the number in a property, or the default if it is not set."""
    text = properties.get(name, str(_DEFAULTS[name]))
    if not text.isdecimal() or int(text) < 1:
        raise InvalidInputError(f"invalid table property {name} {text!r}; expected a positive integer")
    return int(text)


def _size(scan: FileScan) -> int:
    return scan.file.source_size_bytes or scan.file.size_bytes


def _select_candidates(
    alone: TableState, scans: Sequence[FileScan], file_size_bytes: int, bounds: CompactionBounds
) -> list[FileScan]:
    """Return the files of a log to rewrite, oldest first."""
    if bounds.is_full:
        waiting = list(scans)
    else:
        crossing = _find_overlapping(alone, [scan for scan in scans if can_skip_rewrite(scan, file_size_bytes)])
        waiting = [
            scan for scan in scans if not can_skip_rewrite(scan, file_size_bytes) or scan.file.location in crossing
        ]
    return sorted(waiting, key=lambda scan: scan.position)


def _limit_to_bounds(waiting: Sequence[FileScan], bounds: CompactionBounds) -> list[FileScan]:
    """Return as many of the oldest files as the bounds allow, and at least enough to make progress.

    The oldest are taken first, because deletes of a file apply only to older files: all
    files that a selected file applies to are selected too, so it can be removed.
    """
    chosen: list[FileScan] = []
    size_bytes = 0
    for scan in waiting:
        size_bytes += _size(scan)
        is_useful = len(chosen) > 1 or any(not one.is_whole for one in chosen)
        is_too_much = (bounds.bytes_max is not None and size_bytes > bounds.bytes_max) or (
            bounds.files_max is not None and len(chosen) >= bounds.files_max
        )
        if is_useful and is_too_much:
            break
        chosen.append(scan)
    return chosen


def _list_removed(log: PartitionLog, taken: set[str], retained: Sequence[FileScan]) -> tuple[str, ...]:
    """Return the files that are no longer read: the selected ones, and delete files that apply to nothing else."""
    needed = {key_file.file.location for scan in retained for key_file in scan.equality_deletes}
    needed |= {file.location for scan in retained for file in scan.position_deletes}
    assert not taken & needed, "a selected file deletes rows of an older file that is not selected"
    delete_files = [live.file.location for live in list_live_files(log.deltas) if live.file.kind is not FileKind.DATA]
    return tuple(dict.fromkeys([*sorted(taken), *(path for path in delete_files if path not in needed)]))


def _find_overlapping(state: TableState, scans: Sequence[FileScan]) -> set[str]:
    """Return the files whose range in the first clustering column overlaps another.

    A Z-order has no such ranges, so its files are ignored.
    """
    columns = resolve_clustering_columns(state)
    if not columns or len(resolve_clustering_property(state)) > 1:
        return set()
    ranges: list[tuple[Any, Any, str]] = []
    for scan in scans:
        low, high = _range(scan.file, columns[0])
        if low is None or high is None:
            return set()
        ranges.append((low, high, scan.file.location))
    ranges.sort(key=lambda entry: entry[0])
    found: set[str] = set()
    highest: tuple[Any, str] | None = None
    for low, high, location in ranges:
        if highest is not None and low < highest[0]:
            found |= {location, highest[1]}
        if highest is None or high > highest[0]:
            highest = (high, location)
    return found


def _range(file: DataFile, column_id: int) -> tuple[Value | None, Value | None]:
    statistics = file.statistics_of(column_id)
    return (None, None) if statistics is None else (statistics.minimum, statistics.maximum)
