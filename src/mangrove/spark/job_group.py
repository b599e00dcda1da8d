"""Job groups that cancel the Spark jobs of one statement, including those not submitted yet.

A thread enters a group before it starts jobs. In a classic session this is a Spark job
group, over Spark Connect an operation tag.
"""

from contextlib import suppress
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mangrove.spark.pyspark_versions import is_remote

__all__ = ["GROUP_PROPERTY", "cancel_job_group", "enter_job_group", "leave_job_group"]

GROUP_PROPERTY: Final = "spark.jobGroup.id"
"""The local property with a thread's job group."""


def enter_job_group(session: SparkSession, group: str) -> None:
    """Put further jobs of this thread into a group; an existing group of the caller is kept."""
    if is_remote(session):
        session.addTag(group)
        return
    context: Any = session.sparkContext
    if context.getLocalProperty(GROUP_PROPERTY) is None:
        context.setLocalProperty(GROUP_PROPERTY, group)


def leave_job_group(session: SparkSession, group: str) -> None:
    """Remove this thread from the group; does nothing in a stopped session."""
    with suppress(Py4JError, PySparkException, OSError):
        if is_remote(session):
            session.removeTag(group)
            return
        context: Any = session.sparkContext
        if context.getLocalProperty(GROUP_PROPERTY) == group:
            context.setLocalProperty(GROUP_PROPERTY, None)


def cancel_job_group(session: SparkSession, group: str) -> None:
    """Cancel the jobs of a group, from any thread.

    In a classic session later jobs of the group are cancelled too. Over Spark Connect only
    submitted operations are, so it must be called again for later ones.
    """
    with suppress(Py4JError, PySparkException, OSError):
        if is_remote(session):
            session.interruptTag(group)
            return
        java: Any = session.sparkContext._jsc
        java.sc().cancelJobGroupAndFutureJobs(group, "cancelled by the user")
