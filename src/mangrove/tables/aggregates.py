"""Row counts, minimums and maximums of columns from manifests, without data files."""

import datetime
import decimal
import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mangrove.expressions.predicates import Predicate
from mangrove.model.manifests import ColumnStatistics, DataFile
from mangrove.model.types import TimestampNs, TimestampTzNs, is_nested
from mangrove.model.values import Value
from mangrove.tables.scan_plan import ScanPlan, can_read_whole_files, plan_scan
from mangrove.tables.table_state import TableState

__all__ = ["Aggregate", "AggregateKind", "compute_aggregates", "count_rows_from_metadata"]


class AggregateKind(enum.Enum):
    """An aggregate function that manifests can answer."""

    COUNT = "count"
    MINIMUM = "min"
    MAXIMUM = "max"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate of a column; without a column, the number of rows."""

    kind: AggregateKind
    column_id: int | None = None


def count_rows_from_metadata(state: TableState, plan: ScanPlan, predicate: Predicate | None) -> int | None:
    """Return the number of rows of a scan, or None if files must be read."""
    is_known = can_read_whole_files(state, plan, predicate)
    return sum(scan.file.row_count for scan in plan.scans) if is_known else None


def compute_aggregates(
    state: TableState, predicate: Predicate | None, aggregates: Sequence[Aggregate]
) -> tuple[Value | None, ...] | None:
    """Return the aggregates of the rows that satisfy a predicate, or None if files must be read.

    Files must be read if rows are deleted, if the predicate selects only some rows of a file, or if the
    statistics of a column are missing or inexact in one of the files.
    """
    plan = plan_scan(state, predicate)
    row_count = count_rows_from_metadata(state, plan, predicate)
    if row_count is None:
        return None
    files = [scan.file for scan in plan.scans]
    try:
        return tuple(
            row_count if one.column_id is None else _aggregate_column(state, files, one.kind, one.column_id)
            for one in aggregates
        )
    except _UnknownStatisticsError:
        return None


class _UnknownStatisticsError(Exception):
    """The statistics of a file do not determine an aggregate."""


def _aggregate_column(
    state: TableState, files: Sequence[DataFile], kind: AggregateKind, column_id: int
) -> Value | None:
    data_type = state.schema.column_with_id(column_id).type
    if is_nested(data_type):
        raise _UnknownStatisticsError
    statistics = list(_iterate_statistics(state, files, column_id))
    if kind is AggregateKind.COUNT:
        return sum(file.row_count - (one.null_count or 0) for file, one in statistics)
    if isinstance(data_type, TimestampNs | TimestampTzNs):
        # Their bounds are integers, and Python has no type for the result.
        raise _UnknownStatisticsError
    with_values = [one for file, one in statistics if one.null_count != file.row_count]
    if kind is AggregateKind.MINIMUM:
        bounds = [_check_exact(one, one.minimum) for one in with_values]
        return min(bounds, default=None)
    return max((_check_exact(one, one.maximum) for one in with_values), default=None)


def _iterate_statistics(
    state: TableState, files: Sequence[DataFile], column_id: int
) -> Iterator[tuple[DataFile, ColumnStatistics]]:
    """Yield the files that have the column with its statistics; in older files it is null."""
    with_column = {
        schema.schema_id: any(column.id == column_id for column in schema.columns) for schema in state.version.schemas
    }
    for file in files:
        if file.schema_id is not None and not with_column.get(file.schema_id, True):
            continue
        statistics = file.statistics_of(column_id)
        if statistics is None or statistics.null_count is None:
            raise _UnknownStatisticsError
        yield file, statistics


def _check_exact(statistics: ColumnStatistics, bound: Value | None) -> Value:
    """Return a bound that is a value of the column; bounds of text may be truncated, and NaN has none."""
    match bound:
        case int() | decimal.Decimal() | datetime.datetime() | datetime.date():
            return bound
        case float() if statistics.nan_count == 0 and bound != 0:
            # Spark does not define whether the minimum of 0.0 and -0.0 is negative.
            return bound
        case _:
            raise _UnknownStatisticsError
