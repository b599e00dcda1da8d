"""Rows in files that other programs wrote: Parquet, CSV, or a JSON object on each line."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from mangrove.errors import InvalidInputError
from mangrove.local.arrow_memory import arrow_bytes
from mangrove.model.arrow_form import type_to_arrow
from mangrove.model.schema import Schema

__all__ = ["ROW_FILE_ENDINGS", "rows_of_file"]

_Types = Mapping[str, Any]
"""The Arrow types of the columns that the table has: text does not say whether 2.50 is a decimal."""


def _opened(data: bytes) -> Any:
    return pa.BufferReader(arrow_bytes(data))


def _parquet(data: bytes, _: _Types) -> Any:
    return pa.parquet.read_table(_opened(data))


def _csv(data: bytes, types: _Types) -> Any:
    # Quoted or not, an empty field of a text column is text; elsewhere it is null.
    options = pa.csv.ConvertOptions(column_types=dict(types), strings_can_be_null=False)
    return pa.csv.read_csv(_opened(data), convert_options=options)


def _json_lines(data: bytes, types: _Types) -> Any:
    named = {name: wanted for name, wanted in types.items() if f'"{name}"'.encode() in data}
    # Arrow's reader takes days and times of day for numbers, so they are read as the text that they are.
    texts = {name for name, wanted in named.items() if pa.types.is_date(wanted) or pa.types.is_time(wanted)}
    told = pa.schema([(name, pa.string() if name in texts else wanted) for name, wanted in named.items()])
    options = pa.json.ParseOptions(explicit_schema=told, unexpected_field_behavior="infer")
    rows = pa.json.read_json(_opened(data), parse_options=options)
    for place, name in enumerate(rows.column_names):
        if name in texts:
            rows = rows.set_column(place, name, rows.column(place).cast(named[name]))
    return rows


_READERS: Final[dict[str, Callable[[bytes, _Types], Any]]] = {
    ".csv": _csv,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".parquet": _parquet,
    ".pq": _parquet,
}
ROW_FILE_ENDINGS: Final = tuple(_READERS)
"""How the names of files end whose rows can be read."""


_TEXT_ENDINGS: Final = (".csv", ".jsonl", ".ndjson")


def rows_of_file(name: str, data: bytes, schema: Schema) -> pa.Table:
    """Return the rows of a file, whose kind its name says, as a table with that schema understands them."""
    ending = next((ending for ending in ROW_FILE_ENDINGS if name.lower().endswith(ending)), None)
    if ending is None:
        raise InvalidInputError(f"{name} ends in none of {', '.join(ROW_FILE_ENDINGS)}: name it after what it is")
    if ending in _TEXT_ENDINGS:
        _check_text(name, data)
    types = {column.name: type_to_arrow(column.type) for column in schema.columns}
    try:
        found: pa.Table = _READERS[ending](data, types)
        # A file can claim that bytes are text; nobody could read them again.
        found.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, OSError) as error:
        raise InvalidInputError(f"{name} cannot be read as {ending[1:]} ({error}): correct it and try again") from error
    return found


def _check_text(name: str, data: bytes) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInputError(
            f"{name} is not UTF-8: line {line} holds the byte 0x{data[error.start]:02x}; save it as UTF-8 and try again"
        ) from error
