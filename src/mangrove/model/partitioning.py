"""Partition transforms, partition schemes and sort schemes.

The results are those of Iceberg, so that both can share files: a bucket is the 32-bit
Murmur3 hash of a fixed byte form; truncation and date parts round down, also below
zero.

days(ts)   bucket(16, id)   truncate(4, name)   country        a partition field
ts desc nulls last                                             a sort field
"""

import datetime
import decimal
import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

import mmh3

from mangrove.errors import InvalidInputError
from mangrove.model.names import check_id, check_text, quote_name
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
from mangrove.model.types import (
    COLUMN_ID_MAX,
    Binary,
    Char,
    DataType,
    Date,
    Decimal,
    Fixed,
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
    is_nested,
)
from mangrove.model.values import (
    Value,
    date_of_days,
    days_of,
    is_value_of_type,
    micros_of_datetime,
    micros_of_time,
    timestamp_of_micros,
)

__all__ = [
    "UNPARTITIONED",
    "UNSORTED",
    "Bucket",
    "Days",
    "Direction",
    "Hours",
    "Identity",
    "Months",
    "Nulls",
    "PartitionField",
    "PartitionScheme",
    "SortField",
    "SortScheme",
    "Transform",
    "Truncate",
    "Years",
    "format_partition_field",
    "format_sort_field",
    "parse_partition_field",
    "parse_partition_scheme",
    "parse_sort_field",
    "parse_sort_scheme",
    "result_type_of",
    "transform_name_of",
    "transform_value",
]

_MICROS_PER_HOUR: Final = 3_600_000_000
_WIDTH_MAX: Final = 2**31 - 1
_INTEGERS: Final = (Int16, Int32, Int64)
_TEXTS: Final = (Char, Varchar)
_NANOS: Final = (TimestampNs, TimestampTzNs)
_TIMESTAMPS: Final = (Timestamp, TimestampTz, *_NANOS)
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

_BUCKETED: Final = (*_INTEGERS, Decimal, *_TEXTS, Date, Time, TimeTz, *_TIMESTAMPS, Fixed, Binary)
_TRUNCATED: Final = (*_INTEGERS, Decimal, *_TEXTS, Binary)


def transform_name_of(transform: Transform) -> str:
    """Return the name of the transform in text."""
    return type(transform).__name__.lower()


def result_type_of(transform: Transform, source: DataType) -> DataType:
    """Return the result type of the transform; raise an error if it does not support `source`."""
    fits: bool
    result: DataType
    match transform:
        case Identity():
            fits, result = not is_nested(source), source
        case Bucket():
            fits, result = isinstance(source, _BUCKETED), Int32()
        case Truncate():
            fits, result = isinstance(source, _TRUNCATED), source
        case Years() | Months():
            fits, result = isinstance(source, (Date, *_TIMESTAMPS)), Int32()
        case Days():
            fits, result = isinstance(source, (Date, *_TIMESTAMPS)), Date()
        case Hours():
            fits, result = isinstance(source, _TIMESTAMPS), Int32()
        case _:
            assert_never(transform)
    if not fits:
        raise InvalidInputError(
            f"{transform_name_of(transform)} does not support a column of type {format_type(source)}; "
            f"expected {_TAKES[type(transform)]}"
        )
    return result


