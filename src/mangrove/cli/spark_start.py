"""Starting Spark for a command: with nothing on the terminal but our own words, and a clear one where it is missing."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mangrove.cli.extras import check_installed
from mangrove.cli.screen import waiting
from mangrove.cli.start_up import check_frames
from mangrove.effects import Effects
from mangrove.errors import StorageError
from mangrove.spark.engines import BothEngines

if TYPE_CHECKING:
    from mangrove.spark.engine import SparkEngine

__all__ = ["SPARK_MODULES", "QuietEngines", "quiet_session"]

SPARK_MODULES = ("pyspark", "pandas", "sqlglot")

_SETTINGS = {
    "spark.log.level": "ERROR",
    # A lakehouse on one machine needs few tasks; the default of 200 is for clusters.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}
_TAIL_BYTES = 2000


def quiet_session(what: str) -> Any:
    """Return a Spark session for `what`; what its Java says while it starts is shown only if it does not start."""
    check_installed(what, SPARK_MODULES[:1], "spark")
    check_frames()
    check_installed(what, SPARK_MODULES, "spark")
    from mangrove.spark.session import local_session  # noqa: PLC0415 - Spark takes long to import

    with tempfile.TemporaryFile() as said, _errors_go_to(said.fileno()):
        try:
            return local_session(_SETTINGS)
        except OSError as error:
            raise StorageError(f"Spark's Java could not be started ({error}): {_tail(said.fileno())}") from error
        except RuntimeError as error:
            raise StorageError(f"Spark did not start ({error}): {_tail(said.fileno())}") from error


class QuietEngines(BothEngines):
    """Both engines, of which Spark starts without a word when something first needs it."""

    def __init__(self, effects: Effects, storage_options: Mapping[str, str] | None = None, what: str = "SQL") -> None:
        super().__init__(effects, storage_options)
        self._what = what

    @cached_property
    def _started(self) -> "SparkEngine":
        with waiting("starting Spark"):
            quiet_session(self._what)
        return super().spark()

    @property
    def has_started(self) -> bool:
        """Whether something needed Spark until now."""
        return "_started" in self.__dict__

    def spark(self, *, jars: bool = False) -> "SparkEngine":
        """Return the engine on Spark."""
        return super().spark(jars=True) if jars else self._started


@contextmanager
def _errors_go_to(descriptor: int) -> Iterator[None]:
    """Lead the error stream elsewhere while a Java starts, which inherits it for as long as it lives."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace").strip()
