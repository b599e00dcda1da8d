"""What is kept about the columns of a file, taken from its rows as they are written."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.local.masks import column_at
from mangrove.model.manifests import ColumnStatistics
from mangrove.model.values import Value, canonical_value, lower_bound, upper_bound

__all__ = ["plain_value", "statistics_of"]


def statistics_of(rows: pa.Table, columns: Iterable[tuple[Sequence[str], int]]) -> tuple[ColumnStatistics, ...]:
    """Return counts and bounds of the columns at these paths, in order of their ids."""
    found = [_statistics(column_at(rows, tuple(path)), column_id) for path, column_id in columns]
    return tuple(sorted(found, key=lambda statistics: statistics.column_id))


def _statistics(array: Any, column_id: int) -> ColumnStatistics:
    nan_count = None
    if pa.types.is_floating(array.type):
        nan_count = pc.sum(pc.is_nan(array)).as_py() or 0
    bounds = pc.min_max(array)
    low, high = plain_value(bounds["min"]), plain_value(bounds["max"])
    if low is not None and high is not None:
        low, high = lower_bound(low), upper_bound(high)
    return ColumnStatistics(
        column_id,
        null_count=array.null_count,
        nan_count=nan_count,
        value_count=len(array),
        minimum=low,
        maximum=high,
    )


def plain_value(scalar: Any) -> Value | None:
    """Return the value as Python has it, or None for one that Python cannot hold, which then bounds nothing."""
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError):
        return None
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return canonical_value(value)
