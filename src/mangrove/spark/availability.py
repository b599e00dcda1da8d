"""Detection of an installed Spark and of stores that its workers can open."""

import importlib.util
from typing import Final

__all__ = ["can_open_in_workers", "is_spark_installed"]

_SCHEMES: Final = ("file://", "s3://", "gs://", "az://", "abfss://")


def can_open_in_workers(uri: str) -> bool:
    """Return whether workers can open a store by its URI.

    >>> can_open_in_workers("s3://bucket/lake/"), can_open_in_workers("memory://lake/")
    (True, False)
    """
    return uri.startswith(_SCHEMES)


def is_spark_installed() -> bool:
    """Return whether Spark can be imported."""
    return importlib.util.find_spec("pyspark") is not None
