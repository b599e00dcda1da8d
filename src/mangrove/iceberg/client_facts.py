"""What a client's file itself tells of its rows, in the place of what a manifest says of it.

A manifest that lies about bounds or partitions would have readers skip rows. The footer
has been opened anyway, and tells counts and bounds. Not counted there is NaN, so of floats
it stays unknown. Rows are read only where bounds do not settle in which partition they lie.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from mangrove.errors import InvalidInputError
from mangrove.local.conforming import by_id, conformed
from mangrove.local.grouping import partitioned
from mangrove.local.parquet_bytes import ParquetBytes
from mangrove.local.statistics import statistics_of
from mangrove.model.manifests import ColumnStatistics, DataFile
from mangrove.model.schema import Schema
from mangrove.model.schemes import PartitionField
from mangrove.model.transforms import Bucket, apply
from mangrove.model.types import Column, Float4, Float8, is_nested
from mangrove.model.values import Value, with_zone
from mangrove.tables.table_state import TableState
from mangrove.tables.writing import statistics_columns

__all__ = ["are_partition_values_certain", "check_partition", "footer_statistics"]

_NO_BOUND: Final = (pa.ArrowException, ValueError, TypeError, OverflowError, RuntimeError, InvalidInputError)


def footer_statistics(found: ParquetBytes, state: TableState) -> tuple[ColumnStatistics, ...]:
    """Return counts and bounds of the columns that our own writer keeps them of, as the footer tells them."""
    first = [*state.version.keys, *(field.source_id for field in state.version.partition_scheme.fields)]
    wanted = {column_id for _, column_id in statistics_columns(state.schema, first)}
    columns = {column.id: column for _, column in state.schema.all_columns() if column.id in wanted}
    metadata: Any = found.parquet.metadata
    every = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    groups = [group for group in every if group.num_rows]
    statistics: list[ColumnStatistics] = []
    for place, field in enumerate(_leaves(found.parquet.schema_arrow)):
        column = next((one for one in columns.values() if field is not None and by_id(field, one)), None)
        if column is not None:
            statistics.append(_statistics(column, field, [(group.num_rows, group.column(place)) for group in groups]))
    return tuple(sorted(statistics, key=lambda one: one.column_id))


def are_partition_values_certain(state: TableState, file: DataFile, values: Sequence[Value | None]) -> bool:
    """Return whether the bounds of a file say that all of its rows lie in one partition."""
    fields = zip(state.version.partition_scheme.fields, values, strict=True)
    return not file.row_count or all(_is_certain(state.schema, file, field, value) for field, value in fields)


def check_partition(state: TableState, file: DataFile, values: Sequence[Value | None], rows: pa.Table) -> None:
    """Refuse a file with rows of another partition than its manifest says; `rows` has the columns that divide them."""
    scheme = state.version.partition_scheme
    sources = {state.schema.path_of(field.source_id)[0] for field in scheme.fields}
    read = Schema(tuple(column for column in state.schema.columns if column.name in sources))
    for lies_in, _ in partitioned(conformed(rows, read, by_id, is_checked=False), scheme, state.schema):
        if lies_in != tuple(values):
            raise InvalidInputError(
                f"{file.location} has rows of the partition {lies_in}, and the manifest says {tuple(values)}: write a "
                "file for each partition"
            )


def _leaves(fields: Iterable[Any]) -> Iterable[Any | None]:
    """Yield the columns of a Parquet file in their order; None for those inside lists and maps."""
    for field in fields:
        arrow = field.type
        if pa.types.is_struct(arrow):
            yield from _leaves(arrow.field(place) for place in range(arrow.num_fields))
        elif pa.types.is_map(arrow):
            yield from (None for inner in (arrow.key_field, arrow.item_field) for _ in _leaves([inner]))
        elif pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
            yield from (None for _ in _leaves([arrow.value_field]))
        else:
            yield field


def _statistics(column: Column, field: Any, chunks: Sequence[tuple[int, Any]]) -> ColumnStatistics:
    told = [(row_count, chunk.statistics) for row_count, chunk in chunks]
    is_counted = all(one is not None and one.has_null_count for _, one in told)
    try:
        ends = _ends(told) if _has_bounds(field.type) else None
        bounds = None if not ends else _bounds(column, field, ends)
    except _NO_BOUND:
        bounds = None
    return ColumnStatistics(
        column.id,
        null_count=sum(one.null_count for _, one in told) if is_counted else None,
        value_count=sum(row_count for row_count, _ in told),
        size_bytes=sum(chunk.total_compressed_size for _, chunk in chunks),
        minimum=None if bounds is None else bounds.minimum,
        maximum=None if bounds is None else bounds.maximum,
    )


def _has_bounds(arrow: Any) -> bool:
    """Return whether all writers order such values as we do, and the footer tells them exactly."""
    is_fine = pa.types.is_timestamp(arrow) and arrow.unit == "ns"
    return not (is_fine or pa.types.is_unsigned_integer(arrow) or pa.types.is_nested(arrow))


def _ends(told: Sequence[tuple[int, Any]]) -> list[Any] | None:
    """Return the least and the greatest value of each row group, or None where one of them does not tell."""
    ends: list[Any] = []
    for row_count, one in told:
        if one is not None and one.has_min_max:
            ends += [one.min, one.max]
        elif one is None or not one.has_null_count or one.null_count != row_count:
            return None
    return ends


def _bounds(column: Column, field: Any, ends: list[Any]) -> ColumnStatistics:
    # Through the form in which rows are read, so that bounds are of values as readers see them.
    rows = pa.table([pa.array(ends, field.type)], schema=pa.schema([field.with_nullable(nullable=True)]))
    read = conformed(rows, Schema((column,)), by_id, is_checked=False)
    return statistics_of(read, [((column.name,), column.id)])[0]


def _is_certain(schema: Schema, file: DataFile, field: PartitionField, value: Value | None) -> bool:
    column = schema.column_with_id(field.source_id)
    known = file.statistics_of(column.id)
    if known is None or known.null_count is None:
        return False
    if known.null_count == file.row_count:
        return value is None
    ends = known.minimum, known.maximum
    if known.null_count or None in ends or isinstance(field.transform, Bucket) or is_nested(column.type):
        return False
    if isinstance(column.type, Float4 | Float8):
        # There may be NaN, which no bound tells.
        return False
    try:
        # All other transforms keep the order of values, so what holds for both ends holds for all between them.
        return all(
            end is not None and apply(field.transform, column.type, with_zone(end, column.type)) == value
            for end in ends
        )
    except (OverflowError, ValueError, InvalidInputError):
        return False
