"""Start of a local Spark session without output of the JVM."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from mangrove.errors import StorageError
from mangrove.spark.session import local_session

__all__ = ["start_quiet_session"]

_TAIL_BYTES: Final = 2000


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
