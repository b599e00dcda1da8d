"""Pruning of files, row groups and rows for MERGE by the key values of the source.

A small source is represented by its values, a large one by minimum and maximum, or by
several ranges if its only key is an integer. Rows that match no source row are dropped before
the join of the MERGE, which has to shuffle both sides if it keeps source rows without a
match: by a bitmap of the integer key, or by a broadcast semi-join.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, DecimalType, DoubleType, FloatType, IntegralType

from mangrove.errors import InvalidInputError
from mangrove.expressions.parse import parse_expression
from mangrove.expressions.predicates import (
    AllOf,
    AnyOf,
    ColumnComparison,
    ConstantPredicate,
    IsIn,
    Operator,
    Predicate,
    render_predicate_sql,
)
from mangrove.local.python_rows import to_python_rows
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Int16, Int32, Int64
from mangrove.model.values import Value, is_value_of_type, normalize_value
from mangrove.spark.deletion_vectors import LOCAL_KEYS_MAX, Numbers, build_key_bitmap, has_key
from mangrove.spark.scan import BROADCAST_ROWS_MAX, column_of
from mangrove.spark.types import to_spark_type
from mangrove.tables.merge import MergePlan, find_equality_columns
from mangrove.tables.table_state import TableState

__all__ = [
    "ValueRange",
    "build_values_predicate",
    "filter_matching_rows",
    "find_equated_columns",
    "is_comparison_exact",
    "measure_values",
]

_VALUES_MAX: Final = 100
"""Maximum number of values that are compared with the bounds of every file."""
_RANGES_MAX: Final = 16
"""Maximum number of ranges of integers that every row is compared with."""
_COUNT: Final = "mangrove count"
_VALUE: Final = "mangrove value"


def find_equated_columns(state: TableState, source: DataFrame, plan: MergePlan) -> list[tuple[Column, str]]:
    """Return the table columns that `on` equates with source columns, each with its source column."""
    try:
        pairs = find_equality_columns(parse_expression(plan.on), plan)
    except InvalidInputError:
        # A Spark condition cannot be analyzed.
        return []
    ours = {one.name.casefold(): one for one in state.schema.columns}
    theirs = {name.casefold(): name for name in source.columns}
    return [
        (ours[one.casefold()], theirs[other.casefold()])
        for one, other in pairs
        if one.casefold() in ours and other.casefold() in theirs
    ]


@dataclass(frozen=True, slots=True)
class ValueRange:
    """A predicate that rows satisfy whose columns equal those of some row of a frame."""

    predicate: Predicate
    row_count: int | None = None
    """The number of rows of the frame, if it was counted."""
    integers: "Numbers | None" = None
    """The distinct values in order, if they are integers of one column and few enough for this process."""


def build_values_predicate(frame: DataFrame, equated: Iterable[tuple[Column, str]]) -> Predicate:
    """Return a predicate that rows satisfy whose columns equal those of some row of the frame."""
    return measure_values(frame, equated).predicate


def measure_values(frame: DataFrame, equated: Iterable[tuple[Column, str]]) -> ValueRange:
    """Return the range of the values of a frame, each column compared with a table column."""
    kinds = {one.name: one.dataType for one in frame.schema.fields}
    exact = {one: name for one, name in equated if is_comparison_exact(to_spark_type(one.type), kinds[name])}
    if not exact:
        return ValueRange(ConstantPredicate(holds=True))
    values = frame.select(
        *(column_of(name).try_cast(to_spark_type(one.type)).alias(one.name) for one, name in exact.items())
    )
    (first, *others) = exact
    if isinstance(first.type, Int16 | Int32 | Int64) and not others:
        # One job for all keys takes less time than one that counts them and another that reads them.
        keys = values.limit(LOCAL_KEYS_MAX + 1).toArrow()
        if keys.num_rows <= LOCAL_KEYS_MAX:
            integers = np.unique(keys.column(0).drop_null().to_numpy()).astype(np.int64)
            return ValueRange(AllOf((_in_ranges(first, integers),)), keys.num_rows, integers)
    ends = [
        f.struct(f.min(column_of(one.name)).alias("least"), f.max(column_of(one.name)).alias("greatest")).alias(
            one.name
        )
        for one in exact
    ]
    (found,) = to_python_rows(values.agg(f.count(f.lit(1)).alias(_COUNT), *ends).toArrow())
    count = found[_COUNT]
    if count > _VALUES_MAX:
        return ValueRange(AllOf(tuple(_between(one, **found[one.name]) for one in exact)), count)
    some = to_python_rows(values.toArrow())
    return ValueRange(AllOf(tuple(_one_of(one, [row[one.name] for row in some]) for one in exact)), count)


def filter_matching_rows(
    rows: DataFrame, source: DataFrame, equated: Sequence[tuple[Column, str]], matching: ValueRange, schema: Schema
) -> DataFrame:
    """Return the target rows that can match a source row; the predicate prunes row groups."""
    rows = rows.where(render_predicate_sql(matching.predicate, schema))
    if matching.row_count is None or matching.row_count > BROADCAST_ROWS_MAX:
        return rows
    bits = None if matching.integers is None or len(equated) > 1 else build_key_bitmap(matching.integers)
    if bits is not None:
        return rows.where(has_key(rows.sparkSession, bits, equated[0][0]))
    values = source.select(*(column_of(name).alias(f"{_VALUE} {place}") for place, (_, name) in enumerate(equated)))
    is_same = [column_of(one.name) == column_of(f"{_VALUE} {place}") for place, (one, _) in enumerate(equated)]
    return rows.join(f.broadcast(values), is_same, "left_semi")


def is_comparison_exact(ours: DataType, theirs: DataType) -> bool:
    """Return whether values that are equal in Spark are the same value of the column's type.

    A string that is compared with a number is cast, so '01' equals 1 and the number does
    not bound the strings. 0.0 and -0.0 are equal, but bounds distinguish them.
    """
    exact = (IntegralType, DecimalType)
    if isinstance(ours, FloatType | DoubleType):
        return False
    return ours == theirs or (isinstance(ours, exact) and isinstance(theirs, exact))


def _in_ranges(one: Column, integers: Numbers) -> Predicate:
    """Return a predicate of the values, or of the ranges between the largest gaps."""
    if len(integers) <= _VALUES_MAX:
        return _one_of(one, integers.tolist())
    gap_min = (int(integers[-1]) - int(integers[0])) // _RANGES_MAX + 1
    # The difference of two integers may exceed their type.
    (places,) = np.nonzero(np.diff(integers.astype(np.float64)) > gap_min)
    starts, ends = [0, *(places + 1).tolist()], [*places.tolist(), len(integers) - 1]
    ranges = [_between(one, int(integers[start]), int(integers[end])) for start, end in zip(starts, ends, strict=True)]
    return AnyOf(tuple(ranges)) if len(ranges) > 1 else ranges[0]


def _one_of(one: Column, given: Sequence[Any]) -> Predicate:
    values = dict.fromkeys(value for value in given if value is not None)
    if not values:
        return ConstantPredicate(holds=False)
    known = [_comparable(one, value) for value in values]
    if None in known:
        return ConstantPredicate(holds=True)
    return IsIn(one.id, tuple(value for value in known if value is not None))


def _between(one: Column, least: Any, greatest: Any) -> Predicate:
    if least is None:
        return ConstantPredicate(holds=False)
    low, high = _comparable(one, least), _comparable(one, greatest)
    if low is None or high is None:
        return ConstantPredicate(holds=True)
    ends = ((Operator.GREATER_OR_EQUAL, low), (Operator.LESS_OR_EQUAL, high))
    return AllOf(tuple(ColumnComparison(one.id, operator, end) for operator, end in ends))


def _comparable(one: Column, value: Any) -> Value | None:
    """Return a value that is comparable with file bounds, or None, for example for NaN."""
    try:
        found = normalize_value(value)
    except InvalidInputError:
        return None
    return found if is_value_of_type(found, one.type) else None
