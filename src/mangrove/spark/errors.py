"""Traceback suppression for user errors in Spark workers.

Sources run in Python processes of Spark. An error there reaches people as a text,
which begins with the lines of code that it came through. Spark leaves these out
where a variable of the process says so, looks at it after the error, and ends the
process. So only errors that are meant for people are shortened: the traceback of
anything else stays, and so does that of somebody else's function.
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
    """Show errors of ours without the way they came; it is a block, or stands above a method."""
    try:
        yield
    except MangroveError:
        if _is_worker():
            os.environ[_TRACEBACK_VARIABLE] = "1"
        raise


def _is_worker() -> bool:
    """Return whether Spark started this process, rather than somebody who would keep the variable."""
    specification = getattr(sys.modules["__main__"], "__spec__", None)
    return specification is not None and specification.name.startswith("pyspark.")
