"""Cancelling the Spark jobs of one statement together, also those that are not submitted yet.

A thread enters a group before it starts jobs. On a classic session this is Spark's
own job group, on Connect an operation tag.
"""

from contextlib import suppress
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mangrove.spark.statements import is_remote

__all__ = ["GROUP_PROPERTY", "cancel_job_group", "enter_job_group", "leave_job_group"]

GROUP_PROPERTY: Final = "spark.jobGroup.id"
"""The local property in which Spark keeps a thread's job group."""


def enter_job_group(session: SparkSession, group: str) -> None:
    """Put the jobs that this thread starts from now on into a group; a group that the caller has set is kept."""
    if is_remote(session):
        session.addTag(group)
        return
    context: Any = session.sparkContext
    if context.getLocalProperty(GROUP_PROPERTY) is None:
        context.setLocalProperty(GROUP_PROPERTY, group)


def leave_job_group(session: SparkSession, group: str) -> None:
    """Take this thread out of the group; a session that has ended has none."""
    with suppress(Py4JError, PySparkException, OSError):
        if is_remote(session):
            session.removeTag(group)
            return
        context: Any = session.sparkContext
        if context.getLocalProperty(GROUP_PROPERTY) == group:
            context.setLocalProperty(GROUP_PROPERTY, None)


def cancel_job_group(session: SparkSession, group: str) -> None:
    """Cancel the jobs of a group, from any thread.

    On a classic session jobs that the group submits later are cancelled too. Connect
    knows an operation as soon as it was sent, so it must be asked again for later ones.
    """
    with suppress(Py4JError, PySparkException, OSError):
        if is_remote(session):
            session.interruptTag(group)
            return
        java: Any = session.sparkContext._jsc
        java.sc().cancelJobGroupAndFutureJobs(group, "cancelled by the user")
