"""Progress of Spark jobs by completed tasks.

A thread polls Spark while the caller waits. Over Spark Connect no progress is
available.
"""

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import SparkSession

from mangrove.spark.job_group import GROUP_PROPERTY
from mangrove.spark.pyspark_versions import is_remote

__all__ = ["compute_progress", "report_job_progress"]

_PAUSE_SECONDS: Final = 0.5


def compute_progress(stages: Sequence[tuple[int, int]]) -> float:
    """Return the completed fraction of stages, given as done and total tasks; always below 1.

    Spark plans the next stage when one is done, so the known work may double.

    >>> compute_progress([]), compute_progress([(4, 8)]), compute_progress([(8, 8)]), compute_progress([(8, 8), (8, 8)])
    (0.0, 0.25, 0.5, 0.75)
    """
    share = 0.0
    for done, total in stages:
        share += (1 - share) / 2 * (done / total if total else 1.0)
    return share


@contextmanager
def report_job_progress(session: SparkSession, report: Callable[[float], None]) -> Iterator[None]:
    """Report the progress of the jobs of this thread."""
    if is_remote(session):
        yield
        return
    context: Any = session.sparkContext
    before = context.getLocalProperty(GROUP_PROPERTY)
    # An existing group of the caller is kept, so that it can still be cancelled.
    group = str(uuid.uuid4()) if before is None else before
    jobs = _Jobs(context.statusTracker(), group)
    done = threading.Event()
    request_info = threading.Thread(target=_poll_jobs, args=(jobs, report, done), daemon=True)
    context.setLocalProperty(GROUP_PROPERTY, group)
    request_info.start()
    try:
        yield
    finally:
        done.set()
        request_info.join()
        context.setLocalProperty(GROUP_PROPERTY, before)


class _Jobs:
    """The new jobs of a group."""

    def __init__(self, tracker: Any, group: str) -> None:
        self._tracker = tracker
        self._group = group
        self._earlier = frozenset(tracker.getJobIdsForGroup(group))

    def stages(self) -> list[tuple[int, int]]:
        """Return the completed and total tasks of each known stage."""
        numbers = sorted(set(self._tracker.getJobIdsForGroup(self._group)) - self._earlier)
        jobs = filter(None, map(self._tracker.getJobInfo, numbers))
        found = (self._tracker.getStageInfo(stage) for job in jobs for stage in sorted(job.stageIds))
        return [(stage.numCompletedTasks, stage.numTasks) for stage in found if stage is not None]


def _poll_jobs(jobs: _Jobs, report: Callable[[float], None], done: threading.Event) -> None:
    reported = 0.0
    while not done.wait(_PAUSE_SECONDS):
        share = compute_progress(jobs.stages())
        if share > reported:
            reported = share
            report(share)
