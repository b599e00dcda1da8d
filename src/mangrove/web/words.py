"""Numbers, sizes, times and values in the words of people."""

from datetime import UTC, datetime, timedelta
from typing import Final

from mangrove.model.values import Value

__all__ = ["compact_text", "count_text", "counted", "moment_text", "share", "shortened", "size_text", "value_text"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")
_STEP: Final = 1000
_VALUE_CHARACTERS_MAX: Final = 80
_LAST_MILLIS: Final = 253_402_300_799_999


def count_text(count: int) -> str:
    """Return a number with its thousands apart.

    >>> count_text(1234567)
    '1,234,567'
    """
    return f"{count:,}"


def compact_text(count: int) -> str:
    """Return a number in few characters, for the side of a plot.

    >>> compact_text(9_500), compact_text(40_000), compact_text(2_500_000)
    ('9,500', '40 k', '2.5 M')
    """
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= max(10_000, size):
            return f"{count / size:g} {unit}"
    return count_text(count)


def counted(count: int, one: str) -> str:
    """Return a number with its word.

    >>> counted(1, "table"), counted(2, "table")
    ('1 table', '2 tables')
    """
    return f"{count_text(count)} {one}{'' if count == 1 else 's'}"


def size_text(size_bytes: int) -> str:
    """Return a size with a unit that leaves few digits.

    >>> size_text(1), size_text(999), size_text(1234), size_text(25_300_000)
    ('1 byte', '999 bytes', '1.2 kB', '25 MB')
    """
    if size_bytes < _STEP:
        return counted(size_bytes, "byte")
    size, unit = float(size_bytes), 0
    while size >= _STEP - 0.5 and unit < len(_UNITS) - 1:
        size /= _STEP
        unit += 1
    return f"{size:.1f} {_UNITS[unit]}" if size < 9.95 else f"{size:,.0f} {_UNITS[unit]}"


def moment_text(millis: int) -> str:
    """Return a time in UTC, to the second; 0 stands for a time that nobody noted.

    >>> moment_text(1_800_000_000_000), moment_text(0)
    ('2027-01-15 08:00:00 UTC', 'at an unknown time')
    """
    if not 0 < millis <= _LAST_MILLIS:
        return "at an unknown time"
    return f"{_EPOCH + timedelta(milliseconds=millis):%Y-%m-%d %H:%M:%S} UTC"


def value_text(value: Value | None) -> str:
    """Return a value of a column or partition, shortened if it is long.

    >>> value_text(None), value_text("a b"), value_text(b"az"), value_text(True)
    ('null', 'a b', '0x617a', 'true')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
    return shortened(text, _VALUE_CHARACTERS_MAX)


def shortened(text: str, characters_max: int) -> str:
    """Return the text, or its start with an ellipsis.

    >>> shortened("mangrove", 5)
    'mang…'
    """
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"


def share(part: int, whole: int) -> float:
    """Return how much of the whole the part is, from 0 to 1.

    >>> share(1, 4), share(9, 4), share(1, 0)
    (0.25, 1.0, 0.0)
    """
    return min(1.0, part / whole) if whole > 0 else 0.0
