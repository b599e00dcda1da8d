"""What a Parquet file says about itself in its footer, as a manifest tells it.

Footers say less than rows do: nothing about NaN, so a column of numbers that may
hold it is never said to be without. Where a footer has a NaN as a bound, both
bounds are worth nothing.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mangrove.errors import InvalidInputError
from mangrove.model.manifests import ColumnStatistics
from mangrove.model.values import Value, canonical_value, lower_bound, upper_bound

__all__ = ["places_in", "statistics_at"]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """One column in one row group."""

    value_count: int
    null_count: int | None
    bounds: tuple[Value, Value] | None


def places_in(footer: Any, columns: Iterable[tuple[Sequence[str], int]]) -> dict[int, int]:
    """Return where the columns at these paths stand, by their ids; they stand there in all files of one write.

    Of names that two columns share, because of a dot in one, none is found.
    """
    paths = [footer.schema.column(place).path for place in range(footer.num_columns)]
    counts = Counter(paths)
    found = {path: place for place, path in enumerate(paths) if counts[path] == 1}
    return {column_id: found[".".join(path)] for path, column_id in columns if ".".join(path) in found}


def statistics_at(footer: Any, places: Mapping[int, int]) -> tuple[ColumnStatistics, ...]:
    """Return counts and bounds of the columns that stand at these places, in order of their ids."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return tuple(
        _joined(column_id, [_chunk(group.column(place)) for group in groups])
        for column_id, place in sorted(places.items())
    )


def _chunk(column: Any) -> _Chunk:
    statistics = column.statistics
    if statistics is None:
        return _Chunk(column.num_values, None, None)
    null_count = statistics.null_count if statistics.has_null_count else None
    bounds = (_plain(statistics, "min"), _plain(statistics, "max")) if statistics.has_min_max else (None, None)
    low, high = bounds
    return _Chunk(column.num_values, null_count, None if low is None or high is None else (low, high))


def _plain(statistics: Any, which: str) -> Value | None:
    """Return a bound as Python has it, or None for one that Python cannot hold or that bounds nothing."""
    try:
        value = getattr(statistics, which)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        return canonical_value(value)
    except (ValueError, OverflowError, InvalidInputError):
        return None


def _joined(column_id: int, chunks: Sequence[_Chunk]) -> ColumnStatistics:
    null_counts = [chunk.null_count for chunk in chunks if chunk.null_count is not None]
    value_count = sum(chunk.value_count for chunk in chunks)
    # A chunk of nulls alone has no bounds, and needs none.
    valued = [chunk for chunk in chunks if chunk.null_count != chunk.value_count]
    bounds: list[tuple[Any, Any]] = [chunk.bounds for chunk in valued if chunk.bounds is not None]
    low: Any = None
    high: Any = None
    if bounds and len(bounds) == len(valued):
        low = lower_bound(min(one for one, _ in bounds))
        high = upper_bound(max(two for _, two in bounds))
    return ColumnStatistics(
        column_id,
        null_count=sum(null_counts) if len(null_counts) == len(chunks) else None,
        value_count=value_count,
        minimum=low,
        maximum=high,
    )
