"""Parquet encoding and ranged reads, with page and footer checksums.

Arrow decodes in its own threads, and one of them may be the last to release the bytes
that it read. If these bytes belong to Python while the process exits, Python terminates
the thread, which aborts the process. Input for Arrow's threads is therefore copied once
into memory that Arrow owns.

Parquet has checksums for pages, but not for the footer, where one flipped bit changes
the id, name or bound of a column. The writer therefore lets the Parquet library put
`CHECKSUM_PLACEHOLDER` into the footer's metadata, and then overwrites its zeros with the
checksum of the footer. A footer without the placeholder, or with the zeros, is accepted:
other programs write no checksum, and not every file can be changed.
"""

import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mangrove.errors import FormatError, NotFoundError
from mangrove.local.inline_rows import InlineRowsReader
from mangrove.local.schema_projection import FIELD_ID, Matching, conform_rows, match_by_id, match_by_name
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.model.manifests import PARQUET, DataFile
from mangrove.model.paths import is_uri
from mangrove.model.schema import Schema
from mangrove.model.types import Column
from mangrove.parallel import map_parallel
from mangrove.storage.port import BufferedReads, Store

__all__ = [
    "CHECKSUM_PLACEHOLDER",
    "FOOTER_TAIL_BYTES",
    "GAP_SIZE_BYTES_MAX",
    "DataFileReader",
    "ParquetBytes",
    "copy_to_arrow_buffer",
    "count_rows",
    "encode_parquet",
    "encode_with_metadata",
    "find_footer_checksum",
    "is_footer_checksum_valid",
    "open_data_file",
    "parse_footer_size",
    "read_columns",
    "write_buffer_bytes",
]


def copy_to_arrow_buffer(data: bytes) -> pa.Buffer:
    """Copy bytes into memory that Arrow owns.

    >>> copy_to_arrow_buffer(b"abc").to_pybytes()
    b'abc'
    """
    buffer = pa.allocate_buffer(len(data))
    write_buffer_bytes(buffer, 0, data)
    return buffer


def write_buffer_bytes(buffer: pa.Buffer, start: int, data: bytes) -> None:
    """Write bytes into a newly allocated buffer at an offset."""
    if data:
        memoryview(buffer).cast("B")[start : start + len(data)] = data


FOOTER_TAIL_BYTES: Final = 8
"""Size of the trailer after a footer: its length in four bytes, and Parquet's magic bytes."""

_MARK: Final = b"mangrove.footer.crc32="
_ZEROS: Final = b"00000000"
CHECKSUM_PLACEHOLDER: Final = (_MARK + _ZEROS).decode()
"""Text whose zeros the checksum replaces; the last occurrence in the metadata of a footer counts."""


def parse_footer_size(end: bytes | memoryview) -> int:
    """Return the size of a file's footer and trailer, from the last bytes of the file."""
    return int.from_bytes(end[-FOOTER_TAIL_BYTES:-4], "little") + FOOTER_TAIL_BYTES


def find_footer_checksum(end: bytes | memoryview) -> tuple[int, bytes] | None:
    """Return the distance of the checksum from the end of the file, and its expected value; None if there is none.

    The bytes are a whole file, or the end of one that includes its footer.
    """
    footer = bytes(end[-parse_footer_size(end) :])
    # Column names and bounds can contain any text, but they precede the metadata.
    start = footer.rfind(_MARK) + len(_MARK)
    after = start + len(_ZEROS)
    if start < len(_MARK) or after > len(footer):
        return None
    # As though the zeros were still there: a checksum cannot be part of what it is of.
    checksum = zlib.crc32(footer[after:], zlib.crc32(footer[:start] + _ZEROS))
    return len(footer) - start, b"%08x" % checksum


def _write_footer_checksum(file: io.BytesIO) -> None:
    """Overwrite the zeros in the footer of a whole file with the checksum."""
    with file.getbuffer() as data:
        located = find_footer_checksum(data)
        if located is not None:
            before_end, checksum = located
            start = len(data) - before_end
            data[start : start + len(checksum)] = checksum


