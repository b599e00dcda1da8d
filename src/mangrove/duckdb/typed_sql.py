"""Expressions in DuckDB's SQL with the type that Spark gives them, and conversions between types.

Spark 4 is in ANSI mode: a value that does not fit is an error. DuckDB differs in what it
rounds and in what it accepts as text, so each conversion is written for one pair of types.
"""

import datetime
import decimal
import math
import re
from dataclasses import dataclass
from typing import Any, Final

from mangrove.duckdb.types import (
    FLOATS,
    INTEGERS,
    NANOS,
    NUMBERS,
    TEXTS,
    TIMESTAMPS,
    ValueType,
    is_same_type,
    to_duckdb_type,
)
from mangrove.errors import InvalidInputError
from mangrove.model.schema_text import format_type
from mangrove.model.times import convert_to_utc
from mangrove.model.types import (
    DECIMAL_PRECISION_MAX,
    Binary,
    Boolean,
    DataType,
    Date,
    Decimal,
    Float64,
    Int32,
    Int64,
    Timestamp,
    TimestampNs,
    TimestampTz,
    TimestampTzNs,
    Varchar,
)
from mangrove.model.values import format_nanos, parse_nanos

__all__ = [
    "NeedsSparkError",
    "SqlAnalysisError",
    "TypedSql",
    "build_literal",
    "build_number",
    "cast_explicitly",
    "cast_to",
    "describe_type",
    "match_types",
    "quote_string",
    "raise_at",
    "render_constant",
    "require_boolean",
]

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_EXACT_DIGITS: Final = 15
"""The digits of a decimal that any double holds exactly."""
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)?")
_INTEGER_TEXT: Final = "[+-]?[0-9]+"
_DECIMAL_TEXT: Final = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)"
_DOUBLE_TEXT: Final = rf"{_DECIMAL_TEXT}([eE][+-]?[0-9]+)?|(?i:[+-]?inf(inity)?|nan)"
_DATE_TEXT: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIMESTAMP_TEXT: Final = rf"{_DATE_TEXT}([ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?)?"
_BOOLEAN_TEXT: Final = "(?i)(true|false|t|f|yes|no|y|n|1|0)"
_NO_LITERAL: Final = object()


