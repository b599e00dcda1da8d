"""The Spark session of pages that need one is that of all tests."""

from tests.spark.conftest import path_without_java, spark, start

__all__ = ["path_without_java", "spark", "start"]
