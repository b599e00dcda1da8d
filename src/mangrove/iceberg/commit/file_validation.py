"""Validation of client Parquet files: schema, footer statistics and partition values.

A manifest with wrong bounds or partition values would make readers skip rows, so counts and
bounds are taken from the Parquet footer. The footer has no NaN counts, so those of floats
stay unknown. Rows are read only if the bounds do not prove the partition of all rows.

The footer also has the number of rows, the columns with their types, and the null counts.
Values are read only for checks that the footer cannot answer: strings with a maximum
length, integers that are wider in Iceberg, and columns of check constraints.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.iceberg.commit.manifest_reader import read_file_size
from mangrove.iceberg.commit.snapshot_to_deltas import FileInLog
from mangrove.iceberg.defaults import INITIAL_DEFAULT
from mangrove.iceberg.schemas import is_wider_in_iceberg
from mangrove.local.data_files import compute_statistics, split_by_partition
from mangrove.local.parquet import ParquetBytes
from mangrove.local.row_changes import check_constraints
from mangrove.local.row_group_pruning import BOUND_ERRORS, get_bounds, list_leaf_fields
from mangrove.local.schema_projection import FIELD_ID, check_rows_fit, conform_rows, match_by_id
from mangrove.model.arrow_schema import schema_to_arrow, type_to_arrow
from mangrove.model.manifests import PARQUET, ColumnStatistics, DataFile
from mangrove.model.partitioning import Bucket, PartitionField, transform_value
from mangrove.model.schema import Schema
from mangrove.model.types import Char, Column, Float32, Float64, Varchar, inner_columns, is_nested
from mangrove.model.values import Value, restore_zone
from mangrove.storage.port import Store
from mangrove.tables.constraints import check_constraints_of
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import select_statistics_columns

__all__ = [
    "check_partition",
    "is_partition_certain",
    "open_client_file",
    "read_footer_statistics",
    "validate_data_file",
    "validate_equality_delete_file",
]


def read_footer_statistics(found: ParquetBytes, state: TableState) -> tuple[ColumnStatistics, ...]:
    """Return the footer's counts and bounds for the columns that our own writer collects statistics of."""
    first = (*state.version.keys, *(field.source_id for field in state.version.partition_scheme.fields))
    selected = {column_id for _, column_id in select_statistics_columns(state.schema, first)}
    columns = {column.id: column for _, column in state.schema.all_columns() if column.id in selected}
    metadata: Any = found.parquet.metadata
    every = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    groups = [group for group in every if group.num_rows]
    statistics: list[ColumnStatistics] = []
    for place, field in enumerate(list_leaf_fields(found.parquet.schema_arrow)):
        column = next((one for one in columns.values() if field is not None and match_by_id(field, one)), None)
        if column is not None:
            statistics.append(_statistics(column, field, [(group.num_rows, group.column(place)) for group in groups]))
    return tuple(sorted(statistics, key=lambda one: one.column_id))


def is_partition_certain(state: TableState, file: DataFile, values: Sequence[Value | None]) -> bool:
    """Return whether the bounds of a file prove that all its rows belong to one partition."""
    fields = zip(state.version.partition_scheme.fields, values, strict=True)
    return not file.row_count or all(_is_certain(state.schema, file, field, value) for field, value in fields)


def check_partition(state: TableState, file: DataFile, values: Sequence[Value | None], rows: pa.Table) -> None:
    """Raise InvalidInputError if rows belong to another partition; `rows` has the partition source columns."""
    scheme = state.version.partition_scheme
    sources = {state.schema.path_of(field.source_id)[0] for field in scheme.fields}
    read = Schema(tuple(column for column in state.schema.columns if column.name in sources))
    conformed = conform_rows(rows, read, match_by_id, is_checked=False)
    for actual, _ in split_by_partition(conformed, scheme, state.schema):
        if actual != tuple(values):
            raise InvalidInputError(
                f"{file.location} has rows of partition {actual}, but its manifest has {tuple(values)}; write one file "
                "per partition"
            )


def _statistics(column: Column, field: Any, chunks: Sequence[tuple[int, Any]]) -> ColumnStatistics:
    statistics = [(row_count, chunk.statistics) for row_count, chunk in chunks]
    is_counted = all(one is not None and one.has_null_count for _, one in statistics)
    try:
        ends = _ends(statistics, field.type)
        bounds = None if not ends else _bounds(column, field, ends)
    except BOUND_ERRORS:
        bounds = None
    return ColumnStatistics(
        column.id,
        null_count=sum(one.null_count for _, one in statistics) if is_counted else None,
        value_count=sum(row_count for row_count, _ in statistics),
        size_bytes=sum(chunk.total_compressed_size for _, chunk in chunks),
        minimum=None if bounds is None else bounds.minimum,
        maximum=None if bounds is None else bounds.maximum,
    )


