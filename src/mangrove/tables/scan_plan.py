"""Scan planning: live files, their deletes and the reasons for skipped files.

    APPEND, ADD     rows at the delta's position
    UPSERT          rows at the delta's position, which replace earlier rows with the same keys
    DELETE          keys that delete earlier rows; its data files are rows that stay
    POSITION_DELETE row positions of single files; its data files are new rows
    REPLACE         of all deltas up to a position: removes all of them
                    of locations: removes only those files

A replace up to a position applies *at that position*, wherever in the log it was
written. Deltas added concurrently with a compaction therefore still apply to its rows.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from mangrove.expressions.predicates import Predicate, collect_column_ids
from mangrove.model.bulk import build_unchecked
from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.objects import Delta, DeltaType
from mangrove.model.types import Float32, Float64
from mangrove.model.values import Value, restore_zone
from mangrove.tables.pruning import (
    UNKNOWN_STATS,
    ColumnPruningStats,
    can_match_stats,
    can_partition_match,
    must_match_stats,
)
from mangrove.tables.table_state import TableState

__all__ = [
    "EqualityDelete",
    "FileScan",
    "LiveFile",
    "ScanPlan",
    "SkippedFile",
    "build_file_test",
    "build_pruning_test",
    "can_read_whole_files",
    "list_live_files",
    "plan_scan",
]


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A live file and its position."""

    file: DataFile
    position: int
    deletes_earlier_rows: bool
    """Whether this file deletes rows at earlier positions with the same keys."""

    @property
    def is_data(self) -> bool:
        """Whether the file contains rows, not only keys."""
        return self.file.kind is FileKind.DATA


def list_live_files(deltas: Iterable[Delta]) -> tuple[LiveFile, ...]:
    """Return the live files after all of `deltas`, which are in order, by position."""
    listed = tuple(deltas)
    has_removals = any(delta.replaced_locations for delta in listed)
    alive: dict[int, tuple[DataFile, int, bool]] = {}
    places: dict[str, list[int]] = {}
    number = 0
    for delta in listed:
        assert delta.position is not None
        position = delta.position
        if delta.type is DeltaType.REPLACE:
            if delta.replaced_locations:
                # Visit only the removed files: there may be as many such deltas as files.
                for location in delta.replaced_locations:
                    for place in places.pop(location, ()):
                        alive.pop(place, None)
            else:
                through = position if delta.replaces_through is None else delta.replaces_through
                alive = {place: live for place, live in alive.items() if live[1] > through}
            if delta.replaces_through is not None:
                position = delta.replaces_through
        for entry in delta.manifest.entries:
            if has_removals:
                places.setdefault(entry.location, []).append(number)
            alive[number] = entry, position, _deletes_earlier_rows(delta, entry)
            number += 1
    files, positions, deletes = zip(*sorted(alive.values(), key=itemgetter(1)), strict=True) if alive else ((), (), ())
    return tuple(build_unchecked(LiveFile, {"file": files, "position": positions, "deletes_earlier_rows": deletes}))


def _deletes_earlier_rows(delta: Delta, entry: DataFile) -> bool:
    is_upserted = delta.type is DeltaType.UPSERT and entry.kind is FileKind.DATA
    return entry.kind is FileKind.KEY_DELETES or is_upserted


_NO_ROWS: Final = "no rows"
_OTHER_PARTITION: Final = "the partition does not match"


@dataclass(frozen=True, slots=True)
class EqualityDelete:
    """A file whose keys delete rows at earlier positions."""

    file: DataFile
    position: int
    key_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FileScan:
    """A data file to open, and the delete files that can apply to it."""

    file: DataFile
    position: int
    log_values: tuple[Value | None, ...]
    equality_deletes: tuple[EqualityDelete, ...] = ()
    position_deletes: tuple[DataFile, ...] = ()
    """The position delete files that apply to it."""

    @property
    def is_whole(self) -> bool:
        """Whether no deletes apply, so that nothing is compared."""
        return not self.equality_deletes and not self.position_deletes


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A data file that is not opened, and the reason."""

    file: DataFile
    reason: str


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The plan of a scan, in row order."""

    scans: tuple[FileScan, ...]
    skipped: tuple[SkippedFile, ...] = ()
    partitions: int | None = None
    """The number of partitions read if others were pruned; files of pruned partitions are not listed."""

    @property
    def key_files(self) -> tuple[EqualityDelete, ...]:
        """The equality delete files that the scan opens, each once."""
        deletes = {(one.file.location, one.position): one for scan in self.scans for one in scan.equality_deletes}
        return tuple(deletes.values())

    @property
    def row_count(self) -> int:
        """The number of rows in the data files, including deleted rows."""
        return _rows(self.scans)

    def files(self) -> list[DataFile]:
        """Return every file that the scan opens, each once; `skipped` has the others, with reasons."""
        opened = [scan.file for scan in self.scans] + [key_file.file for key_file in self.key_files]
        opened += [file for scan in self.scans for file in scan.position_deletes]
        return list({file.location: file for file in opened}.values())

    def explain(self) -> str:
        """Return a readable description of what is read, compared and skipped."""
        rows, total_rows = _rows(self.scans), _rows(self.scans) + _rows(self.skipped)
        size = sum(scan.file.size_bytes for scan in self.scans)
        total = len(self.scans) + len(self.skipped)
        lines = [f"reads {len(self.scans):,} of {total:,} files: {rows:,} of {total_rows:,} rows, {size:,} bytes"]
        if self.partitions is not None:
            lines.append(f"partitions read: {self.partitions:,}; the others are pruned")
        keyed = [scan for scan in self.scans if scan.equality_deletes]
        if keyed:
            keys = sum(key_file.file.row_count for key_file in self.key_files)
            lines.append(
                f"applies {keys:,} equality deletes in {len(self.key_files):,} files to {len(keyed):,} of them"
            )
        numbered = sum(1 for scan in self.scans if scan.position_deletes)
        if numbered:
            lines.append(f"applies position deletes to {numbered:,} of them")
        lines += [
            f"skips {count:,}: {reason}"
            for reason, count in Counter(skipped.reason for skipped in self.skipped).most_common()
        ]
        return "\n".join(lines)


