"""Writer of data files: partitioning, sorting, file size and column statistics."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.local.inline_rows import encode_inline_rows
from mangrove.local.parquet import encode_parquet, encode_with_metadata
from mangrove.local.python_rows import to_plain_value
from mangrove.local.row_group_pruning import BOUND_ERRORS, get_bounds, list_leaf_fields
from mangrove.local.row_numbers import build_row_numbers
from mangrove.local.scan import RowMaskCache, build_position_delete_rows, get_column
from mangrove.local.schema_projection import FIELD_ID
from mangrove.model.arrow_schema import type_to_arrow
from mangrove.model.manifests import ARROW_STREAM, ColumnStatistics, DataFile, FileKind
from mangrove.model.partitioning import (
    UNPARTITIONED,
    UNSORTED,
    Days,
    Direction,
    Hours,
    Identity,
    Months,
    Nulls,
    PartitionScheme,
    SortScheme,
    Transform,
    Years,
    result_type_of,
    transform_value,
)
from mangrove.model.schema import Schema
from mangrove.model.types import DataType, Date, Float32, Float64, Timestamp, TimestampNs, TimestampTz, TimestampTzNs
from mangrove.model.values import Value, normalize_value, restore_zone, truncate_lower_bound, truncate_upper_bound
from mangrove.parallel import map_ahead
from mangrove.storage.port import Store
from mangrove.tables.partition_folders import PartitionFolders
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import (
    FILE_SIZE_BYTES,
    build_data_file_path,
    inline_rows_max_bytes_of,
    select_statistics_columns,
    split_row_ranges,
)

__all__ = [
    "FILES_PER_BATCH_MAX",
    "FileWriter",
    "apply_transform",
    "compute_statistics",
    "sort_rows",
    "split_by_partition",
]


_FEW_ROWS_MAX: Final = 64


def compute_statistics(
    rows: pa.Table, columns: Iterable[tuple[Sequence[str], int]], bounds: Mapping[int, Any] | None = None
) -> tuple[ColumnStatistics, ...]:
    """Return counts and bounds of the columns at these paths, by column id.

    `bounds` has for some columns an array with the same minimum and maximum as the column.
    """
    known = bounds or {}
    statistics = [
        _compute_column_statistics(get_column(rows, tuple(path)), column_id, known.get(column_id))
        for path, column_id in columns
    ]
    return tuple(sorted(statistics, key=lambda one: one.column_id))


def _compute_column_statistics(array: Any, column_id: int, bounds: Any | None) -> ColumnStatistics:
    nan_count = None
    if pa.types.is_floating(array.type):
        nan_count = pc.sum(pc.is_nan(array)).as_py() or 0
    low, high = _find_ends(array if bounds is None else bounds)
    if low is not None and high is not None:
        low, high = truncate_lower_bound(low), truncate_upper_bound(high)
    return ColumnStatistics(
        column_id,
        null_count=array.null_count,
        nan_count=nan_count,
        value_count=len(array),
        minimum=low,
        maximum=high,
    )


def _find_ends(array: Any) -> tuple[Value | None, Value | None]:
    """Return the minimum and the maximum; None if there is none, or if Python cannot represent it."""
    if len(array) <= _FEW_ROWS_MAX and (pa.types.is_int64(array.type) or pa.types.is_string(array.type)):
        # Python compares a few values in less time than a call of Arrow takes, and orders texts as UTF-8 does.
        try:
            values = [value for value in array.to_pylist() if value is not None]
        except UnicodeDecodeError:
            pass  # Arrow compares the bytes of text that is not valid UTF-8.
        else:
            return (normalize_value(min(values)), normalize_value(max(values))) if values else (None, None)
    ends = pc.min_max(array)
    return to_plain_value(ends["min"]), to_plain_value(ends["max"])


def _read_bounds(metadata: Any, schema: pa.Schema) -> dict[int, Any]:
    """Return the bounds of the row groups of a new file by column id, without columns that have none in a row group."""
    bounds: dict[int, Any] = {}
    for place, field in enumerate(list_leaf_fields(schema)):
        if field is None:
            continue
        chunks = [metadata.row_group(number).column(place) for number in range(metadata.num_row_groups)]
        try:
            ends = [get_bounds(chunk.statistics, field.type) for chunk in chunks]
            if None not in ends:
                bounds[int(field.metadata[FIELD_ID])] = pa.array(
                    [end for pair in ends for end in pair or ()], field.type
                )
        except BOUND_ERRORS:
            continue
    return bounds


_MICROS_PER_DAY: Final = 86_400_000_000
_TIMESTAMPS: Final = (Timestamp, TimestampTz)


def split_by_partition(
    rows: pa.Table, scheme: PartitionScheme, schema: Schema
) -> Iterator[tuple[tuple[Value | None, ...], pa.Table]]:
    """Yield the rows of each partition with its values; rows keep their order."""
    if not scheme.fields:
        if rows.num_rows:
            yield (), rows
        return
    try:
        yield from _split_by_values(rows, scheme, schema)
    except (OverflowError, ValueError) as error:
        raise _build_range_error([field.name for field in scheme.fields], error) from error


def _split_by_values(
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
        # Renumbered, the groups stay below the number of rows for any number of columns.
        codes = codes.dictionary_encode().indices.cast(pa.int64())
    order = pc.array_sort_indices(codes) if rows.num_rows else codes
    start = 0
    for run in pc.value_counts(pc.take(codes, order)).to_pylist():
        numbers = pc.array_take(order, pa.array(range(start, start + run["counts"])))
        first = numbers[0].as_py()
        plain = [column[first].as_py() for column in columns]
        values = tuple(_partition_value(value, one) for value, one in zip(plain, types, strict=True))
        yield values, rows.take(pc.take(numbers, pc.sort_indices(numbers)))
        start += run["counts"]


def apply_transform(array: Any, transform: Transform, source: DataType) -> Any:
    """Return the transform of each value of a column of type `source`."""
    result = type_to_arrow(result_type_of(transform, source))
    is_nanos = isinstance(source, TimestampNs | TimestampTzNs)
    if isinstance(transform, Identity):
        return array.cast(pa.int64()) if is_nanos else array
    if is_nanos:
        array, source = _floor_divide(array.cast(pa.int64()), 1_000).cast(pa.timestamp("us")), Timestamp()
    if isinstance(transform, Days | Months | Years) and isinstance(source, _TIMESTAMPS):
        # There are far fewer days than timestamps, so the rest is cheap.
        array, source = _days(array), Date()
        if isinstance(transform, Days):
            return array
    if isinstance(transform, Hours):
        return _floor_divide(array.cast(pa.int64()), 3_600_000_000).cast(result)
    distinct = pc.unique(array)
    values = [transform_value(transform, source, _partition_value(value.as_py(), source)) for value in distinct]
    return pc.take(pa.array(values, result), pc.index_in(array, distinct))


def sort_rows(rows: pa.Table, scheme: SortScheme, schema: Schema) -> pa.Table:
    """Return the rows in the order of the sort scheme; the sort is stable."""
    for field in reversed(scheme.fields):
        column = schema.column_with_id(field.source_id)
        try:
            array = apply_transform(get_column(rows, schema.path_of(column.id)), field.transform, column.type)
        except (OverflowError, ValueError) as error:
            raise _build_range_error([column.name], error) from error
        order = "ascending" if field.direction is Direction.ASCENDING else "descending"
        nulls = "at_start" if field.nulls is Nulls.FIRST else "at_end"
        # The row number makes the sort stable, so that several fields are sorted one by one.
        keyed = pa.table({"value": array, "row": build_row_numbers(rows.num_rows)})
        ordering: Any = [("value", order, nulls), ("row", "ascending", nulls)]
        numbers = pc.sort_indices(keyed, ordering)
        rows = rows.take(numbers)
    return rows


def _partition_values(rows: pa.Table, schema: Schema, source_id: int, transform: Transform) -> Any:
    column = schema.column_with_id(source_id)
    array = get_column(rows, schema.path_of(source_id))
    if isinstance(column.type, Float32 | Float64):
        # NaN is not a partition value, and negative zero equals zero.
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), pc.add(array, pa.scalar(0.0, array.type)))
    return apply_transform(array, transform, column.type)


def _partition_value(value: Any, data_type: DataType) -> Value | None:
    return None if value is None else restore_zone(normalize_value(value), data_type)


def _build_range_error(names: Sequence[str], error: Exception) -> InvalidInputError:
    """Return the error for a time or number without a partition value, such as a day before the year 1."""
    return InvalidInputError(
        f"the rows cannot be grouped by {', '.join(names)}: a time is outside the years 1 to 9999, or a number is so "
        f"near the end of its type that its group is beyond it ({error}). Nothing was committed; correct such rows"
    )


def _days(array: Any) -> Any:
    return _floor_divide(array.cast(pa.int64()), _MICROS_PER_DAY).cast(pa.int32()).cast(pa.date32())


def _floor_divide(array: Any, by: int) -> Any:
    """Return the quotients rounded down; Arrow rounds towards zero."""
    quotient = pc.divide(array, pa.scalar(by, pa.int64()))
    is_above = pc.greater(pc.multiply(quotient, pa.scalar(by, pa.int64())), array)
    return pc.if_else(is_above, pc.subtract(quotient, pa.scalar(1, pa.int64())), quotient)


FILES_PER_BATCH_MAX: Final = 64
"""The number of files per store call."""
_BYTES_PER_BATCH_MAX: Final = 32 * 1024 * 1024
"""The number of pending bytes that triggers a write, which bounds memory."""


_ENCODED_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The size in memory of the rows that are encoded in parallel."""
_LARGE_BYTES_MIN: Final = 4 * 1024 * 1024
"""The size from which a file is written alone, and the size in memory from which bounds are read from its footer."""


