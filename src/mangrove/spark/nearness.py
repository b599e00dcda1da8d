"""Which rows of a table can be equal to rows of a frame: as a predicate, so that other files need not be opened.

Of few rows the values themselves are taken, of many the least and the greatest.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, DecimalType, DoubleType, FloatType, IntegralType

from mangrove.errors import InvalidInputError
from mangrove.local.python_rows import python_rows
from mangrove.model.types import Column
from mangrove.model.values import Value, canonical_value, fits_type
from mangrove.spark.targets import column
from mangrove.spark.types import spark_type
from mangrove.tables.expression_text import parse_expression
from mangrove.tables.merging import MergePlan, equal_columns
from mangrove.tables.predicates import AllOf, Comparison, Constant, IsIn, Operator, Predicate
from mangrove.tables.table_state import TableState

__all__ = ["near_source", "near_values"]

_VALUES_MAX: Final = 100
"""So many values are compared with the bounds of every file one by one."""
_COUNT: Final = "mangrove count"


def near_source(state: TableState, source: DataFrame, plan: MergePlan) -> Predicate:
    """Return what every row of the table fulfils that a row of the source can match; all rows where that is unknown."""
    try:
        pairs = equal_columns(parse_expression(plan.on), plan)
    except InvalidInputError:
        # Only Spark understands the condition, so nothing is known about it.
        return Constant(holds=True)
    ours = {one.name.casefold(): one for one in state.schema.columns}
    theirs = {name.casefold(): name for name in source.columns}
    equated = {
        ours[one.casefold()].id: (ours[one.casefold()], theirs[other.casefold()])
        for one, other in pairs
        if one.casefold() in ours and other.casefold() in theirs
    }
    return near_values(source, equated.values())


def near_values(frame: DataFrame, equated: Iterable[tuple[Column, str]]) -> Predicate:
    """Return what every row fulfils whose columns are equal to those beside them, of one row of the frame."""
    kinds = {one.name: one.dataType for one in frame.schema.fields}
    exact = {one: name for one, name in equated if _is_exact(spark_type(one.type), kinds[name])}
    if not exact:
        return Constant(holds=True)
    values = frame.select(*(column(name).try_cast(spark_type(one.type)).alias(one.name) for one, name in exact.items()))
    ends = [
        f.struct(f.min(column(one.name)).alias("least"), f.max(column(one.name)).alias("greatest")).alias(one.name)
        for one in exact
    ]
    (found,) = python_rows(values.agg(f.count(f.lit(1)).alias(_COUNT), *ends).toArrow())
    if found[_COUNT] > _VALUES_MAX:
        return AllOf(tuple(_between(one, **found[one.name]) for one in exact))
    some = python_rows(values.toArrow())
    return AllOf(tuple(_one_of(one, [row[one.name] for row in some]) for one in exact))


def _is_exact(ours: DataType, theirs: DataType) -> bool:
    """Return whether values that Spark finds equal are the same value in our column's type.

    A text that is compared with a number is read as one, so that '01' is 1: then the
    number says nothing about texts. Both zeros are equal, and bounds tell them apart.
    """
    exact = (IntegralType, DecimalType)
    if isinstance(ours, FloatType | DoubleType):
        return False
    return ours == theirs or (isinstance(ours, exact) and isinstance(theirs, exact))


def _one_of(one: Column, given: Sequence[Any]) -> Predicate:
    values = dict.fromkeys(value for value in given if value is not None)
    if not values:
        return Constant(holds=False)
    known = [_comparable(one, value) for value in values]
    if None in known:
        return Constant(holds=True)
    return IsIn(one.id, tuple(value for value in known if value is not None))


def _between(one: Column, least: Any, greatest: Any) -> Predicate:
    if least is None:
        return Constant(holds=False)
    low, high = _comparable(one, least), _comparable(one, greatest)
    if low is None or high is None:
        return Constant(holds=True)
    ends = ((Operator.GREATER_OR_EQUAL, low), (Operator.LESS_OR_EQUAL, high))
    return AllOf(tuple(Comparison(one.id, operator, end) for operator, end in ends))


def _comparable(one: Column, value: Any) -> Value | None:
    """Return a value that bounds of files can be compared with, or None for one that has no place in their order."""
    try:
        found = canonical_value(value)
    except InvalidInputError:
        return None
    return found if fits_type(found, one.type) else None
