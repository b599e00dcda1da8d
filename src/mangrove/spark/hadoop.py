"""Hadoop filesystem settings and JARs for cloud stores.

Spark from PyPI has no such JARs, and Python workers read the files without them. With
the JARs Spark's own reader is used, which is faster. They are large and come from Maven
Central, so they are loaded only on request.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from mangrove.errors import InvalidInputError, NotFoundError, StorageError
from mangrove.spark.session import local_session
from mangrove.storage.uri import RootUri, parse_root_uri

__all__ = [
    "GOOGLE_CLASS",
    "build_hadoop_settings",
    "build_jar_settings",
    "has_filesystem_classes",
    "start_session_with_jars",
    "to_hadoop_uri",
]

GOOGLE_CLASS: Final = "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem"
"""Part of Hadoop since 3.5."""
_CLASSES: Final = {
    "s3": ("org.apache.hadoop.fs.s3a.S3AFileSystem",),
    "gs": ("com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem", GOOGLE_CLASS),
    "az": ("org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",),
    "abfss": ("org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",),
}
_MISSING: Final = ("ClassNotFound", "No FileSystem for scheme", "UnsupportedFileSystem", "NoClassDefFound")
_S3_NAMES: Final = {
    "access_key_id": "access.key",
    "secret_access_key": "secret.key",
    "session_token": "session.token",
    "region": "endpoint.region",
    "endpoint": "endpoint",
}
_ANONYMOUS: Final = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"


def to_hadoop_uri(uri: str, options: Mapping[str, str] | None = None) -> str:
    """Return the root of a lakehouse as a Hadoop URI.

    >>> to_hadoop_uri("s3://bucket/lake/")
    's3a://bucket/lake/'
    >>> to_hadoop_uri("az://container/lake/", {"account_name": "me"})
    'abfss://container@me.dfs.core.windows.net/lake/'
    """
    scheme, _, rest = uri.partition("://")
    if scheme == "s3":
        return f"s3a://{rest}"
    account = (options or {}).get("account_name")
    if scheme == "az" and account is not None:
        container, _, path = rest.partition("/")
        return f"abfss://{container}@{account}.dfs.core.windows.net/{path}"
    return uri


def build_hadoop_settings(uri: str, options: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the Hadoop settings for the same bucket, scoped to the bucket or account.

    >>> build_hadoop_settings("s3://b/lake/", {"region": "eu-west-1"})
    {'fs.s3a.bucket.b.endpoint.region': 'eu-west-1'}
    """
    given = {name.lower(): value for name, value in (options or {}).items()}
    root = parse_root_uri(uri)
    match root.scheme:
        case "s3":
            return _s3_settings(f"fs.s3a.bucket.{root.container}", given)
        case "gs":
            key_file = given.get("service_account") or given.get("service_account_path")
            if key_file is None:
                return {}
            return {
                "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
                "fs.gs.auth.service.account.json.keyfile": key_file,
            }
        case "az" | "abfss":
            return _azure_settings(root, given)
        case _:
            return {}


def has_filesystem_classes(session: SparkSession, uri: str) -> bool:
    """Return whether Spark's Java has the classes for the store at `uri`; nothing is sent to the store.

    Over Spark Connect the JVM is not accessible, so a path without a bucket is
    requested, and the error shows whether the classes exist.
    """
    names = _CLASSES.get(parse_root_uri(uri).scheme)
    if names is None:
        return True
    java: Any = getattr(session, "_jvm", None)
    if java is not None:
        return any(_is_there(java, name) for name in names)
    try:
        session.read.schema("a int").parquet(to_hadoop_uri(uri) + "mangrove-looks-for-classes")
    except PySparkException as error:
        return not any(word in str(error) for word in _MISSING)
    return True


def _is_there(java: Any, name: str) -> bool:
    try:
        loader = java.java.lang.Thread.currentThread().getContextClassLoader()
        java.java.lang.Class.forName(name, False, loader)  # noqa: FBT003 - Java takes no names
    except Py4JError:
        return False
    return True


