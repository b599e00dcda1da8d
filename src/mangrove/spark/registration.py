"""Registration of the data source and of tables in a Spark session.

    spark.read.format("mangrove").option("lake", uri).load("sales.orders")
    rows.write.format("mangrove").option("lake", uri).mode("append").save("sales.orders")
    CREATE TEMPORARY VIEW orders USING mangrove OPTIONS (lake '…', table 'sales.orders')

Spark finds the format automatically if this package is installed (`pyspark_mangrove`).
A frame and a temporary view stay at the version that they first read, because Spark
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
    """Register the format in a session, classic or Connect, and return the session; idempotent.

    Required only if Spark has not found the format, for example if this package was
    shipped with `spark.addArtifacts(…, pyfile=True)`.
    """
    if spark.conf.get(_IS_REGISTERED, None) is None:
        # Registering a known source again causes a warning.
        if not _is_format_known(spark):
            spark.dataSource.register(MangroveSource)
        spark.conf.set(_IS_REGISTERED, "true")
    return spark


def attach(
    spark: SparkSession, lake: str, table: str, as_name: str | None = None, *, storage: dict[str, str] | None = None
) -> str:
    """Register a table of a lakehouse in Spark's catalog and return its name there.

    It can be read, inserted into and overwritten by any Spark statement, also as
    a stream. Statements pass options as `WITH (version = '41')` after the name.
    Spark does not keep the options of such a table, so each has its own format, which
    lasts as long as the session. Attach it again in the next one.
    """
    bound = {"lake": lake, "table": table, **{f"storage.{name}": value for name, value in (storage or {}).items()}}
    options = parse_options(bound)
    name = as_name or options.resolve_target(options.opened().metastore.latest()).locator.name
    quoted = ".".join(map(quote_name, split_name(name)))
    format_name = "mangrove_" + re.sub(r"\W", "_", "_".join(split_name(name)))
    spark.dataSource.register(_bound_source(format_name, bound))
    if spark.catalog.tableExists(quoted):
        if not has_stored_options(spark.table(quoted).schema):
            raise InvalidInputError(
                f"Spark's catalog already has another table {quoted}; choose another name with as_name"
            )
        # The columns may have changed.
        spark.sql(f"DROP TABLE {quoted}")
    spark.sql(f"CREATE TABLE {quoted} USING {format_name}")
    return quoted


def _is_format_known(spark: SparkSession) -> bool:
    """Return whether Spark has found the format itself; unknown over Spark Connect."""
    java: Any = getattr(spark, "_jsparkSession", None)
    return java is not None and bool(java.sessionState().dataSourceManager().dataSourceExists(MangroveSource.name()))


def _bound_source(format_name: str, options: dict[str, str]) -> Any:
    class Bound(MangroveSource):
        """The data source of one table."""

        bound: ClassVar[FrozenMapping[str, str]] = FrozenMapping(options)

        @classmethod
        def name(cls) -> str:
            return format_name

    return Bound
