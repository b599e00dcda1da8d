"""Engines of commands, whose Spark starts without output and only when it is needed."""

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mangrove.cli.environment import check_installed
from mangrove.cli.terminal import show_spinner
from mangrove.effects import Effects
from mangrove.wiring import LakehouseEngines, start_spark_quietly

if TYPE_CHECKING:
    from mangrove.spark.engine import SparkEngine

__all__ = ["SPARK_MODULES", "QuietEngines", "start_quiet_session"]

SPARK_MODULES = ("pyspark", "pandas")

_SETTINGS = {
    "spark.log.level": "ERROR",
    # The default of 200 partitions is for clusters.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}


def start_quiet_session(what: str) -> Any:
    """Return a Spark session for `what`; the JVM's output is reported only if the start fails."""
    check_installed(what, SPARK_MODULES, "spark")
    return start_spark_quietly(_SETTINGS)


class QuietEngines(LakehouseEngines):
    """Both engines; Spark starts without output on first use."""

    def __init__(self, effects: Effects, storage_options: Mapping[str, str] | None = None, what: str = "SQL") -> None:
        super().__init__(effects, storage_options)
        self._what = what

    @cached_property
    def _spark(self) -> "SparkEngine":
        with show_spinner("starting Spark"):
            start_quiet_session(self._what)
        return super()._spark

    @property
    def has_started(self) -> bool:
        """Whether Spark was started."""
        return "_spark" in self.__dict__
