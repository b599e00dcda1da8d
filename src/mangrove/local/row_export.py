"""Encoding of rows as a CSV or Parquet file, batch by batch."""

import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

__all__ = ["encode_csv", "encode_parquet"]


def encode_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    r"""Yield the parts of a CSV file with a header; nested values and bytes become JSON and hexadecimal text.

    >>> b"".join(encode_csv(pa.schema([("id", pa.int64())]), [pa.record_batch({"id": [1, None]})]))
    b'"id"\n1\n\n'
    """
    flat = pa.schema([(field.name, pa.string() if _needs_text(field.type) else field.type) for field in schema])
    sink: Any = pa.BufferOutputStream()
    with pa_csv.CSVWriter(sink, flat):
        pass
    yield sink.getvalue().to_pybytes()
    for batch in batches:
        columns = [_to_text(column) if _needs_text(column.type) else column for column in batch.columns]
        sink = pa.BufferOutputStream()
        options = pa_csv.WriteOptions(include_header=False)
        with pa_csv.CSVWriter(sink, flat, write_options=options) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=flat))
        yield sink.getvalue().to_pybytes()


def encode_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield the parts of a Parquet file."""
    sink = _Parts()
    with pq.ParquetWriter(pa.PythonFile(sink, "w"), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


class _Parts(io.RawIOBase):
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


def _needs_text(kind: Any) -> bool:
    return bool(pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _to_text(column: Any) -> Any:
    return pa.array([None if value is None else _format(value) for value in column.to_pylist()], pa.string())


def _format(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else json.dumps(value, default=str, ensure_ascii=False)
