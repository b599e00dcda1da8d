"""Rows as Python has them, also where a time lies outside the years that Python's calendar knows."""

from typing import Any

import pyarrow as pa

__all__ = ["held_values", "python_rows", "python_value"]


def python_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Return each row by the names of its columns; a time outside the years 1 to 9999 is text there."""
    try:
        return rows.to_pylist()
    except (OverflowError, ValueError):
        columns = [[python_value(value) for value in column] for column in rows.columns]
        return [dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def held_values(column: Any) -> list[Any]:
    """Return the values of a column, without the times that Python cannot hold."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [value for value in map(python_value, column) if not isinstance(value, str)]


def python_value(scalar: Any) -> Any:
    """Return a value of Arrow's as Python has it, with text for a time that Python cannot hold.

    >>> python_value(pa.scalar(3_000_000, pa.int32()).cast(pa.date32()))
    '10183-09-21'
    """
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        if pa.types.is_struct(scalar.type):
            return {name: python_value(inner) for name, inner in scalar.items()}
        if pa.types.is_map(scalar.type):
            return [(python_value(entry["key"]), python_value(entry["value"])) for entry in scalar.values]
        if pa.types.is_nested(scalar.type):
            return [python_value(inner) for inner in scalar.values]
        return str(scalar.cast(pa.string()))
