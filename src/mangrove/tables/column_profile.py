"""Statistics of the values of a column."""

from dataclasses import dataclass
from typing import Any

__all__ = ["ColumnProfile", "Histogram"]


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of values in bins of equal width; only the first and the last bin are cut at the bounds of the values.

    `bins` are the edges, one more than `counts`. A bin contains its lower edge; the last one
    also contains its upper edge.
    """

    bins: tuple[Any, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """Statistics of one column; `count` is the number of rows, `nulls` of them are null.

    `distinct` counts the values that are not null. It is None for structs, lists and maps,
    like the bounds. Bounds ignore NaN. Numeric and temporal columns have a histogram of their
    finite values. `frequent` are the values that occur most often, at least twice, with their
    counts; unless `is_distinct_exact`, some occurrences may be missing in the counts. Times outside
    the years 1 to 9999 are text.
    """

    name: str
    type: str
    count: int
    nulls: int
    distinct: int | None
    is_distinct_exact: bool
    minimum: Any
    maximum: Any
    histogram: Histogram | None
    frequent: tuple[tuple[Any, int], ...] = ()
