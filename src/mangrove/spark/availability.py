"""Detection of an installed Spark and of stores that its workers can open."""

import importlib.util
import sys
from typing import Any, Final

__all__ = ["can_open_in_workers", "has_active_session", "is_spark_installed"]

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


def has_active_session() -> bool:
    """Return whether this process has a Spark session; Spark is not imported for it."""
    classic: Any = sys.modules.get("pyspark.sql.session")
    session = None if classic is None else classic.SparkSession._instantiatedSession
    if session is not None and session._sc._jsc is not None:
        return True
    remote: Any = sys.modules.get("pyspark.sql.connect.session")
    return remote is not None and remote.SparkSession._default_session is not None
