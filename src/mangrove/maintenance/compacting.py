"""Compaction of a table, log by log, with whichever engine writes the rows, told to whoever watches."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from mangrove.maintenance.progress import Progress, Watch
from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta
from mangrove.model.values import Value
from mangrove.tables.compaction import Compaction, CompactionReport, PlannedCompaction, TableCompaction
from mangrove.tables.writing import planned

__all__ = ["Tell", "WriteMerged", "compacted_table"]

Tell: TypeAlias = Callable[[float], None]
"""Takes which share of one log is done, from 0 to 1."""
WriteMerged: TypeAlias = Callable[[Compaction, Tell], list[DataFile]]
"""Writes the rows that a compaction merges as new files, and says on the way how far it is."""


def compacted_table(plan: TableCompaction, name: str, write: WriteMerged, watch: Watch) -> PlannedCompaction:
    """Write what the plan merges, and return the deltas that put it in its place."""
    what = f"compacting {name}"
    deltas: dict[tuple[Value | None, ...], Delta] = {}
    files_done = bytes_done = files_written = 0

    def tell(compaction: Compaction, share: float) -> None:
        files = files_done + int(share * len(compaction.merged.scans))
        watch(Progress(what, files, plan.files, bytes_done + int(share * compaction.size_bytes), plan.size_bytes))

    for one in plan.of_logs:
        tell(one, 0.0)
        files = write(one, partial(tell, one))
        deltas[one.log_values] = one.delta(files)
        files_done += len(one.merged.scans)
        bytes_done += one.size_bytes
        files_written += len(files)
    watch(Progress(what, files_done, plan.files, bytes_done, plan.size_bytes))
    report = CompactionReport(len(deltas), files_done, bytes_done, files_written, plan.files_left, plan.bytes_left)
    return PlannedCompaction(planned(deltas).deltas, report=report)
