"""AS OF arguments: their parsing, and the version that each selects; parsing of durations."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from mangrove.errors import InvalidInputError
from mangrove.maintenance.export_records import find_export
from mangrove.metastore import Metastore, MetastoreSnapshot

__all__ = [
    "AS_OF_ADVICE",
    "AsOf",
    "AsOfExport",
    "AsOfTime",
    "AsOfVersion",
    "load_snapshot_at",
    "parse_as_of",
    "parse_duration_millis",
]

_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION: Final = re.compile(r"\s*([0-9]{1,18})\s*(ms|s|m|h|d|w)\s*")
_DURATION_MILLIS_MAX: Final = 1000 * 366 * _UNITS["d"]
_STARTS_LIKE_A_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}")
_DIGITS_MAX: Final = 20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AsOfVersion:
    """A version by number."""

    version: int


@dataclass(frozen=True, slots=True)
class AsOfTime:
    """The newest version at a point in time."""

    millis: int


@dataclass(frozen=True, slots=True)
class AsOfExport:
    """The version that was exported under a name."""

    name: str


AS_OF_ADVICE: Final = "; give the number of a version, a time such as 2026-11-01, or the name of an export"
"""Advice appended to errors about unknown AS OF arguments."""

AsOf: TypeAlias = AsOfVersion | AsOfTime | AsOfExport


def parse_as_of(where: int | str | datetime) -> AsOf:
    """Parse an AS OF argument: a number is a version, a date or time is a point in time, other text is an export name.

    A time without a zone is in UTC, so that it is the same on every machine.

    >>> parse_as_of("41"), parse_as_of("2026-11-01T00:00:00Z"), parse_as_of("year-end")
    (AsOfVersion(version=41), AsOfTime(millis=1793491200000), AsOfExport(name='year-end'))
    """
    if isinstance(where, bool) or not isinstance(where, int | str | datetime):
        raise InvalidInputError(f"{where!r} is no point in history: give a version, a time or the name of an export")
    if isinstance(where, int):
        return AsOfVersion(_version(where))
    if isinstance(where, datetime):
        return AsOfTime(_millis(where))
    text = where.strip()
    if text.isascii() and text.isdecimal():
        return AsOfVersion(_version(int(text[:_DIGITS_MAX])))
    if not _STARTS_LIKE_A_DATE.match(text):
        return AsOfExport(text)
    try:
        return AsOfTime(_millis(datetime.fromisoformat(text)))
    except ValueError as error:
        raise InvalidInputError(
            f"{where!r} is no time: write one such as 2026-11-01 or 2026-11-01T08:30:00Z"
        ) from error


def load_snapshot_at(metastore: Metastore, where: int | str | datetime) -> MetastoreSnapshot:
    """Return the version that `where` selects."""
    match parse_as_of(where):
        case AsOfVersion(version):
            return metastore.at_version(version)
        case AsOfTime(millis):
            return metastore.at_time(millis)
        case AsOfExport(name):
            return metastore.at_version(find_export(metastore.latest().settings, name, AS_OF_ADVICE).version)


def parse_duration_millis(duration: str | timedelta) -> int:
    """Return a duration such as `90s`, `30m`, `6h` or `7d` in milliseconds.

    >>> parse_duration_millis("6h")
    21600000
    """
    if isinstance(duration, timedelta):
        millis = duration // timedelta(milliseconds=1)
    else:
        match = _DURATION.fullmatch(duration) if isinstance(duration, str) else None
        if match is None:
            raise InvalidInputError(
                f"{duration!r} is no duration: write a number and one of {', '.join(_UNITS)}, as in 6h"
            )
        millis = int(match[1]) * _UNITS[match[2]]
    if not 0 < millis <= _DURATION_MILLIS_MAX:
        length = "over at once: give a longer one" if millis <= 0 else "over a thousand years: give a shorter one"
        raise InvalidInputError(f"a duration of {duration!r} is {length}")
    return millis


def _version(number: int) -> int:
    if number >= 10 ** (_DIGITS_MAX - 1):
        raise InvalidInputError("the version number has too many digits; list the versions with the history")
    return number


def _millis(moment: datetime) -> int:
    in_utc = moment.replace(tzinfo=UTC) if moment.utcoffset() is None else moment
    return (in_utc - _EPOCH) // timedelta(milliseconds=1)
