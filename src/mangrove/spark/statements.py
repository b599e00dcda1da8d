"""Execution of SQL text on Spark with temporary views for tables.

Spark runs SQL text, in which a frame needs a name. Creating and dropping a view costs more
than the rest of our work for a query, so a frame keeps its view until many others were
used after it. The views are global temporary views, which are not listed among the
session's temporary views.

Over Spark Connect frames are passed with the text instead
(`spark.sql("… {t} …", t=frame)`), which is cheap there.
"""

import datetime
import re
import weakref
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Lock, Thread
from typing import Any, Final, TypeAlias
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DateType, StructField, StructType, TimestampNTZType, TimestampType

from mangrove.errors import AlreadyExistsError, InvalidInputError
from mangrove.lakehouse.sql_port import Arguments, PositionedText, SqlErrorInfo, locate_position
from mangrove.model.arrow_schema import schema_from_arrow
from mangrove.model.schema import Schema
from mangrove.spark.pyspark_versions import is_remote
from mangrove.spark.types import to_spark_type

__all__ = [
    "NAMES_MAX",
    "RUNTIME_ERRORS",
    "SPARK_ERRORS",
    "Frame",
    "SessionNames",
    "add_literal_columns",
    "cache_rows",
    "compute_literals",
    "create_constant_row",
    "create_frame",
    "create_frame_of_arrow",
    "create_one_row",
    "create_temporary_view",
    "describe_analysis_error",
    "describe_runtime_error",
    "drop_temporary_view",
    "iterate_rows",
    "read_as_of_value",
    "read_external_files",
    "rename_columns",
    "run_sql_text",
    "suppress_spark_logging",
    "uncache_rows",
]

NAMES_MAX: Final = 128
"""Maximum number of cached views."""
_DATABASE: Final = "spark.sql.globalTempDatabase"


@dataclass
class _NamedFrame:
    frame: DataFrame
    """Referenced, so that no other frame gets the same id."""
    name: str
    users: int = 0


class SessionNames:
    """Temporary views of frames in a session; thread-safe. The views are dropped with this object."""

    def __init__(self, session: SparkSession, names_max: int = NAMES_MAX) -> None:
        self.session = session
        self._names_max = names_max
        # Sessions and lakehouses of one process share the global views.
        self._prefix = f"mangrove_{uuid4().hex}"
        self._count = 0
        self._lock = Lock()
        self._named: OrderedDict[int, _NamedFrame] = OrderedDict()
        # Spark drops them at the end of the process.
        weakref.finalize(self, _forget, session, self._named).atexit = False

    @cached_property
    def is_remote(self) -> bool:
        """Whether the session is over Spark Connect, where frames are passed with the text."""
        return is_remote(self.session)

    @cached_property
    def _database(self) -> str:
        return str(self.session.conf.get(_DATABASE, "global_temp"))

    @cached_property
    def _catalog(self) -> Any:
        return self.session._jsparkSession.sessionState().catalog()

    def temporary_views(self, names: Collection[str]) -> frozenset[str]:
        """Return which names are temporary views; over Spark Connect also the session's own tables."""
        if self.is_remote:
            return frozenset(name for name in names if self.session.catalog.tableExists(f"`{name.replace('`', '``')}`"))
        # One JVM call for all names, because every statement pays for it.
        listed = str(self._catalog.getTempViewNames().mkString("\n")).casefold()
        known = frozenset(listed.split("\n"))
        return frozenset(name for name in names if name.casefold() in known)

    @contextmanager
    def named(self, frames: Sequence[DataFrame]) -> Iterator[list[str]]:
        """Yield view names of the frames, valid at least until the end of the block."""
        used: list[_NamedFrame] = []
        try:
            with self._lock:
                for frame in frames:
                    used.append(self._entry(frame))
                    used[-1].users += 1
            yield [f"{self._database}.{entry.name}" for entry in used]
        finally:
            with self._lock:
                for entry in used:
                    entry.users -= 1
                self._drop_oldest()

    def _entry(self, frame: DataFrame) -> _NamedFrame:
        entry = self._named.get(id(frame))
        if entry is None:
            self._count += 1
            entry = _NamedFrame(frame, f"{self._prefix}_{self._count}")
            frame.createGlobalTempView(entry.name)
            self._named[id(frame)] = entry
        self._named.move_to_end(id(frame))
        return entry

    def _drop_oldest(self) -> None:
        """Drop the least recently used views that are not in use."""
        idle = [key for key, entry in self._named.items() if not entry.users]
        for key in idle[: max(0, len(self._named) - self._names_max)]:
            self.session.catalog.dropGlobalTempView(self._named.pop(key).name)


