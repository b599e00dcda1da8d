"""Laying rows that are alike into the same file, on Spark, without any row coming to the driver but a sample.

By one column, or by several of which the first counts most, rows are divided into
ranges. By several that count alike the range of each is numbered, and the bits of
the numbers are interleaved (a Z-order): a file then holds a small range of each.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from mangrove.local.python_rows import held_values

__all__ = ["clustered", "interleaved", "split_points"]

_BITS: Final = 6
"""So many bits number the ranges of a column in a Z-order: enough for thousands of files by two columns."""
_SAMPLE_ROWS_MAX: Final = 20_000
_Z: Final = "mangrove z"


def clustered(rows: DataFrame, columns: Sequence[Column], file_count: int, *, alike: bool, row_count: int) -> DataFrame:
    """Return the rows in `file_count` partitions, ordered in each; with `alike` all columns count the same."""
    if not alike or len(columns) < 2:
        ordered = rows if file_count == 1 else rows.repartitionByRange(file_count, *columns)
        return (ordered.coalesce(1) if file_count == 1 else ordered).sortWithinPartitions(*columns)
    fraction = min(1.0, _SAMPLE_ROWS_MAX / max(1, row_count))
    names = [f"c{place}" for place in range(len(columns))]
    chosen = rows.select(*(column.alias(name) for column, name in zip(columns, names, strict=True)))
    sample = chosen.sample(fraction=fraction, seed=0).limit(2 * _SAMPLE_ROWS_MAX).toArrow()
    numbers = [
        _numbered(column, split_points(held_values(sample.column(name)), 2**_BITS))
        for column, name in zip(columns, names, strict=True)
    ]
    # The curve turns at powers of two, and files that end where it turns hold the smallest ranges.
    file_count = 2 ** round(math.log2(file_count))
    with_z = rows.withColumn(_Z, interleaved(numbers, _BITS))
    ordered = with_z.coalesce(1) if file_count == 1 else with_z.repartitionByRange(file_count, f.col(f"`{_Z}`"))
    return ordered.sortWithinPartitions(f.col(f"`{_Z}`"), *columns).drop(_Z)


def split_points(values: Sequence[Any], ranges: int) -> list[Any]:
    """Return the values at which about equally many of `values` lie in each range; nulls and NaN take no part.

    >>> split_points([5, 1, None, 3, 2, 4, 4, 4], 4)
    [2, 4]
    """
    ordered = sorted(value for value in values if value is not None and value == value)
    if not ordered:
        return []
    points = [ordered[len(ordered) * place // ranges] for place in range(1, ranges)]
    return [point for point in dict.fromkeys(points) if point > ordered[0]]


def interleaved(numbers: Sequence[Column], bits: int) -> Column:
    """Return the number whose bits are those of the given numbers in turns, the highest first."""
    total: Column = f.lit(0).cast("bigint")
    width = len(numbers)
    for bit in range(bits):
        for place, number in enumerate(numbers):
            single = f.shiftright(number, bit).bitwiseAND(f.lit(1)).cast("bigint")
            total = total.bitwiseOR(f.shiftleft(single, bit * width + (width - 1 - place)))
    return total


def _numbered(column: Column, points: Sequence[Any]) -> Column:
    """Return in which range a value lies, found by halving; nulls lie in the first."""
    if not points:
        return f.lit(0)

    def halved(low: int, high: int) -> Column:
        if low == high:
            return f.lit(low)
        middle = (low + high) // 2
        return f.when(column < f.lit(points[middle]), halved(low, middle)).otherwise(halved(middle + 1, high))

    return f.when(column.isNull(), f.lit(0)).otherwise(halved(0, len(points)))
