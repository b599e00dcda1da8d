"""Conversion of Arrow values to Python values, and errors for values that do not fit."""

import decimal
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from mangrove.errors import InvalidInputError
from mangrove.model.arrow_schema import type_to_arrow
from mangrove.model.schema_text import format_type
from mangrove.model.types import DataType, Map
from mangrove.model.values import Value, normalize_value
from mangrove.tables.type_compatibility import describe_invalid_decimal

__all__ = [
    "build_value_error",
    "list_representable_values",
    "to_plain_value",
    "to_python_rows",
    "to_python_value",
    "to_python_values",
]


def build_value_error(
    name: str, values: Sequence[Any], data_type: DataType | None, error: Exception
) -> InvalidInputError:
    """Return the error for a column with invalid values, as precise as the values allow."""
    for value in _inside(values):
        fault = describe_invalid_decimal(value) if isinstance(value, decimal.Decimal) else None
        if fault is not None:
            return InvalidInputError(f"column {name!r} holds {fault}")
    if isinstance(data_type, Map):
        fault = _map_fault(name, values, data_type)
        if fault is not None:
            return InvalidInputError(fault)
    return InvalidInputError(f"column {name!r} holds values that are not of one type: {error}")


def _inside(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, Mapping):
            yield from _inside([*value.keys(), *value.values()])
        elif isinstance(value, list | tuple):
            yield from _inside(value)
        else:
            yield value


def _map_fault(name: str, values: Sequence[Any], data_type: Map) -> str | None:
    for value in values:
        if value is None:
            continue
        if not isinstance(value, Mapping | list | tuple):
            return f"column {name!r} is {format_type(data_type)} and holds {value!r}: give a dict"
        pairs = [*value.items()] if isinstance(value, Mapping) else [*value]
        for key, inner in (pair for pair in pairs if isinstance(pair, tuple) and len(pair) == 2):
            if key is None:
                return f"a map in column {name!r} has the key null: leave that entry out"
            if not _fits(key, data_type.key.type):
                return (
                    f"a map in column {name!r} has the key {key!r}, and its keys are {format_type(data_type.key.type)}"
                )
            if not _fits(inner, data_type.value.type):
                return (
                    f"a map in column {name!r} has {inner!r} for the key {key!r}, and its values are "
                    f"{format_type(data_type.value.type)}"
                )
    return None


def _fits(value: Any, data_type: DataType) -> bool:
    try:
        pa.array([value], type_to_arrow(data_type))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError):
        return False
    return True


def to_python_rows(rows: pa.Table, *, maps_as_dicts: bool = False) -> list[dict[str, Any]]:
    """Convert rows to dicts; times outside the years 1 to 9999 become text, and maps lists of pairs or dicts."""
    try:
        return rows.to_pylist(maps_as_pydicts="lossy" if maps_as_dicts else None)
    except (OverflowError, ValueError):
        columns = map(to_python_values, rows.columns)
        return [dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def to_python_values(column: Any) -> list[Any]:
    """Convert the values of an Arrow column; times outside the years 1 to 9999 become text."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [to_python_value(value) for value in column]


def list_representable_values(column: Any) -> list[Any]:
    """Return the values of a column, without times that Python cannot represent."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [value for value in map(to_python_value, column) if not isinstance(value, str)]


def to_python_value(scalar: Any) -> Any:
    """Convert an Arrow scalar to a Python value; a time that Python cannot represent becomes text.

    >>> to_python_value(pa.scalar(3_000_000, pa.int32()).cast(pa.date32()))
    '10183-09-21'
    """
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        if pa.types.is_struct(scalar.type):
            return {name: to_python_value(inner) for name, inner in scalar.items()}
        if pa.types.is_map(scalar.type):
            return [(to_python_value(entry["key"]), to_python_value(entry["value"])) for entry in scalar.values]
        if pa.types.is_nested(scalar.type):
            return [to_python_value(inner) for inner in scalar.values]
        return str(scalar.cast(pa.string()))


def to_plain_value(scalar: Any) -> Value | None:
    """Return the value of a column, or None if Python cannot represent it, which means no bound."""
    if pa.types.is_timestamp(scalar.type) and scalar.type.unit == "ns":
        nanos: int | None = scalar.value
        return nanos
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError):
        return None
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return normalize_value(value)
