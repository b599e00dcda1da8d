"""Normalization, bounds and epoch conversion of column values.

Times are exact to the microsecond, and times with a zone are stored in UTC. A value of a
nanosecond timestamp, for which Python has no type, is an integer: the nanoseconds since
the start of 1970. Bounds of long text or bytes are shortened: the lower one by truncation,
the upper one by truncation and rounding up.
"""

import datetime
import decimal
import math
import re
from typing import Final, TypeAlias

from mangrove.errors import InvalidInputError
from mangrove.model.names import check_text
from mangrove.model.types import (
    Binary,
    Boolean,
    Char,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    Time,
    Timestamp,
    TimestampNs,
    TimestampTz,
    TimestampTzNs,
    TimeTz,
    Varchar,
)

__all__ = [
    "BOUND_LENGTH_MAX",
    "MICROS_PER_DAY",
    "NANOS_MAX",
    "NANOS_MIN",
    "Value",
    "date_of_days",
    "days_of",
    "format_nanos",
    "is_value_of_type",
    "micros_of_datetime",
    "micros_of_time",
    "nanos_of_datetime",
    "normalize_value",
    "normalize_values",
    "parse_nanos",
    "restore_zone",
    "time_of_micros",
    "timestamp_of_micros",
    "timestamp_tz_of_micros",
    "truncate_lower_bound",
    "truncate_upper_bound",
]

Value: TypeAlias = (
    bool | int | float | decimal.Decimal | str | bytes | datetime.date | datetime.datetime | datetime.time
)

BOUND_LENGTH_MAX: Final = 32
MICROS_PER_DAY: Final = 86_400_000_000
NANOS_MIN: Final = -(2**63)
NANOS_MAX: Final = 2**63 - 1
"""The last nanosecond timestamp, in the year 2262; the first one is in the year 1677."""
_INTEGER_END: Final = 2**63
_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_EPOCH_UTC: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_LAST_CHARACTER: Final = 0x10FFFF
_FRACTION: Final = re.compile(r"(\d{4}-?\d\d-?\d\d.\d\d:?\d\d:?\d\d)[.,](\d+)(.*)", re.DOTALL)


def normalize_value(value: Value, what: str = "value") -> Value:
    """Return the canonical form of `value`, in UTC; raise an error if it cannot be stored or ordered."""
    kind = type(value)
    if isinstance(value, int) and kind is int:
        if not -_INTEGER_END <= value < _INTEGER_END:
            raise InvalidInputError(f"{what} is {value}, which does not fit in 8 bytes")
        return value
    if kind is bool or kind is bytes or kind is datetime.date:
        return value
    if isinstance(value, str) and kind is str:
        check_text(value, what)
        return value
    if isinstance(value, float) and kind is float:
        if math.isnan(value):
            raise InvalidInputError(f"{what} is NaN, which cannot be ordered")
        return value
    if isinstance(value, decimal.Decimal) and kind is decimal.Decimal:
        if not value.is_finite():
            raise InvalidInputError(f"{what} is {value}: a decimal is finite")
        return value
    if isinstance(value, datetime.datetime) and kind is datetime.datetime:
        return _canonical_datetime(value, what)
    if isinstance(value, datetime.time) and kind is datetime.time:
        return _canonical_time(value)
    raise InvalidInputError(
        f"{what} is {value!r} of type {kind.__name__}: it is a bool, int, float, Decimal, str, bytes, date, "
        "datetime or time"
    )


