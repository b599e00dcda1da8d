"""Which engine does a piece of upkeep: this process, or Spark's executors where there is much to do.

    work         Spark from             because
    copying      8 GiB, 50,000 files    one process is at it for some minutes, and a session starts in ten seconds
    counting     8 GiB, 50,000 files    every byte is read
    deleting     200,000 files          a request takes a thousand of them, and their size does not matter
    compacting   2 GiB in memory        the engine in this process holds a whole log

The sizes are those that the catalog or a listing tells, so choosing reads nothing.
Whoever names an engine gets that one.
"""

from dataclasses import dataclass
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.tables.compaction import LOCAL_BYTES_MAX

__all__ = ["COMPACTING", "COPYING", "COUNTING", "DELETING", "ENGINES", "Limits", "checked_engine", "is_for_spark"]

ENGINES: Final = ("local", "spark")


@dataclass(frozen=True, slots=True)
class Limits:
    """Up to how much of some work this process does; None is any amount."""

    files_max: int | None
    bytes_max: int | None


COPYING: Final = Limits(50_000, 8 * 1024**3)
COUNTING: Final = COPYING
DELETING: Final = Limits(200_000, None)
COMPACTING: Final = Limits(None, LOCAL_BYTES_MAX)


def checked_engine(name: str | None) -> str | None:
    """Return the name of an engine, or None for whichever suits; refuse all others."""
    if name is not None and name not in ENGINES:
        raise InvalidInputError(f"{name!r} is no engine: use {' or '.join(ENGINES)}, or none for whichever suits")
    return name


def is_for_spark(asked: str | None, limits: Limits, files: int, size_bytes: int, *, spark_can: bool) -> bool:
    """Return whether Spark does it: because it was asked for, or because there is more to do than the limits say.

    >>> is_for_spark(None, COPYING, 3, 9 * 1024**3, spark_can=True)
    True
    >>> is_for_spark(None, COPYING, 3, 9 * 1024**3, spark_can=False)
    False
    """
    if asked is not None:
        return asked == "spark"
    is_much = (limits.files_max is not None and files > limits.files_max) or (
        limits.bytes_max is not None and size_bytes > limits.bytes_max
    )
    return spark_can and is_much
