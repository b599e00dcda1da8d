"""ISO 8601 times: formatting of epoch milliseconds, and conversion of texts with an offset to UTC."""

import re
from datetime import UTC, datetime, timedelta

__all__ = ["convert_to_utc", "format_iso_time"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_WITH_OFFSET = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-](?:0\d|1[0-7]):[0-5]\d|[+-]18:00)"
)
"""What Spark and Python read as the same time."""


def format_iso_time(millis: int) -> str:
    """Return the time in UTC; a time outside the calendar is formatted in milliseconds.

    >>> format_iso_time(1_793_491_200_000), format_iso_time(1_793_491_200_250)
    ('2026-11-01T00:00:00Z', '2026-11-01T00:00:00.250Z')
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return f"{millis} ms since 1970"
    precision = "milliseconds" if millis % 1000 else "seconds"
    return f"{moment.replace(tzinfo=None).isoformat(timespec=precision)}Z"


def convert_to_utc(text: str) -> str | None:
    """Return a time with an offset as a time in UTC without one, or None if the text has another form.

    >>> convert_to_utc("2026-11-01T01:00:00+02:00"), convert_to_utc("2026-11-01")
    ('2026-10-31 23:00:00', None)
    """
    if not _TIME_WITH_OFFSET.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None).isoformat(" ")
    except (ValueError, OverflowError):
        return None
