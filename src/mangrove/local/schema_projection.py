"""Conversion of Arrow tables to the schema of a table.

Written rows are matched by name, files by column id, so that columns can be renamed.
Missing columns are null.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.local.casts import cast_array, parse_timestamps
from mangrove.local.python_rows import to_python_rows, to_python_value
from mangrove.local.row_numbers import build_row_numbers
from mangrove.model.arrow_schema import detect_type, schema_to_arrow, type_to_arrow
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
from mangrove.model.types import (
    Char,
    Column,
    DataType,
    Decimal,
    Float32,
    List,
    Map,
    Struct,
    Varchar,
    inner_columns,
    is_nested,
)
from mangrove.tables.type_compatibility import can_cast_type, can_write_type, check_columns

__all__ = [
    "FIELD_ID",
    "Matching",
    "cast_rows",
    "check_rows_fit",
    "conform_rows",
    "detect_column_types",
    "fill_null_types",
    "fit_rows",
    "match_by_id",
    "match_by_name",
]

FIELD_ID: Final = b"PARQUET:field_id"
_PA: Final[Any] = pa
"""Untyped alias, because the stubs of pyarrow do not cover all call forms."""
_PC: Final[Any] = pc


@dataclass(frozen=True, slots=True)
class Matching:
    """Matches Arrow fields and columns with equal keys; tables have thousands of columns, so each key is looked up."""

    key_of_field: Callable[[Any], object]
    key_of_column: Callable[[Column], object]

    def __call__(self, field: Any, column: Column) -> bool:
        """Return whether the field is the column."""
        return self.key_of_field(field) == self.key_of_column(column)

    def find_places(self, fields: Iterable[Any], columns: Iterable[Column]) -> list[int | None]:
        """Return for each column the place of the first field that is the column, or None."""
        places: dict[object, int] = {}
        for place, field in enumerate(fields):
            places.setdefault(self.key_of_field(field), place)
        return [places.get(self.key_of_column(column)) for column in columns]

    def select_fields(self, fields: Iterable[Any], columns: Iterable[Column]) -> list[Any]:
        """Return the fields that are one of the columns."""
        keys = {self.key_of_column(column) for column in columns}
        return [field for field in fields if self.key_of_field(field) in keys]


match_by_name: Final = Matching(lambda field: field.name.casefold(), lambda column: column.name.casefold())
"""Matches by name, case-insensitively as in SQL."""
match_by_id: Final = Matching(
    lambda field: (field.metadata or {}).get(FIELD_ID), lambda column: str(column.id).encode()
)
"""Matches by the column id in the field metadata."""


def check_rows_fit(table: str, schema: Schema, rows: pa.Table) -> None:
    """Raise an error for rows with unknown or incompatible columns, before any is converted."""
    given: dict[str, DataType | None] = {}
    for field, column in _pair_by_name(rows, schema):
        if field.name in given:
            raise InvalidInputError(f"the rows do not fit {table}: column {field.name!r} is given twice")
        if pa.types.is_null(field.type):
            given[field.name] = None
            continue
        if column is not None and field.type.equals(type_to_arrow(column.type)):
            given[field.name] = column.type
            continue
        bare: Any = pa.field(field.name, _fill_null_type(field.type, None if column is None else column.type))
        given[field.name] = detect_type(bare)
    check_columns(table, schema, given)


def cast_rows(rows: pa.Table, schema: Schema) -> pa.Table:
    """Return rows whose columns are cast to the table's columns with the same names, as SQL casts them.

    Text becomes a timestamp too; without a zone it is UTC. A column that needs no cast, or for
    which there is none, stays as it is.
    """
    given = detect_column_types(fill_null_types(rows, schema))
    columns = [column for _, column in _pair_by_name(rows, schema)]
    for place, (name, data_type) in enumerate(given.items()):
        column = columns[place]
        if column is None or data_type is None or can_write_type(column.type, data_type):
            continue
        if can_cast_type(column.type, data_type):
            rows = rows.set_column(place, name, _cast_column(rows.column(place), column))
    return rows


def _cast_column(values: Any, column: Column) -> Any:
    arrow = type_to_arrow(column.type)
    is_timestamp_text = pa.types.is_timestamp(arrow) and pa.types.is_string(values.type)
    try:
        return parse_timestamps(values, arrow) if is_timestamp_text else cast_array(values, arrow)
    except (pa.ArrowInvalid, InvalidInputError) as error:
        raise InvalidInputError(
            f"column {column.name!r} cannot be cast to {format_type(column.type)}: {error}"
        ) from error


def fill_null_types(rows: pa.Table, schema: Schema) -> pa.Table:
    """Return rows with the types of the table's columns where only nulls were seen."""
    fields: list[Any] = [
        field if column is None else pa.field(field.name, _fill_null_type(field.type, column.type))
        for field, column in _pair_by_name(rows, schema)
    ]
    filled = pa.schema(fields)
    return rows if filled.equals(rows.schema) else rows.cast(filled)


