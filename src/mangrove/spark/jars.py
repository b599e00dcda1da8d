"""Bringing Hadoop's classes for a bucket into a new Spark, in the version of the Hadoop that Spark has.

Spark from PyPI has none of them, and rows come through Python workers without any.
With them Spark's own reader is used, which does less work. They are large and come
from Maven Central, so they are brought only where somebody asks for them.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pyspark
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from mangrove.errors import InvalidInputError, NotFoundError, StorageError
from mangrove.spark.clouds import GOOGLE_CLASS, can_reach
from mangrove.spark.session import local_session
from mangrove.storage.uri import parse_root

__all__ = ["jar_settings", "start_with_jars"]

_ARTIFACTS: Final[Mapping[str, str]] = {
    "s3": "hadoop-aws",
    "gs": "hadoop-gcp",
    "az": "hadoop-azure",
    "abfss": "hadoop-azure",
}
_FIRST_VERSIONS: Final = {"hadoop-gcp": (3, 5)}
"""Where Hadoop has not always had it."""
_PACKAGES: Final = "spark.jars.packages"
_HADOOP: Final = re.compile(r"hadoop-client-api-((\d+)\.(\d+)\.[\w.]+)\.jar")


def start_with_jars(uri: str) -> None:
    """Start a session that has the classes for `uri`; one that runs already must have them."""
    settings = jar_settings(uri, _jar_names(os.environ))
    try:
        running = SparkSession.active()
    except PySparkRuntimeError:
        _start(settings)
        return
    if settings and not can_reach(running, uri):
        raise InvalidInputError(
            f"Spark runs already and has no classes for {uri}: stop it and ask for them before anything else uses it, "
            f"or start it with {_PACKAGES} set to {settings[_PACKAGES]}"
        )


def jar_settings(uri: str, jar_names: Iterable[str]) -> dict[str, str]:
    """Return what a new Spark with these JARs must be told for the store at `uri`; nothing where it lacks nothing.

    >>> jar_settings("s3://bucket/lake", ["hadoop-client-api-3.5.0.jar"])
    {'spark.jars.packages': 'org.apache.hadoop:hadoop-aws:3.5.0'}
    >>> jar_settings("s3://bucket/lake", ["hadoop-client-api-3.5.0.jar", "hadoop-aws-3.5.0.jar"])
    {}
    """
    names = list(jar_names)
    artifact = _ARTIFACTS.get(parse_root(uri).scheme)
    if artifact is None or any(name.startswith(f"{artifact}-") for name in names):
        return {}
    found = next(filter(None, map(_HADOOP.fullmatch, names)), None)
    if found is None:
        raise NotFoundError(
            f"the version of Spark's Hadoop cannot be told from its JARs: set {_PACKAGES} to "
            f"org.apache.hadoop:{artifact} with that version yourself"
        )
    first = _FIRST_VERSIONS.get(artifact, (0, 0))
    if (int(found[2]), int(found[3])) < first:
        raise NotFoundError(
            f"Hadoop {found[1]} has no {artifact}: set {_PACKAGES} to com.google.cloud.bigdataoss:gcs-connector "
            "with a version for it yourself"
        )
    # Hadoop knows by itself which class serves the other schemes.
    told = {"spark.hadoop.fs.gs.impl": GOOGLE_CLASS} if artifact == "hadoop-gcp" else {}
    return {_PACKAGES: f"org.apache.hadoop:{artifact}:{found[1]}", **told}


def _jar_names(environment: Mapping[str, str]) -> list[str]:
    home = Path(environment.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    return sorted(path.name for path in (home / "jars").glob("*.jar"))


def _start(settings: Mapping[str, str]) -> None:
    try:
        local_session(settings)
    except RuntimeError as error:
        raise StorageError(
            f"Spark did not start with {settings.get(_PACKAGES, 'its JARs')} ({error}): see above whether Maven "
            "Central answered, or do without the JARs"
        ) from error
