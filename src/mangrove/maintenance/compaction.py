"""Compaction of a table, partition log by partition log, on any engine."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from mangrove.maintenance.progress import Progress, ProgressCallback
from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta
from mangrove.model.values import Value
from mangrove.tables.compaction import Compaction, CompactionReport, PlannedCompaction, TableCompaction
from mangrove.tables.write_plan import plan_write

__all__ = [
    "ReportFraction",
    "WriteMerged",
    "compact_table",
]

ReportFraction: TypeAlias = Callable[[float], None]
"""Receives the completed share of one log, from 0 to 1."""
WriteMerged: TypeAlias = Callable[[Compaction, ReportFraction], list[DataFile]]
"""Writes the rows that a compaction merges as new files, and reports progress."""


def compact_table(plan: TableCompaction, name: str, write: WriteMerged, watch: ProgressCallback) -> PlannedCompaction:
    """Write the rows that the plan merges, and return the deltas that replace the old ones."""
    what = f"compacting {name}"
    deltas: dict[tuple[Value | None, ...], Delta] = {}
    files_done = bytes_done = files_written = 0

    def notify(compaction: Compaction, share: float) -> None:
        files = files_done + int(share * len(compaction.merged.scans))
        watch(Progress(what, files, plan.files, bytes_done + int(share * compaction.size_bytes), plan.size_bytes))

    for one in plan.of_logs:
        notify(one, 0.0)
        files = write(one, partial(notify, one))
        deltas[one.log_values] = one.delta(files)
        files_done += len(one.merged.scans)
        bytes_done += one.size_bytes
        files_written += len(files)
    watch(Progress(what, files_done, plan.files, bytes_done, plan.size_bytes))
    report = CompactionReport(len(deltas), files_done, bytes_done, files_written, plan.files_left, plan.bytes_left)
    return PlannedCompaction(plan_write(deltas).deltas, report=report)
