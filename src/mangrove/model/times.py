"""ISO 8601 formatting of epoch milliseconds."""

from datetime import UTC, datetime, timedelta

__all__ = ["format_iso_time"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