def _rows(entries: Iterable[FileScan | SkippedFile]) -> int:
    return sum(entry.file.row_count for entry in entries)


def plan_scan(state: TableState, predicate: Predicate | None = None) -> ScanPlan:
    """Return the scan plan of a table, or of the rows that satisfy `predicate`."""
    scans: list[FileScan] = []
    skipped: list[SkippedFile] = []
    columns = _Columns(state)
    for log in state.logs:
        alive = list_live_files(log.deltas)
        if predicate is not None and not _may_match(state, log.values, predicate):
            skipped += [
                SkippedFile(live.file, _OTHER_PARTITION if live.file.row_count else _NO_ROWS)
                for live in alive
                if live.is_data
            ]
            continue
        delete_files = _EqualityDeletes(_key_files(state, columns, alive, predicate))
        numbered = _PositionDeletes(alive)
        opened: list[LiveFile] = []
        for live in alive:
            if live.is_data:
                reason = _reason_to_skip(state, columns, live.file, predicate)
                if reason is None:
                    opened.append(live)
                else:
                    skipped.append(SkippedFile(live.file, reason))
        scans += build_unchecked(
            FileScan,
            {
                "file": [live.file for live in opened],
                "position": [live.position for live in opened],
                "log_values": [log.values] * len(opened),
                "equality_deletes": delete_files.list_for(opened),
                "position_deletes": numbered.list_for(opened),
            },
        )
    return ScanPlan(tuple(scans), tuple(skipped), len(state.logs) if state.is_part else None)


def can_read_whole_files(state: TableState, plan: ScanPlan, predicate: Predicate | None) -> bool:
    """Return whether all rows of all files of a plan are visible and satisfy the predicate of the plan."""
    if not all(scan.is_whole for scan in plan.scans):
        return False
    return predicate is None or all(map(build_file_test(state, predicate), (scan.file for scan in plan.scans)))


def build_file_test(state: TableState, predicate: Predicate) -> Callable[[DataFile], bool]:
    """Return a test whether, by the statistics of a file, all of its rows satisfy a predicate."""
    columns = _Columns(state)
    return lambda file: must_match_stats(predicate, columns.stats_in(file))


def build_pruning_test(state: TableState, predicate: Predicate) -> Callable[[FileScan], bool]:
    """Return a test whether a file can contain rows that satisfy a predicate, as `plan_scan` decides."""
    columns = _Columns(state)

    def can_match(scan: FileScan) -> bool:
        can_be_there = _may_match(state, scan.log_values, predicate)
        return can_be_there and _reason_to_skip(state, columns, scan.file, predicate) is None

    return can_match


def _may_match(state: TableState, log_values: tuple[Value | None, ...], predicate: Predicate) -> bool:
    return not state.log_scheme.fields or can_partition_match(state.log_scheme, log_values, state.schema, predicate)


def _key_files(
    state: TableState, columns: "_Columns", alive: Iterable[LiveFile], predicate: Predicate | None
) -> list[EqualityDelete]:
    found = []
    for live in alive:
        key_ids = live.file.key_ids or state.version.keys
        if not live.deletes_earlier_rows or live.file.row_count == 0:
            continue
        # If the predicate is on keys only, non-matching keys delete no matching row.
        asks_keys_alone = predicate is not None and collect_column_ids(predicate) <= set(key_ids)
        if predicate is None or not asks_keys_alone or can_match_stats(predicate, columns.stats_in(live.file)):
            found.append(EqualityDelete(live.file, live.position, key_ids))
    return found


def _reason_to_skip(state: TableState, columns: "_Columns", file: DataFile, predicate: Predicate | None) -> str | None:
    if file.row_count == 0:
        return _NO_ROWS
    if predicate is None:
        return None
    scheme, values = state.scheme_of(file), file.partition_values
    if values is not None and scheme is not None and not can_partition_match(scheme, values, state.schema, predicate):
        return _OTHER_PARTITION
    if not can_match_stats(predicate, columns.stats_in(file)):
        return "the statistics do not match"
    return None


