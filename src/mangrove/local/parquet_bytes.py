"""The bytes of a Parquet file as Arrow takes them: all of a small file, of a larger one what is asked for."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mangrove.local.arrow_memory import arrow_bytes, put_bytes
from mangrove.local.at_once import at_once
from mangrove.local.footer_seal import footer_size_bytes, is_as_sealed
from mangrove.model.manifests import DataFile
from mangrove.storage.port import Store

__all__ = ["ParquetBytes"]

_WHOLE_SIZE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Up to this size one request for all of a file costs less than several for parts of it."""
_END_SIZE_BYTES: Final = 64 * 1024
"""How much of a larger file is read first: its footer, unless the columns are very many."""
_GAP_SIZE_BYTES_MAX: Final = 512 * 1024
"""Columns that lie so near to each other are read by one request, with what is between them."""
_BEHIND_SIZE_BYTES: Final = 100
"""So far behind a column Arrow may look, because writers of old counted too few bytes."""


class ParquetBytes:
    """A file of a store, opened; a large one has its footer alone, until columns are fetched.

    The buffer is as large as the file, but memory is taken only for what is put into it.
    """

    def __init__(self, store: Store, file: DataFile) -> None:
        self._store = store
        self._file = file
        self._is_whole = file.size_bytes <= _WHOLE_SIZE_BYTES_MAX
        self._end = store.read(file.path) if self._is_whole else self._read_end()
        if not is_as_sealed(self._end):
            # As Arrow refuses a page that does not match its checksum.
            raise OSError("its footer does not match its checksum")
        self._buffer = self._with_end()
        self.parquet = self._opened()

    def fetch(self, names: Sequence[str]) -> None:
        """Read what the columns of these names need."""
        groups = range(self.parquet.metadata.num_row_groups)
        self._fetch([chunk for number in groups for chunk in self._chunks(number, names)])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows; of a large file no more than one row group is held at a time."""
        if self._is_whole:
            yield from self.parquet.iter_batches()
            return
        for number in range(self.parquet.metadata.num_row_groups):
            self._buffer = self._with_end()
            self._fetch(self._chunks(number))
            yield from self._opened(metadata=self.parquet.metadata).iter_batches(row_groups=[number])

    def _opened(self, **options: Any) -> pq.ParquetFile:
        return pq.ParquetFile(pa.BufferReader(self._buffer), page_checksum_verification=True, **options)

    def _read_end(self) -> bytes:
        """Return the last bytes of the file, with all of its footer."""
        start = self._file.size_bytes - _END_SIZE_BYTES
        end = self._store.read(self._file.path, start, _END_SIZE_BYTES)
        missing = min(start, footer_size_bytes(end) - len(end))
        return end if missing <= 0 else self._store.read(self._file.path, start - missing, missing) + end

    def _with_end(self) -> pa.Buffer:
        if self._is_whole:
            return arrow_bytes(self._end)
        buffer = pa.allocate_buffer(self._file.size_bytes)
        put_bytes(buffer, self._file.size_bytes - len(self._end), self._end)
        return buffer

    def _chunks(self, number: int, names: Sequence[str] | None = None) -> Iterator[tuple[int, int]]:
        """Yield from where to where a row group's columns lie, all or those of some names with all inside them."""
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

    def _fetch(self, chunks: Iterable[tuple[int, int]]) -> None:
        if self._is_whole:
            return
        at_once(self._fill, list(_joined(chunks, self._file.size_bytes)))

    def _fill(self, piece: tuple[int, int]) -> None:
        start, end = piece
        data = self._store.read(self._file.path, start, end - start)
        if len(data) != end - start:
            raise OSError(f"it ends before byte {end}, though it should have {self._file.size_bytes}")
        put_bytes(self._buffer, start, data)


def _joined(chunks: Iterable[tuple[int, int]], size_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield pieces that cover the chunks, those near to each other as one.

    >>> list(_joined([(3_000_000, 3_000_010), (0, 10), (20, 30)], 3_000_050))
    [(0, 130), (3000000, 3000050)]
    """
    piece: tuple[int, int] | None = None
    for start, end in sorted(chunks):
        if not 0 <= start <= end <= size_bytes:
            raise OSError(f"its footer tells of bytes {start} to {end}, but it has {size_bytes}")
        reach = min(end + _BEHIND_SIZE_BYTES, size_bytes)
        if piece is not None and start - piece[1] <= _GAP_SIZE_BYTES_MAX:
            piece = piece[0], max(piece[1], reach)
            continue
        if piece is not None:
            yield piece
        piece = start, reach
    if piece is not None:
        yield piece
