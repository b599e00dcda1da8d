"""Formatting of counts, sizes, timestamps and column values as text."""

from datetime import UTC, datetime, timedelta
from typing import Final

from mangrove.maintenance.progress import format_quantity
from mangrove.model.types import DataType, TimestampNs, TimestampTzNs
from mangrove.model.values import Value, format_nanos

__all__ = [
    "compute_share",
    "describe_bound",
    "format_compact",
    "format_count",
    "format_size",
    "format_time_millis",
    "format_timestamp",
    "format_value",
    "shorten_text",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")
_STEP: Final = 1000
_VALUE_CHARACTERS_MAX: Final = 80
_LAST_MILLIS: Final = 253_402_300_799_999


def format_count(count: int) -> str:
    """Return a number with thousands separators.

    >>> format_count(1234567)
    '1,234,567'
    """
    return f"{count:,}"


def format_compact(count: int) -> str:
    """Return a number in few characters, for the axis of a plot.

    >>> format_compact(9_500), format_compact(40_000), format_compact(2_500_000)
    ('9,500', '40 k', '2.5 M')
    """
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= max(10_000, size):
            return f"{count / size:g} {unit}"
    return format_count(count)


def format_size(size_bytes: int) -> str:
    """Return a size with a unit that leaves few digits.

    >>> format_size(1), format_size(999), format_size(1234), format_size(25_300_000)
    ('1 byte', '999 bytes', '1.2 kB', '25 MB')
    """
    if size_bytes < _STEP:
        return format_quantity(size_bytes, "byte")
    size, unit = float(size_bytes), 0
    while size >= _STEP - 0.5 and unit < len(_UNITS) - 1:
        size /= _STEP
        unit += 1
    return f"{size:.1f} {_UNITS[unit]}" if size < 9.95 else f"{size:,.0f} {_UNITS[unit]}"


def format_timestamp(millis: int) -> str:
    """Return a time in UTC, to the second; 0 is an unknown time.

    >>> format_timestamp(1_800_000_000_000), format_timestamp(0)
    ('2027-01-15 08:00:00 UTC', 'at an unknown time')
    """
    if not 0 < millis <= _LAST_MILLIS:
        return "at an unknown time"
    return f"{_EPOCH + timedelta(milliseconds=millis):%Y-%m-%d %H:%M:%S} UTC"


def format_time_millis(millis: int) -> str:
    """Return a time in UTC in ISO 8601; empty for 0, an unknown time.

    >>> format_time_millis(1_793_491_200_123)
    '2026-11-01T00:00:00.123Z'
    """
    if not millis:
        return ""
    time = _EPOCH + timedelta(milliseconds=millis)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{millis % 1000:03}Z"


def describe_bound(value: Value | None, data_type: DataType | None) -> Value | None:
    """Return a bound of a column as it is shown: nanoseconds are the text of their timestamp.

    >>> describe_bound(1, TimestampNs())
    '1970-01-01 00:00:00.000000001'
    """
    if isinstance(value, int) and isinstance(data_type, TimestampNs | TimestampTzNs):
        return format_nanos(value, has_zone=isinstance(data_type, TimestampTzNs))
    return value


def format_value(value: Value | None) -> str:
    """Return a value of a column or partition, shortened if it is long.

    >>> format_value(None), format_value("a b"), format_value(b"az"), format_value(True)
    ('null', 'a b', '0x617a', 'true')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
    return shorten_text(text, _VALUE_CHARACTERS_MAX)


def shorten_text(text: str, characters_max: int) -> str:
    """Return the text, or its start with an ellipsis.

    >>> shorten_text("mangrove", 5)
    'mang…'
    """
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"


def compute_share(part: int, whole: int) -> float:
    """Return the fraction of the whole, from 0 to 1.

    >>> compute_share(1, 4), compute_share(9, 4), compute_share(1, 0)
    (0.25, 1.0, 0.0)
    """
    return min(1.0, part / whole) if whole > 0 else 0.0