def is_footer_checksum_valid(end: bytes) -> bool:
    """Return whether a footer matches its checksum or has none; the bytes are the end of a file with its footer."""
    located = find_footer_checksum(end)
    if located is None:
        return True
    before_end, checksum = located
    start = len(end) - before_end
    return end[start : start + len(checksum)] in (checksum, _ZEROS)


_WHOLE_SIZE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Up to this size, reading a whole file with one request costs less than several ranged requests."""
_SHARED_SIZE_BYTES_MAX: Final = 128 * 1024 * 1024
"""Up to this size, all row groups of a file are read into one buffer: new memory for each costs more than the reads."""
_END_SIZE_BYTES: Final = 64 * 1024
"""Bytes read first from the end of a larger file: its footer, unless it has very many columns."""
GAP_SIZE_BYTES_MAX: Final = 512 * 1024
"""Columns with at most this many bytes between them are read with one request."""
_SERIAL_SIZE_BYTES_MAX: Final = 64 * 1024
"""Up to this size, passing columns to other threads takes longer than decoding them."""
_AFTER_SIZE_BYTES: Final = 100
"""Arrow may read this many bytes after a column, because old writers counted too few bytes."""


class ParquetBytes:
    """An open file of a store; only the footer of a large file is read at first.

    A buffer is as large as the file, but memory is used only for the ranges that are read. Several threads may
    read the same range into it: the bytes of a file never change.
    """

    def __init__(self, store: Store, file: DataFile) -> None:
        self._store = store
        self._file = file
        self._is_whole = file.size_bytes <= _WHOLE_SIZE_BYTES_MAX
        self._end = store.read(file.path) if self._is_whole else self._read_end()
        if not is_footer_checksum_valid(self._end):
            # As Arrow rejects a page that does not match its checksum.
            raise OSError("its footer does not match its checksum")
        self._buffer = self._with_end()
        self.parquet = self._open(self._buffer)

    def fetch(self, names: Sequence[str]) -> None:
        """Read the ranges of the columns with these names."""
        groups = range(self.parquet.metadata.num_row_groups)
        self._fetch(self._buffer, [chunk for number in groups for chunk in self._chunks(number, names)])

    def read_row_group(self, number: int, names: Sequence[str]) -> pa.Table:
        """Return these columns of a row group; several threads may call this."""
        use_threads = self._file.size_bytes > _SERIAL_SIZE_BYTES_MAX
        return self._open_row_group(number, names).read_row_group(number, columns=list(names), use_threads=use_threads)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows; at most one row group of a large file is in memory."""
        for number in range(self.parquet.metadata.num_row_groups):
            yield from self._open_row_group(number).iter_batches(row_groups=[number])

    def _open_row_group(self, number: int, names: Sequence[str] | None = None) -> pq.ParquetFile:
        """Open the bytes of a row group with a new reader, because Arrow's readers are not thread-safe."""
        is_shared = self._file.size_bytes <= _SHARED_SIZE_BYTES_MAX
        buffer = self._buffer if is_shared else pa.allocate_buffer(self._file.size_bytes)
        self._fetch(buffer, self._chunks(number, names))
        return self._open(buffer, metadata=self.parquet.metadata)

    def _open(self, buffer: pa.Buffer, **options: Any) -> pq.ParquetFile:
        return pq.ParquetFile(pa.BufferReader(buffer), page_checksum_verification=True, pre_buffer=False, **options)

    def _read_end(self) -> bytes:
        """Return the end of the file, including its footer."""
        start = self._file.size_bytes - _END_SIZE_BYTES
        end = self._store.read(self._file.path, start, _END_SIZE_BYTES)
        missing = min(start, parse_footer_size(end) - len(end))
        return end if missing <= 0 else self._store.read(self._file.path, start - missing, missing) + end

    def _with_end(self) -> pa.Buffer:
        if self._is_whole:
            return copy_to_arrow_buffer(self._end)
        buffer = pa.allocate_buffer(self._file.size_bytes)
        write_buffer_bytes(buffer, self._file.size_bytes - len(self._end), self._end)
        return buffer

    def _chunks(self, number: int, names: Sequence[str] | None = None) -> Iterator[tuple[int, int]]:
        """Yield the byte ranges of a row group's columns: all, or those with the names, including nested columns."""
        group: Any = self.parquet.metadata.row_group(number)
        for place in range(group.num_columns):
            column = group.column(place)
            path = column.path_in_schema
            if names is not None and not any(path == name or path.startswith(f"{name}.") for name in names):
                continue
            start = column.data_page_offset
            if column.has_dictionary_page and 0 < column.dictionary_page_offset < start:
                start = column.dictionary_page_offset
            yield start, start + column.total_compressed_size

    def _fetch(self, buffer: pa.Buffer, chunks: Iterable[tuple[int, int]]) -> None:
        if not self._is_whole:
            ranges = list(_coalesce_ranges(chunks, self._file.size_bytes))
            map_parallel(lambda piece: self._fill(buffer, *piece), ranges)

    def _fill(self, buffer: pa.Buffer, start: int, end: int) -> None:
        if isinstance(self._store, BufferedReads):
            count = self._store.read_into(self._file.path, start, memoryview(buffer).cast("B")[start:end])
        else:
            data = self._store.read(self._file.path, start, end - start)
            count = len(data)
            write_buffer_bytes(buffer, start, data)
        if count != end - start:
            raise OSError(f"it ends before byte {end}, though it should have {self._file.size_bytes}")