def transform_value(transform: Transform, source: DataType, value: Value | None) -> Value | None:
    """Return the partition value of `value`, a value of a column of type `source`; null stays null."""
    result_type_of(transform, source)
    if value is None:
        return None
    if not is_value_of_type(value, source):
        raise InvalidInputError(f"{value!r} is not a value of a column of type {format_type(source)}")
    if isinstance(source, _NANOS) and not isinstance(transform, Identity):
        # As in Iceberg, timestamps of both units are in the same bucket.
        assert isinstance(value, int)
        value = timestamp_of_micros(value // 1_000)
    match transform:
        case Identity():
            return value
        case Bucket(count):
            return (mmh3.hash(_hashed_form(value, source), signed=False) & 0x7FFFFFFF) % count
        case Truncate(width):
            return _truncate(value, width, source)
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
    """Return the hashed bytes; integers and times of all widths are hashed as 8 bytes, so widening is safe."""
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


def _truncate(value: Value, width: int, source: DataType) -> Value:
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
        raise InvalidInputError(f"{word} has the parameter {number!r}; expected a whole number from 1")


_TAKES: Final[dict[type, str]] = {
    Identity: "any type that is not nested",
    Bucket: "integers, decimals, text, bytes, dates and times",
    Truncate: "integers, decimals, text and binary",
    Years: "dates and timestamps",
    Months: "dates and timestamps",
    Days: "dates and timestamps",
    Hours: "timestamps",
}


_IDENTITY: Final = Identity()


class Direction(enum.Enum):
    """The sort direction."""

    ASCENDING = "asc"
    DESCENDING = "desc"


class Nulls(enum.Enum):
    """The position of nulls in a sort order."""

    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A partition value with its name."""

    source_id: int
    transform: Transform
    name: str

    def __post_init__(self) -> None:
        _check_source(self.source_id, self.transform)
        if not self.name:
            raise InvalidInputError("a partition field has an empty name")
        check_text(self.name, "a partition field's name")


@dataclass(frozen=True, slots=True)
class PartitionScheme:
    """The partition fields of a table; no fields mean one partition for all rows."""

    fields: tuple[PartitionField, ...] = ()
    id: str = "0"
    name: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        check_id(self.id, "partition scheme id")
        if self.name is not None:
            check_text(self.name, "a partition scheme's name")
        folded = [field.name.casefold() for field in self.fields]
        if len(set(folded)) != len(folded):
            raise InvalidInputError(
                f"two fields of a partition scheme have one name: {', '.join(field.name for field in self.fields)}"
            )

    def result_types(self, schema: Schema) -> tuple[DataType, ...]:
        """Return the types of the partition values; raise an error if the scheme does not match `schema`."""
        return tuple(
            result_type_of(field.transform, schema.column_with_id(field.source_id).type) for field in self.fields
        )


@dataclass(frozen=True, slots=True)
class SortField:
    """One value of a sort order."""

    source_id: int
    direction: Direction = Direction.ASCENDING
    nulls: Nulls = Nulls.FIRST
    transform: Transform = _IDENTITY

    def __post_init__(self) -> None:
        _check_source(self.source_id, self.transform)
        if not isinstance(self.direction, Direction) or not isinstance(self.nulls, Nulls):
            raise InvalidInputError(f"a sort field has {self.direction!r} and {self.nulls!r}: use Direction and Nulls")


@dataclass(frozen=True, slots=True)
class SortScheme:
    """The sort order of the rows in a file; no fields mean unordered."""

    fields: tuple[SortField, ...] = ()
    id: str = "0"
    name: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        check_id(self.id, "sort scheme id")
        if self.name is not None:
            check_text(self.name, "a sort scheme's name")


UNPARTITIONED: Final = PartitionScheme()
UNSORTED: Final = SortScheme()

_SIMPLE: Final[dict[str, Transform]] = {
    "identity": Identity(),
    "years": Years(),
    "year": Years(),
    "months": Months(),
    "month": Months(),
    "days": Days(),
    "day": Days(),
    "hours": Hours(),
    "hour": Hours(),
}
_PARAMETRISED: Final[dict[str, type[Bucket] | type[Truncate]]] = {"bucket": Bucket, "truncate": Truncate}
_PATH: Final = r"(?:`(?:[^`]|``)+`|[^\s`.(),]+)(?:\.(?:`(?:[^`]|``)+`|[^\s`.(),]+))*"
_PATH_PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^\s`.(),]+)")
_PARTITION_FIELD: Final = re.compile(
    rf"\s*(?:(?P<word>\w+)\s*\(\s*(?:(?P<parameter>\d{{1,10}})\s*,\s*)?(?P<source>{_PATH})\s*\)|(?P<bare>{_PATH}))\s*"
)
_SORT_ENDING: Final = re.compile(
    r"(?P<term>.*?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*",
    re.IGNORECASE | re.DOTALL,
)


def parse_partition_field(text: str, schema: Schema) -> PartitionField:
    """Return the field that `text` describes, named after its column and transform."""
    transform, path = _parse_term(text)
    column = schema.column(*path)
    result_type_of(transform, column.type)
    name = ".".join(schema.path_of(column.id))
    return PartitionField(
        column.id, transform, name if isinstance(transform, Identity) else f"{name}_{transform_name_of(transform)}"
    )


def parse_partition_scheme(texts: Iterable[str], schema: Schema, scheme_id: str = "0") -> PartitionScheme:
    """Return the scheme that groups by each of `texts`."""
    return PartitionScheme(tuple(parse_partition_field(text, schema) for text in texts), scheme_id)


def parse_sort_field(text: str, schema: Schema) -> SortField:
    """Return the field that `text` describes; as in SQL, nulls come first ascending and last descending."""
    match = _SORT_ENDING.fullmatch(text)
    assert match is not None
    transform, path = _parse_term(match["term"])
    column = schema.column(*path)
    result_type_of(transform, column.type)
    direction = Direction((match["direction"] or "asc").lower())
    nulls = match["nulls"] or ("first" if direction is Direction.ASCENDING else "last")
    return SortField(column.id, direction, Nulls(nulls.lower()), transform)


def parse_sort_scheme(texts: Iterable[str], schema: Schema, scheme_id: str = "0") -> SortScheme:
    """Return the scheme that orders by each of `texts` in turn."""
    return SortScheme(tuple(parse_sort_field(text, schema) for text in texts), scheme_id)


def format_partition_field(field: PartitionField, schema: Schema) -> str:
    """Return the text that `parse_partition_field` takes."""
    return _term_text(field.transform, schema.path_of(field.source_id))


def format_sort_field(field: SortField, schema: Schema) -> str:
    """Return the text that `parse_sort_field` takes."""
    term = _term_text(field.transform, schema.path_of(field.source_id))
    return f"{term} {field.direction.value} nulls {field.nulls.value}"


def _parse_term(text: str) -> tuple[Transform, tuple[str, ...]]:
    match = _PARTITION_FIELD.fullmatch(text)
    if match is None:
        raise InvalidInputError(
            f"{text!r} is not a partition or sort field; write a column, or years, months, days, hours (column), "
            "bucket (count, column) or truncate (width, column)"
        )
    path = tuple(
        part[1].replace("``", "`") if part[1] else part[2]
        for part in _PATH_PART.finditer(match["bare"] or match["source"])
    )
    if match["bare"]:
        return Identity(), path
    word = match["word"].lower()
    if word in _PARAMETRISED and match["parameter"]:
        return _PARAMETRISED[word](int(match["parameter"])), path
    if word in _SIMPLE and not match["parameter"]:
        return _SIMPLE[word], path
    raise InvalidInputError(
        f"{text!r} is not a transform; write bucket(count, column) and truncate(width, column); "
        "identity, years, months, days and hours take the column alone"
    )


def _term_text(transform: Transform, path: tuple[str, ...]) -> str:
    source = ".".join(quote_name(name) for name in path)
    match transform:
        case Identity():
            return source
        case Bucket(number) | Truncate(number):
            return f"{transform_name_of(transform)}({number}, {source})"
        case _:
            return f"{transform_name_of(transform)}({source})"


def _check_source(source_id: int, transform: Transform) -> None:
    if type(source_id) is not int or not 0 <= source_id <= COLUMN_ID_MAX:
        raise InvalidInputError(f"a field's column id is {source_id!r}: it is a number from 0 to 2³¹ − 1")
    if not isinstance(transform, Transform):
        raise InvalidInputError(f"a field's transform is {transform!r}, which is not a transform")
