"""Rows made fit for a table on Spark: defaults where a column is not given, and conditions that must hold."""

import re
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from mangrove.errors import InvalidInputError
from mangrove.spark.replacing import condition_sql
from mangrove.spark.types import spark_type
from mangrove.tables.constraints import broken_check, checks_of
from mangrove.tables.table_state import TableState

__all__ = ["check_refusal", "fit"]

_BROKEN: Final = re.compile(r"mangrove check (\d+) is broken by (\{.*?\})(?: SQLSTATE|\n|$)", re.DOTALL)


def fit(rows: DataFrame, state: TableState) -> DataFrame:
    """Return the rows with defaults for columns that they lack; one that breaks a condition stops their reader."""
    given = {name.casefold() for name in rows.columns}
    for one in state.schema.columns:
        if one.default is not None and one.name.casefold() not in given:
            rows = rows.withColumn(one.name, f.expr(one.default).cast(spark_type(one.type)))
    checks = list(checks_of(state.version).values())
    if not checks:
        return rows
    given = {name.casefold() for name in rows.columns}
    # Conditions name the table's columns; one that is not given is null.
    for one in state.schema.columns:
        if one.name.casefold() not in given and one.nullable:
            rows = rows.withColumn(one.name, f.lit(None).cast(spark_type(one.type)))
    for number, text in enumerate(checks):
        words = f.concat(f.lit(f"mangrove check {number} is broken by "), f.to_json(f.struct("*")))
        holds = f.expr(f"coalesce(({condition_sql(text, state.schema)}), true)")
        guard: Any = f.when(holds, f.expr("true")).otherwise(f.raise_error(words).cast("boolean"))
        rows = rows.where(guard)
    return rows


def check_refusal(error: PySparkException, state: TableState) -> InvalidInputError | None:
    """Return our own error for a row that broke a condition, if that is what stopped Spark."""
    found = _BROKEN.search(str(error))
    if found is None:
        return None
    name, text = list(checks_of(state.version).items())[int(found[1])]
    return broken_check(state.name, name, text, found[2])
