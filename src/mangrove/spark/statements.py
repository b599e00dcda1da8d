"""Running SQL text on Spark with frames in the place of names; what Spark refuses comes back as facts.

In a session of this process frames have names that they keep. Over Connect they
are handed over with the text (`spark.sql("… {t} …", t=frame)`), which costs nothing there.
"""

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from mangrove.errors import AlreadyExistsError, InvalidInputError
from mangrove.model.schema import Schema
from mangrove.spark.session_names import SessionNames
from mangrove.spark.types import spark_type

__all__ = [
    "Arguments",
    "Frame",
    "Refused",
    "Text",
    "create_temporary_view",
    "drop_temporary_view",
    "each_row",
    "failed",
    "keep_rows",
    "let_go_of_rows",
    "literal_rows",
    "moment_value",
    "one_row",
    "quiet",
    "read_elsewhere",
    "refused",
    "renamed_columns",
    "rows_frame",
    "run_text",
    "run_time_errors",
    "spark_errors",
]

Frame: TypeAlias = DataFrame
Arguments: TypeAlias = Mapping[str, Any] | Sequence[Any] | None
spark_errors: Final = (PySparkException,)
"""What Spark raises, in this process and over Connect."""
run_time_errors: Final = (PySparkException, Py4JJavaError)
"""What comes while rows are computed: some errors of Spark's reach Python as those of its bridge."""

_HANDED_OVER: Final = "_pyspark_connect_temp_view_" + 32 * "0"
"""As long as the names that Spark gives to frames over Connect: places behind them move by so much."""
_LINE_AND_COLUMN: Final = re.compile(r"\(line (\d+), pos (\d+)\)")
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)?)\] [^\n]+")
_NOISE: Final = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*|\s*SQLSTATE: \w+.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of SQL, and where it stands in what the user wrote; None where we wrote it."""

    text: str
    start: int | None


@dataclass(frozen=True, slots=True)
class Refused:
    """Why Spark refused a text, and where: positions are those of the user's text, None where Spark does not say."""

    condition: str
    message: str
    parameters: Mapping[str, str]
    start: int | None = None
    end: int | None = None


def run_text(names: SessionNames, pieces: Sequence[Text | Frame], arguments: Arguments = None) -> Frame | Refused:
    """Return the rows of the statement that the pieces make together, or why Spark refuses it."""
    given = list(arguments) if isinstance(arguments, list | tuple) else arguments
    frames = [piece for piece in pieces if not isinstance(piece, Text)]
    if names.is_remote and frames:
        return _handed_over(names.session, pieces, given)
    with names.named(frames) as called:
        following = iter(called)
        written = [piece if isinstance(piece, Text) else Text(next(following), None) for piece in pieces]
        try:
            with quiet():
                return names.session.sql("".join(piece.text for piece in written), given)  # type: ignore[arg-type]
        except spark_errors as error:
            return refused(error, written)


def _handed_over(session: SparkSession, pieces: Sequence[Text | Frame], arguments: Arguments) -> Frame | Refused:
    frames: dict[str, Frame] = {}
    template = ""
    for piece in pieces:
        if isinstance(piece, Text):
            template += piece.text.replace("{", "{{").replace("}", "}}")
        else:
            name = next((name for name, frame in frames.items() if frame is piece), f"mangrove_{len(frames)}")
            frames[name] = piece
            template += f"{{{name}}}"
    try:
        with quiet():
            return session.sql(template, arguments, **frames)  # type: ignore[arg-type]
    except spark_errors as error:
        return refused(error, [piece if isinstance(piece, Text) else Text(_HANDED_OVER, None) for piece in pieces])


def refused(error: PySparkException, pieces: Sequence[Text] = ()) -> Refused:
    """Return the facts of an error of Spark's, about a text that these pieces make."""
    start, end = _span(error, pieces)
    message = " ".join(_NOISE.sub("", error.getMessage() if error.getCondition() else str(error)).split())
    return Refused(error.getCondition() or "", message, error.getMessageParameters() or {}, start, end)


