"""Reader for Parquet, CSV and JSON Lines files, with Hive partition folders."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from mangrove.errors import InvalidInputError
from mangrove.local.casts import format_sql_type, parse_timestamps
from mangrove.local.parquet import copy_to_arrow_buffer
from mangrove.model.arrow_schema import type_to_arrow
from mangrove.model.schema import Schema

__all__ = ["ROW_FILE_SUFFIXES", "add_partition_columns", "filter_row_files", "parse_partition_folders", "read_row_file"]

_PC: Final[Any] = pc
"""Untyped alias, because the stubs of pyarrow do not cover all call forms."""
_CSV_VALUE: Final = re.compile(r"In CSV column #(?P<column>\d+): Row #(?P<row>\d+): (?P<why>.*)", re.DOTALL)
_CSV_QUOTED: Final = re.compile(r"(invalid value|Error converting) '(?P<text>.*)'", re.DOTALL)
_Types = Mapping[str, Any]
"""Arrow types of the table's columns, by name; the text 2.50 alone does not determine its type."""


def _open_buffer(data: bytes) -> Any:
    return pa.BufferReader(copy_to_arrow_buffer(data))


def _parquet(data: bytes, _: _Types) -> Any:
    return pa.parquet.read_table(_open_buffer(data))


_NAN: Final = re.compile(rb"(?i)\bnan\b")
_NAN_TEXTS: Final = frozenset({"NaN", "nan", "-NaN", "-nan"})


def _csv(data: bytes, types: _Types) -> Any:
    # Columns are known in any case of letters, and Arrow knows types by the names of the heading alone.
    known_types = {name.casefold(): arrow_type for name, arrow_type in types.items()}
    heading = _heading(data)
    types = {name: known_types[name.casefold()] for name in heading if name.casefold() in known_types}
    # Arrow takes NaN for null in all columns or in none, and a moment only with its zone: those are read as text.
    numbers = (
        {name for name, arrow_type in types.items() if pa.types.is_floating(arrow_type)} if _NAN.search(data) else set()
    )
    timestamps = {
        name for name, arrow_type in types.items() if pa.types.is_timestamp(arrow_type) and arrow_type.tz is not None
    }
    column_types = {
        name: pa.string() if name in numbers | timestamps else arrow_type for name, arrow_type in types.items()
    }
    # Quoted or not, an empty field of a text column is text; elsewhere it is null.
    options = pa.csv.ConvertOptions(column_types=column_types, strings_can_be_null=False)
    rows = _read_csv(data, options, types)
    nulls: list[str] = options.null_values or []
    number_nulls = [text for text in nulls if text not in _NAN_TEXTS]
    for place, name in enumerate(rows.column_names):
        if name not in numbers | timestamps:
            continue
        texts = _PC.utf8_trim_whitespace(rows.column(place))
        is_null = _PC.is_in(texts, pa.array(nulls if name in timestamps else number_nulls, pa.string()))
        known = _PC.if_else(is_null, None, texts)
        try:
            read = parse_timestamps(known, types[name]) if name in timestamps else known.cast(types[name])
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"column {name}: {error}") from error
        rows = rows.set_column(place, name, read)
    return rows


def _heading(data: bytes) -> list[str]:
    return pa.csv.open_csv(_open_buffer(data), read_options=_one_thread()).schema.names


def _one_thread() -> pa.csv.ReadOptions:
    """Return read options with which Arrow reports row numbers."""
    return pa.csv.ReadOptions(use_threads=False)


def _read_csv(data: bytes, options: Any, types: _Types) -> Any:
    """Return the rows of a CSV file; an error names the row, the column and the expected type."""
    try:
        return pa.csv.read_csv(_open_buffer(data), convert_options=options)
    except pa.ArrowInvalid:
        pass
    try:
        return pa.csv.read_csv(_open_buffer(data), read_options=_one_thread(), convert_options=options)
    except pa.ArrowInvalid as error:
        match = _CSV_VALUE.match(str(error))
        if match is None:
            raise
        name = _heading(data)[int(match["column"])]
        value = _CSV_QUOTED.search(match["why"])
        why = f"holds {value['text']!r}" if value else match["why"]
        column_type = f", which is {format_sql_type(types[name])}" if name in types else ""
        raise pa.ArrowInvalid(f"row {int(match['row']) - 1} of column {name!r}{column_type}: {why}") from error


