"""Compaction planning: file selection, bounds and automatic compaction.

Files that are large enough and of which nothing is hidden stay as they are,
unless two of them hold the same range of keys: then whoever looks for a key has
to open both. With a bound on the work only the oldest files are taken. What they
hold is put at the end of what was there, so nothing that is newer loses or gains
a row by it.
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
from mangrove.tables.table_state import Log, TableState
from mangrove.tables.write_plan import FILE_SIZE_BYTES, PlannedWrite, build_compaction_delta, build_rewrite_delta

__all__ = [
    "AUTO_COMPACTION",
    "AUTO_COMPACTION_BYTES",
    "AUTO_COMPACTION_DELTAS",
    "CLUSTER_BY",
    "LOCAL_BYTES_MAX",
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
"""The table property that names columns, with commas between: rows that are alike in all of them lie together."""
_BETWEEN_COMMAS: Final = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+")
AUTO_COMPACTION: Final = "compaction.auto"
"""The table property that, being "true", has each write look whether compaction is due, and do a bounded part of it."""
LOCAL_BYTES_MAX: Final = 2 * 1024**3
"""Tables whose rows take more memory than that are compacted on Spark unless somebody says otherwise."""
AUTO_COMPACTION_DELTAS: Final = "compaction.deltas-min"
"""The table property that says from how many deltas in a log on compaction is due by itself; 20 unless set."""
AUTO_COMPACTION_BYTES: Final = "compaction.bytes-max"
"""The table property that bounds the bytes which a compaction by itself writes again; 256 MiB unless set."""
_DEFAULTS: Final = {AUTO_COMPACTION_DELTAS: 20, AUTO_COMPACTION_BYTES: FILE_SIZE_BYTES}


@dataclass(frozen=True, slots=True)
class CompactionBounds:
    """How much one compaction may write again; None bounds nothing. What is left waits for the next one."""

    bytes_max: int | None = None
    files_max: int | None = None
    is_full: bool = False
    """Whether files that could stay are written again too, so that all rows are clustered together."""

    def __post_init__(self) -> None:
        for name, value in (("bytes", self.bytes_max), ("files", self.files_max)):
            if value is not None and value < 1:
                raise InvalidInputError(f"a compaction of at most {value} {name} was asked for: give at least 1")

    def within(self, size_bytes: int) -> int:
        """Return how much of so many bytes one compaction takes at most."""
        return size_bytes if self.bytes_max is None else min(size_bytes, self.bytes_max)

    def allows(self, files: int, size_bytes: int) -> bool:
        """Return whether so much may be written again."""
        return (self.files_max is None or files <= self.files_max) and (
            self.bytes_max is None or size_bytes <= self.bytes_max
        )

    def after(self, files: int, size_bytes: int) -> "CompactionBounds | None":
        """Return what is still allowed when so much is done, or None if nothing is."""
        bytes_max = None if self.bytes_max is None else self.bytes_max - size_bytes
        files_max = None if self.files_max is None else self.files_max - files
        if any(left is not None and left < 1 for left in (bytes_max, files_max)):
            return None
        return replace(self, bytes_max=bytes_max, files_max=files_max)


UNBOUNDED: Final = CompactionBounds()


@dataclass(frozen=True, slots=True)
class Compaction:
    """The files of one log to write again, and what becomes of the others."""

    state: TableState
    """The table with this log alone."""
    merged: ScanPlan
    """What is read: the rows of the files that are written again."""
    retained: tuple[DataFile, ...]
    """The files that a replace of the whole log names again; none where only some files are replaced."""
    gone: tuple[str, ...]
    """The locations that a replace of some files takes away; none where the whole log is replaced."""
    left: tuple[FileScan, ...] = ()
    """The files that would be written again too if the bounds allowed it."""

    @property
    def log_values(self) -> tuple[Value | None, ...]:
        """Which log of the table it is."""
        (log,) = self.state.logs
        return log.values

    @property
    def row_count(self) -> int:
        """How many rows are read, those that are hidden too."""
        return sum(scan.file.row_count for scan in self.merged.scans)

    @property
    def size_bytes(self) -> int:
        """How much the rows that are read take in memory."""
        return sum(_size(scan) for scan in self.merged.scans)

    def delta(self, files: Sequence[DataFile]) -> Delta:
        """Return the delta that puts new files in the place of what was read."""
        (log,) = self.state.logs
        if self.gone:
            return replace(build_rewrite_delta(self.gone, files), replaces_through=log.last_position)
        return build_compaction_delta([*self.retained, *files], log.last_position)


def needs_compaction(log: Log) -> bool:
    """Return whether compacting would leave less to merge, or fewer files to open."""
    if len(log.deltas) != 1:
        return bool(log.deltas)
    if log.deltas[0].type is DeltaType.REPLACE:
        return False
    alive = list_live_files(log.deltas)
    return len(alive) > 1 or any(live.deletes_earlier_rows or not live.is_data for live in alive)


def plan_compaction(
    state: TableState, log: Log, file_size_bytes: int, bounds: CompactionBounds = UNBOUNDED
) -> Compaction | None:
    """Return what to write again of a log, or None if that would change nothing."""
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
    """What one compaction of a table does, log by log, and how much its bounds leave for the next one."""

    of_logs: tuple[Compaction, ...]
    files_left: int = 0
    bytes_left: int = 0

    @property
    def files(self) -> int:
        """How many files are read."""
        return sum(len(one.merged.scans) for one in self.of_logs)

    @property
    def size_bytes(self) -> int:
        """How much the rows that are read take in memory."""
        return sum(one.size_bytes for one in self.of_logs)


def plan_table_compaction(
    state: TableState, file_size_bytes: int, bounds: CompactionBounds = UNBOUNDED
) -> TableCompaction:
    """Return what to write again of a table; the bounds are for all its logs together.

    Only where nothing is chosen yet may the bounds be passed, so that every
    compaction gets somewhere.
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
    """What a compaction read and wrote, and what its bounds left for the next one; bytes are those in memory."""

    logs: int = 0
    """In how many logs something changed; 0 is a table that needed nothing."""
    files_read: int = 0
    bytes_read: int = 0
    files_written: int = 0
    files_left: int = 0
    bytes_left: int = 0


