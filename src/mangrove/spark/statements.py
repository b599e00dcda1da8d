"""Running SQL text on Spark with frames in the place of names; what Spark refuses comes back as facts.

Frames are handed over as Spark itself proposes (`spark.sql("… {t} …", t=frame)`),
because that works in a session of this process and over Connect alike.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mangrove.errors import AlreadyExistsError, InvalidInputError
from mangrove.model.schema import Schema
from mangrove.spark.types import spark_type

__all__ = [
    "Arguments",
    "Frame",
    "Refused",
    "Text",
    "create_temporary_view",
    "distinct_rows",
    "drop_temporary_view",
    "literal_rows",
    "one_row",
    "quiet",
    "read_elsewhere",
    "refused",
    "renamed_columns",
    "rows_frame",
    "run_text",
    "spark_errors",
    "temporary_views",
]

Frame: TypeAlias = DataFrame
Arguments: TypeAlias = Mapping[str, Any] | Sequence[Any] | None
spark_errors: Final = (PySparkException,)
"""What Spark raises, in this process and over Connect."""

_NAME_LENGTHS: Final = {True: len("_pyspark_connect_temp_view_") + 32, False: len("_pyspark_") + 32}
"""How long the names are that Spark gives to frames, over Connect and not: places behind them move by so much."""
_LINE_AND_COLUMN: Final = re.compile(r"\(line (\d+), pos (\d+)\)")
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


def run_text(session: SparkSession, pieces: Sequence[Text | Frame], arguments: Arguments = None) -> Frame | Refused:
    """Return the rows of the statement that the pieces make together, or why Spark refuses it."""
    frames: dict[str, Frame] = {}
    template = []
    names: dict[int, str] = {}
    for piece in pieces:
        if isinstance(piece, Text):
            template.append(piece.text)
        else:
            name = names.setdefault(id(piece), f"mangrove_{len(names)}")
            frames[name] = piece
            template.append(f"{{{name}}}")
    if frames:
        template = [
            given if not isinstance(piece, Text) else given.replace("{", "{{").replace("}", "}}")
            for given, piece in zip(template, pieces, strict=True)
        ]
    given_arguments = list(arguments) if isinstance(arguments, list | tuple) else arguments
    try:
        with quiet():
            return session.sql("".join(template), given_arguments, **frames)  # type: ignore[arg-type]
    except spark_errors as error:
        return refused(error, pieces, is_remote=_is_remote(session))


def refused(error: PySparkException, pieces: Sequence[Text | Frame] = (), *, is_remote: bool = False) -> Refused:
    """Return the facts of an error of Spark's."""
    start, end = _span(error, pieces, is_remote=is_remote)
    message = " ".join(_NOISE.sub("", error.getMessage() if error.getCondition() else str(error)).split())
    return Refused(error.getCondition() or "", message, error.getMessageParameters() or {}, start, end)


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


def temporary_views(session: SparkSession, names: Collection[str]) -> frozenset[str]:
    """Return which of these names are those of temporary views; over Connect also of the session's own tables."""
    if _is_remote(session):
        return frozenset(name for name in names if session.catalog.tableExists(_quoted(name)))
    # One question for all names: each way to the JVM and back counts, in every statement.
    there = str(session._jsparkSession.sessionState().catalog().getTempViewNames().mkString("\n")).casefold()
    known = frozenset(there.split("\n"))
    return frozenset(name for name in names if name.casefold() in known)


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


def rows_frame(session: SparkSession, schema: str, rows: Sequence[tuple[Any, ...]]) -> Frame:
    """Return rows of this process as Spark's; `schema` is text such as "version bigint, message string"."""
    return session.createDataFrame(list(rows), schema)


def distinct_rows(frame: Frame, columns: Sequence[str], at_most: int) -> list[tuple[Any, ...]]:
    """Return the different values of some columns; one more than so many, where there are more."""
    chosen = frame.select(*(f.col(_quoted(name)) for name in columns)).distinct().limit(at_most + 1)
    return [tuple(row) for row in chosen.collect()]


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


def _is_remote(session: SparkSession) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


def _span(error: PySparkException, pieces: Sequence[Text | Frame], *, is_remote: bool) -> tuple[int | None, int | None]:
    """Return from where to where in the user's text the error lies."""
    lengths = [len(piece.text) if isinstance(piece, Text) else _NAME_LENGTHS[is_remote] for piece in pieces]
    for context in error.getQueryContext():
        if context.contextType().name == "SQL" and context.startIndex() >= 0:
            start = _original(context.startIndex(), pieces, lengths)
            end = _original(context.stopIndex(), pieces, lengths)
            return start, None if end is None else end + 1
    place = _LINE_AND_COLUMN.search(str(error))
    if place is None:
        return None, None
    full = "".join(
        piece.text if isinstance(piece, Text) else "x" * length for piece, length in zip(pieces, lengths, strict=True)
    )
    lines = full.splitlines(keepends=True)
    start = _original(sum(map(len, lines[: int(place[1]) - 1])) + int(place[2]), pieces, lengths)
    return start, start


def _original(position: int, pieces: Sequence[Text | Frame], lengths: Sequence[int]) -> int | None:
    """Return the place in the user's text of a place in the text that Spark saw."""
    for piece, length in zip(pieces, lengths, strict=True):
        if position < length or (position == length and piece is pieces[-1]):
            return piece.start + position if isinstance(piece, Text) and piece.start is not None else None
        position -= length
    return None
