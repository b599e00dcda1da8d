"""Rows of files whose formats define columns, for tables without a schema."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.orc
import pyarrow.parquet

from mangrove.errors import FormatError, InvalidInputError
from mangrove.local.parquet import copy_to_arrow_buffer
from mangrove.model.manifests import IDENTITY_ENCODING, PARQUET, DataFile
from mangrove.storage.port import Store
from mangrove.tables.schemaless_files import BINARY, NewFile, detect_content_type

__all__ = ["describe_new_file", "read_stored_files"]


def _delimited(delimiter: str) -> Callable[[Any], pa.Table]:
    options = pa.csv.ParseOptions(delimiter=delimiter)
    return lambda source: pa.csv.read_csv(source, parse_options=options)


_READERS: Final[Mapping[str, Callable[[Any], pa.Table]]] = {
    PARQUET: pa.parquet.read_table,
    "text/csv": _delimited(","),
    "text/tsv": _delimited("\t"),
    "text/psv": _delimited("|"),
    "application/json": pa.json.read_json,
    "application/feather": pa.feather.read_table,
    "application/orc": pa.orc.read_table,
}


def describe_new_file(file: NewFile) -> tuple[str, str, int]:
    """Return the content type, the encoding and the number of rows, which only Parquet states, of a file to add.

    Raise an error if the content type is given as Parquet and the data is not.
    """
    detected, encoding = detect_content_type(file.name)
    content_type = file.content_type or detected
    if content_type != PARQUET:
        return content_type, encoding, 0
    try:
        rows = int(pa.parquet.read_metadata(pa.BufferReader(copy_to_arrow_buffer(file.data))).num_rows)
    except (pa.ArrowInvalid, OSError) as error:
        if file.content_type is None:
            return BINARY, encoding, 0
        raise InvalidInputError(
            f"the content type of {file.name!r} is {PARQUET}, but the data is not Parquet ({error}); give another one"
        ) from error
    return content_type, encoding, rows


def read_stored_files(store: Store, files: Sequence[DataFile], table: str) -> pa.Table:
    """Return the rows of files with all their columns; a missing column is null, and types are widened to fit.

    A column that has only nulls in all files is text.
    """
    unread = next((file for file in files if file.content_type not in _READERS), None)
    if unread is not None:
        raise InvalidInputError(
            f"{unread.location} of {table} is {unread.content_type or 'of no type'}, which has no columns; list the "
            f"files with files(). Rows are read of {', '.join(_READERS)}"
        )
    contents = store.read_many([file.path for file in files])
    tables = [_read_file(file, data) for file, data in zip(files, contents, strict=True)]
    try:
        rows = pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInputError(
            f"the files of {table} have columns whose types do not fit together: {error}"
        ) from error
    for place, field in enumerate(rows.schema):
        if pa.types.is_null(field.type):
            rows = rows.set_column(place, field.with_type(pa.string()), rows.column(place).cast(pa.string()))
    return rows


def _read_file(file: DataFile, data: bytes | None) -> pa.Table:
    if data is None:
        raise FormatError(f"{file.location} is missing; run `mangrove check`")
    source: Any = pa.BufferReader(copy_to_arrow_buffer(data))
    encoding: Any = file.content_encoding.replace("bzip2", "bz2")
    try:
        if encoding not in ("", IDENTITY_ENCODING):
            source = pa.BufferReader(pa.CompressedInputStream(source, encoding).read())
        return _READERS[file.content_type](source)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OSError, ValueError) as error:
        raise FormatError(f"{file.location} cannot be read as {file.content_type}: {error}") from error
