"""Readers of pages have no Java but that of the extra `spark`."""

from tests.spark.conftest import path_without_java

__all__ = ["path_without_java"]