def _pair_by_name(rows: pa.Table, schema: Schema) -> list[tuple[Any, Column | None]]:
    """Return each field of the rows with the column of the same name, or None."""
    columns = {column.name.casefold(): column for column in schema.columns}
    return [(field, columns.get(field.name.casefold())) for field in rows.schema]


def detect_column_types(rows: pa.Table) -> dict[str, DataType | None]:
    """Return the types of the given columns; None for a column with only nulls."""
    found: dict[str, DataType | None] = {}
    for field in rows.schema:
        is_null = pa.types.is_null(field.type)
        found[field.name] = None if is_null else detect_type(field)
    return found


def _fill_null_type(arrow: Any, data_type: DataType | None) -> Any:
    """Return the Arrow type with all null-typed parts replaced by the column type."""
    if pa.types.is_null(arrow):
        return pa.bool_() if data_type is None else type_to_arrow(data_type)
    if pa.types.is_list(arrow):
        element = data_type.element.type if isinstance(data_type, List) else None
        return _PA.list_(_fill_null_type(arrow.value_type, element))
    if pa.types.is_struct(arrow):
        inner = {column.name.casefold(): column.type for column in inner_columns(data_type)} if data_type else {}
        fields = [arrow.field(place) for place in range(arrow.num_fields)]
        return pa.struct(
            [pa.field(field.name, _fill_null_type(field.type, inner.get(field.name.casefold()))) for field in fields]
        )
    return arrow


def fit_rows(table: str, rows: pa.Table, schema: Schema) -> pa.Table:
    """Return the rows of a write with exactly the columns of `schema`; raise an error for rows that do not fit."""
    arrow, given = schema_to_arrow(schema), rows.schema
    if given.names == arrow.names and given.types == arrow.types:
        arrays = rows.columns
        # Most small writes have the columns of the table, so that there is nothing to convert.
        if all(map(_are_values_of, arrays, schema.columns)):
            return pa.Table.from_arrays(arrays, schema=arrow)
    check_rows_fit(table, schema, rows)
    return conform_rows(rows, schema, match_by_name, is_checked=True)


def _are_values_of(array: Any, column: Column) -> bool:
    """Return whether an array of the Arrow type of a column certainly has only values of the column."""
    has_limit = isinstance(column.type, Char | Varchar) and column.type.length is not None
    return not has_limit and not is_nested(column.type) and (column.nullable or not array.null_count)


def conform_rows(rows: pa.Table, schema: Schema, matching: Matching, *, is_checked: bool) -> pa.Table:
    """Return the rows with exactly the columns of `schema`, in order and with their types.

    With `is_checked` nulls in columns that are not nullable and too long texts raise an
    error; rows read from files need no check.
    """
    arrays = []
    places = matching.find_places(rows.schema, schema.columns)
    for column, place in zip(schema.columns, places, strict=True):
        if place is None:
            array: Any = _PA.nulls(rows.num_rows, type_to_arrow(column.type))
            array = _PA.chunked_array([array])
        else:
            array = rows.column(place)
            chunks = [
                _conform_array(chunk, column, matching, column.name, is_checked=is_checked) for chunk in array.chunks
            ]
            array = _PA.chunked_array(chunks, type_to_arrow(column.type))
        if is_checked and not column.nullable and array.null_count:
            row = pc.index(pc.is_null(array), pa.scalar(value=True)).as_py()
            raise InvalidInputError(
                f"column {column.name!r} is not null, and {array.null_count} row(s) have no value in it, "
                f"first row {row}: {to_python_rows(rows.slice(row, 1))[0]}"
            )
        arrays.append(array)
    return pa.table(arrays, schema=schema_to_arrow(schema))