@dataclass(frozen=True, slots=True)
class FileWriter:
    """Writes data files; they are unreferenced until a delta with them is committed."""

    store: Store
    new_id: Callable[[], str]
    file_size_bytes: int = FILE_SIZE_BYTES
    threads: int = 1
    """The number of threads that encode large files, for which rows are split into more files."""
    vectors: RowMaskCache | None = None
    """The cached deletion vectors for the rows that a write reads."""
    is_inlining: bool = False
    """Whether few rows are returned inline instead of written, as the table allows."""

    def write(self, state: TableState, rows: pa.Table) -> list[tuple[tuple[Value | None, ...], DataFile]]:
        """Write rows with all columns of the table; return each file with its partition values."""
        version = state.version
        inline = self._inline(state, rows, version.partition_scheme, version.sort_scheme)
        return self.write_tables(state, [rows]) if inline is None else inline

    def write_tables(
        self, state: TableState, tables: Iterable[pa.Table]
    ) -> list[tuple[tuple[Value | None, ...], DataFile]]:
        """Write rows as they arrive, with other files for each table of rows."""
        version = state.version
        parts = (part for rows in tables for part in split_by_partition(rows, version.partition_scheme, state.schema))
        ordered = ((values, sort_rows(part, version.sort_scheme, state.schema)) for values, part in parts)
        return [*self._write_parts(state, ordered, version.partition_scheme)]

    def write_keys(self, state: TableState, keys: pa.Table) -> Iterator[tuple[tuple[Value | None, ...], DataFile]]:
        """Write an equality delete file; return each file with the values of its log."""
        inline = self._inline(state, keys, state.log_scheme)
        if inline is not None:
            return iter(inline)
        return self._write_parts(state, split_by_partition(keys, state.log_scheme, state.schema))

    def write_positions(self, state: TableState, location: str, positions: Any) -> DataFile:
        """Write a position delete file for one data file."""
        data = encode_parquet(build_position_delete_rows(location, positions))
        path = build_data_file_path(state.table_id, self.new_id())
        self.store.put(path, data)
        return DataFile(path, len(data), len(positions), kind=FileKind.POSITION_DELETES, applies_to=location)

    def _inline(
        self, state: TableState, rows: pa.Table, scheme: PartitionScheme, order: SortScheme = UNSORTED
    ) -> list[tuple[tuple[Value | None, ...], DataFile]] | None:
        """Return the rows as inline files, or None if they are too large together."""
        bytes_max = inline_rows_max_bytes_of(state) if self.is_inlining else 0
        if not bytes_max or rows.nbytes > bytes_max:
            return None
        encoder = _FileEncoder.of(state)
        files = [
            (
                values,
                encoder.encode_inline(
                    build_data_file_path(state.table_id, self.new_id()), sort_rows(part, order, state.schema)
                ),
            )
            for values, part in split_by_partition(rows, scheme, state.schema)
        ]
        return files if sum(file.size_bytes for _, file in files) <= bytes_max else None

    def _write_parts(
        self,
        state: TableState,
        parts: Iterable[tuple[tuple[Value | None, ...], pa.Table]],
        scheme: PartitionScheme = UNPARTITIONED,
    ) -> Iterator[tuple[tuple[Value | None, ...], DataFile]]:
        """Encode the files of all parts in parallel, and write them in batched store calls.

        The files of a part are in the folder of its partition in `scheme`.
        """
        waiting: dict[str, bytes] = {}
        written: list[tuple[tuple[Value | None, ...], DataFile]] = []
        size = 0
        encoder = _FileEncoder.of(state)
        folders = PartitionFolders(scheme, state.schema)
        files = (
            (
                values,
                build_data_file_path(state.table_id, self.new_id(), folder, state.path_bytes_max),
                rows.slice(start, count),
            )
            for values, rows in parts
            for folder in (folders.build_folder(values),)
            for start, count in split_row_ranges(rows.num_rows, rows.nbytes, self.file_size_bytes, self.threads)
        )

        def encode(
            item: tuple[tuple[Value | None, ...], str, pa.Table],
        ) -> tuple[tuple[Value | None, ...], DataFile, bytes | None]:
            values, file, data = encoder.encode(item)
            if len(data) < _LARGE_BYTES_MIN:
                return values, file, data
            self.store.put(file.location, data)
            return values, file, None

        for values, file, data in map_ahead(encode, files, lambda item: item[2].nbytes, _ENCODED_BYTES_MAX):
            written.append((values, file))
            if data is None:
                continue
            waiting[file.location] = data
            size += len(data)
            if len(waiting) == FILES_PER_BATCH_MAX or size >= _BYTES_PER_BATCH_MAX:
                self.store.put_many(waiting)
                yield from written
                waiting, written, size = {}, [], 0
        if waiting:
            self.store.put_many(waiting)
        yield from written


