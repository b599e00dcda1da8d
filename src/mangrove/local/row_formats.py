"""Output formats of rows: text cells, CSV, JSON, NDJSON and Parquet."""

import csv
import datetime
import decimal
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mangrove.local.python_rows import to_python_values
from mangrove.model.json_codec import Json

__all__ = [
    "encode_parquet",
    "encode_rows",
    "format_cell",
    "is_number_type",
    "open_frame",
    "open_rows",
    "slice_batches",
    "to_json_value",
    "to_text_rows",
    "write_parquet",
]

_CHUNK_ROWS: Final = 1000
"""Number of rows that are converted and written at once: the first ones appear soon, and memory stays small."""
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False).encode


def to_json_value(value: Any) -> Json:
    """Return a value of a row as JSON; types that JSON lacks become text.

    >>> to_json_value([0.5, float("nan"), float("-inf")])
    [0.5, 'NaN', '-Infinity']
    """
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case None | bool() | int() | float() | str():
            return value
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case bytes() | bytearray():
            return value.hex()
        case dict():
            return {str(key): to_json_value(inner) for key, inner in value.items()}
        case tuple() if hasattr(value, "asDict"):
            # A struct of Spark.
            return {key: to_json_value(inner) for key, inner in value.asDict().items()}
        case list() | tuple():
            return [to_json_value(inner) for inner in value]
        case _:
            return str(value)


def format_cell(value: Any) -> str:
    """Return a value as text; lists and structs are JSON.

    >>> format_cell(decimal.Decimal("1.50")), format_cell(True), format_cell({"a": [1, None]})
    ('1.50', 'true', '{"a": [1, null]}')
    """
    converted = to_json_value(value)
    return converted if isinstance(converted, str) else _ENCODE(converted)


def is_number_type(arrow: pa.DataType) -> bool:
    """Return whether values of an Arrow type are numbers."""
    return pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_decimal(arrow)


def slice_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in small batches."""
    for batch in batches:
        for start in range(0, batch.num_rows, _CHUNK_ROWS):
            yield batch.slice(start, _CHUNK_ROWS)


def open_frame(frame: Any, limit: int | None = None) -> pa.RecordBatchReader:
    """Return a reader of the rows of an SQL engine's frame, which DuckDB computes on demand and Spark at once."""
    if hasattr(frame, "to_batches"):
        return pa.RecordBatchReader.from_batches(frame.schema, frame.to_batches(limit))
    rows: pa.Table = (frame if limit is None else frame.limit(limit)).toArrow()
    return rows.to_reader()


def open_rows(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> pa.RecordBatchReader:
    """Return a reader of rows of Python values."""
    columns = [pa.array(column) for column in zip(*rows, strict=True)] or [pa.nulls(0) for _ in names]
    return pa.Table.from_arrays(columns, list(names)).to_reader()


def to_text_rows(batch: pa.RecordBatch) -> list[tuple[str | None, ...]]:
    """Return each row as text, and null as None."""
    return list(zip(*map(_to_text_column, batch.columns), strict=True))


def encode_rows(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], row_format: str, *, ensure_ascii: bool = False
) -> Iterator[str]:
    """Yield rows as csv, json or ndjson; each text ends with a whole row.

    >>> batches = [pa.record_batch({"id": [1, 2], "city": ["Oslo", None]})]
    >>> print(*encode_rows(batches, ["id", "city"], "csv"), sep="")
    id,city
    1,Oslo
    2,
    <BLANKLINE>
    >>> print(*encode_rows(batches, ["id", "city"], "json"), sep="")
    [
      {"id": 1, "city": "Oslo"},
      {"id": 2, "city": null}
    ]
    <BLANKLINE>
    """
    if row_format == "csv":
        yield _encode_csv([names])
        yield from (_encode_csv(to_text_rows(batch)) for batch in slice_batches(batches))
        return
    is_array = row_format == "json"
    before, between = ("[\n  ", ",\n  ") if is_array else ("", "\n")
    for rows in _encode_objects(batches, ensure_ascii=ensure_ascii):
        yield before + between.join(rows)
        before = between
    if before == between:
        yield "\n]\n" if is_array else "\n"
    elif is_array:
        yield "[]\n"


def write_parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema, file: Any) -> None:
    """Write rows to an open binary file as Parquet."""
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


def encode_parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[bytes]:
    """Yield the parts of a Parquet file."""
    file = _WrittenParts()
    with pq.ParquetWriter(pa.PythonFile(file, "w"), schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield file.take()
    yield file.take()


class _WrittenParts(io.RawIOBase):
    """A file that collects what is written until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._written = bytearray()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Collect bytes."""
        self._written += data
        return len(data)

    def take(self) -> bytes:
        """Return what was written since the last call."""
        part = bytes(self._written)
        self._written.clear()
        return part


def _encode_objects(batches: Iterable[pa.RecordBatch], *, ensure_ascii: bool) -> Iterator[list[str]]:
    encode = json.JSONEncoder(ensure_ascii=ensure_ascii).encode
    for batch in slice_batches(batches):
        names = batch.schema.names
        columns = map(_to_json_column, batch.columns)
        yield [encode(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def _encode_csv(rows: Iterable[Sequence[str | None]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _to_text_column(values: Any) -> list[str | None]:
    if pa.types.is_boolean(values.type) or pa.types.is_integer(values.type):
        values = values.cast(pa.string())
    return [value if value is None or isinstance(value, str) else _ENCODE(value) for value in _to_json_column(values)]


def _to_json_column(values: Any) -> list[Any]:
    """Return the values of a column as JSON, as `to_json_value` does, but converted by Arrow where it can."""
    kind, arrow = pa.types, values.type
    if kind.is_decimal(arrow) or kind.is_date(arrow):
        return list(values.cast(pa.string()).to_pylist())
    if kind.is_timestamp(arrow) or kind.is_time(arrow):
        return list(_format_times(values).to_pylist())
    is_finite = kind.is_floating(arrow) and pc.all(pc.is_finite(values)).as_py() is not False
    if is_finite or kind.is_boolean(arrow) or kind.is_integer(arrow) or kind.is_string(arrow):
        return list(values.to_pylist())
    return [to_json_value(value) for value in to_python_values(values)]


def _format_times(values: Any) -> Any:
    """Return times in ISO 8601, without a fraction that is zero."""
    in_utc = values if getattr(values.type, "tz", None) is None else values.cast(pa.timestamp(values.type.unit, "UTC"))
    text = pc.replace_substring(in_utc.cast(pa.string()), " ", "T")
    return pc.replace_substring(pc.replace_substring_regex(text, r"\.0+(Z?)$", r"\1"), "Z", "+00:00")
