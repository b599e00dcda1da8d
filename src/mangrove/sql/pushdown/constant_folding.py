"""Constant folding of literals, parameters and date arithmetic.

A constant is folded only if Spark compares it with a column exactly as predicates do;
otherwise the result is None.
"""

import calendar
import datetime
import decimal
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sqlglot import exp

from mangrove.model.times import convert_to_utc
from mangrove.model.types import (
    Boolean,
    Column,
    Date,
    Decimal,
    Float64,
    Int16,
    Int32,
    Int64,
    Timestamp,
    TimestampTz,
    Varchar,
)
from mangrove.sql.parse.table_refs import PARAMETER_PREFIX
from mangrove.sql.pushdown.scopes import has_only_known_args

__all__ = ["ConstantResolver", "ConstantValue"]

ConstantValue: TypeAlias = str | decimal.Decimal | bool
_Arguments: TypeAlias = Mapping[str, Any] | Any | None

_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)?")
_WHOLE: Final = re.compile(r"\d{1,5}")
_NUMBERS: Final = (Int16, Int32, Int64, Decimal, Float64)
_UTC: Final = ("UTC", "ETC/UTC", "Z", "+00:00", "GMT")
_TIMES: Final[dict[Any, type]] = {
    exp.DType.TIMESTAMPTZ: TimestampTz,
    exp.DType.TIMESTAMPLTZ: TimestampTz,
    exp.DType.TIMESTAMPNTZ: Timestamp,
}
_MONTHS: Final = {"MONTH": 1, "MONTHS": 1, "YEAR": 12, "YEARS": 12}
_DAYS: Final = {"DAY": 1, "DAYS": 1, "WEEK": 7, "WEEKS": 7}


@dataclass(frozen=True)
class ConstantResolver:
    """The values of constants in one statement, with the session time zone and the arguments."""

    time_zone: Callable[[], str]
    arguments: _Arguments = None

    def beside(self, column: Column, node: Any) -> ConstantValue | None:
        """Return the constant if Spark compares it with the column exactly as a predicate does."""
        if isinstance(node, exp.Paren):
            return self.beside(column, node.this)
        if isinstance(node, exp.Placeholder):
            return self._argument(column, node)
        match column.type:
            case Int16() | Int32() | Int64() | Decimal() | Float64():
                return _number(node)
            case Boolean():
                return bool(node.this) if isinstance(node, exp.Boolean) else None
            case Varchar():
                return node.this if isinstance(node, exp.Literal) and node.is_string else None
            case Date():
                return _day(node)
            case Timestamp() | TimestampTz():
                return self._time(column, node)
            case _:
                return None

    def counts_in_utc(self, column: Column) -> bool:
        """Return whether the column's values have the same days and hours in Spark as in UTC."""
        return not isinstance(column.type, TimestampTz) or self.is_utc

    @property
    def is_utc(self) -> bool:
        """Whether the session time zone is equivalent to UTC."""
        return self.time_zone().upper() in _UTC

    def _time(self, column: Column, node: Any) -> str | None:
        text = None
        if isinstance(node, exp.Literal):
            text = node.this if node.is_string else None
        elif isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
            expected = _TIMES.get(node.to.this)
            text = node.this.this if expected is not None and isinstance(column.type, expected) else _day(node)
        else:
            text = _day(node)
        if text is not None and isinstance(column.type, TimestampTz) and (utc := convert_to_utc(text)) is not None:
            return utc
        return text if text is not None and _is_time(text) and self.counts_in_utc(column) else None

    def _argument(self, column: Column, node: exp.Placeholder) -> ConstantValue | None:
        value = _find_argument(self.arguments, node)
        match value:
            case bool():
                return value if isinstance(column.type, Boolean) else None
            case int() | decimal.Decimal() if isinstance(column.type, _NUMBERS):
                number = decimal.Decimal(value)
                return number if number.is_finite() else None
            case float() if isinstance(column.type, Float64) and math.isfinite(value):
                return decimal.Decimal(value)
            case str() if isinstance(column.type, Varchar):
                return value
            case str() | datetime.date() if isinstance(column.type, Date) and not isinstance(value, datetime.datetime):
                return _day(exp.Literal.string(str(value)))
            case str() if isinstance(column.type, Timestamp | TimestampTz):
                return self._time(column, exp.Literal.string(value))
            case datetime.datetime() if isinstance(column.type, TimestampTz) and value.tzinfo is not None:
                return value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(" ")
            case _:
                return None


def _find_argument(arguments: _Arguments, node: exp.Placeholder) -> Any:
    """Return the argument of a parameter, or None."""
    name = node.name
    if isinstance(arguments, Mapping):
        return arguments.get(name)
    if isinstance(arguments, list | tuple) and name.startswith(PARAMETER_PREFIX):
        number = int(name.removeprefix(PARAMETER_PREFIX))
        return arguments[number] if number < len(arguments) else None
    return None


def _number(node: Any) -> decimal.Decimal | None:
    sign = 1
    if isinstance(node, exp.Neg):
        sign, node = -1, node.this
    if not isinstance(node, exp.Literal) or node.is_string or not _NUMBER.fullmatch(node.this):
        # With an exponent or a letter behind it, Spark compares floating-point numbers.
        return None
    return sign * decimal.Decimal(node.this)


def _day(node: Any) -> str | None:
    """Return a literal date, or one computed from a literal."""
    match node:
        case exp.Paren():
            return _day(node.this)
        case exp.Literal() if node.is_string and _DAY.fullmatch(node.this) and _is_time(node.this):
            return str(node.this)
        case exp.Cast() if node.to.this == exp.DType.DATE and isinstance(node.this, exp.Literal):
            return _day(node.this)
        case exp.Add() | exp.Sub() if isinstance(node.expression, exp.Interval):
            # A text alone is no day there: Spark would make a time of it.
            first = None if isinstance(node.this, exp.Literal) else _day(node.this)
            return None if first is None else _shift_day(first, node.expression, 1 if isinstance(node, exp.Add) else -1)
        case _:
            return None


def _shift_day(day: str, interval: exp.Interval, sign: int) -> str | None:
    unit = interval.args.get("unit")
    count = interval.this
    if (
        not has_only_known_args(interval, "this", "unit")
        or not isinstance(unit, exp.Var)
        or not isinstance(count, exp.Literal)
    ):
        return None
    word = unit.name.upper()
    if not _WHOLE.fullmatch(count.this) or word not in {**_MONTHS, **_DAYS}:
        return None
    steps = sign * int(count.this)
    first = datetime.date.fromisoformat(day)
    try:
        if word in _DAYS:
            return (first + datetime.timedelta(days=steps * _DAYS[word])).isoformat()
        months = first.year * 12 + first.month - 1 + steps * _MONTHS[word]
        year, month = months // 12, months % 12 + 1
        # A day that the month does not have becomes its last day.
        return datetime.date(year, month, min(first.day, calendar.monthrange(year, month)[1])).isoformat()
    except (ValueError, OverflowError, calendar.IllegalMonthError):
        return None


def _is_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
