"""Arrow rows as a DataFrame in which a moment without a zone stays one."""

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark

from mangrove.local.conforming import given_types, with_told_types
from mangrove.spark.types import spark_type
from mangrove.tables.table_state import TableState

__all__ = ["arrow_frame"]


def arrow_frame(session: SparkSession, rows: pa.Table, state: TableState | None) -> DataFrame:
    """Return the rows with the types that they have; where only nulls were seen, with that of the table's column.

    Left to itself, Spark takes a moment without a zone for one in the session's zone.
    """
    told = rows if state is None else with_told_types(rows, state.schema)
    fields = [
        spark.StructField(name, spark.NullType() if given is None else spark_type(given))
        for name, given in given_types(told).items()
    ]
    return session.createDataFrame(told, spark.StructType(fields))