@dataclass(frozen=True, slots=True)
class PlannedCompaction(PlannedWrite):
    """The deltas of a compaction, with what there is to tell of it."""

    report: CompactionReport = CompactionReport()


def can_skip_rewrite(scan: FileScan, file_size_bytes: int) -> bool:
    """Return whether a file is large enough, and has no rows that are hidden, so that it need not be written again."""
    return scan.is_whole and 2 * _size(scan) > file_size_bytes


def to_retained_file(scan: FileScan) -> DataFile:
    """Return how a file that stays is named again: it holds rows, and hides nothing any more."""
    return replace(scan.file, key_ids=())


def resolve_clustering_columns(state: TableState) -> tuple[int, ...]:
    """Return the ids of the columns whose values keep rows together: as the table says, else in sort order, else keys.

    Several columns that the table names count alike (a Z-order); of the others the
    first counts most.
    """
    named = resolve_clustering_property(state)
    if named:
        return named
    ordered = tuple(field.source_id for field in state.version.sort_scheme.fields)
    return ordered or state.version.keys


def parse_clustering_columns(text: str) -> list[str]:
    """Return what stands between the commas of the property, as it is written.

    >>> parse_clustering_columns("a, `b,c`.d")
    ['a', '`b,c`.d']
    """
    return [name.strip() for name in _BETWEEN_COMMAS.findall(text) if name.strip()]


