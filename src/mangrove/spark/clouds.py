"""How Spark reaches a bucket: the options of a lakehouse in Hadoop's words, and whether Hadoop's classes are there."""

from collections.abc import Mapping
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mangrove.storage.uri import RootUri, parse_root

__all__ = ["GOOGLE_CLASS", "can_reach", "hadoop_root", "hadoop_settings"]

GOOGLE_CLASS: Final = "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem"
"""Hadoop's own, since 3.5."""
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


def hadoop_root(uri: str, options: Mapping[str, str] | None = None) -> str:
    """Return the root of a lakehouse as Hadoop spells it.

    >>> hadoop_root("s3://bucket/lake/")
    's3a://bucket/lake/'
    >>> hadoop_root("az://container/lake/", {"account_name": "me"})
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


def hadoop_settings(uri: str, options: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings with which Hadoop opens the same bucket in the same way; they name the bucket or account.

    >>> hadoop_settings("s3://b/lake/", {"region": "eu-west-1"})
    {'fs.s3a.bucket.b.endpoint.region': 'eu-west-1'}
    """
    given = {name.lower(): value for name, value in (options or {}).items()}
    root = parse_root(uri)
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


def can_reach(session: SparkSession, uri: str) -> bool:
    """Return whether Spark's Java has the classes for the store at `uri`; nothing is sent to the store.

    Over Connect nobody can look into the server's Java, so a path that names no
    bucket of anybody is asked for, and the complaint tells.
    """
    names = _CLASSES.get(parse_root(uri).scheme)
    if names is None:
        return True
    java: Any = getattr(session, "_jvm", None)
    if java is not None:
        return any(_is_there(java, name) for name in names)
    try:
        session.read.schema("a int").parquet(hadoop_root(uri) + "mangrove-looks-for-classes")
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
        # Servers other than Amazon's rarely have a name of their own for each bucket.
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
