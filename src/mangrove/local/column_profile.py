"""Column profiles: nulls, distinct values, range and histogram of a column."""

import math
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.local.python_rows import to_python_value

__all__ = ["ColumnProfile", "ProfileBar", "profile_column"]

_BARS_MAX: Final = 12


@dataclass(frozen=True, slots=True)
class ProfileBar:
    """The number of rows with a value, or with a value in a range that starts there."""

    start: Any
    rows: int


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """A description of the values of a column."""

    rows: int
    nulls: int
    distinct: int | None = None
    """The number of different values, without null; None for nested values."""
    minimum: Any = None
    maximum: Any = None
    is_histogram: bool = False
    """Whether the bars are ranges of equal width; otherwise they are the most frequent values."""
    bars: tuple[ProfileBar, ...] = ()


def profile_column(column: Any) -> ColumnProfile:
    """Return the profile of an Arrow array.

    >>> profile = profile_column(pa.array([1, 1, 3, None]))
    >>> profile.nulls, profile.distinct, profile.maximum, [(bar.start, bar.rows) for bar in profile.bars]
    (1, 2, 3, [(1, 2), (3, 1)])
    """
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        return ColumnProfile(len(column), column.null_count)
    present = column.drop_null()
    if pa.types.is_floating(column.type):
        present = present.filter(pc.is_finite(present))
    distinct = pc.count_distinct(column, mode="only_valid").as_py()
    ends: Any = None if pa.types.is_boolean(column.type) or not len(present) else pc.min_max(present)
    histogram = _build_histogram(present) if distinct > _BARS_MAX and _is_measurable(column.type) else ()
    return ColumnProfile(
        len(column),
        column.null_count,
        distinct,
        None if ends is None else to_python_value(ends["min"]),
        None if ends is None else to_python_value(ends["max"]),
        bool(histogram),
        histogram or _list_frequent(present),
    )


def _is_measurable(kind: Any) -> bool:
    """Return whether the difference of two values is a number or a duration."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(is_number or pa.types.is_temporal(kind))


def _build_histogram(present: Any) -> tuple[ProfileBar, ...]:
    """Return the number of values in ranges of equal width; none if the range cannot be divided."""
    kind = present.type
    numbers = present.cast(_integer_type(kind)) if pa.types.is_temporal(kind) else present
    # Arrow refuses integers that a float cannot represent exactly, unless the cast is unsafe.
    floats = numbers.cast(pa.float64(), safe=False)
    ends: Any = pc.min_max(floats)
    first, last = ends["min"].as_py(), ends["max"].as_py()
    width = (last - first) / _BARS_MAX if len(present) else 0.0
    if not 0 < width < math.inf:
        return ()
    places: Any = pc.floor(pc.divide(pc.subtract(floats, first), width))
    counted: Any = pc.value_counts(pc.min_element_wise(places, float(_BARS_MAX - 1)))
    counts = {int(entry["values"].as_py()): entry["counts"].as_py() for entry in counted}
    return tuple(ProfileBar(_to_value(first + at * width, kind), counts.get(at, 0)) for at in range(_BARS_MAX))


def _integer_type(kind: Any) -> Any:
    """Return the integers that represent times of a type."""
    return pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()


def _to_value(number: float, kind: Any) -> Any:
    if pa.types.is_temporal(kind):
        return to_python_value(pa.scalar(int(number), _integer_type(kind)).cast(kind))
    return int(number) if pa.types.is_integer(kind) else float(f"{number:.4g}")


def _list_frequent(present: Any) -> tuple[ProfileBar, ...]:
    """Return the most frequent values; if these are all values, in the order of the values."""
    counted: Any = pc.value_counts(present)
    if isinstance(counted, pa.ChunkedArray):
        counted = counted.combine_chunks()
    values, counts = counted.field("values"), counted.field("counts")
    order: Any = pc.sort_indices(counts, sort_keys=[("", "descending")])[:_BARS_MAX]
    if len(values) <= _BARS_MAX and not pa.types.is_boolean(values.type):
        order = pc.sort_indices(values)
    return tuple(
        ProfileBar(to_python_value(value), rows.as_py())
        for value, rows in zip(values.take(order), counts.take(order), strict=True)
    )