def _ends(statistics: Sequence[tuple[int, Any]], arrow: Any) -> list[Any] | None:
    """Return the minimum and maximum of each row group, or None if a row group lacks them."""
    ends: list[Any] = []
    for row_count, one in statistics:
        bounds = get_bounds(one, arrow)
        if bounds is not None:
            ends += bounds
        elif one is None or not one.has_null_count or one.null_count != row_count:
            return None
    return ends


def _bounds(column: Column, field: Any, ends: list[Any]) -> ColumnStatistics:
    # Conformed like rows, so that the bounds are those of the values that readers return.
    rows = pa.table([pa.array(ends, field.type)], schema=pa.schema([field.with_nullable(nullable=True)]))
    read = conform_rows(rows, Schema((column,)), match_by_id, is_checked=False)
    return compute_statistics(read, [((column.name,), column.id)])[0]


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
    if isinstance(column.type, Float32 | Float64):
        # There may be NaN, which bounds do not include.
        return False
    try:
        # All other transforms are monotonic, so both bounds decide for all values between them.
        return all(
            end is not None and transform_value(field.transform, column.type, restore_zone(end, column.type)) == value
            for end in ends
        )
    except (OverflowError, ValueError, InvalidInputError):
        return False


_PC: Final[Any] = pc
_UNREADABLE: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
_ROW_LINEAGE_IDS: Final = {2**31 - 108: "_row_id", 2**31 - 109: "_last_updated_sequence_number"}
"""Metadata columns of format version 3, by field id; Iceberg readers take row ids from them, ours ignore them."""


def open_client_file(store: Store, file: DataFile) -> ParquetBytes:
    """Open a client's Parquet file; raise InvalidInputError if its size or row count differs from the manifest."""
    if file.content_type != PARQUET:
        raise InvalidInputError(f"{file.location} has the content type {file.content_type}; write Parquet")
    size = read_file_size(store, file.location)
    if size != file.size_bytes:
        raise InvalidInputError(f"{file.location} has {size} bytes, but its manifest has {file.size_bytes}")
    try:
        found = ParquetBytes(store, file)
    except _UNREADABLE as error:
        raise InvalidInputError(f"{file.location} is not a Parquet file: {error}") from error
    rows = found.parquet.metadata.num_rows
    if rows != file.row_count:
        raise InvalidInputError(f"{file.location} has {rows} rows, but its manifest has {file.row_count}")
    return found


def validate_data_file(store: Store, state: TableState, entry: FileInLog) -> FileInLog:
    """Return a data file with the statistics of its footer; raise InvalidInputError for rows that `append` rejects."""
    values, file = entry
    found = open_client_file(store, file)
    by_column = _fields_by_id(found.parquet.schema_arrow, file.location)
    for outer in by_column.values():
        for field in _fields_in(outer):
            # Readers ignore a dropped column, but a later column could get an id above the last one.
            if (_id_of(field) or 0) > state.schema.last_column_id and _id_of(field) not in _ROW_LINEAGE_IDS:
                raise InvalidInputError(
                    f"{file.location} has column {field.name!r} with id {_id_of(field)}, which {state.name} never had; "
                    "add the column first"
                )
    _check_types(state, by_column)
    for column in state.schema.columns:
        if column.id not in by_column and INITIAL_DEFAULT in column.properties:
            raise InvalidInputError(
                f"{file.location} lacks column {column.name!r}, which has an initial default; write its values"
            )
    read_columns = [
        column
        for column in state.schema.columns
        if check_constraints_of(state.version) or _must_be_read(found, column, by_column.get(column.id))
    ]
    if read_columns:
        _check_values(found, state, file, read_columns)
    certain = replace(file, statistics=read_footer_statistics(found, state))
    if not is_partition_certain(state, certain, values):
        sources = {state.schema.path_of(field.source_id)[0] for field in state.version.partition_scheme.fields}
        columns = [column for column in state.schema.columns if column.name in sources]
        check_partition(state, file, values, _read(found, file, columns))
    return values, certain


def validate_equality_delete_file(store: Store, state: TableState, file: DataFile) -> DataFile:
    """Return an equality delete file with the statistics of its footer; raise InvalidInputError if a key is null.

    Null never equals a key.
    """
    found = open_client_file(store, file)
    keys = [state.schema.column_with_id(key_id) for key_id in file.key_ids]
    for column in keys:
        field = next((field for field in found.parquet.schema_arrow if match_by_id(field, column)), None)
        if field is None:
            raise InvalidInputError(f"equality delete file {file.location} lacks its key column {column.name!r}")
        if not _has_no_nulls(found, field.name):
            array = _read(found, file, [column]).column(0)
            if array.null_count:
                raise InvalidInputError(
                    f"equality delete file {file.location} has null in {column.name!r}, which matches no row; use "
                    "position deletes, or rewrite the files"
                )
    return replace(file, statistics=read_footer_statistics(found, state))


