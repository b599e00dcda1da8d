"""Registration of the data source and of tables in a Spark session.

    spark.read.format("mangrove").option("lake", uri).load("sales.orders")
    rows.write.format("mangrove").option("lake", uri).mode("append").save("sales.orders")
    CREATE TEMPORARY VIEW orders USING mangrove OPTIONS (lake '…', table 'sales.orders')

Spark finds the format by itself where this package is installed (`pyspark_mangrove`).
A frame and a temporary view stay at the version that they first read, as Spark
plans them once; an attached table is looked up in every query.
"""

import re
from typing import Any, ClassVar, Final

from pyspark.sql import SparkSession

from mangrove.errors import InvalidInputError
from mangrove.model.names import quote_name, split_name
from mangrove.model.properties import FrozenMapping
from mangrove.spark.data_source import MangroveSource, has_stored_options
from mangrove.spark.source_options import parse_options

__all__ = ["attach", "register"]

_IS_REGISTERED: Final = "spark.mangrove.is-registered"


def register(spark: SparkSession) -> SparkSession:
    """Make the format known to a session, classic or Connect, and return it; a second time changes nothing.

    Only a Spark that has not found it needs this: one to which this package was shipped
    with `spark.addArtifacts(…, pyfile=True)`, as its workers import it.
    """
    if spark.conf.get(_IS_REGISTERED, None) is None:
        # Spark would replace a source that it knows, and warn.
        if not _is_found(spark):
            spark.dataSource.register(MangroveSource)
        spark.conf.set(_IS_REGISTERED, "true")
    return spark


def attach(
    spark: SparkSession, lake: str, table: str, as_name: str | None = None, *, storage: dict[str, str] | None = None
) -> str:
    """Make a table of a lakehouse known to Spark's own catalog, and return the name that it has there.

    It can be read, inserted into and overwritten by any statement of Spark, also as
    a stream; a statement gives options as `WITH (version = '41')` after the name.
    Spark keeps no options of such a table, so each has a format of its own, which
    lasts as long as the session: attach it again in the next one.
    """
    bound = {"lake": lake, "table": table, **{f"storage.{name}": value for name, value in (storage or {}).items()}}
    options = parse_options(bound)
    name = as_name or options.table.name
    quoted = ".".join(map(quote_name, split_name(name)))
    format_name = "mangrove_" + re.sub(r"\W", "_", "_".join(split_name(name)))
    spark.dataSource.register(_bound_source(format_name, bound))
    if spark.catalog.tableExists(quoted):
        if not has_stored_options(spark.table(quoted).schema):
            raise InvalidInputError(f"Spark has a table {quoted} of its own already: choose another name with as_name")
        # The columns may be others by now.
        spark.sql(f"DROP TABLE {quoted}")
    spark.sql(f"CREATE TABLE {quoted} USING {format_name}")
    return quoted


def _is_found(spark: SparkSession) -> bool:
    """Return whether Spark has found the format by itself; over Connect nobody can ask."""
    java: Any = getattr(spark, "_jsparkSession", None)
    return java is not None and bool(java.sessionState().dataSourceManager().dataSourceExists(MangroveSource.name()))


def _bound_source(format_name: str, options: dict[str, str]) -> Any:
    class Bound(MangroveSource):
        """The source of one table."""

        bound: ClassVar[FrozenMapping[str, str]] = FrozenMapping(options)

        @classmethod
        def name(cls) -> str:
            return format_name

    return Bound
