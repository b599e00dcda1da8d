"""A thread-safe LRU cache bounded by bytes."""

import threading
from operator import itemgetter
from typing import Generic, TypeVar

from cachetools import LRUCache

__all__ = ["LruCache"]

T = TypeVar("T")


class LruCache(Generic[T]):
    """Values by path with their sizes; the least recently used are evicted beyond `bytes_max`. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        self._entries: LRUCache[str, tuple[T, int]] = LRUCache(bytes_max, getsizeof=itemgetter(1))
        self._lock = threading.Lock()

    def get(self, path: str) -> T | None:
        """Return the value, or None if it is not cached."""
        with self._lock:
            entry = self._entries.get(path)
        return None if entry is None else entry[0]

    def put(self, path: str, value: T, size_bytes: int) -> None:
        """Cache the value, unless it alone is larger than the cache."""
        if size_bytes <= self._entries.maxsize:
            with self._lock:
                self._entries[path] = value, size_bytes
