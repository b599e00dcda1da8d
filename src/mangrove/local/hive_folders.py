"""Folders of row files as Hive and Spark lay them out: steps such as `day=2026-11-01` hold values of columns."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from mangrove.errors import InvalidInputError
from mangrove.local.row_files import ROW_FILE_ENDINGS
from mangrove.model.arrow_form import type_to_arrow
from mangrove.model.schema import Schema

__all__ = ["folder_values", "row_files_among", "with_folder_values"]

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


def row_files_among(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths of files with rows: what begins with `_` or `.` is a note of the program that wrote them.

    >>> list(row_files_among(["day=1/a.parquet", "_SUCCESS", "_delta_log/0.json", ".a.parquet.crc", "readme.txt"]))
    ['day=1/a.parquet']
    """
    for path in paths:
        if path.lower().endswith(ROW_FILE_ENDINGS) and not any(step[:1] in ("_", ".") for step in path.split("/")):
            yield path


def folder_values(path: str) -> dict[str, str | None]:
    """Return the values that the folders of a path hold.

    >>> folder_values("day=2026-11-01/city=S%C3%A3o Paulo/part-0.parquet")
    {'day': '2026-11-01', 'city': 'São Paulo'}
    >>> folder_values("city=__HIVE_DEFAULT_PARTITION__/part-0.parquet")
    {'city': None}
    """
    steps = (step.partition("=") for step in path.split("/")[:-1])
    return {unquote(name): None if value == _NULL else unquote(value) for name, equals, value in steps if equals}


def with_folder_values(rows: pa.Table, values: Mapping[str, str | None], schema: Schema) -> pa.Table:
    """Return the rows with these values as columns, in the table's types, where the file has no such column."""
    types = {column.name.casefold(): type_to_arrow(column.type) for column in schema.columns}
    there = {name.casefold() for name in rows.column_names}
    for name, text in values.items():
        if name.casefold() in there:
            continue
        wanted = types.get(name.casefold(), pa.string())
        try:
            value: Any = pa.scalar(text, pa.string()).cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInputError(
                f"the folder {name}={text} holds no {wanted} as the table's column {name!r} does ({error}): rename it"
            ) from error
        rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    return rows
