"""Dividing rows by their partition values, and ordering them as a table's sort scheme says."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.local.masks import column_at
from mangrove.model.arrow_form import type_to_arrow
from mangrove.model.schema import Schema
from mangrove.model.schemes import Direction, Nulls, PartitionScheme, SortScheme
from mangrove.model.transforms import Days, Hours, Identity, Months, Transform, Years, apply, result_type
from mangrove.model.types import DataType, Date, Float4, Float8, Timestamp, TimestampTz
from mangrove.model.values import Value, canonical_value, with_zone

__all__ = ["in_sort_order", "partitioned", "transformed"]

_MICROS_PER_DAY: Final = 86_400_000_000
_MOMENTS: Final = (Timestamp, TimestampTz)


def partitioned(
    rows: pa.Table, scheme: PartitionScheme, schema: Schema
) -> Iterator[tuple[tuple[Value | None, ...], pa.Table]]:
    """Yield the rows of each partition with its values; rows keep their order."""
    if not scheme.fields:
        if rows.num_rows:
            yield (), rows
        return
    try:
        yield from _divided(rows, scheme, schema)
    except (OverflowError, ValueError) as error:
        raise _beyond([field.name for field in scheme.fields], error) from error


def _divided(
    rows: pa.Table, scheme: PartitionScheme, schema: Schema
) -> Iterator[tuple[tuple[Value | None, ...], pa.Table]]:
    columns = [
        _partition_values(rows, schema, field.source_id, field.transform).combine_chunks().dictionary_encode("encode")
        for field in scheme.fields
    ]
    types = scheme.result_types(schema)
    codes: Any = pa.array([0] * rows.num_rows, pa.int64())
    for column in columns:
        codes = pc.add(pc.multiply(codes, len(column.dictionary) or 1), column.indices.cast(pa.int64()))
        # Counted anew they stay below the number of rows, however many values all columns have together.
        codes = codes.dictionary_encode().indices.cast(pa.int64())
    order = pc.array_sort_indices(codes) if rows.num_rows else codes
    start = 0
    for run in pc.value_counts(pc.take(codes, order)).to_pylist():
        numbers = pc.array_take(order, pa.array(range(start, start + run["counts"])))
        first = numbers[0].as_py()
        found = [column[first].as_py() for column in columns]
        values = tuple(_partition_value(value, one) for value, one in zip(found, types, strict=True))
        yield values, rows.take(pc.take(numbers, pc.sort_indices(numbers)))
        start += run["counts"]


def transformed(array: Any, transform: Transform, source: DataType) -> Any:
    """Return the transform of each value of a column of type `source`."""
    result = type_to_arrow(result_type(transform, source))
    if isinstance(transform, Identity):
        return array
    if isinstance(transform, Days | Months | Years) and isinstance(source, _MOMENTS):
        # There are far fewer days than moments, so what follows has little to do.
        array, source = _days(array), Date()
        if isinstance(transform, Days):
            return array
    if isinstance(transform, Hours):
        return _floor_divided(array.cast(pa.int64()), 3_600_000_000).cast(result)
    distinct = pc.unique(array)
    values = [apply(transform, source, _partition_value(value.as_py(), source)) for value in distinct]
    return pc.take(pa.array(values, result), pc.index_in(array, distinct))


def in_sort_order(rows: pa.Table, scheme: SortScheme, schema: Schema) -> pa.Table:
    """Return the rows ordered as the sort scheme says; rows that are equal in it keep their order."""
    for field in reversed(scheme.fields):
        column = schema.column_with_id(field.source_id)
        try:
            array = transformed(column_at(rows, schema.path_of(column.id)), field.transform, column.type)
        except (OverflowError, ValueError) as error:
            raise _beyond([column.name], error) from error
        order = "ascending" if field.direction is Direction.ASCENDING else "descending"
        nulls = "at_start" if field.nulls is Nulls.FIRST else "at_end"
        # The row number makes the order of equal rows certain, so that several fields are sorted one by one.
        keyed = pa.table({"value": array, "row": pa.array(range(rows.num_rows), pa.int64())})
        ordering: Any = [("value", order, nulls), ("row", "ascending", nulls)]
        numbers = pc.sort_indices(keyed, ordering)
        rows = rows.take(numbers)
    return rows


def _partition_values(rows: pa.Table, schema: Schema, source_id: int, transform: Transform) -> Any:
    column = schema.column_with_id(source_id)
    array = column_at(rows, schema.path_of(source_id))
    if isinstance(column.type, Float4 | Float8):
        # NaN has no place among partition values, and the negative zero is the other one.
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), pc.add(array, pa.scalar(0.0, array.type)))
    return transformed(array, transform, column.type)


def _partition_value(value: Any, data_type: DataType) -> Value | None:
    return None if value is None else with_zone(canonical_value(value), data_type)


def _beyond(names: Sequence[str], error: Exception) -> InvalidInputError:
    """Return the refusal of a time or a number whose group has no value: a day before the year 1, say."""
    return InvalidInputError(
        f"the rows cannot be grouped by {', '.join(names)}: a time lies outside the years 1 to 9999, or a number is so "
        f"near the end of its type that its group lies beyond ({error}). Nothing was committed; correct such rows"
    )


def _days(array: Any) -> Any:
    return _floor_divided(array.cast(pa.int64()), _MICROS_PER_DAY).cast(pa.int32()).cast(pa.date32())


def _floor_divided(array: Any, by: int) -> Any:
    """Return the quotients rounded down, where Arrow rounds towards zero."""
    quotient = pc.divide(array, pa.scalar(by, pa.int64()))
    is_above = pc.greater(pc.multiply(quotient, pa.scalar(by, pa.int64())), array)
    return pc.if_else(is_above, pc.subtract(quotient, pa.scalar(1, pa.int64())), quotient)
