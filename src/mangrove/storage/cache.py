"""A read cache for immutable objects and its bypass.

The caller declares which paths are immutable: an object there is never overwritten
with other content, so cached bytes stay valid. The existence of an object is always
checked in the store.

Written objects are not cached until they are read, because a writer may write the
same object several times before it is committed.

Ranges of large objects are read and cached on disk in whole blocks, with at most one
request: later reads of other columns of the same file reuse the blocks.

The bypass reads every object from the store and evicts it from the cache, so a
repaired object is read again.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

from cachetools import LRUCache

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.model.paths import check_path, check_range
from mangrove.storage.disk_cache import DiskCache
from mangrove.storage.port import ListEntry, Store

__all__ = ["BLOCK_BYTES", "CachingStore", "UncachedStore"]

BLOCK_BYTES = 256 * 1024
"""Smaller than a column and larger than most footers; reading the excess is faster than a request."""


class CachingStore:
    """Forwards to another store, except for cached reads of immutable objects."""

    def __init__(
        self, store: Store, is_immutable: Callable[[str], bool], bytes_max: int, disk: DiskCache | None = None
    ) -> None:
        if bytes_max <= 0:
            raise InvalidInputError(f"a cache of {bytes_max} bytes is too small; use a larger one, or the store itself")
        self._store = store
        self._is_immutable = is_immutable
        self._disk = disk
        self._identity = "" if disk is None else store.identity
        self._lock = threading.Lock()
        self._cached_values: LRUCache[str, bytes] = LRUCache(bytes_max, getsizeof=len)
        self._requested: dict[str, Future[bytes | None]] = {}

    @property
    def uri(self) -> str:
        """The root, ending in exactly one `/`."""
        return self._store.uri

    @property
    def identity(self) -> str:
        """Text that is different for two storages with the same URI."""
        return self._store.identity

    @property
    def behind(self) -> Store:
        """The store behind the cache."""
        return self._store

    @property
    def cached_bytes(self) -> int:
        """How many bytes are remembered in memory."""
        return int(self._cached_values.currsize)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the object's bytes, or a range of them."""
        if start == 0 and length is None:
            data = self.read_many([path])[0]
            if data is None:
                raise NotFoundError(f"object {path!r} does not exist in {self.uri}")
            return data
        check_path(path)
        check_range(start, length)
        held = self._recall(path)
        if held is not None:
            return held[start:] if length is None else held[start : start + length]
        if self._disk is None or not length or not self._is_immutable(path):
            return self._store.read(path, start, length)
        return self._read_blocks(self._disk, path, start, length)

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return each object's bytes; those not cached are read from the store in one batch."""
        for path in paths:
            check_path(path)
        found: dict[str, bytes | None] = {}
        mine: dict[str, Future[bytes | None]] = {}
        others: dict[str, Future[bytes | None]] = {}
        with self._lock:
            for path in dict.fromkeys(paths):
                held = self._cached_values.get(path)
                if held is not None:
                    found[path] = held
                elif not self._is_immutable(path):
                    mine[path] = Future()
                elif path in self._requested:
                    others[path] = self._requested[path]
                else:
                    self._requested[path] = mine[path] = Future()
        if mine:
            found |= self._ask(mine)
        for path, answer in others.items():
            data = answer.result()
            # An object that was missing for another reader may have been written since.
            found[path] = self._store.read_many([path])[0] if data is None else data
        return [found[path] for path in paths]

    def size(self, path: str) -> int | None:
        """Return the object's size in bytes, or None."""
        return self._store.size(path)

    def exists(self, path: str) -> bool:
        """Return whether there is an object at `path`."""
        return self._store.exists(path)

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[ListEntry]:
        """Yield the entries under `prefix`."""
        return self._store.list(prefix, start_after=start_after, delimiter=delimiter)

    def put(self, path: str, data: bytes) -> None:
        """Write the object."""
        with self._evict_around([path]):
            self._store.put(path, data)

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects."""
        with self._evict_around(objects):
            self._store.put_many(objects)

    def create(self, path: str, data: bytes) -> bool:
        """Write the object only if the path is free."""
        with self._evict_around([path]):
            return self._store.create(path, data)

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the objects."""
        listed = [*paths]
        with self._evict_around(listed):
            self._store.delete_many(listed)

    def forget(self, paths: Iterable[str]) -> None:
        """Evict these objects."""
        listed = [*paths]
        for path in listed:
            check_path(path)
        for path in filter(self._is_immutable, listed):
            with self._lock:
                self._cached_values.pop(path, None)
            if self._disk is not None:
                self._disk.forget(self._identity, path)

    @contextmanager
    def _evict_around(self, paths: Collection[str]) -> Iterator[None]:
        """Evict the objects before and after a write, because a read may come in between."""
        self.forget(paths)
        try:
            yield
        finally:
            self.forget(paths)

    def _read_blocks(self, disk: DiskCache, path: str, start: int, length: int) -> bytes:
        """Return a range from blocks; the missing ones and all between them are read with one request."""
        numbers = range(start // BLOCK_BYTES, (start + length - 1) // BLOCK_BYTES + 1)
        blocks: dict[int, bytes | memoryview | None] = {one: disk.read(self._identity, path, one) for one in numbers}
        missing = [one for one, data in blocks.items() if data is None]
        if missing:
            first, count = missing[0], missing[-1] - missing[0] + 1
            read = memoryview(self._store.read(path, first * BLOCK_BYTES, count * BLOCK_BYTES))
            for number in range(first, first + count):
                block = read[(number - first) * BLOCK_BYTES : (number - first + 1) * BLOCK_BYTES]
                if blocks[number] is None and block:
                    disk.write(self._identity, path, block, number)
                blocks[number] = block
        # Each block is sliced before joining, which saves a copy of a large range.
        cuts = ((data or b"", start - number * BLOCK_BYTES) for number, data in blocks.items())
        return b"".join(memoryview(data)[max(0, first) : max(0, first + length)] for data, first in cuts)

    def _ask(self, mine: Mapping[str, Future[bytes | None]]) -> dict[str, bytes | None]:
        """Read from disk or store, and share the result with concurrent readers of the same object."""
        try:
            answers = {path: self._recall(path) for path in mine}
            missing = [path for path, data in answers.items() if data is None]
            if missing:
                answers |= zip(missing, self._store.read_many(missing), strict=True)
        except BaseException as error:
            for path, future in mine.items():
                self._settle(path, future)
                future.set_exception(error)
            raise
        for path, future in mine.items():
            data = answers[path]
            if data is not None:
                self._remember(path, data, known_to_disk=path not in missing)
            self._settle(path, future)
            future.set_result(data)
        return answers

    def _settle(self, path: str, future: Future[bytes | None]) -> None:
        with self._lock:
            if self._requested.get(path) is future:
                del self._requested[path]

    def _recall(self, path: str) -> bytes | None:
        if not self._is_immutable(path):
            return None
        with self._lock:
            held = self._cached_values.get(path)
        if held is not None:
            return held
        return None if self._disk is None else self._disk.read(self._identity, path)

    def _remember(self, path: str, data: bytes, *, known_to_disk: bool = False) -> None:
        if not self._is_immutable(path):
            return
        if self._disk is not None and not known_to_disk:
            self._disk.write(self._identity, path, data)
        # One large object must not push out everything else.
        if len(data) > self._cached_values.maxsize // 4:
            return
        with self._lock:
            self._cached_values[path] = data


class UncachedStore:
    """The store behind a cache, without the cache."""

    def __init__(self, cache: CachingStore) -> None:
        self._cache = cache
        self._store = cache.behind
        self.create = cache.create

    @property
    def uri(self) -> str:
        """The root, ending in exactly one `/`."""
        return self._store.uri

    @property
    def identity(self) -> str:
        """Text that is different for two storages with the same URI."""
        return self._store.identity

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the object's bytes, or a range of them."""
        self._cache.forget([path])
        return self._store.read(path, start, length)

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return each object's bytes; None if there is none."""
        self._cache.forget(paths)
        return self._store.read_many(paths)

    def size(self, path: str) -> int | None:
        """Return the object's size in bytes, or None."""
        return self._store.size(path)

    def exists(self, path: str) -> bool:
        """Return whether there is an object at `path`."""
        return self._store.exists(path)

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[ListEntry]:
        """Yield the entries under `prefix`."""
        return self._store.list(prefix, start_after=start_after, delimiter=delimiter)

    def put(self, path: str, data: bytes) -> None:
        """Write the object, replacing an existing one."""
        self._cache.put(path, data)

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects."""
        self._cache.put_many(objects)

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the objects that exist."""
        self._cache.delete_many(paths)
