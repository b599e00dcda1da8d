"""Planning of flushes, which move inline rows into data files; `local/compaction.py` writes these files."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Final

from mangrove.model.manifests import PARQUET, DataFile, FileKind
from mangrove.model.objects import Delta
from mangrove.model.paths import is_uri
from mangrove.model.values import Value
from mangrove.tables.scan_plan import LiveFile, ScanPlan, list_live_files, plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import PlannedWrite, build_rewrite_delta

__all__ = ["InlineFlush", "is_flush_check_due", "plan_inline_flushes"]

_INLINE_FILES_MAX: Final = 64
"""The number of inline files at the end of a log from which a write moves their rows into data files."""
_INLINE_BYTES_MAX: Final = 64 * 1024
"""The size of these files from which a write does so."""
_FLUSH_CHECK_INTERVAL: Final = 8
"""One of this many writes checks these limits."""
_MERGED_BYTES_MAX: Final = 1024 * 1024
"""The size from which a data file before the inline files is not rewritten with them."""
_MERGED_ROWS_FACTOR: Final = 4
"""How many rows a file that is rewritten with later ones may have for each row of theirs."""


@dataclass(frozen=True, slots=True)
class InlineFlush:
    """The inline files at the end of a log and small files before them, whose rows one delta moves into a data file.

    They are the newest files of the log, so their rows and keys can be moved to its end.
    """

    state: TableState
    """The table with only this log."""
    files: tuple[LiveFile, ...]
    has_earlier_rows: bool
    """Whether their keys can delete rows of other files."""

    @property
    def log_values(self) -> tuple[Value | None, ...]:
        """The partition values of the log."""
        (log,) = self.state.logs
        return log.values

    @property
    def merged(self) -> ScanPlan:
        """The scan plan of their rows."""
        locations = {live.file.location for live in self.files}
        return ScanPlan(tuple(scan for scan in plan_scan(self.state).scans if scan.file.location in locations))

    @property
    def key_files(self) -> list[DataFile]:
        """The files whose keys still delete rows of other files."""
        return [live.file for live in self.files if live.deletes_earlier_rows] if self.has_earlier_rows else []

    def delta(self, files: Sequence[DataFile]) -> Delta:
        """Return the delta that replaces the files by new ones."""
        (log,) = self.state.logs
        removed = build_rewrite_delta([live.file.location for live in self.files], files)
        return replace(removed, replaces_through=log.last_position)


def is_flush_check_due(write: PlannedWrite) -> bool:
    """Return whether the logs should be checked for inline rows after this write.

    This is so for one of several writes with inline rows. The random name of a file decides, because concurrent
    writers do not know their positions yet.
    """
    inline = [file for one in write.deltas for file in one.delta.manifest.entries if file.is_inline]
    return any(zlib.crc32(file.location.encode()) % _FLUSH_CHECK_INTERVAL == 0 for file in inline)


def plan_inline_flushes(state: TableState) -> list[InlineFlush]:
    """Return the flushes of all logs with enough inline files at their ends."""
    flushes = []
    for log in state.logs:
        alive = list_live_files(log.deltas)
        run = _select_run(state, alive)
        inline = [live.file for live in run if live.file.is_inline]
        if len(inline) >= _INLINE_FILES_MAX or sum(file.size_bytes for file in inline) >= _INLINE_BYTES_MAX:
            replaced = {live.file.location for live in run}
            has_earlier_rows = any(live.is_data and live.file.location not in replaced for live in alive)
            flushes.append(InlineFlush(replace(state, logs=(log,)), run, has_earlier_rows))
    return flushes


def _select_run(state: TableState, alive: Sequence[LiveFile]) -> tuple[LiveFile, ...]:
    """Return the files that a flush replaces: the newest ones, as far as they are inline or small.

    A file is rewritten only with a share of later rows, so the number of files and of rewrites is
    logarithmic. The keys of a delta do not apply to its own rows, so all files of a position are
    replaced, or none. Position deletes of replaced files are replaced too.
    """
    locations: set[str] = set()
    row_count = 0
    ordered = [live for live in reversed(alive) if live.file.kind is not FileKind.POSITION_DELETES]
    for _, group in groupby(ordered, key=attrgetter("position")):
        files = [live.file for live in group]
        if not all(_can_move(state, file, row_count) for file in files):
            break
        locations.update(file.location for file in files)
        row_count += sum(file.row_count for file in files)
    return tuple(live for live in alive if locations & {live.file.location, live.file.applies_to})


def _can_move(state: TableState, file: DataFile, rows_after: int) -> bool:
    """Return whether a file is inline or small, and its keys, if any, are those of the table now."""
    if file.key_ids not in ((), state.version.keys):
        return False
    size_bytes = file.source_size_bytes or file.size_bytes
    is_small = size_bytes <= _MERGED_BYTES_MAX and file.row_count <= _MERGED_ROWS_FACTOR * rows_after
    return file.is_inline or (is_small and file.content_type == PARQUET and not is_uri(file.location))
