"""The files of a store for DuckDB's Parquet reader, which reads them by the interface of fsspec.

Every range is read by the store, which retries, limits and caches requests as for all other reads.
Files do not change, and their URIs contain their sizes, so opening one needs no request.
"""

from collections import deque
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, unquote

from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]

from mangrove.errors import FormatError, MangroveError, NotFoundError
from mangrove.local.parquet import FOOTER_TAIL_BYTES, is_footer_checksum_valid, parse_footer_size
from mangrove.model.manifests import DataFile
from mangrove.storage.lru import LruCache
from mangrove.storage.port import Store

__all__ = ["StoreFileSystem"]

_WHOLE_SIZE_BYTES_MAX: Final = 1024 * 1024
"""Up to this size a file is read with one request."""
_CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
_FAILURES_MAX: Final = 64
_WRITTEN_AT: Final = datetime(2000, 1, 1, tzinfo=UTC)


class StoreFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The data files of one store; several threads may read them."""

    protocol = "mangrove"
    cachable = False

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._small_files = LruCache[bytes](_CACHE_BYTES_MAX)
        self._failures = deque[MangroveError](maxlen=_FAILURES_MAX)

    def build_uri(self, file: DataFile) -> str:
        """Return the URI by which DuckDB opens a file; it has no wildcards."""
        return f"{self.protocol}://{file.size_bytes}/{quote(file.path)}"

    def find_failure(self, message: str) -> MangroveError | None:
        """Return the error of a read that DuckDB reports as this message."""
        return next((one for one in reversed(self._failures) if str(one) in message), None)

    def read_range(self, path: str, size: int, start: int, length: int) -> bytes:
        """Read bytes of a file of a known size; a footer must match its checksum."""
        try:
            return self._read(path, size, start, length)
        except NotFoundError as error:
            reason = FormatError(f"{path} is missing though a version needs it: run `mangrove check`")
            self._failures.append(reason)
            raise reason from error
        except MangroveError as error:
            self._failures.append(error)
            raise

    def _read(self, path: str, size: int, start: int, length: int) -> bytes:
        if size > _WHOLE_SIZE_BYTES_MAX:
            return self._read_exactly(path, size, start, min(length, size - start))
        whole = self._small_files.get(path)
        if whole is None:
            whole = self._read_exactly(path, size, 0, size)
            self._small_files.put(path, whole, size)
        return whole[start : start + length]

    def _read_exactly(self, path: str, size: int, start: int, length: int) -> bytes:
        data = self._store.read(path, start, length)
        if len(data) < length:
            raise FormatError(f"{path} ends before byte {start + length} of {size}. Run `mangrove check`")
        # Only a part of a long footer is not checked.
        has_footer = start + length == size and FOOTER_TAIL_BYTES <= parse_footer_size(data) <= length
        if has_footer and not is_footer_checksum_valid(data):
            raise FormatError(f"{path} is damaged: its footer does not match its checksum. Run `mangrove check`")
        return data

    # DuckDB calls what follows.

    def open(self, path: str, *_: object, **__: object) -> "_OpenFile":
        """Open a file to read it; this reads nothing."""
        return _OpenFile(self, *_parse_uri(path))

    def glob(self, path: str, **_: object) -> list[str]:
        """Return the path, which has no wildcards."""
        return [path]

    def size(self, path: str) -> int:
        """Return the size of a file."""
        return _parse_uri(path)[1]

    def modified(self, _: str) -> datetime:
        """Return the same time for all files, because they do not change."""
        return _WRITTEN_AT


class _OpenFile:
    def __init__(self, files: StoreFileSystem, path: str, size: int) -> None:
        self._files = files
        self._path = path
        self._size = size
        self._position = 0

    def seek(self, position: int) -> int:
        self._position = position
        return position

    def tell(self) -> int:
        return self._position

    def read(self, length: int) -> bytes:
        data = self._files.read_range(self._path, self._size, self._position, length)
        self._position += len(data)
        return data

    def close(self) -> None:
        """Do nothing: every read is a request of its own."""


def _parse_uri(uri: str) -> tuple[str, int]:
    size, _, path = uri.partition("://")[2].partition("/")
    return unquote(path), int(size)
