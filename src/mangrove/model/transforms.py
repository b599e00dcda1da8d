"""Transforms: how a column's value becomes the value of a partition.

The results are those of Iceberg, so that both can share files: a bucket is the
32-bit Murmur3 hash of a fixed byte form, truncation and the parts of a date go
down, also below zero.
"""

import datetime
import decimal
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

import mmh3

from mangrove.errors import InvalidInputError
from mangrove.model.sql_text import type_text
from mangrove.model.types import (
    Binary,
    Char,
    DataType,
    Date,
    Decimal,
    Fixed,
    Int2,
    Int4,
    Int8,
    Time,
    Timestamp,
    TimestampTz,
    TimeTz,
    Varchar,
    is_nested,
)
from mangrove.model.values import Value, date_of_days, days_of, fits_type, micros_of_datetime, micros_of_time

__all__ = [
    "Bucket",
    "Days",
    "Hours",
    "Identity",
    "Months",
    "Transform",
    "Truncate",
    "Years",
    "apply",
    "result_type",
    "word_of",
]

_MICROS_PER_HOUR: Final = 3_600_000_000
_WIDTH_MAX: Final = 2**31 - 1
_INTEGERS: Final = (Int2, Int4, Int8)
_TEXTS: Final = (Char, Varchar)
_MOMENTS: Final = (Timestamp, TimestampTz)
_EXACT: Final = decimal.Context(prec=100)


@dataclass(frozen=True, slots=True)
class Identity:
    """The value itself."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """One of `count` buckets, by the value's hash."""

    count: int

    def __post_init__(self) -> None:
        _check_parameter(self.count, "bucket")


@dataclass(frozen=True, slots=True)
class Truncate:
    """Numbers rounded down to a multiple of `width`; the first `width` characters of text or bytes."""

    width: int

    def __post_init__(self) -> None:
        _check_parameter(self.width, "truncate")


@dataclass(frozen=True, slots=True)
class Years:
    """Whole years since 1970."""


@dataclass(frozen=True, slots=True)
class Months:
    """Whole months since January 1970."""


@dataclass(frozen=True, slots=True)
class Days:
    """The day."""


@dataclass(frozen=True, slots=True)
class Hours:
    """Whole hours since the start of 1970."""


Transform: TypeAlias = Identity | Bucket | Truncate | Years | Months | Days | Hours

_BUCKETED: Final = (*_INTEGERS, Decimal, *_TEXTS, Date, Time, TimeTz, *_MOMENTS, Fixed, Binary)
_TRUNCATED: Final = (*_INTEGERS, Decimal, *_TEXTS, Binary)


def word_of(transform: Transform) -> str:
    """Return what the transform is called in text."""
    return type(transform).__name__.lower()


def result_type(transform: Transform, source: DataType) -> DataType:
    """Return the type of the transform's results; refuse a transform that does not fit `source`."""
    fits: bool
    result: DataType
    match transform:
        case Identity():
            fits, result = not is_nested(source), source
        case Bucket():
            fits, result = isinstance(source, _BUCKETED), Int4()
        case Truncate():
            fits, result = isinstance(source, _TRUNCATED), source
        case Years() | Months():
            fits, result = isinstance(source, (Date, *_MOMENTS)), Int4()
        case Days():
            fits, result = isinstance(source, (Date, *_MOMENTS)), Date()
        case Hours():
            fits, result = isinstance(source, _MOMENTS), Int4()
        case _:
            assert_never(transform)
    if not fits:
        raise InvalidInputError(
            f"{word_of(transform)} does not fit a column of type {type_text(source)}: "
            f"it takes {_TAKES[type(transform)]}"
        )
    return result


def apply(transform: Transform, source: DataType, value: Value | None) -> Value | None:
    """Return the partition value of `value`, a value of a column of type `source`; null stays null."""
    result_type(transform, source)
    if value is None:
        return None
    if not fits_type(value, source):
        raise InvalidInputError(f"{value!r} is no value of a column of type {type(source).__name__.lower()}")
    match transform:
        case Identity():
            return value
        case Bucket(count):
            return (mmh3.hash(_hashed_form(value, source), signed=False) & 0x7FFFFFFF) % count
        case Truncate(width):
            return _truncated(value, width, source)
        case Years():
            return _day(value).year - 1970
        case Months():
            return (_day(value).year - 1970) * 12 + _day(value).month - 1
        case Days():
            return _day(value)
        case Hours():
            assert isinstance(value, datetime.datetime)
            return micros_of_datetime(value) // _MICROS_PER_HOUR
        case _:
            assert_never(transform)


def _hashed_form(value: Value, source: DataType) -> bytes:
    """Return the bytes that are hashed; integers and times of all widths count as 8 bytes, so widening is free."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, decimal.Decimal):
        unscaled = _unscaled(value, source)
        size_bytes = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        return unscaled.to_bytes(size_bytes, "big", signed=True)
    if isinstance(value, datetime.datetime):
        number = micros_of_datetime(value)
    elif isinstance(value, datetime.date):
        number = days_of(value)
    elif isinstance(value, datetime.time):
        number = micros_of_time(value)
    else:
        number = int(value)
    return number.to_bytes(8, "little", signed=True)


def _truncated(value: Value, width: int, source: DataType) -> Value:
    if isinstance(value, str | bytes):
        return value[:width]
    if isinstance(value, decimal.Decimal) and isinstance(source, Decimal):
        unscaled = _unscaled(value, source)
        return decimal.Decimal(unscaled - unscaled % width).scaleb(-source.scale, _EXACT)
    assert isinstance(value, int)
    return value - value % width


def _unscaled(value: decimal.Decimal, source: DataType) -> int:
    assert isinstance(source, Decimal)
    scaled = value.scaleb(source.scale, _EXACT)
    if scaled != scaled.to_integral_value():
        raise InvalidInputError(f"{value} has more than {source.scale} digits after the point")
    return int(scaled)


def _day(value: Value) -> datetime.date:
    if isinstance(value, datetime.datetime):
        # A negative count of microseconds floors to the day before, as the calendar does.
        return date_of_days(micros_of_datetime(value) // (24 * _MICROS_PER_HOUR))
    assert isinstance(value, datetime.date)
    return value


def _check_parameter(number: int, word: str) -> None:
    if type(number) is not int or not 1 <= number <= _WIDTH_MAX:
        raise InvalidInputError(f"{word} has the parameter {number!r}: it is a whole number from 1")


_TAKES: Final[dict[type, str]] = {
    Identity: "any type that is not nested",
    Bucket: "integers, decimals, text, bytes, dates and times",
    Truncate: "integers, decimals, text and binary",
    Years: "dates and timestamps",
    Months: "dates and timestamps",
    Days: "dates and timestamps",
    Hours: "timestamps",
}
