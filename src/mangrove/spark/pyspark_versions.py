"""Differences between the supported PySpark versions, 4.1 and newer.

PySpark 4.1 has no read limits for streaming sources: it requests the newest offset
without a start and a limit, and handles `Trigger.AvailableNow` itself. Stand-ins let the
same source class load there.
"""

import inspect
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

__all__ = [
    "HAS_READ_LIMITS",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxFiles",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
]

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ModuleNotFoundError:

    class ReadLimit:  # type: ignore[no-redef]
        """Base class of read limits."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """No limit."""

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """Maximum number of rows."""

        max_rows: int

    @dataclass
    class ReadMaxFiles(ReadLimit):  # type: ignore[no-redef]
        """Maximum number of files."""

        max_files: int

    @dataclass
    class ReadMaxBytes(ReadLimit):  # type: ignore[no-redef]
        """Maximum number of bytes."""

        max_bytes: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """A source that handles the trigger itself; not used by PySpark 4.1."""


HAS_READ_LIMITS: Final = ReadLimit.__module__ != __name__
"""Whether PySpark passes a start offset and a read limit to a streaming source: 4.2 and newer."""

# 4.1 always uses UTC, later versions need the argument.
_UTC: Final[dict[str, Any]] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


def arrow_schema(schema: StructType) -> Any:
    """Return the Arrow schema that Spark expects for these columns; timestamps are in UTC."""
    return to_arrow_schema(schema, **_UTC)
