"""A thread-safe LRU cache bounded by bytes."""

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

__all__ = ["LruCache"]

T = TypeVar("T")


class LruCache(Generic[T]):
    """Values by path, the least recently used dropped when they outgrow `bytes_max`; safe under threads."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._cached_values: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> T | None:
        """Return the value, or None if it is not held."""
        with self._lock:
            found = self._cached_values.get(path)
            if found is None:
                return None
            self._cached_values.move_to_end(path)
            return found[0]

    def put(self, path: str, value: T, size_bytes: int) -> None:
        """Hold the value, unless it alone is larger than everything may be."""
        if size_bytes > self._bytes_max:
            return
        with self._lock:
            _, before = self._cached_values.pop(path, (None, 0))
            self._cached_values[path] = (value, size_bytes)
            self._bytes += size_bytes - before
            while self._bytes > self._bytes_max:
                _, (_, dropped) = self._cached_values.popitem(last=False)
                self._bytes -= dropped
