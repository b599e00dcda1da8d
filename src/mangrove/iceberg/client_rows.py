"""Looking at the Parquet files of an Iceberg client before they become rows of a table.

The footer tells most: how many rows there are, of which columns and types, and that a
column has no nulls. Only what it does not tell is read: texts whose length is bounded,
numbers that Iceberg shows wider than they are, and all that the table's checks name.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.iceberg.client_facts import are_partition_values_certain, check_partition, footer_statistics
from mangrove.iceberg.client_files import size_of
from mangrove.iceberg.told_files import Placed
from mangrove.iceberg.types import is_shown_wider
from mangrove.local.conforming import FIELD_ID, by_id, check_fit, conformed
from mangrove.local.constraining import check_rows
from mangrove.local.parquet_bytes import ParquetBytes
from mangrove.model.arrow_form import schema_to_arrow, type_to_arrow
from mangrove.model.manifests import PARQUET, DataFile
from mangrove.model.schema import Schema
from mangrove.model.types import Char, Column, Varchar, inner_columns, is_nested
from mangrove.storage.port import Store
from mangrove.tables.constraints import checks_of
from mangrove.tables.table_state import TableState

__all__ = ["checked_keys", "checked_rows", "opened"]

_PC: Final[Any] = pc
_UNREADABLE: Final = (pa.ArrowException, OSError, UnicodeDecodeError)


def opened(store: Store, file: DataFile) -> ParquetBytes:
    """Return a file whose size and number of rows are what the client says; refuse any other."""
    if file.content_type != PARQUET:
        raise InvalidInputError(f"{file.location} is {file.content_type}: write Parquet, which every engine reads")
    size = size_of(store, file.location)
    if size != file.size_bytes:
        raise InvalidInputError(f"{file.location} has {size} bytes, and the manifest says {file.size_bytes}")
    try:
        found = ParquetBytes(store, file)
    except _UNREADABLE as error:
        raise InvalidInputError(f"{file.location} is no Parquet file: {error}") from error
    rows = found.parquet.metadata.num_rows
    if rows != file.row_count:
        raise InvalidInputError(f"{file.location} has {rows} rows, and the manifest says {file.row_count}")
    return found


def checked_rows(store: Store, state: TableState, placed: Placed) -> Placed:
    """Return a file with what itself tells of its rows; refuse rows that the table's own `append` would refuse."""
    values, file = placed
    found = opened(store, file)
    by_column = _fields_by_id(found.parquet.schema_arrow, file.location)
    for outer in by_column.values():
        for field in _fields_in(outer):
            # A dropped column is left out when the file is read; one that is yet to come would be read by chance.
            if (_id_of(field) or 0) > state.schema.last_column_id:
                raise InvalidInputError(
                    f"{file.location} has the column {field.name!r} with the id {_id_of(field)}, which {state.name} "
                    "never had: add the column first"
                )
    _check_types(state, by_column)
    looked_at = [
        column
        for column in state.schema.columns
        if checks_of(state.version) or _must_be_read(found, column, by_column.get(column.id))
    ]
    if looked_at:
        _check_values(found, state, file, looked_at)
    certain = replace(file, statistics=footer_statistics(found, state))
    if not are_partition_values_certain(state, certain, values):
        sources = {state.schema.path_of(field.source_id)[0] for field in state.version.partition_scheme.fields}
        columns = [column for column in state.schema.columns if column.name in sources]
        check_partition(state, file, values, _read(found, file, columns))
    return values, certain


def checked_keys(store: Store, state: TableState, file: DataFile) -> DataFile:
    """Return a file of deleted keys with what itself tells of them; refuse one without all keys of each row.

    A null equals nothing here.
    """
    found = opened(store, file)
    keys = [state.schema.column_with_id(key_id) for key_id in file.key_ids]
    for column in keys:
        field = next((field for field in found.parquet.schema_arrow if by_id(field, column)), None)
        if field is None:
            raise InvalidInputError(f"{file.location} lacks the column {column.name!r} by which it deletes rows")
        if not _has_no_nulls(found, field.name):
            array = _read(found, file, [column]).column(0)
            if array.null_count:
                raise InvalidInputError(
                    f"{file.location} deletes rows whose column {column.name!r} is null, and null equals nothing here: "
                    "delete them by position, or rewrite the files"
                )
    return replace(file, statistics=footer_statistics(found, state))


def _fields_by_id(stored: Any, location: str) -> dict[int, Any]:
    """Return the columns of a file; refuse one in which a column, or what lies inside it, has no id of its own."""
    ids = [_id_of(field) for outer in stored for field in _fields_in(outer)]
    if None in ids:
        raise InvalidInputError(f"{location} does not keep the ids of its columns: append its rows instead")
    if len(set(ids)) != len(ids):
        raise InvalidInputError(f"{location} has two columns with the same id: write it again")
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
    """Refuse columns whose values the table cannot hold, by the rules for rows that are appended."""
    fields: Any = [
        pa.field(column.name, by_column[column.id].type) for column in state.schema.columns if column.id in by_column
    ]
    check_fit(state.name, state.schema, pa.schema(fields).empty_table())


def _must_be_read(found: ParquetBytes, column: Column, field: Any | None) -> bool:
    if field is None:
        return not column.nullable
    if any(is_shown_wider(one.type) for one in _all_of(column)):
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
    """Return whether values of a file are of the column's type, so that none of them can be too large for it."""
    if pa.types.is_large_string(arrow):
        return isinstance(column.type, Varchar)
    return bool(arrow == type_to_arrow(column.type))


def _has_no_nulls(found: ParquetBytes, name: str) -> bool:
    """Return whether the footer says of a plain column that each row has a value."""
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
        checked = conformed(rows, schema, by_id, is_checked=True)
    except InvalidInputError as error:
        raise InvalidInputError(f"{file.location} does not fit {state.name}: {error}") from error
    for column in columns:
        if isinstance(column.type, Char):
            _check_padded(rows, column, file.location)
    if checks_of(state.version):
        check_rows(state, checked)


def _check_padded(rows: pa.Table, column: Column, location: str) -> None:
    place = next((place for place, field in enumerate(rows.schema) if by_id(field, column)), None)
    assert isinstance(column.type, Char)
    shortest = None if place is None else _PC.min(_PC.utf8_length(rows.column(place))).as_py()
    if shortest is not None and shortest < column.type.length:
        raise InvalidInputError(
            f"{location} has texts of {shortest} characters in {column.name!r}, which is char({column.type.length}): "
            "fill them up with spaces"
        )


def _read(found: ParquetBytes, file: DataFile, columns: list[Column]) -> pa.Table:
    names = [field.name for field in found.parquet.schema_arrow if any(by_id(field, column) for column in columns)]
    if not names:
        schema = schema_to_arrow(Schema(tuple(columns)))
        bare: Any = [pa.field(f"no-{field.name}", field.type) for field in schema]
        return pa.table([pa.nulls(file.row_count, field.type) for field in bare], schema=pa.schema(bare))
    try:
        found.fetch(names)
        return found.parquet.read(columns=names, use_threads=True)
    except _UNREADABLE as error:
        raise InvalidInputError(f"{file.location} cannot be read: {error}") from error
