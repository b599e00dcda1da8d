"""A thread-safe LRU cache bounded by bytes."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

__all__ = ["LruCache"]

T = TypeVar("T")
_NOTHING: Final = (None, 0)


class LruCache(Generic[T]):
    """Values by key with their sizes; the least recently used are evicted beyond `bytes_max`. Thread-safe.

    Loading a table caches one entry for each delta, so its methods are a few operations of an
    ordered dictionary: they take about half of the time of `cachetools.LRUCache`.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._size_bytes = 0
        self._entries: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        # In another process the cache is empty.
        return LruCache, (self._bytes_max,)

    def get(self, key: Hashable) -> T | None:
        """Return the value, or None if it is not cached."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Hashable, value: T, size_bytes: int) -> None:
        """Cache the value, unless it alone is larger than the cache."""
        self.put_all([(key, value, size_bytes)])

    def put_all(self, entries: Iterable[tuple[Hashable, T, int]]) -> None:
        """Cache values, given with their keys and sizes."""
        with self._lock:
            for key, value, size_bytes in entries:
                if size_bytes <= self._bytes_max:
                    _, replaced_bytes = self._entries.pop(key, _NOTHING)
                    self._entries[key] = value, size_bytes
                    self._size_bytes += size_bytes - replaced_bytes
            while self._size_bytes > self._bytes_max:
                _, (_, evicted_bytes) = self._entries.popitem(last=False)
                self._size_bytes -= evicted_bytes