def _forget(session: SparkSession, named: OrderedDict[int, _NamedFrame]) -> None:
    """Drop all views; does nothing in a stopped session."""
    if named and session.sparkContext._jsc is not None:
        # The finalizer may run in the middle of a JVM call, and a thread has one connection.
        names = [entry.name for entry in named.values()]
        Thread(target=_drop, args=(session, names), name="mangrove names", daemon=True).start()


def _drop(session: SparkSession, names: Sequence[str]) -> None:
    for name in names:
        session.catalog.dropGlobalTempView(name)


Frame: TypeAlias = DataFrame
SPARK_ERRORS: Final = (PySparkException,)
"""Exceptions of Spark, in this process and over Spark Connect."""
RUNTIME_ERRORS: Final = (PySparkException, Py4JJavaError)
"""Exceptions during execution; some are raised by Spark's Python bridge."""

_HANDED_OVER: Final = "_pyspark_connect_temp_view_" + 32 * "0"
"""As long as the names of frames in Spark Connect, which shift later positions."""
_LINE_AND_COLUMN: Final = re.compile(r"\(line (\d+), pos (\d+)\)")
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)?)\] [^\n]+")
_NOISE: Final = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*|\s*SQLSTATE: \w+.*", re.DOTALL)


def run_sql_text(
    names: SessionNames, pieces: Sequence[PositionedText | Frame], arguments: Arguments = None
) -> Frame | SqlErrorInfo:
    """Run the statement of the fragments and return its rows."""
    given = list(arguments) if isinstance(arguments, list | tuple) else arguments
    frames = [piece for piece in pieces if not isinstance(piece, PositionedText)]
    if names.is_remote and frames:
        return _submit(names.session, pieces, given)
    with names.named(frames) as called:
        following = iter(called)
        written = [
            piece if isinstance(piece, PositionedText) else PositionedText(next(following), None) for piece in pieces
        ]
        try:
            with suppress_spark_logging():
                return names.session.sql("".join(piece.text for piece in written), given)  # type: ignore[arg-type]
        except SPARK_ERRORS as error:
            return describe_analysis_error(error, written)


def _submit(
    session: SparkSession, pieces: Sequence[PositionedText | Frame], arguments: Arguments
) -> Frame | SqlErrorInfo:
    frames: dict[str, Frame] = {}
    template = ""
    for piece in pieces:
        if isinstance(piece, PositionedText):
            template += piece.text.replace("{", "{{").replace("}", "}}")
        else:
            name = next((name for name, frame in frames.items() if frame is piece), f"mangrove_{len(frames)}")
            frames[name] = piece
            template += f"{{{name}}}"
    try:
        with suppress_spark_logging():
            return session.sql(template, arguments, **frames)  # type: ignore[arg-type]
    except SPARK_ERRORS as error:
        return describe_analysis_error(
            error,
            [piece if isinstance(piece, PositionedText) else PositionedText(_HANDED_OVER, None) for piece in pieces],
        )


def describe_analysis_error(error: PySparkException, pieces: Sequence[PositionedText] = ()) -> SqlErrorInfo:
    """Return the description of an analysis error in the text of these fragments."""
    start, end = _span(error, pieces)
    message = " ".join(_NOISE.sub("", error.getMessage() if error.getCondition() else str(error)).split())
    return SqlErrorInfo(error.getCondition() or "", message, error.getMessageParameters() or {}, start, end)


def describe_runtime_error(error: Exception) -> SqlErrorInfo:
    """Return the description of an error during execution, possibly nested in a task's report."""
    if isinstance(error, PySparkException) and error.getCondition():
        return describe_analysis_error(error)
    found = _CONDITION.search(str(error))
    if found is not None:
        return SqlErrorInfo(found[1], " ".join(_NOISE.sub("", found[0]).split()), {})
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return SqlErrorInfo("", lines[0] if lines else type(error).__name__, {})