def _coalesce_ranges(chunks: Iterable[tuple[int, int]], size_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield ranges that cover the chunks; nearby chunks are merged into one.

    >>> list(_coalesce_ranges([(3_000_000, 3_000_010), (0, 10), (20, 30)], 3_000_050))
    [(0, 130), (3000000, 3000050)]
    """
    piece: tuple[int, int] | None = None
    for start, end in sorted(chunks):
        if not 0 <= start <= end <= size_bytes:
            raise OSError(f"its footer has a column at bytes {start} to {end}, but the file has {size_bytes}")
        limit = min(end + _AFTER_SIZE_BYTES, size_bytes)
        if piece is not None and start - piece[1] <= GAP_SIZE_BYTES_MAX:
            piece = piece[0], max(piece[1], limit)
            continue
        if piece is not None:
            yield piece
        piece = start, limit
    if piece is not None:
        yield piece


_UNREADABLE: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
"""Errors of Arrow for a file that is damaged or not Parquet; the last one is for column names."""


def encode_parquet(rows: pa.Table) -> bytes:
    """Encode rows as a Parquet file with column ids, page checksums and a footer checksum."""
    return encode_with_metadata(rows)[0]


def encode_with_metadata(rows: pa.Table) -> tuple[bytes, Any]:
    """Return the same file, and its metadata with the statistics of each row group."""
    stored = rows.cast(pa.schema([field.with_type(_storage_type(field.type)) for field in rows.schema]))
    # Its content is returned without a copy.
    sink = io.BytesIO()
    metadata = _write(stored, sink, **_choose_column_options(stored))
    _write_footer_checksum(sink)
    return sink.getvalue(), metadata


class DataFileReader:
    """A data file opened to read columns of single row groups; several threads may use it."""

    def __init__(self, store: Store, file: DataFile) -> None:
        if file.content_type != PARQUET:
            raise FormatError(f"{file.path} is {file.content_type}: only Parquet files are read")
        self._file = file
        with self._report_damage():
            self._bytes = ParquetBytes(store, file)
            self.arrow_schema: Any = self._bytes.parquet.schema_arrow
        self.metadata: Any = self._bytes.parquet.metadata
        has_ids = any(FIELD_ID in (field.metadata or {}) for field in self.arrow_schema)
        self.matching: Matching = match_by_id if has_ids else match_by_name

    def read_all(self, columns: Sequence[Column]) -> pa.Table:
        """Return all rows with these columns; a column that the file lacks is null."""
        names = self._select_names(columns)
        if not names:
            return _nulls(Schema(tuple(columns)), self.metadata.num_rows)
        with self._report_damage():
            self._bytes.fetch(names)
            rows = self._bytes.parquet.read(columns=names, use_threads=True)
        return conform_rows(rows, Schema(tuple(columns)), self.matching, is_checked=False)

    def read_row_group(self, number: int, columns: Sequence[Column]) -> pa.Table:
        """Return the rows of a row group with these columns; a column that the file lacks is null."""
        row_count = self.metadata.row_group(number).num_rows
        names = self._select_names(columns)
        if not names:
            return _nulls(Schema(tuple(columns)), row_count)
        with self._report_damage():
            rows = self._bytes.read_row_group(number, names)
            if rows.num_rows != row_count:
                raise OSError(f"row group {number} has {rows.num_rows} rows, but the footer has {row_count}")
        return conform_rows(rows, Schema(tuple(columns)), self.matching, is_checked=False)

    def _select_names(self, columns: Sequence[Column]) -> list[str]:
        return [field.name for field in self.matching.select_fields(self.arrow_schema, columns)]

    @contextmanager
    def _report_damage(self) -> Iterator[None]:
        try:
            yield
        except NotFoundError as error:
            raise FormatError(
                f"{self._file.location} is missing though a version needs it: run `mangrove check`"
            ) from error
        except _UNREADABLE as error:
            raise FormatError(
                f"{self._file.location} is damaged or no Parquet file: {_reason(error)}. Run `mangrove check`"
            ) from error


def open_data_file(store: Store, file: DataFile) -> DataFileReader | InlineRowsReader:
    """Open a data file, or its inline rows."""
    return InlineRowsReader(file) if file.is_inline else DataFileReader(store, file)


def read_columns(store: Store, file: DataFile, columns: Sequence[Column]) -> pa.Table:
    """Return the rows of a file with these columns; a column that the file lacks is null."""
    if not columns:
        # Only the number of rows is requested, which the manifest has.
        return pa.table({"rows": pa.nulls(file.row_count)}).select([])
    return open_data_file(store, file).read_all(columns)


def count_rows(store: Store, file: DataFile) -> int:
    """Return the number of rows of a file by reading it; for other formats and external files, the recorded number."""
    if file.is_inline:
        return InlineRowsReader(file).rows.num_rows
    if file.content_type != PARQUET or is_uri(file.location):
        return file.row_count
    try:
        return sum(batch.num_rows for batch in ParquetBytes(store, file).batches())
    except (*_UNREADABLE, NotFoundError) as error:
        raise FormatError(f"a data file cannot be read: {_reason(error)}") from error


_COMPRESSED_BYTES_MIN: Final = 1024
"""Fewer bytes of rows are not compressed: zstd takes two thirds of the time of writing the file, mostly footer."""
_ROW_GROUP_ROWS_MAX: Final = 256 * 1024
"""The rows that a selective filter decodes at least. With half as many, full scans take longer."""


def _write(rows: pa.Table, sink: Any, **aids: Any) -> Any:
    """Write a file and return its metadata."""
    collected: list[Any] = []
    settings: dict[str, Any] = {
        "compression": "zstd" if rows.nbytes >= _COMPRESSED_BYTES_MIN else "none",
        "version": "2.6",
        "store_schema": False,
        # As Iceberg specifies; engines decode integers faster than bytes.
        "store_decimal_as_integer": True,
        "write_page_checksum": True,
        "metadata_collector": collected,
    }
    with pq.ParquetWriter(sink, rows.schema, **settings, **aids) as writer:
        writer.write_table(rows, _ROW_GROUP_ROWS_MAX)
        writer.add_key_value_metadata({"mangrove": CHECKSUM_PLACEHOLDER})
    return collected[0]


def _choose_column_options(rows: pa.Table) -> dict[str, Any]:
    """Return the encodings of columns and which of them get bounds, with which Spark must not skip matching rows.

    In SQL, NaN is greater than all numbers, but the bounds that Arrow writes exclude it. In
    SQL, both zeros are equal, but a lookup in a dictionary of floats distinguishes them. A dictionary of
    mostly distinct values exceeds its limit, and building it takes as long as writing the
    column. Ascending integers, such as keys, are stored as differences, which are decoded
    ten times as fast as compressed integers.
    """
    floats = [leaf for name in rows.column_names for leaf in _floats(name, rows[name])]
    unbounded = {path for path, array in floats if pc.any(pc.is_nan(array)).as_py()}
    plain = {name for name in rows.column_names if _is_mostly_distinct(rows[name])}
    ascending = [name for name in rows.column_names if name in plain and _is_ascending(rows[name])]
    plain |= {path for path, _ in floats}
    if not unbounded and not plain:
        return {"write_statistics": True, "use_dictionary": True}
    paths = rows.column_names
    if any(map(pa.types.is_nested, rows.schema.types)):
        sample = pa.BufferOutputStream()
        _write(rows.slice(0, 0), sample)
        columns: Any = pq.ParquetFile(pa.BufferReader(sample.getvalue())).schema
        paths = [columns.column(place).path for place in range(len(columns))]
    return {
        "write_statistics": [path for path in paths if path not in unbounded],
        "use_dictionary": [path for path in paths if path not in plain],
        "column_encoding": dict.fromkeys(ascending, "DELTA_BINARY_PACKED"),
    }


def _floats(path: str, array: Any) -> Iterator[tuple[str, Any]]:
    """Yield each float column with its path; skip those in lists and maps, to which filters do not apply."""
    if pa.types.is_floating(array.type):
        yield path, array
    elif pa.types.is_struct(array.type):
        for place in range(array.type.num_fields):
            yield from _floats(f"{path}.{array.type.field(place).name}", pc.struct_field(array, [place]))


_SAMPLE_ROWS_MAX: Final = 64 * 1024
_SAMPLED_ROWS_MIN: Final = 32 * 1024
"""Minimum number of rows to sample; for fewer rows a dictionary costs next to nothing."""
_ROWS_PER_SAMPLE: Final = 12
"""A sample has one row of this many, so that a value which it has once occurs a few times at most in the column."""


def _is_mostly_distinct(array: Any) -> bool:
    """Return whether the first rows of a large column have too many distinct values for a useful dictionary."""
    if len(array) < _SAMPLED_ROWS_MIN or not (pa.types.is_primitive(array.type) or pa.types.is_string(array.type)):
        return False
    sample = _sample(array)
    return bool(pc.count_distinct(sample).as_py() > len(sample) * 7 // 8)


def _is_ascending(array: Any) -> bool:
    """Return whether the first values of a column are stored as integers and none is less than the one before."""
    if not (pa.types.is_integer(array.type) or pa.types.is_timestamp(array.type)):
        return False
    sample = _sample(array).drop_null().combine_chunks()
    return pc.all(pc.less_equal(sample[:-1], sample[1:])).as_py() is not False


def _sample(array: Any) -> Any:
    """Return the first rows of a large column."""
    return array.slice(0, min(_SAMPLE_ROWS_MAX, len(array) // _ROWS_PER_SAMPLE))


def _storage_type(arrow: Any) -> Any:
    """Return the type with all nested fields nullable: Arrow cannot write a null struct with NOT NULL fields."""
    if pa.types.is_struct(arrow):
        fields = [arrow.field(place) for place in range(arrow.num_fields)]
        return pa.struct([field.with_type(_storage_type(field.type)).with_nullable(nullable=True) for field in fields])
    if pa.types.is_map(arrow):
        item = arrow.item_field
        key: Any = arrow.key_field
        value: Any = item.with_type(_storage_type(item.type)).with_nullable(nullable=True)
        of_fields: Any = pa.map_(key, value)
        return of_fields
    if pa.types.is_list(arrow):
        element = arrow.value_field
        return pa.list_(element.with_type(_storage_type(element.type)).with_nullable(nullable=True))
    return arrow


def _nulls(schema: Schema, row_count: int) -> pa.Table:
    arrow = schema_to_arrow(schema)
    return pa.table([pa.nulls(row_count, field.type) for field in arrow], schema=arrow)


def _reason(error: Exception) -> str:
    """Return the first line of Arrow's message; later lines repeat it."""
    return str(error).splitlines()[0].rstrip(".")
