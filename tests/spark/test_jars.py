"""Hadoop's classes for a bucket are brought only where somebody asks, and in the version of Spark's own Hadoop."""

import re
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.spark.hadoop import build_jar_settings, start_session_with_jars

HADOOP = "hadoop-client-api-3.5.0.jar"


@pytest.mark.parametrize(
    ("uri", "package"),
    [
        ("s3://bucket/lake/", "org.apache.hadoop:hadoop-aws:3.5.0"),
        ("az://container/lake/", "org.apache.hadoop:hadoop-azure:3.5.0"),
        ("abfss://container@account.dfs.core.windows.net/", "org.apache.hadoop:hadoop-azure:3.5.0"),
        ("gs://bucket/", "org.apache.hadoop:hadoop-gcp:3.5.0"),
    ],
)
def test_the_package_of_a_cloud_has_the_version_of_sparks_hadoop(uri: str, package: str) -> None:
    settings = build_jar_settings(uri, ["guava-33.jar", HADOOP])
    assert settings["spark.jars.packages"] == package
    artifact = package.split(":")[1]
    assert build_jar_settings(uri, [HADOOP, f"{artifact}-3.5.0.jar"]) == {}


def test_a_folder_needs_no_jar() -> None:
    assert build_jar_settings("file:///lake/", []) == {}


@pytest.mark.parametrize(
    ("uri", "names", "complaint"),
    [
        ("s3://bucket/", ["hadoop-client-api.jar"], "cannot determine the Hadoop version"),
        ("gs://bucket/", ["hadoop-client-api-3.4.2.jar"], "Hadoop 3.4.2 has no hadoop-gcp"),
    ],
)
def test_an_unknown_package_is_an_error_with_a_remedy(uri: str, names: list[str], complaint: str) -> None:
    with pytest.raises(NotFoundError, match=complaint):
        build_jar_settings(uri, names)


def test_the_hadoop_version_of_the_installed_spark_is_detected() -> None:
    names = [path.name for path in (Path(pyspark.__file__).parent / "jars").iterdir()]
    assert re.fullmatch(
        r"org\.apache\.hadoop:hadoop-aws:3\.\d+\.\d+", build_jar_settings("s3://b/", names)["spark.jars.packages"]
    )


@pytest.mark.interop
def test_a_running_session_without_the_required_classes_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInputError, match=r"the running Spark session has no classes.*org\.apache\.hadoop:hadoop-aws:\d"
    ):
        start_session_with_jars("s3://bucket/lake/")
    assert mangrove.create(tmp_path / "lake").spark(jars=True).range(2).count() == 2