class SqlAnalysisError(Exception):
    """A query is invalid; `condition` and `parameters` are those of Spark, `node` is the sqlglot node."""

    def __init__(
        self, message: str, node: object = None, condition: str = "", parameters: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.node = node
        self.condition = condition or "INVALID"
        self.parameters = parameters or {}


class NeedsSparkError(SqlAnalysisError):
    """A part of a query is not known to have the same result on DuckDB."""

    def __init__(self, what: str, node: object = None) -> None:
        # Spark has no nanosecond timestamps.
        remedy = (
            "is not supported; convert the column in Arrow or Polars"
            if "timestamp_ns" in what or "timestamptz_ns" in what
            else "needs Spark; run the statement with engine='spark', or in a Spark session"
        )
        super().__init__(f"{what} {remedy}", node, "NEEDS_SPARK")


@dataclass(frozen=True, slots=True)
class TypedSql:
    """An expression in DuckDB's SQL and its type on Spark; a decimal may have fewer digits on DuckDB."""

    text: str
    type: ValueType
    literal: Any = _NO_LITERAL
    """The value of a literal."""

    @property
    def is_literal(self) -> bool:
        """Whether the expression is a literal."""
        return self.literal is not _NO_LITERAL


def quote_string(text: str) -> str:
    """Return a string literal.

    >>> quote_string("it's")
    "'it''s'"
    """
    if "\0" in text:
        raise NeedsSparkError("a string with the character U+0000")
    return "'" + text.replace("'", "''") + "'"


def raise_at(message: str, data_type: ValueType) -> str:
    """Return an expression that fails with a message when it is computed."""
    return f"CAST(error({quote_string(message)}) AS {_name_type(data_type)})"


def build_number(text: str) -> TypedSql:
    """Return the literal of a number as Spark types it: int, bigint or decimal, and double with an exponent.

    >>> build_number("0.05").type
    Decimal(precision=2, scale=2)
    """
    if "e" in text.lower():
        if math.isinf(float(text)):
            raise SqlAnalysisError(f"the number {text} is too large for a double")
        return TypedSql(f"CAST({quote_string(text)} AS DOUBLE)", Float64(), float(text))
    value = decimal.Decimal(text)
    if "." not in text:
        whole = int(text)
        if -_LONG_MAX - 1 <= whole <= _LONG_MAX:
            kind = Int32() if -_INT_MAX - 1 <= whole <= _INT_MAX else Int64()
            return TypedSql(f"CAST({whole} AS {to_duckdb_type(kind)})", kind, whole)
    return _build_decimal(value)


def _build_decimal(value: decimal.Decimal) -> TypedSql:
    digits = value.as_tuple()
    if not isinstance(digits.exponent, int):
        raise NeedsSparkError(f"the decimal {value}")
    scale = max(0, -digits.exponent)
    precision = max(len(digits.digits) + max(0, digits.exponent), scale, 1)
    if precision > DECIMAL_PRECISION_MAX:
        raise NeedsSparkError(f"a number of {precision} digits")
    kind = Decimal(precision, scale)
    return TypedSql(f"CAST('{value:f}' AS {to_duckdb_type(kind)})", kind, value)


def build_literal(value: object) -> TypedSql:
    """Return the literal of a Python value, typed as Spark types arguments."""
    match value:
        case None:
            return TypedSql("NULL", None, None)
        case bool():
            return TypedSql("true" if value else "false", Boolean(), value)
        case int() if not -_LONG_MAX - 1 <= value <= _LONG_MAX:
            raise InvalidInputError(f"the argument {value} is too large for a bigint")
        case int():
            return build_number(str(value))
        case float():
            return TypedSql(f"CAST('{value!r}' AS DOUBLE)", Float64(), value)
        case decimal.Decimal():
            return _build_decimal(value)
        case str():
            return TypedSql(quote_string(value), Varchar(), value)
        case bytes():
            return TypedSql(f"from_hex('{value.hex()}')", Binary(), value)
        case datetime.datetime():
            # As in PySpark, a time without a zone is in the zone of this process.
            utc = value.astimezone(datetime.UTC).isoformat()
            if getattr(value, "nanosecond", 0):
                # A timestamp of pandas.
                return TypedSql(f"CAST('{utc}' AS {to_duckdb_type(TimestampTzNs())})", TimestampTzNs(), value)
            return TypedSql(f"CAST('{utc}' AS TIMESTAMP WITH TIME ZONE)", TimestampTz(), value)
        case datetime.date():
            return TypedSql(f"CAST('{value.isoformat()}' AS DATE)", Date(), value)
        case _:
            raise InvalidInputError(
                f"unsupported argument type {type(value).__name__}; expected a number, string, date, time, bytes, "
                "bool or None"
            )


def render_constant(value: object) -> str:
    """Return a value of a manifest in DuckDB's SQL; an array of Arrow would import pandas where it is installed."""
    if isinstance(value, datetime.datetime | datetime.time):
        return quote_string(value.isoformat())
    return build_literal(value).text


def require_boolean(value: TypedSql, node: object = None) -> TypedSql:
    """Return a condition; raise an error for any other value, and for NULL where Spark does not convert it."""
    if not isinstance(value.type, Boolean):
        raise SqlAnalysisError(f"a condition must be boolean, but it is {describe_type(value.type)}", node)
    return value


def cast_to(value: TypedSql, target: DataType, node: object = None) -> TypedSql:
    """Convert a value to a type as Spark does implicitly: NULL, numbers to wider ones, dates to timestamps.

    A literal string becomes a date or a timestamp.
    """
    if is_same_type(value.type, target):
        return value
    if value.type is None:
        return TypedSql(f"CAST(NULL AS {_name_type(target)})", target)
    is_text_of_time = isinstance(value.literal, str) and isinstance(target, (Date, *TIMESTAMPS, *NANOS))
    is_number = isinstance(value.type, NUMBERS) and isinstance(target, NUMBERS)
    is_time = isinstance(value.type, Date | Timestamp) and isinstance(target, TIMESTAMPS)
    if not (is_text_of_time or is_number or is_time):
        raise NeedsSparkError(f"the conversion of {describe_type(value.type)} to {describe_type(target)}", node)
    return cast_explicitly(value, target, node)


def cast_explicitly(value: TypedSql, target: DataType, node: object = None) -> TypedSql:
    """Convert a value to a type as CAST does on Spark."""
    name = _name_type(target)
    given = value.type
    if isinstance(value.literal, str):
        return _cast_literal(value.literal, value, target, node)
    text = f"CAST({value.text} AS {name})"
    match given, target:
        case _ if given is None or is_same_type(given, target):
            return TypedSql(value.text if given is not None else text, target)
        case _ if isinstance(given, INTEGERS) and isinstance(target, (*INTEGERS, *FLOATS, Decimal, *TEXTS)):
            return TypedSql(text, target)
        case Boolean(), _ if isinstance(target, (*INTEGERS, *TEXTS)):
            return TypedSql(text, target)
        case _, Boolean() if isinstance(given, NUMBERS):
            return TypedSql(f"({value.text} <> 0)", target)
        case Decimal(), Decimal():
            return TypedSql(text, target)
        case Decimal(), _ if isinstance(target, INTEGERS):
            # DuckDB rounds, Spark truncates.
            return TypedSql(f"CAST(trunc({value.text}) AS {name})", target)
        case Decimal(precision, _), Float64():
            # DuckDB divides two doubles, which is exact only for few digits.
            inner = value.text if precision <= _EXACT_DIGITS else f"CAST({value.text} AS VARCHAR)"
            return TypedSql(f"CAST({inner} AS DOUBLE)", target)
        case Decimal(), _ if isinstance(target, TEXTS):
            return TypedSql(f"CAST(CAST({value.text} AS {to_duckdb_type(given)}) AS VARCHAR)", target)
        case _ if isinstance(given, FLOATS) and isinstance(target, INTEGERS):
            return TypedSql(f"CAST(trunc({value.text}) AS {name})", target)
        case _ if isinstance(given, FLOATS) and isinstance(target, FLOATS):
            return TypedSql(text, target)
        case Float64(), Decimal():
            # Spark casts the digits with which a double is written.
            return TypedSql(f"CAST(CAST({value.text} AS VARCHAR) AS {name})", target)
        case _ if isinstance(given, TIMESTAMPS) and isinstance(target, TEXTS):
            moment = f"CAST({value.text} AS TIMESTAMP)"
            failure = raise_at("a year with other than four digits needs Spark to be cast", target)
            written = f"CAST({moment} AS VARCHAR)"
            return TypedSql(
                f"CASE WHEN year({moment}) NOT BETWEEN 1000 AND 9999 THEN {failure} ELSE {written} END", target
            )
        case Date(), _ if isinstance(target, (*TIMESTAMPS, *TEXTS)):
            inner = f"CAST({value.text} AS TIMESTAMP)" if isinstance(target, TimestampTz) else value.text
            return TypedSql(f"CAST({inner} AS {name})", target)
        case _ if isinstance(given, TIMESTAMPS) and isinstance(target, (Date, *TIMESTAMPS)):
            return TypedSql(text, target)
        case _ if isinstance(given, TEXTS):
            return _cast_text(value, target, node)
        case _:
            raise NeedsSparkError(f"the cast of {describe_type(given)} to {describe_type(target)}", node)


def _cast_literal(text: str, value: TypedSql, target: DataType, node: object) -> TypedSql:
    """Convert a literal string; its form is checked here, because DuckDB accepts other forms than Spark."""
    if isinstance(target, NANOS):
        return _cast_literal_to_nanos(text, target, node)
    pattern = _TIMESTAMP if isinstance(target, TIMESTAMPS) else _DATE if isinstance(target, Date) else None
    if pattern is None:
        return value if isinstance(target, TEXTS) else _cast_text(value, target, node)
    written = text.strip()
    if isinstance(target, TimestampTz):
        written = convert_to_utc(written) or written
    if not pattern.fullmatch(written):
        raise NeedsSparkError(f"the {describe_type(target)} {text!r}, which is not in the form of ISO 8601", node)
    inner = f"CAST({quote_string(written)} AS TIMESTAMP)" if pattern is _TIMESTAMP else quote_string(written)
    return TypedSql(f"CAST({inner} AS {_name_type(target)})", target)


def _cast_literal_to_nanos(text: str, target: DataType, node: object) -> TypedSql:
    has_zone = isinstance(target, TimestampTzNs)
    try:
        written = format_nanos(parse_nanos(text.strip(), has_zone=has_zone), has_zone=has_zone)
    except ValueError as error:
        raise SqlAnalysisError(f"invalid {describe_type(target)} {text!r}: {error}", node) from error
    return TypedSql(f"CAST('{written}' AS {_name_type(target)})", target)


def _cast_text(value: TypedSql, target: DataType, node: object) -> TypedSql:
    """Convert strings of the forms that both engines accept; others fail when they are computed."""
    match target:
        case _ if isinstance(target, INTEGERS):
            pattern = _INTEGER_TEXT
        case Decimal():
            pattern = _DECIMAL_TEXT
        case Float64():
            pattern = _DOUBLE_TEXT
        case Date():
            pattern = _DATE_TEXT
        case Timestamp() | TimestampTz():
            pattern = _TIMESTAMP_TEXT
        case Boolean():
            pattern = _BOOLEAN_TEXT
        case _:
            raise NeedsSparkError(f"the cast of a string to {describe_type(target)}", node)
    trimmed = f"trim({value.text}, ' ')"
    failure = raise_at(f"a string in another form than {describe_type(target)} literals needs Spark to be cast", target)
    test = f"regexp_full_match({trimmed}, {quote_string(pattern)}) OR {value.text} IS NULL"
    return TypedSql(f"CASE WHEN {test} THEN CAST({trimmed} AS {_name_type(target)}) ELSE {failure} END", target)


def match_types(left: TypedSql, right: TypedSql, node: object = None) -> tuple[TypedSql, TypedSql]:
    """Return both operands of an operator with a common type."""
    for one, other in ((left, right), (right, left)):
        # An integer literal has as few digits as it needs beside a decimal.
        if isinstance(one.literal, int) and isinstance(one.type, INTEGERS) and isinstance(other.type, Decimal):
            short = _build_decimal(decimal.Decimal(one.literal))
            return (short, right) if one is left else (left, short)
        if isinstance(one.literal, str) and isinstance(other.type, (Date, *TIMESTAMPS, *NANOS)):
            time = cast_to(one, other.type, node)
            return (time, right) if one is left else (left, time)
    return left, right


def _name_type(data_type: ValueType) -> str:
    name = to_duckdb_type(data_type)
    if name is None:
        raise NeedsSparkError(f"the type {describe_type(data_type)}")
    return name


def describe_type(data_type: ValueType) -> str:
    """Return the name of a type for messages."""
    match data_type:
        case None:
            return "NULL"
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case TimestampNs() | TimestampTzNs():
            return format_type(data_type)
        case _:
            return type(data_type).__name__.lower()
