"""Parquet files on a store: written whole, read by columns."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mangrove.errors import FormatError, NotFoundError
from mangrove.local.conforming import FIELD_ID, by_id, by_name, conformed
from mangrove.local.footer_seal import UNSEALED, sealed
from mangrove.local.parquet_bytes import ParquetBytes
from mangrove.model.arrow_form import schema_to_arrow
from mangrove.model.manifests import PARQUET, DataFile
from mangrove.model.paths import is_uri
from mangrove.model.schema import Schema
from mangrove.model.types import Column
from mangrove.storage.port import Store

__all__ = ["count_rows", "encoded", "read_columns"]

_UNREADABLE: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What Arrow says of a file that is no Parquet, or damaged; the last of them of a column's name."""


def encoded(rows: pa.Table) -> bytes:
    """Return the rows as a Parquet file, with the ids of the columns, and checksums of each page and of the footer."""
    sink = pa.BufferOutputStream()
    stored = pa.schema([field.with_type(_stored(field.type)) for field in rows.schema])
    written = rows.cast(stored)
    _write(written, sink, **_aids_to_skipping(written))
    return sealed(memoryview(sink.getvalue()))


def read_columns(store: Store, file: DataFile, columns: Sequence[Column]) -> pa.Table:
    """Return the rows of a file with these columns, null where the file has none of them."""
    if not columns:
        # Only the number of rows is wanted, and that is known without opening the file.
        return pa.table({"rows": pa.nulls(file.row_count)}).select([])
    if file.content_type != PARQUET:
        raise FormatError(f"{file.path} is {file.content_type}: only Parquet files are read")
    schema = Schema(tuple(columns))
    try:
        stored = ParquetBytes(store, file)
        found = stored.parquet.schema_arrow
        matching = by_id if any(FIELD_ID in (field.metadata or {}) for field in found) else by_name
        names = [field.name for field in found if any(matching(field, column) for column in columns)]
        if not names:
            return _nulls(schema, stored.parquet.metadata.num_rows)
        stored.fetch(names)
        rows = stored.parquet.read(columns=names, use_threads=True)
    except NotFoundError as error:
        raise FormatError(f"{file.location} is missing though a version needs it: run `mangrove check`") from error
    except _UNREADABLE as error:
        raise FormatError(
            f"{file.location} is damaged or no Parquet file: {_reason(error)}. Run `mangrove check`"
        ) from error
    return conformed(rows, schema, matching, is_checked=False)


def count_rows(store: Store, file: DataFile) -> int:
    """Return how many rows a file has, having read all of them; what is no Parquet is taken at its word."""
    if file.content_type != PARQUET or is_uri(file.location):
        return file.row_count
    try:
        return sum(batch.num_rows for batch in ParquetBytes(store, file).batches())
    except (*_UNREADABLE, NotFoundError) as error:
        raise FormatError(f"a data file cannot be read: {_reason(error)}") from error


def _write(rows: pa.Table, sink: Any, **aids: Any) -> None:
    settings: dict[str, Any] = {"compression": "zstd", "version": "2.6", "store_schema": False, **aids}
    with pq.ParquetWriter(sink, rows.schema, write_page_checksum=True, **settings) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({"mangrove": UNSEALED})


def _aids_to_skipping(rows: pa.Table) -> dict[str, bool | list[str]]:
    """Return which columns get bounds and dictionaries: not those by which Spark would skip rows that are meant.

    To SQL, NaN is above all numbers, but the bounds that Arrow writes leave it out. To SQL, both
    zeros are equal, but a reader that looks a value up in a dictionary tells them apart.
    """
    floats = [found for name in rows.column_names for found in _floats(name, rows[name])]
    unbounded = {path for path, array in floats if pc.any(pc.is_nan(array)).as_py()}
    plain = {path for path, array in floats if any(map(_has_negative_zero, array.chunks))}
    if not unbounded and not plain:
        return {"write_statistics": True, "use_dictionary": True}
    sample = pa.BufferOutputStream()
    _write(rows.slice(0, 0), sample)
    columns: Any = pq.ParquetFile(pa.BufferReader(sample.getvalue())).schema
    paths = [columns.column(place).path for place in range(len(columns))]
    return {
        "write_statistics": [path for path in paths if path not in unbounded],
        "use_dictionary": [path for path in paths if path not in plain],
    }


def _floats(path: str, array: Any) -> Iterator[tuple[str, Any]]:
    """Give each column of floats with its path; filters never go into lists and maps."""
    if pa.types.is_floating(array.type):
        yield path, array
    elif pa.types.is_struct(array.type):
        for place in range(array.type.num_fields):
            yield from _floats(f"{path}.{array.type.field(place).name}", pc.struct_field(array, [place]))


def _has_negative_zero(chunk: Any) -> bool:
    bits = pa.int32() if pa.types.is_float32(chunk.type) else pa.int64()
    return bool(pc.any(pc.equal(chunk.view(bits), -(2 ** (bits.bit_width - 1)))).as_py())


def _stored(arrow: Any) -> Any:
    """Return the type with all inside it nullable: Arrow writes no null struct whose parts must not be null."""
    if pa.types.is_struct(arrow):
        fields = [arrow.field(place) for place in range(arrow.num_fields)]
        return pa.struct([field.with_type(_stored(field.type)).with_nullable(nullable=True) for field in fields])
    if pa.types.is_map(arrow):
        item = arrow.item_field
        key: Any = arrow.key_field
        value: Any = item.with_type(_stored(item.type)).with_nullable(nullable=True)
        of_fields: Any = pa.map_(key, value)
        return of_fields
    if pa.types.is_list(arrow):
        element = arrow.value_field
        return pa.list_(element.with_type(_stored(element.type)).with_nullable(nullable=True))
    return arrow


def _nulls(schema: Schema, row_count: int) -> pa.Table:
    arrow = schema_to_arrow(schema)
    return pa.table([pa.nulls(row_count, field.type) for field in arrow], schema=arrow)


def _reason(error: Exception) -> str:
    """Return what Arrow says first; the rest repeats it as a stack does."""
    return str(error).splitlines()[0].rstrip(".")
