"""Choice between the local engine and Spark for a maintenance job.

    job          Spark from             reason
    copy         8 GiB, 50,000 files    takes minutes in one process, and a session starts in ten seconds
    count        8 GiB, 50,000 files    every byte is read
    delete       200,000 files          one request deletes a thousand files of any size
    compact      2 GiB in memory        the local engine holds a whole partition log in memory

Sizes come from the catalog or a listing, so the choice reads no data. An explicitly
named engine is always used.
"""

from dataclasses import dataclass
from typing import Final

from mangrove.errors import InvalidInputError

__all__ = [
    "COMPACTION_LIMITS",
    "COPY_LIMITS",
    "COUNT_LIMITS",
    "DELETE_LIMITS",
    "ENGINES",
    "LOCAL",
    "SPARK",
    "LocalLimits",
    "should_use_spark",
    "validate_engine",
]

LOCAL: Final = "local"
SPARK: Final = "spark"
ENGINES: Final = (LOCAL, SPARK)
"""The engines that read and write rows and do maintenance."""


@dataclass(frozen=True, slots=True)
class LocalLimits:
    """The limits of work in this process; None is unlimited."""

    files_max: int | None
    bytes_max: int | None


COPY_LIMITS: Final = LocalLimits(50_000, 8 * 1024**3)
COUNT_LIMITS: Final = COPY_LIMITS
DELETE_LIMITS: Final = LocalLimits(200_000, None)
COMPACTION_LIMITS: Final = LocalLimits(None, 2 * 1024**3)


def validate_engine(name: str | None) -> str | None:
    """Return the name of an engine, or None for an automatic choice; raise an error for any other name."""
    if name is not None and name not in ENGINES:
        raise InvalidInputError(
            f"unknown engine {name!r}; expected {' or '.join(ENGINES)}, or none for an automatic choice"
        )
    return name


def should_use_spark(
    requested: str | None, limits: LocalLimits, files: int, size_bytes: int, *, spark_can: bool
) -> bool:
    """Return whether Spark does the work: on request, or because it exceeds the limits.

    >>> should_use_spark(None, COPY_LIMITS, 3, 9 * 1024**3, spark_can=True)
    True
    >>> should_use_spark(None, COPY_LIMITS, 3, 9 * 1024**3, spark_can=False)
    False
    """
    if requested is not None:
        return requested == SPARK
    is_much = (limits.files_max is not None and files > limits.files_max) or (
        limits.bytes_max is not None and size_bytes > limits.bytes_max
    )
    return spark_can and is_much
