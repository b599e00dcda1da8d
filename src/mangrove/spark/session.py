"""A local Spark session that works wherever this package is installed."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from mangrove.spark.java import build_log_settings, find_java_home

__all__ = ["LOCAL_SETTINGS", "local_session"]

LOCAL_SETTINGS: Mapping[str, str] = {
    "spark.app.name": "mangrove",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.master": "local[*]",
    # A timestamp must not depend on the machine's time zone.
    "spark.sql.session.timeZone": "UTC",
    # Without it Spark's Parquet reader skips rows of dates between 1582-10-05 and 1582-10-14.
    "spark.sql.datetime.java8API.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def local_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return the active session unchanged, or start one in this process.

    A new session runs on all cores, listens on loopback only, needs no Java on the
    machine and starts silently. `settings` are Spark settings that override
    `LOCAL_SETTINGS`.
    """
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        pass
    builder = SparkSession.builder
    quiet = build_log_settings(os.environ, Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent))
    for name, value in {**LOCAL_SETTINGS, **quiet, **(settings or {})}.items():
        builder = builder.config(name, value)
    with _environment(
        JAVA_HOME=str(find_java_home(os.environ)),
        # Workers must run the same Python as the driver.
        PYSPARK_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
    ):
        return builder.getOrCreate()


@contextmanager
def _environment(**changes: str) -> Iterator[None]:
    """Set environment variables while the JVM starts, and restore them afterwards."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