def normalize_values(values: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    """Return partition values in their one form."""
    return tuple(None if value is None else normalize_value(value, "a partition value") for value in values)


def is_value_of_type(value: Value, data_type: DataType) -> bool:
    """Return whether `value` is a value of a column of `data_type`."""
    allowed = _PYTHON_TYPES.get(type(data_type))
    if allowed is None or type(value) is not allowed:
        return False
    if isinstance(value, datetime.datetime | datetime.time):
        return (value.tzinfo is not None) == isinstance(data_type, TimestampTz | TimeTz)
    return True


def restore_zone(value: Value, data_type: DataType) -> Value:
    """Return an Arrow value as a value of its column type: Arrow has no zone for a time of day."""
    if isinstance(data_type, TimeTz) and isinstance(value, datetime.time):
        return value.replace(tzinfo=datetime.UTC)
    return value


def truncate_lower_bound(value: Value) -> Value:
    """Return a short value that is not greater than `value`."""
    if isinstance(value, str | bytes):
        return value[:BOUND_LENGTH_MAX]
    return value


def truncate_upper_bound(value: Value) -> Value | None:
    """Return a short value that is not smaller than `value`, or None where no short one exists."""
    if isinstance(value, str) and len(value) > BOUND_LENGTH_MAX:
        return _rounded_up_text(value[:BOUND_LENGTH_MAX])
    if isinstance(value, bytes) and len(value) > BOUND_LENGTH_MAX:
        prefix = value[:BOUND_LENGTH_MAX].rstrip(b"\xff")
        return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None
    return value


def days_of(day: datetime.date) -> int:
    """Return the days from 1970-01-01 to `day`."""
    return day.toordinal() - _EPOCH_DAY


def date_of_days(days: int) -> datetime.date:
    """Return the day that lies `days` after 1970-01-01; a ValueError or OverflowError outside years 1 to 9999."""
    return datetime.date.fromordinal(days + _EPOCH_DAY)


def micros_of_datetime(moment: datetime.datetime) -> int:
    """Return the microseconds from the start of 1970 to `moment`."""
    return (moment - (_EPOCH if moment.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND


def timestamp_of_micros(micros: int) -> datetime.datetime:
    """Return the day with time, without a zone; an OverflowError outside years 1 to 9999."""
    return _EPOCH + datetime.timedelta(microseconds=micros)


def timestamp_tz_of_micros(micros: int) -> datetime.datetime:
    """Return the point in time in UTC; an OverflowError outside years 1 to 9999."""
    return _EPOCH_UTC + datetime.timedelta(microseconds=micros)


def nanos_of_datetime(moment: datetime.datetime) -> int:
    """Return the nanoseconds from the start of 1970 to `moment`; a ValueError outside the years 1677 to 2262."""
    return _check_nanos(micros_of_datetime(moment) * 1_000, str(moment))


def parse_nanos(text: str, *, has_zone: bool) -> int:
    """Return the nanoseconds since 1970 of a timestamp in ISO 8601; without a zone it is UTC if the type has one.

    A ValueError for another form, more than nine digits after the point, or a year outside 1677 to 2262.

    >>> parse_nanos("1970-01-01 00:00:01.000000002", has_zone=False)
    1000000002
    """
    match = _FRACTION.fullmatch(text)
    head, digits, zone = match.groups() if match else (text, "", "")
    if digits[9:].strip("0"):
        raise ValueError(f"{text!r} has more than nine digits after the point")
    moment = datetime.datetime.fromisoformat(head + zone)
    if moment.tzinfo is not None and not has_zone:
        raise ValueError(f"{text!r} has a time zone")
    return _check_nanos(micros_of_datetime(moment) * 1_000 + int(digits[:9].ljust(9, "0")), text)


def format_nanos(nanos: int, *, has_zone: bool) -> str:
    """Return nanoseconds since 1970 as the text of a timestamp.

    >>> format_nanos(-1, has_zone=True)
    '1969-12-31 23:59:59.999999999+00:00'
    """
    text = timestamp_of_micros(nanos // 1_000).isoformat(" ", "microseconds")
    return f"{text}{nanos % 1_000:03}{'+00:00' if has_zone else ''}"


def _check_nanos(nanos: int, text: str) -> int:
    if not NANOS_MIN <= nanos <= NANOS_MAX:
        raise ValueError(f"{text!r} is outside the years 1677 to 2262 of nanosecond timestamps")
    return nanos


def micros_of_time(time: datetime.time) -> int:
    """Return the microseconds since midnight."""
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond


def time_of_micros(micros: int, tzinfo: datetime.tzinfo | None = None) -> datetime.time:
    """Return the time of day that many microseconds after midnight; a ValueError past the day's end."""
    seconds, microsecond = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return datetime.time(hour, minute, second, microsecond, tzinfo)


def _canonical_datetime(value: datetime.datetime, what: str) -> datetime.datetime:
    if value.utcoffset() is None:
        return value.replace(tzinfo=None, fold=0)
    if value.tzinfo is datetime.UTC:
        return value.replace(fold=0)
    try:
        return value.astimezone(datetime.UTC)
    except OverflowError as error:
        raise InvalidInputError(f"{what} is {value}, which is outside the years 1 to 9999 in UTC") from error


def _canonical_time(value: datetime.time) -> datetime.time:
    offset = value.utcoffset()
    if offset is None:
        return value.replace(tzinfo=None, fold=0)
    return time_of_micros((micros_of_time(value) - offset // _MICROSECOND) % MICROS_PER_DAY, datetime.UTC)


def _rounded_up_text(text: str) -> str | None:
    prefix = text.rstrip(chr(_LAST_CHARACTER))
    if not prefix:
        return None
    following = ord(prefix[-1]) + 1
    # Surrogates are no characters: U+E000 is what follows U+D7FF.
    return prefix[:-1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)


_PYTHON_TYPES: Final[dict[type, type]] = {
    Boolean: bool,
    Int16: int,
    Int32: int,
    Int64: int,
    Decimal: decimal.Decimal,
    Float32: float,
    Float64: float,
    Char: str,
    Varchar: str,
    Date: datetime.date,
    Time: datetime.time,
    TimeTz: datetime.time,
    Timestamp: datetime.datetime,
    TimestampTz: datetime.datetime,
    TimestampNs: int,
    TimestampTzNs: int,
    Fixed: bytes,
    Binary: bytes,
}
