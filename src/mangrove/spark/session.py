"""A local Spark session that works wherever this package is installed."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from mangrove.errors import StorageError
from mangrove.spark.java import build_log_settings, find_java_home

__all__ = ["LOCAL_SETTINGS", "local_session", "start_quiet_session"]

_TAIL_BYTES: Final = 2000
"""How much of the output of the JVM an error contains."""

LOCAL_SETTINGS: Mapping[str, str] = {
    "spark.app.name": "mangrove",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.master": "local[*]",
    # A timestamp must not depend on the machine's time zone.
    "spark.sql.session.timeZone": "UTC",
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


def start_quiet_session(settings: Mapping[str, str]) -> SparkSession:
    """Return the session of `local_session`; the JVM's output is reported only if the start fails."""
    with tempfile.TemporaryFile() as output, _redirect_stderr(output.fileno()):
        try:
            return local_session(settings)
        except OSError as error:
            raise StorageError(f"cannot start the Java runtime of Spark ({error}): {_tail(output.fileno())}") from error
        except RuntimeError as error:
            raise StorageError(f"cannot start Spark ({error}): {_tail(output.fileno())}") from error


@contextmanager
def _redirect_stderr(descriptor: int) -> Iterator[None]:
    """Redirect stderr while the JVM starts; the JVM inherits the redirected stream."""
    sys.stderr.flush()
    original = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace").strip()
