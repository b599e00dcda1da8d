"""A thread-safe LRU cache bounded by bytes."""

import threading
from collections.abc import Hashable
from operator import itemgetter
from typing import Generic, TypeVar

from cachetools import LRUCache

__all__ = ["LruCache"]

T = TypeVar("T")


class LruCache(Generic[T]):
    """Values by key with their sizes; the least recently used are evicted beyond `bytes_max`. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        self._entries: LRUCache[Hashable, tuple[T, int]] = LRUCache(bytes_max, getsizeof=itemgetter(1))
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        # In another process the cache is empty.
        return LruCache, (self._entries.maxsize,)

    def get(self, key: Hashable) -> T | None:
        """Return the value, or None if it is not cached."""
        with self._lock:
            entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def put(self, key: Hashable, value: T, size_bytes: int) -> None:
        """Cache the value, unless it alone is larger than the cache."""
        if size_bytes <= self._entries.maxsize:
            with self._lock:
                self._entries[key] = value, size_bytes
