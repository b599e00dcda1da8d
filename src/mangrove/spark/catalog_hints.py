"""Hints on Spark's errors about tables that only the lakehouse has.

Spark's own catalog does not know the tables of a lakehouse: that takes a catalog
plugin, which is a JAR. After `lake.spark()`, an error that Spark raises about a
table or schema gets a note (PEP 678) that says what to write instead, where the
lakehouse has a namespace of that name. The error itself, its class and its message
are unchanged, and calls that succeed are not affected.

`sql` and `table` are wrapped on the session object. Writers are made by DataFrames,
which have no session-specific class, so their methods are wrapped once in PySpark's
classes; they add notes only for sessions that `lake.spark()` returned.
"""

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, Final, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2
from pyspark.sql.streaming.readwriter import DataStreamWriter

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.model.names import split_name
from mangrove.spark.pyspark_versions import is_remote

__all__ = ["Namespaces", "add_catalog_hints"]

Namespaces: TypeAlias = Callable[[], Collection[str]]
"""Returns the current namespaces of a lakehouse."""

_KNOWN: Final = "_mangrove_lakehouses"
_IS_HINTING: Final = "_adds_mangrove_hints"
_OF_SCHEMAS: Final = ("schemaName", "databaseName", "namespace")
_OF_TABLES: Final = ("relationName", "tableName")
_CONDITIONS: Final = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "NO_SUCH_NAMESPACE")
_V1_METHODS: Final = ("insertInto", "saveAsTable")
_STREAM_METHODS: Final = ("toTable",)
_V2_METHODS: Final = ("append", "create", "createOrReplace", "overwrite", "overwritePartitions", "replace")


def add_catalog_hints(session: SparkSession, uri: str, namespaces: Namespaces) -> None:
    """Add hints to this session's errors about names in the lakehouse at `uri`."""
    known: dict[str, Namespaces] = session.__dict__.setdefault(_KNOWN, {})
    # The most recent lakehouse comes last.
    known.pop(uri, None)
    known[uri] = namespaces
    for name in ("sql", "table"):
        method = getattr(session, name)
        if not hasattr(method, _IS_HINTING):
            setattr(session, name, _hinting(method, lambda *_: session))
    for kind, names in _writers(session).items():
        for name in names:
            method = getattr(kind, name)
            if not hasattr(method, _IS_HINTING):
                setattr(kind, name, _hinting(method, _session_of_writer))


def _writers(session: SparkSession) -> Mapping[type, Collection[str]]:
    """Return the classes that write to named tables, with their methods; Spark Connect has its own classes."""
    if is_remote(session):
        from pyspark.sql.connect.readwriter import DataFrameWriter as RemoteWriter  # noqa: PLC0415 - needs gRPC
        from pyspark.sql.connect.readwriter import DataFrameWriterV2 as RemoteWriterV2  # noqa: PLC0415
        from pyspark.sql.connect.streaming.readwriter import DataStreamWriter as RemoteStream  # noqa: PLC0415

        return {RemoteWriter: _V1_METHODS, RemoteWriterV2: _V2_METHODS, RemoteStream: _STREAM_METHODS}
    return {DataFrameWriter: _V1_METHODS, DataFrameWriterV2: _V2_METHODS, DataStreamWriter: _STREAM_METHODS}


def _session_of_writer(writer: Any, *_: object) -> Any:
    return getattr(writer, "_spark", None) or getattr(writer, "_session", None)


def _hinting(method: Callable[..., Any], session_of: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method with notes on its errors."""

    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except PySparkException as error:
            known: dict[str, Namespaces] = getattr(session_of(*arguments), _KNOWN, {})
            # One note is enough: that of the most recent lakehouse.
            any(_add_hint(error, uri, namespaces) for uri, namespaces in reversed(known.items()))
            raise

    setattr(call, _IS_HINTING, True)
    return call


def _add_hint(error: PySparkException, uri: str, namespaces: Namespaces) -> bool:
    """Add a note if the error is about a namespace of the lakehouse, and return whether it is."""
    named = _named_table(error)
    if named is None:
        return False
    namespace, table = named
    try:
        if namespace not in namespaces():
            return False
    except MangroveError:
        return False  # An error of the lakehouse must not replace Spark's error.
    error.add_note(
        f"The lakehouse at {uri} has a namespace {namespace}, which is not in Spark's catalog. Read with "
        f"lake.table('{namespace}.{table}').to_spark() or with lake.sql, write with "
        f"lake.table('{namespace}.{table}').append(frame), or register the table in Spark's catalog with "
        "mangrove.spark.registration.attach. See docs/how-to/spark.md"
    )
    return True


def _named_table(error: PySparkException) -> tuple[str, str] | None:
    """Return the namespace and table that Spark did not find; the error has no table if the schema is missing."""
    if not (error.getCondition() or "").startswith(_CONDITIONS):
        return None
    given = error.getMessageParameters() or {}
    try:
        for name in _OF_SCHEMAS:
            if name in given:
                return split_name(given[name])[-1], "…"
        for name in _OF_TABLES:
            if name in given and len(parts := split_name(given[name])) > 1:
                return parts[-2], parts[-1]
    except InvalidInputError:
        return None  # Not a valid table name.
    return None
