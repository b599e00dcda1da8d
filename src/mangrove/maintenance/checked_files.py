"""Comparing the files that versions name with the files that are there, by one listing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final, TypeAlias

from mangrove.errors import FormatError
from mangrove.maintenance.needed import paths_below
from mangrove.maintenance.progress import Progress, Watch
from mangrove.metastore import Problem
from mangrove.model.manifests import DataFile
from mangrove.model.paths import is_uri
from mangrove.storage.local_links import linked_paths
from mangrove.storage.port import ObjectInfo, Store

__all__ = ["CheckedFiles", "CountMany", "CountRows", "counting_at_once"]

_SMALL_BYTES_MAX: Final = 4 * 1024 * 1024
"""Up to this size a file is little more than the wait for the store, and several of them fit into memory."""
_THREADS: Final = 8
_WAITING_MAX: Final = 64
"""How many files are handed to the threads at once, so that an interruption waits for few."""

CountRows: TypeAlias = Callable[[Store, DataFile], int]
"""Reads from a data file itself how many rows it has."""
CountMany: TypeAlias = Callable[[Store, Sequence[DataFile], Watch], Mapping[str, int | str]]
"""Reads how many rows many files have, by their locations; or says why one of them cannot be read."""


def counting_at_once(count_rows: CountRows) -> CountMany:
    """Return what counts the rows of many files in this process: small ones several at a time, large ones alone."""

    def counted(store: Store, files: Sequence[DataFile], watch: Watch) -> Mapping[str, int | str]:
        found: dict[str, int | str] = {}
        bytes_done, bytes_total = 0, sum(file.size_bytes for file in files)
        for file, rows in _each_counted(lambda file: _rows_or_reason(count_rows, store, file), files):
            found[file.location] = rows
            bytes_done += file.size_bytes
            watch(Progress("counting rows", len(found), len(files), bytes_done, bytes_total))
        return found

    return counted


def _each_counted(
    counted: Callable[[DataFile], int | str], files: Sequence[DataFile]
) -> Iterator[tuple[DataFile, int | str]]:
    small = [file for file in files if file.size_bytes <= _SMALL_BYTES_MAX]
    with ThreadPoolExecutor(_THREADS) as pool:
        for first in range(0, len(small), _WAITING_MAX):
            batch = small[first : first + _WAITING_MAX]
            yield from zip(batch, pool.map(counted, batch), strict=True)
    yield from ((file, counted(file)) for file in files if file.size_bytes > _SMALL_BYTES_MAX)


def _rows_or_reason(count_rows: CountRows, store: Store, file: DataFile) -> int | str:
    try:
        return count_rows(store, file)
    except FormatError as error:
        return str(error)


class CheckedFiles:
    """The files that are there, and the data files that have been looked at, each of them once."""

    def __init__(self, store: Store, count_rows: CountMany | None, referenced_root: str | None = None) -> None:
        self._store = store
        self._count_rows = count_rows
        self._referenced_root = referenced_root
        self._waiting: list[DataFile] = []
        self._sizes: dict[str, int] | None = None
        self._seen: set[str] = set()
        self.elsewhere = 0
        """How many data files lie outside the lakehouse's root, where nobody looks."""

    @property
    def data_files(self) -> int:
        """How many data files below the root have been looked at."""
        return len(self._seen) - self.elsewhere

    def problems_of_path(self, path: str) -> Iterator[Problem]:
        """Yield what is wrong with one of the layout's own files."""
        if self._size(path) is None:
            yield Problem(path, "a file that a version needs is missing")

    def problems_of_data(self, file: DataFile) -> Iterator[Problem]:
        """Yield what is wrong with a data file, the first time that it is met."""
        if file.location in self._seen:
            return
        self._seen.add(file.location)
        paths = paths_below(file.location, self._store.uri)
        if not paths:
            self.elsewhere += 1
            if self._referenced_root is None or not file.location.startswith(self._referenced_root):
                yield Problem(file.location, "a data file is outside the lakehouse's root, where no reader opens it")
            return
        if is_uri(file.location):
            yield Problem(
                file.location, "a data file is named by its URI, and readers open paths below the root: convert it"
            )
            return
        if file.location not in self._listed() and any(linked_paths(self._store.uri, paths)):
            yield Problem(file.location, "a data file is a symbolic link or below one, which no reader follows")
            return
        size = self._size(file.location)
        if size is None:
            yield Problem(file.location, "a data file that a version needs is missing")
        elif size != file.size_bytes:
            yield Problem(file.location, f"a data file has {size} bytes, its manifest says {file.size_bytes}")
        elif self._count_rows is not None:
            # There may be millions of them, and nobody needs their statistics any more.
            self._waiting.append(replace(file, statistics=()))

    def problems_of_rows(self, watch: Watch) -> Iterator[Problem]:
        """Yield what is wrong with the rows of the files that were met, counted all together."""
        waiting, self._waiting = self._waiting, []
        if self._count_rows is None or not waiting:
            return
        counted = self._count_rows(self._store, waiting, watch)
        for file in waiting:
            found = counted[file.location]
            if isinstance(found, str):
                yield Problem(file.location, found)
            elif found != file.row_count:
                yield _other_count(file, found)

    def _listed(self) -> dict[str, int]:
        if self._sizes is None:
            listed = self._store.list()
            self._sizes = {entry.path: entry.size for entry in listed if isinstance(entry, ObjectInfo)}
        return self._sizes

    def _size(self, path: str) -> int | None:
        sizes = self._listed()
        # What was committed after the listing is asked for by itself.
        return sizes[path] if path in sizes else self._store.size(path)


def _other_count(file: DataFile, rows: int) -> Problem:
    return Problem(file.location, f"a data file has {rows} rows, its manifest says {file.row_count}")
