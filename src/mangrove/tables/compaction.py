"""When a log is worth compacting, and which of its files can stay as they are."""

from dataclasses import replace

from mangrove.model.manifests import DataFile
from mangrove.model.objects import DeltaType
from mangrove.tables.live_files import live_files
from mangrove.tables.scan_plan import FileScan
from mangrove.tables.table_state import Log

__all__ = ["can_stay", "needs_compaction", "staying_file"]


def needs_compaction(log: Log) -> bool:
    """Return whether compacting would leave less to merge, or fewer files to open."""
    if len(log.deltas) != 1:
        return bool(log.deltas)
    if log.deltas[0].type is DeltaType.REPLACE:
        return False
    alive = live_files(log.deltas)
    return len(alive) > 1 or any(live.hides for live in alive)


def can_stay(scan: FileScan, file_size_bytes: int) -> bool:
    """Return whether a file is large enough, and has no rows that are hidden, so that it need not be written again."""
    return not scan.hidden_by and 2 * (scan.file.source_size_bytes or scan.file.size_bytes) > file_size_bytes


def staying_file(scan: FileScan) -> DataFile:
    """Return how a file that stays is named again: it holds rows, and hides nothing any more."""
    return replace(scan.file, key_ids=())