def failed(error: Exception) -> Refused:
    """Return the facts of an error that came while rows were computed, perhaps inside of a task's report."""
    if isinstance(error, PySparkException) and error.getCondition():
        return refused(error)
    found = _CONDITION.search(str(error))
    if found is not None:
        return Refused(found[1], " ".join(_NOISE.sub("", found[0]).split()), {})
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return Refused("", lines[0] if lines else type(error).__name__, {})


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Spark from printing an error that is told to the user in our words."""
    # Spark's own class, which must be the first to make it.
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
    """Give rows a name in the session, or in all sessions of the application."""
    try:
        if is_global and or_replace:
            frame.createOrReplaceGlobalTempView(name)
        elif is_global:
            frame.createGlobalTempView(name)
        elif or_replace:
            frame.createOrReplaceTempView(name)
        else:
            frame.createTempView(name)
    except spark_errors as error:
        if error.getCondition() == "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS":
            raise AlreadyExistsError(f"the session has a temporary view {name}: write CREATE OR REPLACE") from error
        raise InvalidInputError(refused(error).message) from error


def drop_temporary_view(session: SparkSession, name: str) -> bool:
    """Drop a temporary view of the session, and return whether there was one."""
    return bool(session.catalog.dropTempView(name))


def renamed_columns(frame: Frame, names: Sequence[str]) -> Frame:
    """Return the rows with other names for all columns."""
    if len(names) != len(frame.columns):
        raise InvalidInputError(f"{len(names)} columns are named, and the query has {len(frame.columns)}: name each")
    return frame.toDF(*names)


def one_row(session: SparkSession, name: str) -> Frame:
    """Return one row with one column of that name."""
    return session.range(1).toDF(name)


def keep_rows(frame: Frame, *, at_once: bool) -> None:
    """Keep rows in Spark's memory, from now on or from when they are first read."""
    frame.cache()
    if at_once:
        frame.count()


def let_go_of_rows(frame: Frame) -> None:
    """Forget rows that were kept."""
    frame.unpersist()


def each_row(frame: Frame, limit: int | None) -> Iterator[tuple[Any, ...]]:
    """Yield rows as they come, so that a long answer need not fit into memory; with a limit no more are computed."""
    rows = (frame if limit is None else frame.limit(limit)).toLocalIterator()
    while True:
        with quiet():
            row = next(rows, None)
        if row is None:
            return
        yield tuple(row)


def moment_value(frame: Frame) -> object:
    """Return the one value of one row; a date or a time as how long it is after the year 1970 began in UTC."""
    kind = frame.schema.fields[0].dataType
    if isinstance(kind, DateType | TimestampType | TimestampNTZType):
        (micros,) = frame.select(f.unix_micros(f.col(frame.columns[0]).cast("timestamp"))).collect()[0]
        return None if micros is None else datetime.timedelta(microseconds=micros)
    return frame.collect()[0][0]


def rows_frame(session: SparkSession, schema: str, rows: Sequence[tuple[Any, ...]]) -> Frame:
    """Return rows of this process as Spark's; `schema` is text such as "version bigint, message string"."""
    return session.createDataFrame(list(rows), schema)


def literal_rows(frame: Frame, values: Mapping[str, str], schema: Schema) -> Frame:
    """Return the rows with more columns, each the same in all rows and given as SQL."""
    for name, text in values.items():
        frame = frame.withColumn(name, f.expr(text).cast(spark_type(schema.column(name).type)))
    return frame


def read_elsewhere(session: SparkSession, file_format: str, location: str, options: Mapping[str, str]) -> Frame:
    """Return the rows of files that others keep."""
    return session.read.format(file_format.lower()).options(**options).load(location)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _span(error: PySparkException, pieces: Sequence[Text]) -> tuple[int | None, int | None]:
    """Return from where to where in the user's text the error lies."""
    for context in error.getQueryContext():
        if context.contextType().name == "SQL" and context.startIndex() >= 0:
            start = _original(context.startIndex(), pieces)
            end = _original(context.stopIndex(), pieces)
            return start, None if end is None else end + 1
    place = _LINE_AND_COLUMN.search(str(error))
    if place is None:
        return None, None
    lines = "".join(piece.text for piece in pieces).splitlines(keepends=True)
    start = _original(sum(map(len, lines[: int(place[1]) - 1])) + int(place[2]), pieces)
    return start, start


def _original(position: int, pieces: Sequence[Text]) -> int | None:
    """Return the place in the user's text of a place in the text that Spark saw."""
    for piece in pieces:
        length = len(piece.text)
        if position < length or (position == length and piece is pieces[-1]):
            return None if piece.start is None else piece.start + position
        position -= length
    return None
