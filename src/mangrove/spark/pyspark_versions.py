"""Differences between the supported PySpark versions, 4.1 and newer.

PySpark 4.1 has no read limits for streaming sources: it requests the newest offset
without a start and a limit, and handles `Trigger.AvailableNow` itself. Stand-ins let the
same source class load there.
"""

import inspect
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
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
    "create_arrow_frame",
    "is_remote",
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


def is_remote(session: SparkSession) -> bool:
    """Return whether a session is over Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def create_arrow_frame(session: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Return few Arrow rows, cast to the types of a schema, as a DataFrame.

    `createDataFrame` does the same, but takes dozens of JVM calls to read settings that do not apply here.
    """
    typed = rows.select(schema.names).cast(arrow_schema(schema))
    if is_remote(session):
        return session.createDataFrame(typed, schema)
    jvm: Any = session._jvm
    functions = jvm.PythonSQLUtils

    def create_server() -> Any:
        return jvm.ArrowIteratorServer()

    batches = session.sparkContext._serialize_to_jvm(
        typed.to_batches(), ArrowStreamSerializer(), functions.readArrowStreamFromFile, create_server
    )
    frame = DataFrame(functions.toDataFrame(batches, schema.json(), session._jsparkSession), session)
    frame._schema = schema
    return frame