class _Columns:
    """The columns of a table's schemas by id, cached for repeated lookups."""

    def __init__(self, state: TableState) -> None:
        self._schema = state.schema
        self._types = {column.id: column.type for _, column in state.schema.all_columns()}
        self._written_by = {
            schema.schema_id: frozenset(column.id for _, column in schema.all_columns())
            for schema in reversed(state.version.schemas)
        }

    def stats_in(self, file: DataFile) -> Callable[[int], ColumnPruningStats]:
        """Return a function that returns the statistics of a column in a file."""
        written_by = None if file.schema_id is None else self._written_by.get(file.schema_id)

        def stats_of(column_id: int) -> ColumnPruningStats:
            if written_by is not None and column_id not in written_by:
                # The column is newer than the file, so it is null in all of its rows.
                return ColumnPruningStats(may_be_value=False)
            statistics = file.statistics_of(column_id)
            if statistics is None:
                return UNKNOWN_STATS
            data_type = self._types.get(column_id) or self._schema.column_with_id(column_id).type
            is_float = isinstance(data_type, Float32 | Float64)
            return ColumnPruningStats(
                None if statistics.minimum is None else restore_zone(statistics.minimum, data_type),
                None if statistics.maximum is None else restore_zone(statistics.maximum, data_type),
                may_be_null=statistics.null_count != 0,
                may_be_value=statistics.null_count is None or statistics.null_count < file.row_count,
                may_be_nan=is_float and statistics.nan_count != 0,
            )

        return stats_of


class _PositionDeletes:
    """The position delete files of one log, by data file."""

    def __init__(self, alive: Iterable[LiveFile]) -> None:
        files = [live.file for live in alive if live.file.kind is FileKind.POSITION_DELETES and live.file.row_count]
        self._everywhere = [(place, file) for place, file in enumerate(files) if file.applies_to is None]
        self._there: dict[str, list[tuple[int, DataFile]]] = {}
        for place, file in enumerate(files):
            if file.applies_to is not None:
                self._there.setdefault(file.applies_to, []).append((place, file))

    def list_for(self, files: Sequence[LiveFile]) -> list[tuple[DataFile, ...]]:
        """Return for each file the position delete files that can apply to it, in order."""
        if not self._everywhere and not self._there:
            return [()] * len(files)
        return [self._list_for(live.file.location) for live in files]

    def _list_for(self, location: str) -> tuple[DataFile, ...]:
        of_file = self._there.get(location, [])
        both = sorted([*self._everywhere, *of_file], key=itemgetter(0)) if self._everywhere else of_file
        return tuple([file for _, file in both])


class _EqualityDeletes:
    """The equality delete files of one log by position, with their bounds cached."""

    def __init__(self, key_files: Sequence[EqualityDelete]) -> None:
        self._key_files = key_files
        self._key_ids = {key_file.key_ids for key_file in key_files}
        self._positions = [key_file.position for key_file in key_files]
        self._bounds = [_bounds(key_file.file, key_file.key_ids) for key_file in key_files]

    def list_for(self, files: Sequence[LiveFile]) -> list[tuple[EqualityDelete, ...]]:
        """Return for each data file the equality delete files at later positions that can contain its keys."""
        return [self._list_for(live) for live in files] if self._key_files else [()] * len(files)

    def _list_for(self, live: LiveFile) -> tuple[EqualityDelete, ...]:
        ours = {key_ids: _bounds(live.file, key_ids) for key_ids in self._key_ids}
        first = bisect_right(self._positions, live.position)
        behind = zip(self._key_files[first:], self._bounds[first:], strict=True)
        return tuple([key_file for key_file, theirs in behind if _may_meet(ours[key_file.key_ids], theirs)])


_Bounds = tuple[tuple[Any, Any, type | None], ...]
"""The bounds of each key column with their type, which is None if they cannot be compared."""


def _bounds(file: DataFile, key_ids: Iterable[int]) -> _Bounds:
    found = []
    for key_id in key_ids:
        known = file.statistics_of(key_id)
        low, high = (None, None) if known is None else (known.minimum, known.maximum)
        is_known = low is not None and high is not None and type(low) is type(high)
        found.append((low, high, type(low) if is_known else None))
    return tuple(found)


def _may_meet(ours: _Bounds, theirs: _Bounds) -> bool:
    """Return whether two files can contain the same keys, by the bounds of each key column."""
    for (our_low, our_high, our_type), (their_low, their_high, their_type) in zip(ours, theirs, strict=True):
        if our_type is their_type and our_type is not None:
            if our_high < their_low or their_high < our_low:
                return False
        elif _is_below(our_high, their_low) or _is_below(their_high, our_low):
            return False
    return True


def _is_below(high: Any, low: Any) -> bool:
    return high is not None and low is not None and type(high) is type(low) and bool(high < low)
