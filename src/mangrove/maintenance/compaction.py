"""Table compaction and the choice between the local engine and Spark.

    job          Spark from             reason
    copy         8 GiB, 50,000 files    takes minutes in one process, and a session starts in ten seconds
    count        8 GiB, 50,000 files    every byte is read
    delete       200,000 files          one request deletes a thousand files of any size
    compact      2 GiB in memory        the local engine holds a whole partition log in memory

Sizes come from the catalog or a listing, so the choice reads no data. An explicitly
named engine is always used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from mangrove.errors import InvalidInputError
from mangrove.maintenance.progress import Progress, ProgressCallback
from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta
from mangrove.model.values import Value
from mangrove.tables.compaction import LOCAL_BYTES_MAX, Compaction, CompactionReport, PlannedCompaction, TableCompaction
from mangrove.tables.write_plan import plan_write

__all__ = [
    "COMPACTION_LIMITS",
    "COPY_LIMITS",
    "COUNT_LIMITS",
    "DELETE_LIMITS",
    "ENGINES",
    "LocalLimits",
    "ReportFraction",
    "WriteMerged",
    "compact_table",
    "is_for_spark",
    "validate_engine",
]

ENGINES: Final = ("local", "spark")


@dataclass(frozen=True, slots=True)
class LocalLimits:
    """The limits of work in this process; None is unlimited."""

    files_max: int | None
    bytes_max: int | None


COPY_LIMITS: Final = LocalLimits(50_000, 8 * 1024**3)
COUNT_LIMITS: Final = COPY_LIMITS
DELETE_LIMITS: Final = LocalLimits(200_000, None)
COMPACTION_LIMITS: Final = LocalLimits(None, LOCAL_BYTES_MAX)


def validate_engine(name: str | None) -> str | None:
    """Return the name of an engine, or None for an automatic choice; raise an error for any other name."""
    if name is not None and name not in ENGINES:
        raise InvalidInputError(
            f"unknown engine {name!r}; expected {' or '.join(ENGINES)}, or none for an automatic choice"
        )
    return name


def is_for_spark(requested: str | None, limits: LocalLimits, files: int, size_bytes: int, *, spark_can: bool) -> bool:
    """Return whether Spark does the work: on request, or because it exceeds the limits.

    >>> is_for_spark(None, COPY_LIMITS, 3, 9 * 1024**3, spark_can=True)
    True
    >>> is_for_spark(None, COPY_LIMITS, 3, 9 * 1024**3, spark_can=False)
    False
    """
    if requested is not None:
        return requested == "spark"
    is_much = (limits.files_max is not None and files > limits.files_max) or (
        limits.bytes_max is not None and size_bytes > limits.bytes_max
    )
    return spark_can and is_much


ReportFraction: TypeAlias = Callable[[float], None]
"""Receives the completed share of one log, from 0 to 1."""
WriteMerged: TypeAlias = Callable[[Compaction, ReportFraction], list[DataFile]]
"""Writes the rows that a compaction merges as new files, and reports progress."""


def compact_table(plan: TableCompaction, name: str, write: WriteMerged, watch: ProgressCallback) -> PlannedCompaction:
    """Write the rows that the plan merges, and return the deltas that replace the old ones."""
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
    return PlannedCompaction(plan_write(deltas).deltas, report=report)
