"""Traceback suppression for user errors in Spark workers.

Data sources run in Python processes of Spark. Their errors are reported with the
traceback, unless an environment variable disables it, which Spark reads after the error.
Only errors for users are shortened; the tracebacks of all other errors, and of user
functions, stay.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mangrove.errors import MangroveError

__all__ = ["suppress_worker_traceback"]

_TRACEBACK_VARIABLE: Final = "SPARK_HIDE_TRACEBACK"


@contextmanager
def suppress_worker_traceback() -> Iterator[None]:
    """Suppress the traceback of Mangrove errors; usable as context manager and decorator."""
    try:
        yield
    except MangroveError:
        if _is_worker():
            os.environ[_TRACEBACK_VARIABLE] = "1"
        raise


def _is_worker() -> bool:
    """Return whether this process is a Spark worker."""
    specification = getattr(sys.modules["__main__"], "__spec__", None)
    return specification is not None and specification.name.startswith("pyspark.")