@dataclass(frozen=True, slots=True)
class _FileEncoder:
    """Encodes rows of one table as data files with statistics."""

    state: TableState
    columns: tuple[tuple[tuple[str, ...], int], ...]
    """The paths and ids of the columns with statistics."""

    @staticmethod
    def of(state: TableState) -> "_FileEncoder":
        """Return the encoder of a table."""
        first = (*state.version.keys, *(field.source_id for field in state.version.partition_scheme.fields))
        return _FileEncoder(state, select_statistics_columns(state.schema, first))

    def encode(
        self, item: tuple[tuple[Value | None, ...], str, pa.Table]
    ) -> tuple[tuple[Value | None, ...], DataFile, bytes]:
        """Return partition values, the entry of a file and its bytes."""
        values, path, rows = item
        data, metadata = encode_with_metadata(rows)
        # Bounds of few rows are computed in less time than they are read from the footer.
        bounds = _read_bounds(metadata, rows.schema) if rows.nbytes > _LARGE_BYTES_MIN else None
        return values, self._describe(path, rows, len(data), bounds), data

    def encode_inline(self, path: str, rows: pa.Table) -> DataFile:
        """Return the entry of rows that it contains."""
        data = encode_inline_rows(rows)
        return self._describe(path, rows, len(data), content_type=ARROW_STREAM, inline_rows=data)

    def _describe(
        self, path: str, rows: pa.Table, size_bytes: int, bounds: Mapping[int, Any] | None = None, **content: Any
    ) -> DataFile:
        present = set(rows.column_names)
        columns = [(names, column_id) for names, column_id in self.columns if names[0] in present]
        sort_scheme = self.state.version.sort_scheme
        return DataFile(
            path,
            size_bytes,
            rows.num_rows,
            schema_id=self.state.schema.schema_id,
            sort_scheme_id=sort_scheme.id if sort_scheme.fields else None,
            source_size_bytes=rows.nbytes,
            statistics=compute_statistics(rows, columns, bounds),
            **content,
        )
