"""Compaction of data files on Spark, including range and Z-order clustering.

One column, or several in order of priority, divide the rows into ranges. Several columns
of equal priority use a Z-order: the bits of their range numbers are interleaved, so that
a file covers a small range of each.
"""

import datetime
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from mangrove.local.python_rows import list_representable_values
from mangrove.model.manifests import DataFile
from mangrove.model.partitioning import Identity
from mangrove.model.values import Value
from mangrove.spark.file_lists import FileLists
from mangrove.spark.scan import quote_name, run_scan
from mangrove.spark.write import build_sort_column
from mangrove.tables.compaction import Compaction, resolve_clustering_columns, resolve_clustering_property
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import estimate_row_bytes, group_files_by_log

__all__ = ["cluster_rows", "compute_split_points", "interleave_bits", "write_compacted_files"]

_BITS: Final = 6
"""Bits per column in a Z-order: enough for thousands of files with two columns."""
_SAMPLE_ROWS_MAX: Final = 20_000
_Z: Final = "mangrove z"


def cluster_rows(
    rows: DataFrame,
    columns: Sequence[Column],
    orders: Sequence[Column],
    file_count: int,
    *,
    alike: bool,
    row_count: int,
) -> DataFrame:
    """Return the rows in `file_count` sorted partitions; with `alike` all columns have equal priority."""
    if not alike or len(columns) < 2:
        return _split_into_ranges(rows, columns, orders, file_count, row_count).sortWithinPartitions(*orders)
    points = _sample_split_points(rows, columns, 2**_BITS, row_count)
    numbers = [_range_number(column, some) for column, some in zip(columns, points, strict=True)]
    # Files that end at powers of two of the Z-order curve cover the smallest ranges.
    file_count = 2 ** round(math.log2(file_count))
    with_z = rows.withColumn(_Z, interleave_bits(numbers, _BITS))
    ordered = with_z.repartitionByRange(file_count, f.col(f"`{_Z}`"))
    return ordered.sortWithinPartitions(f.col(f"`{_Z}`"), *columns).drop(_Z)


def _split_into_ranges(
    rows: DataFrame, columns: Sequence[Column], orders: Sequence[Column], file_count: int, row_count: int
) -> DataFrame:
    """Return the rows in one partition for each file, by ranges of the columns.

    Ranges of one column are found in a sample of that column. Spark itself would read all columns twice.
    """
    if file_count == 1:
        return rows.repartition(1)
    if len(columns) == 1 and file_count <= 2**_BITS:
        (points,) = _sample_split_points(rows, columns, file_count, row_count)
        if all(isinstance(point, int | str | datetime.date) for point in points):
            return rows.repartitionById(len(points) + 1, _range_number(columns[0], points))
    return rows.repartitionByRange(file_count, *orders)


def _sample_split_points(rows: DataFrame, columns: Sequence[Column], ranges: int, row_count: int) -> list[list[Any]]:
    """Return the split points of each column in a sample of the rows."""
    fraction = min(1.0, _SAMPLE_ROWS_MAX / max(1, row_count))
    names = [f"c{place}" for place in range(len(columns))]
    chosen = rows.select(*(column.alias(name) for column, name in zip(columns, names, strict=True)))
    sample = chosen.sample(fraction=fraction, seed=0).limit(2 * _SAMPLE_ROWS_MAX).toArrow()
    return [compute_split_points(list_representable_values(sample.column(name)), ranges) for name in names]


def compute_split_points(values: Sequence[Any], ranges: int) -> list[Any]:
    """Return split points that divide `values` into ranges of about equal count, ignoring nulls and NaN.

    >>> compute_split_points([5, 1, None, 3, 2, 4, 4, 4], 4)
    [2, 4]
    """
    ordered = sorted(value for value in values if value is not None and value == value)
    if not ordered:
        return []
    points = [ordered[len(ordered) * place // ranges] for place in range(1, ranges)]
    return [point for point in dict.fromkeys(points) if point > ordered[0]]


def interleave_bits(numbers: Sequence[Column], bits: int) -> Column:
    """Return the number with the interleaved bits of the given numbers, highest bits first."""
    total: Column = f.lit(0).cast("bigint")
    width = len(numbers)
    for bit in range(bits):
        for place, number in enumerate(numbers):
            single = f.shiftright(number, bit).bitwiseAND(f.lit(1)).cast("bigint")
            total = total.bitwiseOR(f.shiftleft(single, bit * width + (width - 1 - place)))
    return total


def _range_number(column: Column, points: Sequence[Any]) -> Column:
    """Return the range of a value by binary search; nulls are in the first range."""
    if not points:
        return f.lit(0)

    def halved(low: int, high: int) -> Column:
        if low == high:
            return f.lit(low)
        middle = (low + high) // 2
        return f.when(column < f.lit(points[middle]), halved(low, middle)).otherwise(halved(middle + 1, high))

    return f.when(column.isNull(), f.lit(0)).otherwise(halved(0, len(points)))


_Writer: TypeAlias = Callable[[DataFrame, TableState], list[tuple[tuple[Value | None, ...], DataFile]]]
"""Writes rows as new files, and returns each with its partition values."""


def write_compacted_files(
    lists: FileLists, root_uri: str, compaction: Compaction, write: _Writer, file_size_bytes: int
) -> list[DataFile]:
    """Write the merged rows of a compaction and return the new files."""
    if not compaction.merged.scans:
        return []
    state = compaction.state
    rows = run_scan(lists, root_uri, state, compaction.merged, state.schema.columns)
    size_bytes = compaction.row_count * estimate_row_bytes(state.schema)
    file_count = max(1, -(-size_bytes // file_size_bytes))
    laid_out = _lay_out_rows(rows, state, file_count, compaction.row_count)
    return [file for there in group_files_by_log(state, write(laid_out, state)).values() for file in there]


def _lay_out_rows(rows: DataFrame, state: TableState, file_count: int, row_count: int) -> DataFrame:
    named = resolve_clustering_property(state)
    paths = [state.schema.path_of(column_id) for column_id in resolve_clustering_columns(state)]
    columns = [f.col(".".join(map(quote_name, path))) for path in paths]
    if not columns:
        return rows.repartition(file_count)
    fields = state.version.sort_scheme.fields
    is_sorted = not named and fields and all(isinstance(field.transform, Identity) for field in fields)
    orders = [build_sort_column(state, field) for field in fields] if is_sorted else columns
    return cluster_rows(rows, columns, orders, file_count, alike=len(named) > 1, row_count=row_count)