def _s3_settings(prefix: str, given: Mapping[str, str]) -> dict[str, str]:
    found = {f"{prefix}.{hadoop}": given[ours] for ours, hadoop in _S3_NAMES.items() if ours in given}
    if "endpoint" in given:
        # Servers other than Amazon's rarely support virtual-hosted-style addresses.
        found[f"{prefix}.path.style.access"] = "true"
        found[f"{prefix}.connection.ssl.enabled"] = str(given["endpoint"].startswith("https:")).lower()
    if given.get("skip_signature", "").lower() == "true":
        found[f"{prefix}.aws.credentials.provider"] = _ANONYMOUS
    return found


def _azure_settings(root: RootUri, given: Mapping[str, str]) -> dict[str, str]:
    account = root.account or given.get("account_name")
    if account is None:
        return {}
    host = f"{account}.dfs.core.windows.net"
    if "account_key" in given:
        return {f"fs.azure.account.key.{host}": given["account_key"]}
    if "sas_token" in given:
        return {
            f"fs.azure.account.auth.type.{host}": "SAS",
            f"fs.azure.sas.fixed.token.{host}": given["sas_token"],
        }
    return {}


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


def start_session_with_jars(uri: str) -> None:
    """Start a session with the classes for `uri`; a running session must have them."""
    settings = build_jar_settings(uri, _jar_names(os.environ))
    try:
        running = SparkSession.active()
    except PySparkRuntimeError:
        _start(settings)
        return
    if settings and not has_filesystem_classes(running, uri):
        raise InvalidInputError(
            f"the running Spark session has no classes for {uri}; stop it and request the JARs before its first use, "
            f"or start it with {_PACKAGES} set to {settings[_PACKAGES]}"
        )


def build_jar_settings(uri: str, jar_names: Iterable[str]) -> dict[str, str]:
    """Return the settings that a new Spark with these JARs needs for the store at `uri`.

    >>> build_jar_settings("s3://bucket/lake", ["hadoop-client-api-3.5.0.jar"])
    {'spark.jars.packages': 'org.apache.hadoop:hadoop-aws:3.5.0'}
    >>> build_jar_settings("s3://bucket/lake", ["hadoop-client-api-3.5.0.jar", "hadoop-aws-3.5.0.jar"])
    {}
    """
    names = list(jar_names)
    artifact = _ARTIFACTS.get(parse_root_uri(uri).scheme)
    if artifact is None or any(name.startswith(f"{artifact}-") for name in names):
        return {}
    found = next(filter(None, map(_HADOOP.fullmatch, names)), None)
    if found is None:
        raise NotFoundError(
            f"cannot determine the Hadoop version from Spark's JARs; set {_PACKAGES} to "
            f"org.apache.hadoop:{artifact} with that version"
        )
    first = _FIRST_VERSIONS.get(artifact, (0, 0))
    if (int(found[2]), int(found[3])) < first:
        raise NotFoundError(
            f"Hadoop {found[1]} has no {artifact}; set {_PACKAGES} to com.google.cloud.bigdataoss:gcs-connector "
            "with a matching version"
        )
    # Hadoop has default classes for the other schemes.
    implementation = {"spark.hadoop.fs.gs.impl": GOOGLE_CLASS} if artifact == "hadoop-gcp" else {}
    return {_PACKAGES: f"org.apache.hadoop:{artifact}:{found[1]}", **implementation}


def _jar_names(environment: Mapping[str, str]) -> list[str]:
    home = Path(environment.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    return sorted(path.name for path in (home / "jars").glob("*.jar"))


def _start(settings: Mapping[str, str]) -> None:
    try:
        local_session(settings)
    except RuntimeError as error:
        raise StorageError(
            f"cannot start Spark with {settings.get(_PACKAGES, 'its JARs')} ({error}); check the access to Maven "
            "Central in the output above, or start without the JARs"
        ) from error