def _json_lines(data: bytes, types: _Types) -> Any:
    named = {name: arrow_type for name, arrow_type in types.items() if f'"{name}"'.encode() in data}
    # Arrow's reader parses dates and times of day as numbers, so they are read as text.
    texts = {name for name, arrow_type in named.items() if pa.types.is_date(arrow_type) or pa.types.is_time(arrow_type)}
    explicit = pa.schema([(name, pa.string() if name in texts else arrow_type) for name, arrow_type in named.items()])
    options = pa.json.ParseOptions(explicit_schema=explicit, unexpected_field_behavior="infer")
    rows = pa.json.read_json(_open_buffer(data), parse_options=options)
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
ROW_FILE_SUFFIXES: Final = tuple(_READERS)
"""The suffixes of supported files."""


_REMEDIES: Final = {
    ".json": "write each object on a line of its own, and call the file .jsonl",
    **dict.fromkeys((".gz", ".zip", ".bz2", ".xz", ".zst"), "unpack it first"),
    **dict.fromkeys((".xls", ".xlsx", ".ods"), "save the sheet as CSV"),
}
_TEXT_ENDINGS: Final = (".csv", ".jsonl", ".ndjson")


def read_row_file(name: str, data: bytes, schema: Schema | None = None) -> pa.Table:
    """Return the rows of a file, by the type in its name, with the types of the schema or of the file itself."""
    ending = next((ending for ending in ROW_FILE_SUFFIXES if name.lower().endswith(ending)), None)
    if ending is None:
        remedy = next(
            (text for end, text in _REMEDIES.items() if name.lower().endswith(end)), "name it after what it is"
        )
        raise InvalidInputError(f"{name} ends in none of {', '.join(ROW_FILE_SUFFIXES)}: {remedy}")
    if ending in _TEXT_ENDINGS:
        _check_text(name, data)
    types = {} if schema is None else {column.name: type_to_arrow(column.type) for column in schema.columns}
    try:
        found: pa.Table = _READERS[ending](data, types)
        # A file can declare invalid bytes as text.
        found.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, OSError) as error:
        raise InvalidInputError(
            f"{name} cannot be read as {ending[1:]} ({_reason(error)}): correct it and try again"
        ) from error
    return found


def _reason(error: Exception) -> str:
    """Return the first line of Arrow's message, without its name for the input buffer."""
    return str(error).splitlines()[0].removeprefix("Could not open Parquet input source '<Buffer>': ").rstrip(".")


def _check_text(name: str, data: bytes) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInputError(
            f"{name} is not UTF-8: line {line} holds the byte 0x{data[error.start]:02x}; save it as UTF-8 and try again"
        ) from error


_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


def filter_row_files(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths of files with rows; names that start with `_` or `.` are metadata of the program that wrote them.

    >>> list(filter_row_files(["day=1/a.parquet", "_SUCCESS", "_delta_log/0.json", ".a.parquet.crc", "readme.txt"]))
    ['day=1/a.parquet']
    """
    for path in paths:
        if path.lower().endswith(ROW_FILE_SUFFIXES) and not any(step[:1] in ("_", ".") for step in path.split("/")):
            yield path


def parse_partition_folders(path: str) -> dict[str, str | None]:
    """Return the partition values in the folders of a path.

    >>> parse_partition_folders("day=2026-11-01/city=S%C3%A3o Paulo/part-0.parquet")
    {'day': '2026-11-01', 'city': 'São Paulo'}
    >>> parse_partition_folders("city=__HIVE_DEFAULT_PARTITION__/part-0.parquet")
    {'city': None}
    """
    steps = (step.partition("=") for step in path.split("/")[:-1])
    return {unquote(name): None if value == _NULL else unquote(value) for name, equals, value in steps if equals}


def add_partition_columns(rows: pa.Table, values: Mapping[str, str | None], schema: Schema | None) -> pa.Table:
    """Return the rows with these values as columns of the table's types, or as text, unless the file has the column."""
    columns = () if schema is None else schema.columns
    types = {column.name.casefold(): type_to_arrow(column.type) for column in columns}
    there = {name.casefold() for name in rows.column_names}
    for name, text in values.items():
        if name.casefold() in there:
            continue
        arrow_type = types.get(name.casefold(), pa.string())
        try:
            value: Any = pa.scalar(text, pa.string()).cast(arrow_type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInputError(
                f"the folder {name}={text} holds no {arrow_type} as the table's column {name!r} does ({error}): "
                "rename it"
            ) from error
        rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    return rows
