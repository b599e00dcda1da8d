"""What is looked at before a change of rows on Spark is planned, and how Spark's refusals become ours."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    PySparkException,
)
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from mangrove.errors import InvalidInputError
from mangrove.local.python_rows import python_rows
from mangrove.spark.changing import SparkFiles, key_name, near_keys
from mangrove.spark.targets import column, file_numbers, target_rows
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import TableState

__all__ = ["check_inside", "check_new_keys", "refusals", "settled"]

_EXAMPLES_MAX: Final = 3
_OF_THE_CALLER: Final = (
    AnalysisException,
    ArithmeticException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
)
_VALUES_AT_FAULT: Final = re.compile(
    r"\[(CAST_|NUMERIC_|ARITHMETIC_|DIVIDE_BY_ZERO|USER_RAISED|INVALID_|CANNOT_PARSE|SCALAR_SUBQUERY)"
)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what Spark says about bad input into one sentence; what it says about itself passes."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        # Some errors of Spark's reach Python as those of its bridge.
        words = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        if isinstance(error, _OF_THE_CALLER) or _VALUES_AT_FAULT.search(str(error)):
            found = _VALUES_AT_FAULT.search(str(error))
            line = str(error)[found.start() :].splitlines()[0] if found else words
            raise InvalidInputError(f"Spark refuses what was asked: {line}") from error
        raise


def settled(frame: DataFrame) -> DataFrame:
    """Return the rows as they are now: what is evaluated twice may be another thing the second time."""
    return frame.localCheckpoint(eager=True)


def check_inside(state: TableState, rows: DataFrame, condition: str) -> None:
    """Refuse rows that an overwrite would add beside what `where` means."""
    outside = rows.where(f"not coalesce(({condition}), false)").limit(_EXAMPLES_MAX)
    examples = python_rows(outside.toArrow())
    if examples:
        raise InvalidInputError(
            f"some rows for {state.name} are not what `where` means, and an overwrite would add them beside it, "
            f"for example {examples}: leave them out or widen `where`"
        )


def check_new_keys(files: SparkFiles, state: TableState, hidden: DataFrame, new: DataFrame) -> None:
    """Refuse rows whose keys another row has, among the new ones or among those that stay."""
    state.checked_keys("a change of rows")
    names = [key_name(place) for place in range(len(state.key_columns))]
    for key, name in zip(state.key_columns, names, strict=True):
        if not new.where(column(name).isNull()).isEmpty():
            raise InvalidInputError(
                f"column {key.name!r} of {state.name} is not null, since it is a key, and a change of rows would leave "
                "it without a value: give each row keys of its own"
            )
    counted = new.groupBy(*map(column, names)).agg(f.count(f.lit(1)).alias("rows"))
    _refuse(state, counted.where("rows > 1").limit(_EXAMPLES_MAX), "occur more than once among the new rows")
    fresh = new.join(hidden.select(*map(column, names)), names, "left_anti")
    plan = plan_scan(state, near_keys(state, fresh))
    there = target_rows(files.lists, files.root_uri, state, plan, file_numbers(state))
    same = [column(key.name) == column(name) for key, name in zip(state.key_columns, names, strict=True)]
    keys = [column(key.name).alias(name) for key, name in zip(state.key_columns, names, strict=True)]
    taken = there.join(fresh, same, "left_semi").select(*keys).limit(_EXAMPLES_MAX)
    _refuse(state, taken, "are those of rows that are there")


def _refuse(state: TableState, found: DataFrame, words: str) -> None:
    examples = python_rows(found.toArrow())
    if examples:
        keys = [{key.name: row[key_name(place)] for place, key in enumerate(state.key_columns)} for row in examples]
        raise InvalidInputError(
            f"some keys that rows of {state.name} would get {words}, for example {keys}: give each row keys of its own"
        )
