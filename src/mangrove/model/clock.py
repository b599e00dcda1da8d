"""How long a transaction may take, and how far the clocks of those who commit may differ."""

from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.settings import LakehouseSettings

__all__ = ["CLOCK_TOLERANCE_PROPERTY", "TIME_LIMIT_PROPERTY", "clock_tolerance_millis", "time_limit_millis"]

TIME_LIMIT_PROPERTY: Final = "transaction.time-limit-millis"
"""How long a transaction may take before its commit is refused: 3600000, an hour, unless set.

A property of the lakehouse. Expiry and vacuum wait for more than twice as long.
"""
CLOCK_TOLERANCE_PROPERTY: Final = "transaction.clock-tolerance-millis"
"""How far in the future the newest version may be dated before commits are refused: the time limit, unless set.

A property of the lakehouse. Whoever opens it can give another tolerance: `mangrove.open(…, clock_tolerance="1d")`.
"""
_HOUR_MILLIS: Final = 60 * 60 * 1000


def time_limit_millis(settings: LakehouseSettings) -> int:
    """Return the transaction time limit of this lakehouse."""
    return _millis(settings, TIME_LIMIT_PROPERTY, _HOUR_MILLIS)


def clock_tolerance_millis(settings: LakehouseSettings) -> int:
    """Return how far in the future the newest version may be dated at a commit."""
    return _millis(settings, CLOCK_TOLERANCE_PROPERTY, time_limit_millis(settings))


def _millis(settings: LakehouseSettings, name: str, default_millis: int) -> int:
    text = settings.properties.get(name)
    if text is None:
        return default_millis
    if not text.isdecimal() or not int(text):
        raise InvalidInputError(
            f"invalid value {text!r} of the lakehouse property {name}; expected milliseconds, an integer from 1"
        )
    return int(text)