@contextmanager
def suppress_spark_logging() -> Iterator[None]:
    """Suppress Spark's log output of an error that is reported to the user."""
    # Spark's logger class must be created by Spark first.
    loggers = [PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was_disabled in zip(loggers, before, strict=True):
            logger.disabled = was_disabled


def create_temporary_view(frame: Frame, name: str, *, or_replace: bool, is_global: bool) -> None:
    """Create a temporary view of the session or a global one."""
    try:
        if is_global and or_replace:
            frame.createOrReplaceGlobalTempView(name)
        elif is_global:
            frame.createGlobalTempView(name)
        elif or_replace:
            frame.createOrReplaceTempView(name)
        else:
            frame.createTempView(name)
    except SPARK_ERRORS as error:
        if error.getCondition() == "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS":
            raise AlreadyExistsError(f"temporary view {name} already exists; use CREATE OR REPLACE") from error
        raise InvalidInputError(describe_analysis_error(error).message) from error


def drop_temporary_view(session: SparkSession, name: str) -> bool:
    """Drop a temporary view of the session and return whether it existed."""
    return bool(session.catalog.dropTempView(name))


def rename_columns(frame: Frame, names: Sequence[str]) -> Frame:
    """Rename all columns."""
    if len(names) != len(frame.columns):
        raise InvalidInputError(
            f"the column list has {len(names)} names, but the query has {len(frame.columns)} columns"
        )
    return frame.toDF(*names)


def create_one_row(session: SparkSession, name: str) -> Frame:
    """Return one row with one column."""
    return session.range(1).toDF(name)


def cache_rows(frame: Frame, *, eager: bool) -> None:
    """Cache rows in Spark's memory, eagerly or on first read."""
    frame.cache()
    if eager:
        frame.count()


def uncache_rows(frame: Frame) -> None:
    """Remove rows from the cache."""
    frame.unpersist()


def iterate_rows(frame: Frame, limit: int | None) -> Iterator[tuple[Any, ...]]:
    """Yield rows incrementally; with a limit no more rows are computed."""
    rows = (frame if limit is None else frame.limit(limit)).toLocalIterator()
    while True:
        with suppress_spark_logging():
            row = next(rows, None)
        if row is None:
            return
        yield tuple(row)


def read_as_of_value(frame: Frame) -> object:
    """Return the single value of a row; dates and timestamps as an offset from the Unix epoch."""
    kind = frame.schema.fields[0].dataType
    if isinstance(kind, DateType | TimestampType | TimestampNTZType):
        (micros,) = frame.select(f.unix_micros(f.col(frame.columns[0]).cast("timestamp"))).collect()[0]
        return None if micros is None else datetime.timedelta(microseconds=micros)
    return frame.collect()[0][0]


def create_frame(session: SparkSession, schema: str, rows: Sequence[tuple[Any, ...]]) -> Frame:
    """Return a DataFrame of local rows; `schema` is text such as "version bigint, message string"."""
    return session.createDataFrame(list(rows), schema)


def create_constant_row(frame: Frame, values: Sequence[Any]) -> Frame:
    """Return a DataFrame with the columns of `frame` and one row, which needs no job."""
    schema = frame.schema
    row = pa.Table.from_arrays([pa.array([value]) for value in values], names=[str(n) for n in range(len(values))])
    return frame.sparkSession.createDataFrame(row).select(
        *(f.col(str(n)).cast(field.dataType).alias(field.name) for n, field in enumerate(schema.fields))
    )


def create_frame_of_arrow(session: SparkSession, rows: pa.Table) -> Frame:
    """Return a DataFrame of the rows of an Arrow table."""
    values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    fields = [StructField(one.name, to_spark_type(one.type)) for one in schema_from_arrow(rows.schema).columns]
    return session.createDataFrame(list(values), StructType(fields))


def add_literal_columns(frame: Frame, values: Mapping[str, str], schema: Schema) -> Frame:
    """Add constant columns, given as SQL."""
    for name, text in values.items():
        frame = frame.withColumn(name, f.expr(text).cast(to_spark_type(schema.column(name).type)))
    return frame


def compute_literals(session: SparkSession, values: Mapping[str, str], schema: Schema) -> pa.Table:
    """Return one row of constants, given as SQL, with the types of these columns of a table."""
    rows: pa.Table = add_literal_columns(session.range(1).select(), values, schema).toArrow()
    return rows


def read_external_files(session: SparkSession, file_format: str, location: str, options: Mapping[str, str]) -> Frame:
    """Return the rows of an external table."""
    return session.read.format(file_format.lower()).options(**options).load(location)


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _span(error: PySparkException, pieces: Sequence[PositionedText]) -> tuple[int | None, int | None]:
    """Return the range of an error in the user's text."""
    for context in error.getQueryContext():
        if context.contextType().name == "SQL" and context.startIndex() >= 0:
            start = locate_position(context.startIndex(), pieces)
            end = locate_position(context.stopIndex(), pieces)
            return start, None if end is None else end + 1
    place = _LINE_AND_COLUMN.search(str(error))
    if place is None:
        return None, None
    lines = "".join(piece.text for piece in pieces).splitlines(keepends=True)
    start = locate_position(sum(map(len, lines[: int(place[1]) - 1])) + int(place[2]), pieces)
    return start, start
