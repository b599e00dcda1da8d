"""Which places Spark's processes can open, and whether there is a Spark at all: known without importing it."""

import importlib.util
from typing import Final

__all__ = ["opens_in_other_processes", "spark_is_installed"]

_SCHEMES: Final = ("file://", "s3://", "gs://", "az://", "abfss://")


def opens_in_other_processes(uri: str) -> bool:
    """Return whether a store can be opened again by its URI, as executors do.

    >>> opens_in_other_processes("s3://bucket/lake/"), opens_in_other_processes("memory://lake/")
    (True, False)
    """
    return uri.startswith(_SCHEMES)


def spark_is_installed() -> bool:
    """Return whether Spark can be imported."""
    return importlib.util.find_spec("pyspark") is not None
