"""Parallel, resumable file copies between stores."""

from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import chain
from typing import Protocol

from mangrove.errors import FormatError, StorageError
from mangrove.maintenance.progress import Progress, ProgressCallback
from mangrove.storage.port import ListEntry, ObjectInfo, Store

__all__ = ["Copier", "copy_files", "find_missing_copies", "load_file_sizes", "split_into_batches"]

_FILES_PER_BATCH = 256
_BYTES_PER_BATCH = 64 * 1024 * 1024
_SINGLE_REQUESTS_MAX = 16


class Copier(Protocol):
    """Copies files between stores, in this process or distributed."""

    def __call__(
        self,
        source: Store,
        destination: Store,
        sizes: Mapping[str, int],
        watch: ProgressCallback,
        *,
        last: str | None = None,
    ) -> None:
        """Copy the files of the given sizes, the one at `last` after all others; raise on failure."""
        ...


def find_missing_copies(expected: Mapping[str, int], there: Iterable[ListEntry]) -> dict[str, int]:
    """Return those of `expected`, paths with sizes, that are missing or incomplete."""
    missing = dict(expected)
    for entry in there:
        if isinstance(entry, ObjectInfo) and expected.get(entry.path) == entry.size:
            del missing[entry.path]
    return missing


def split_into_batches(sizes: Mapping[str, int], files_max: int, bytes_max: int) -> Iterator[list[str]]:
    """Yield the paths in batches of bounded number and size; an oversized file is its own batch."""
    batch: list[str] = []
    size_bytes = 0
    for path, size in sizes.items():
        if batch and (len(batch) == files_max or size_bytes + size > bytes_max):
            yield batch
            batch, size_bytes = [], 0
        batch.append(path)
        size_bytes += size
    if batch:
        yield batch


def load_file_sizes(store: Store, paths: Set[str]) -> dict[str, int]:
    """Return the sizes of the files at these paths, in path order; raise an error if one is missing."""
    found: dict[str, int] = {}
    if len(paths) <= _SINGLE_REQUESTS_MAX:
        requested = {path: store.size(path) for path in sorted(paths)}
        found = {path: size for path, size in requested.items() if size is not None}
    else:
        for entry in store.list():
            if isinstance(entry, ObjectInfo) and entry.path in paths:
                found[entry.path] = entry.size
    if len(found) < len(paths):
        absent = min(paths - found.keys())
        raise FormatError(
            f"{absent} and {len(paths) - len(found) - 1} other files are missing in {store.uri}; the version needs "
            "them; run `mangrove check` to see what it affects"
        )
    return found


def copy_files(
    source: Store, destination: Store, sizes: Mapping[str, int], watch: ProgressCallback, *, last: str | None = None
) -> None:
    """Copy the files of the given sizes in bounded batches of parallel reads and writes.

    The file at `last` is written after all others.
    """
    done = bytes_done = 0
    total, bytes_total = len(sizes), sum(sizes.values())
    first = {path: size for path, size in sizes.items() if path != last}
    end = [[last]] if last is not None and last in sizes else []
    watch(Progress("copying", 0, total, 0, bytes_total))
    for batch in chain(split_into_batches(first, _FILES_PER_BATCH, _BYTES_PER_BATCH), end):
        contents: dict[str, bytes] = {}
        for path, data in zip(batch, source.read_many(batch), strict=True):
            if data is None or len(data) != sizes[path]:
                state = "is missing now" if data is None else f"has {len(data)} bytes now"
                raise StorageError(
                    f"{path} in {source.uri} had {sizes[path]} bytes and {state}: it changed during the copy. "
                    "Copied files stay; repeat the call to resume"
                )
            contents[path] = data
        destination.put_many(contents)
        done += len(batch)
        bytes_done += sum(sizes[path] for path in batch)
        watch(Progress("copying", done, total, bytes_done, bytes_total))
