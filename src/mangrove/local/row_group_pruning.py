"""Row group pruning by the column statistics of a Parquet footer."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from mangrove.errors import InvalidInputError
from mangrove.expressions.predicates import Predicate, collect_column_ids
from mangrove.local.parquet import DataFileReader
from mangrove.local.python_rows import to_plain_value
from mangrove.local.schema_projection import Matching, conform_rows, match_by_id
from mangrove.model.manifests import DataFile
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Float32, Float64
from mangrove.model.values import Value, restore_zone
from mangrove.tables.pruning import UNKNOWN_STATS, ColumnPruningStats, can_match_stats

__all__ = ["BOUND_ERRORS", "get_bounds", "list_leaf_fields", "prune_row_groups"]

BOUND_ERRORS: Final = (pa.ArrowException, ValueError, TypeError, OverflowError, RuntimeError, InvalidInputError)
"""The errors for a bound that Arrow or Python cannot represent; the column then counts as unbounded."""
_MATCH_ANY: Final = Matching(lambda _: None, lambda _: None)


def list_leaf_fields(fields: Iterable[Any]) -> Iterable[Any | None]:
    """Yield the leaf columns of a Parquet file in order; None for those inside lists and maps."""
    for field in fields:
        arrow = field.type
        if pa.types.is_struct(arrow):
            yield from list_leaf_fields(arrow.field(place) for place in range(arrow.num_fields))
        elif pa.types.is_map(arrow):
            yield from (None for inner in (arrow.key_field, arrow.item_field) for _ in list_leaf_fields([inner]))
        elif pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
            yield from (None for _ in list_leaf_fields([arrow.value_field]))
        else:
            yield field


def get_bounds(statistics: Any, arrow: Any) -> tuple[Any, Any] | None:
    """Return the minimum and maximum of a column chunk as values that Arrow converts to this type, None if unknown."""
    # Not all writers order unsigned integers alike.
    is_comparable = not (pa.types.is_unsigned_integer(arrow) or pa.types.is_nested(arrow))
    if statistics is None or not statistics.has_min_max or not is_comparable:
        return None
    if not pa.types.is_timestamp(arrow) or arrow.unit != "ns":
        return statistics.min, statistics.max
    # Python's times have no nanoseconds. Arrow reads INT96 as nanoseconds too, and its bounds are in no order.
    is_nanos = statistics.physical_type == "INT64" and "nanoseconds" in str(statistics.logical_type)
    return (statistics.min_raw, statistics.max_raw) if is_nanos else None


def prune_row_groups(reader: DataFileReader, file: DataFile, schema: Schema, predicate: Predicate | None) -> list[int]:
    """Return the numbers of the row groups that can contain matching rows."""
    metadata = reader.metadata
    groups = [number for number in range(metadata.num_row_groups) if metadata.row_group(number).num_rows]
    if predicate is None:
        return groups
    fields = list(list_leaf_fields(reader.arrow_schema))
    stats: dict[int, list[ColumnPruningStats]] = {}
    for column_id in collect_column_ids(predicate):
        column = schema.column_with_id(column_id)
        # Without ids, the name alone does not identify a column inside a struct.
        is_found = reader.matching is match_by_id or len(schema.path_of(column_id)) == 1
        places = [place for place, field in enumerate(fields) if field is not None and reader.matching(field, column)]
        if is_found and len(places) == 1 and len(fields) == metadata.num_columns:
            chunks = [metadata.row_group(number).column(places[0]) for number in groups]
            stats[column_id] = _convert_statistics(chunks, column, fields[places[0]], file)

    def stats_in(place: int) -> Callable[[int], ColumnPruningStats]:
        return lambda column_id: stats[column_id][place] if column_id in stats else UNKNOWN_STATS

    return [number for place, number in enumerate(groups) if can_match_stats(predicate, stats_in(place))]


def _convert_statistics(chunks: Sequence[Any], column: Column, field: Any, file: DataFile) -> list[ColumnPruningStats]:
    """Return the statistics of a column in each row group, with the values that a reader returns."""
    statistics = [chunk.statistics for chunk in chunks]
    low, high = zip(*(_bounds_of(one, field.type) for one in statistics), strict=True) if statistics else ((), ())
    known = file.statistics_of(column.id)
    may_be_nan = isinstance(column.type, Float32 | Float64) and (known is None or known.nan_count != 0)
    return [
        ColumnPruningStats(
            minimum,
            maximum,
            may_be_null=one is None or not one.has_null_count or one.null_count != 0,
            may_be_value=one is None or not one.has_null_count or one.null_count < chunk.num_values,
            may_be_nan=may_be_nan,
        )
        for chunk, one, minimum, maximum in zip(
            chunks, statistics, _conform_bounds(low, column, field), _conform_bounds(high, column, field), strict=True
        )
    ]


def _bounds_of(statistics: Any, arrow: Any) -> tuple[Any, Any]:
    try:
        return get_bounds(statistics, arrow) or (None, None)
    except BOUND_ERRORS:
        return None, None


def _conform_bounds(bounds: Sequence[Any], column: Column, field: Any) -> list[Value | None]:
    """Return bounds converted like rows, None where there is no bound."""
    try:
        rows = pa.table([pa.array(bounds, field.type)], schema=pa.schema([field.with_nullable(nullable=True)]))
        array = conform_rows(rows, Schema((column,)), _MATCH_ANY, is_checked=False).column(0)
        values = [to_plain_value(scalar) for scalar in array]
    except BOUND_ERRORS:
        return [None] * len(bounds)
    return [None if value is None else restore_zone(value, column.type) for value in values]