def _conform_array(array: Any, column: Column, matching: Matching, path: str, *, is_checked: bool) -> Any:
    arrow_type = type_to_arrow(column.type)
    if pa.types.is_null(array.type):
        return _PA.nulls(len(array), arrow_type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    match column.type:
        case Struct(columns):
            given = [array.type.field(place) for place in range(array.type.num_fields)]
            children = [
                _child(array, place, inner, matching, f"{path}.{inner.name}", is_checked=is_checked)
                for inner, place in zip(columns, matching.find_places(given, columns), strict=True)
            ]
            fields = [arrow_type.field(place) for place in range(arrow_type.num_fields)]
            return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
        case List(element):
            return _list(array, element, matching, path, arrow_type, is_checked=is_checked)
        case Map(key, value):
            whole = _normalize_offsets(array)
            keys = _conform_array(whole.keys, key, matching, f"{path}.key", is_checked=is_checked)
            items = _conform_array(whole.items, value, matching, f"{path}.value", is_checked=is_checked)
            offsets = _offsets(whole)
            if is_checked:
                _check_keys(whole, keys, path)
            return _PA.MapArray.from_arrays(offsets, keys, items, arrow_type)
        case _:
            return _leaf(array, column.type, arrow_type, path, is_checked=is_checked)


def _child(array: Any, place: int | None, inner: Column, matching: Matching, path: str, *, is_checked: bool) -> Any:
    if place is None:
        return _PA.nulls(len(array), type_to_arrow(inner.type))
    found = pc.struct_field(array, [place])
    shaped = _conform_array(found, inner, matching, path, is_checked=is_checked)
    if is_checked and not inner.nullable and shaped.null_count > array.null_count:
        raise InvalidInputError(f"column {path!r} is not null, and a row has no value in it")
    return shaped


def _list(array: Any, element: Column, matching: Matching, path: str, arrow_type: Any, *, is_checked: bool) -> Any:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    whole = _normalize_offsets(array)
    values = _conform_array(whole.values, element, matching, f"{path}.element", is_checked=is_checked)
    if is_checked and not element.nullable and values.null_count:
        raise InvalidInputError(f"an element of column {path!r} has no value, and its elements are not null")
    return _PA.ListArray.from_arrays(_offsets(whole), values, type=arrow_type)


def _normalize_offsets(array: Any) -> Any:
    """Return the array with offsets that start at 0, for rebuilding lists."""
    return pa.concat_arrays([array]) if array.offset == 0 else array.take(build_row_numbers(len(array)))


def _offsets(array: Any) -> Any:
    """Return the start of each list; null if the list is null."""
    if not array.null_count:
        return array.offsets
    is_null = pa.concat_arrays([array.is_null(), pa.array([False])])
    return pc.if_else(is_null, pa.scalar(None, pa.int32()), array.offsets)


def _leaf(array: Any, data_type: DataType, arrow_type: Any, path: str, *, is_checked: bool) -> Any:
    try:
        cast = _cast(array, data_type, arrow_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        is_fine = pa.types.is_timestamp(array.type) and array.type.unit == "ns"
        remedy = "; use a column of type timestamp_ns or timestamptz_ns, or round the values" if is_fine else ""
        raise InvalidInputError(
            f"column {path!r} is {format_type(data_type)}, and a value does not fit: {error}{remedy}"
        ) from error
    if is_checked and isinstance(data_type, Float32):
        _check_finite(array, cast, path)
    length = data_type.length if isinstance(data_type, Char | Varchar) else None
    if is_checked and length is not None:
        longest = pc.max(pc.utf8_length(cast)).as_py()
        if longest is not None and longest > length:
            raise InvalidInputError(
                f"column {path!r} is {format_type(data_type)}, and a text has {longest} characters: shorten it"
            )
        if isinstance(data_type, Char):
            cast = pc.utf8_rpad(cast, length)
    return cast


def _check_keys(maps: Any, keys: Any, path: str) -> None:
    """Raise an error for a map with duplicate keys."""
    lists = _PA.ListArray.from_arrays(_offsets(maps), keys)
    owners, keys = _PC.list_parent_indices(lists), lists.flatten()
    if pa.types.is_nested(keys.type):
        # Arrow does not group by structs and lists.
        keys = pa.array([repr(to_python_value(key)) for key in keys], pa.string())
    counted = pa.table({"owner": owners, "key": keys}).group_by(["owner", "key"]).aggregate([([], "count_all")])
    twice = counted.filter(_PC.greater(counted["count_all"], 1)).slice(0, 1)
    if twice.num_rows:
        key = to_python_value(twice["key"][0])
        raise InvalidInputError(f"a map in column {path!r} has the key {key!r} twice: keep one of the two")


def _check_finite(array: Any, cast: Any, path: str) -> None:
    """Raise an error for a number that overflowed to infinity."""
    if not pa.types.is_floating(array.type) or array.type == cast.type:
        return
    too_large = _PC.and_(_PC.is_inf(cast), _PC.invert(_PC.is_inf(array)))
    if _PC.any(too_large).as_py():
        value = array.filter(too_large)[0].as_py()
        raise InvalidInputError(f"column {path!r} is float, which cannot hold {value!r}: make it double")


def _cast(array: Any, data_type: DataType, arrow_type: Any) -> Any:
    if array.type == arrow_type:
        return array
    if isinstance(data_type, Decimal) and pa.types.is_integer(array.type):
        # Arrow requires a precision for every integer of the type; the actual values may need less.
        array = array.cast(pa.decimal256(76, 0))
    return array.cast(arrow_type)
