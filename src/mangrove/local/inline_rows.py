"""Rows inside a manifest entry, as an Arrow IPC stream.

The fields of the stream have their column ids in the metadata, as the columns of a data file do, so that
both are read by the same rules. The stream is not compressed: the schema, which is the larger part of a few
rows, is the same in all deltas of a table, so that compression of the tree node saves more.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from mangrove.errors import FormatError
from mangrove.local.schema_projection import FIELD_ID, conform_rows, match_by_id
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.model.manifests import DataFile
from mangrove.model.schema import Schema
from mangrove.model.types import Column

__all__ = ["InlineRowsReader", "encode_inline_rows"]

_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


def encode_inline_rows(rows: pa.Table) -> bytes:
    """Encode rows with column ids."""
    slim, header = _build_header(rows.schema.serialize().to_pybytes())
    # Columns of plain types differ only in their fields, and a cast takes as long as all the rest.
    is_plain = not any(map(pa.types.is_nested, slim.types))
    slimmed = pa.Table.from_arrays(rows.columns, schema=slim) if is_plain else rows.cast(slim)
    batches = slimmed.combine_chunks().to_batches()
    return b"".join([header, *(batch.serialize().to_pybytes() for batch in batches), _END_OF_STREAM])


@lru_cache(maxsize=64)
def _build_header(schema: bytes) -> tuple[pa.Schema, bytes]:
    """Return the schema of inline rows and its message, with which the stream begins.

    The argument is a serialized schema: Arrow compares schemas without the column ids.
    """
    slim = pa.schema([_strip_metadata(field) for field in pa.ipc.read_schema(pa.py_buffer(schema))])
    return slim, slim.serialize().to_pybytes()


class InlineRowsReader:
    """The inline rows of a manifest entry, read like a data file with one row group."""

    def __init__(self, file: DataFile) -> None:
        self._file = file
        self.row_count = file.row_count

    @cached_property
    def rows(self) -> pa.Table:
        """The rows, which are decoded when they are first used: often a later write has deleted all of them."""
        file = self._file
        assert file.inline_rows is not None
        # Arrow's threads may outlive the bytes of this process, see `local.parquet`.
        copy = pa.BufferOutputStream()
        copy.write(file.inline_rows)
        try:
            rows = pa.ipc.open_stream(copy.getvalue()).read_all()
            rows.validate(full=True)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise FormatError(
                f"the inline rows of {file.location} are damaged: {error}. Run `mangrove check`"
            ) from error
        if rows.num_rows != file.row_count:
            raise FormatError(
                f"{file.location} has {rows.num_rows} inline rows, but its manifest says {file.row_count}"
            )
        return rows

    def read_all(self, columns: Sequence[Column]) -> pa.Table:
        """Return all rows with these columns; a column that the rows lack is null."""
        schema = _build_schema(tuple(columns))
        header = _build_plain_header(schema)
        if header is not None and self._file.inline_rows is not None and self._file.inline_rows.startswith(header):
            return pa.Table.from_arrays(self.rows.columns, schema=schema_to_arrow(schema))
        return conform_rows(self.rows, schema, match_by_id, is_checked=False)

    def read_row_group(self, number: int, columns: Sequence[Column]) -> pa.Table:
        """Return all rows: they are the row group 0."""
        assert number == 0
        return self.read_all(columns)


@lru_cache(maxsize=64)
def _build_schema(columns: tuple[Column, ...]) -> Schema:
    """Return the schema of requested columns; a scan requests the same of many entries."""
    return Schema(columns)


@lru_cache(maxsize=64)
def _build_plain_header(schema: Schema) -> bytes | None:
    """Return the header of inline rows with exactly these columns; None if their types have fields of their own."""
    slim, header = _build_header(schema_to_arrow(schema).serialize().to_pybytes())
    return None if any(map(pa.types.is_nested, slim.types)) else header


def _strip_metadata(field: Any) -> Any:
    """Return a nullable field with no metadata but the column ids, at every level."""
    arrow = field.type
    if pa.types.is_struct(arrow):
        arrow = pa.struct([_strip_metadata(arrow.field(place)) for place in range(arrow.num_fields)])
    elif pa.types.is_map(arrow):
        arrow = pa.map_(
            _strip_metadata(arrow.key_field).with_nullable(nullable=False), _strip_metadata(arrow.item_field)
        )
    elif pa.types.is_list(arrow):
        arrow = pa.list_(_strip_metadata(arrow.value_field))
    return pa.field(field.name, arrow, metadata={FIELD_ID: field.metadata[FIELD_ID]})