def resolve_clustering_property(state: TableState) -> tuple[int, ...]:
    """Return the columns that the table's property names, or none."""
    text = state.properties.get(CLUSTER_BY, "")
    try:
        columns = [state.schema.column(*split_path(name)) for name in parse_clustering_columns(text)]
    except (InvalidInputError, NotFoundError) as error:
        raise InvalidInputError(
            f"{state.name} has {CLUSTER_BY} {text!r}, and {error}; set it to other columns or remove it"
        ) from error
    for column in columns:
        if is_nested(column.type):
            raise InvalidInputError(
                f"{state.name} has {CLUSTER_BY} {text!r}, and {column.name!r} has no order: name plain columns"
            )
    return tuple(column.id for column in columns)


def is_auto_compaction_enabled(properties: Mapping[str, str]) -> bool:
    """Return whether writes to the table are to look whether compaction is due."""
    return properties.get(AUTO_COMPACTION, "false").casefold() == "true"


def is_compaction_due(properties: Mapping[str, str], logs: Sequence[Log]) -> bool:
    """Return whether a table that compacts by itself has gathered enough deltas in a log."""
    return is_auto_compaction_enabled(properties) and any(
        len(log.deltas) >= parse_auto_compaction_number(properties, AUTO_COMPACTION_DELTAS) for log in logs
    )


def sum_log_bytes(logs: Sequence[Log]) -> int:
    """Return about how much memory all rows of the logs take together."""
    files = [live.file for log in logs for live in list_live_files(log.deltas)]
    return sum(file.source_size_bytes or file.size_bytes for file in files)


def auto_compaction_bounds_of(properties: Mapping[str, str]) -> CompactionBounds:
    """Return how much a write may compact on the way."""
    return CompactionBounds(bytes_max=parse_auto_compaction_number(properties, AUTO_COMPACTION_BYTES))


def parse_auto_compaction_number(properties: Mapping[str, str], name: str) -> int:
    """Return the number that a property says, or the one that counts where it is not set."""
    text = properties.get(name, str(_DEFAULTS[name]))
    if not text.isdecimal() or int(text) < 1:
        raise InvalidInputError(f"the table property {name} is {text!r}: give a whole number from 1")
    return int(text)


def _size(scan: FileScan) -> int:
    return scan.file.source_size_bytes or scan.file.size_bytes


def _select_candidates(
    alone: TableState, scans: Sequence[FileScan], file_size_bytes: int, bounds: CompactionBounds
) -> list[FileScan]:
    """Return the files of a log that are worth writing again, the oldest first."""
    if bounds.is_full:
        waiting = list(scans)
    else:
        crossing = _find_overlapping(alone, [scan for scan in scans if can_skip_rewrite(scan, file_size_bytes)])
        waiting = [
            scan for scan in scans if not can_skip_rewrite(scan, file_size_bytes) or scan.file.location in crossing
        ]
    return sorted(waiting, key=lambda scan: scan.position)


def _limit_to_bounds(waiting: Sequence[FileScan], bounds: CompactionBounds) -> list[FileScan]:
    """Return as many of the oldest files as the bounds allow, and at least so many that something gets better.

    The oldest come first because a file hides only what is older than itself: so
    whatever a chosen file hides rows of is chosen too, and the file can go.
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


def _list_removed(log: Log, taken: set[str], retained: Sequence[FileScan]) -> tuple[str, ...]:
    """Return what need not be read any more: the chosen files, and files of keys or numbers that hide nothing else."""
    needed = {key_file.file.location for scan in retained for key_file in scan.equality_deletes}
    needed |= {file.location for scan in retained for file in scan.position_deletes}
    assert not taken & needed, "a file that is chosen hides rows of one that is not, though that one is older"
    delete_files = [live.file.location for live in list_live_files(log.deltas) if live.file.kind is not FileKind.DATA]
    return tuple(dict.fromkeys([*sorted(taken), *(path for path in delete_files if path not in needed)]))


def _find_overlapping(state: TableState, scans: Sequence[FileScan]) -> set[str]:
    """Return the files whose range in the first clustering column meets that of another.

    A Z-order has no such ranges, so its files are left as they are.
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