def _fields_by_id(stored: Any, location: str) -> dict[int, Any]:
    """Return the columns of a file by field id; raise InvalidInputError if a field has no unique id."""
    ids = [_id_of(field) for outer in stored for field in _fields_in(outer)]
    if None in ids:
        raise InvalidInputError(f"{location} has columns without field ids; append its rows instead")
    if len(set(ids)) != len(ids):
        raise InvalidInputError(f"{location} has two columns with the same field id; rewrite it")
    return {column_id: field for field in stored if (column_id := _id_of(field)) is not None}


def _id_of(field: Any) -> int | None:
    found = (field.metadata or {}).get(FIELD_ID, b"")
    return int(found) if found.isdigit() else None


def _fields_in(field: Any) -> Iterable[Any]:
    yield field
    arrow = field.type
    if pa.types.is_map(arrow):
        inner = [arrow.key_field, arrow.item_field]
    elif pa.types.is_struct(arrow):
        inner = [arrow.field(place) for place in range(arrow.num_fields)]
    elif pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        inner = [arrow.value_field]
    else:
        inner = []
    for one in inner:
        yield from _fields_in(one)


def _check_types(state: TableState, by_column: dict[int, Any]) -> None:
    """Raise InvalidInputError if a column type does not fit the table, by the rules of `append`."""
    fields: Any = [
        pa.field(column.name, by_column[column.id].type) for column in state.schema.columns if column.id in by_column
    ]
    check_rows_fit(state.name, state.schema, pa.schema(fields).empty_table())


def _must_be_read(found: ParquetBytes, column: Column, field: Any | None) -> bool:
    if field is None:
        return not column.nullable
    if any(is_wider_in_iceberg(one.type) for one in _all_of(column)):
        return True
    if is_nested(column.type):
        return not all(one.nullable for one in _all_of(column))
    if not column.nullable and not _has_no_nulls(found, field.name):
        return True
    return not _is_stored_as(field.type, column)


def _all_of(column: Column) -> Iterable[Column]:
    yield column
    for inner in inner_columns(column.type):
        yield from _all_of(inner)


def _is_stored_as(arrow: Any, column: Column) -> bool:
    """Return whether a file stores a column in exactly its type, so that no value can be out of range."""
    if pa.types.is_large_string(arrow):
        return isinstance(column.type, Varchar)
    return bool(arrow == type_to_arrow(column.type))


def _has_no_nulls(found: ParquetBytes, name: str) -> bool:
    """Return whether the footer proves that a primitive column has no nulls."""
    metadata: Any = found.parquet.metadata
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunk = next((group.column(place) for place in range(group.num_columns) if _is_named(group, place, name)), None)
        statistics = None if chunk is None else chunk.statistics
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            return False
    return True


def _is_named(group: Any, place: int, name: str) -> bool:
    return bool(group.column(place).path_in_schema == name)


def _check_values(found: ParquetBytes, state: TableState, file: DataFile, columns: list[Column]) -> None:
    rows = _read(found, file, columns)
    schema = Schema(tuple(columns))
    try:
        checked = conform_rows(rows, schema, match_by_id, is_checked=True)
    except InvalidInputError as error:
        raise InvalidInputError(f"{file.location} does not fit {state.name}: {error}") from error
    for column in columns:
        if isinstance(column.type, Char):
            _check_padded(rows, column, file.location)
    if check_constraints_of(state.version):
        check_constraints(state, checked)


def _check_padded(rows: pa.Table, column: Column, location: str) -> None:
    place = next((place for place, field in enumerate(rows.schema) if match_by_id(field, column)), None)
    assert isinstance(column.type, Char)
    shortest = None if place is None else _PC.min(_PC.utf8_length(rows.column(place))).as_py()
    if shortest is not None and shortest < column.type.length:
        raise InvalidInputError(
            f"{location} has strings of {shortest} characters in {column.name!r} of type char({column.type.length}); "
            "pad them with spaces"
        )


def _read(found: ParquetBytes, file: DataFile, columns: list[Column]) -> pa.Table:
    names = [
        field.name for field in found.parquet.schema_arrow if any(match_by_id(field, column) for column in columns)
    ]
    if not names:
        schema = schema_to_arrow(Schema(tuple(columns)))
        bare: Any = [pa.field(f"no-{field.name}", field.type) for field in schema]
        return pa.table([pa.nulls(file.row_count, field.type) for field in bare], schema=pa.schema(bare))
    try:
        found.fetch(names)
        return found.parquet.read(columns=names, use_threads=True)
    except _UNREADABLE as error:
        raise InvalidInputError(f"cannot read {file.location}: {error}") from error
