"""What was used last, kept while it fits: for decoded files, which never change."""

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

__all__ = ["Recent"]

T = TypeVar("T")


class Recent(Generic[T]):
    """Values by path, the least recently used dropped when they outgrow `bytes_max`; safe under threads."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._held: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> T | None:
        """Return the value, or None if it is not held."""
        with self._lock:
            found = self._held.get(path)
            if found is None:
                return None
            self._held.move_to_end(path)
            return found[0]

    def put(self, path: str, value: T, size_bytes: int) -> None:
        """Hold the value, unless it alone is larger than everything may be."""
        if size_bytes > self._bytes_max:
            return
        with self._lock:
            _, before = self._held.pop(path, (None, 0))
            self._held[path] = (value, size_bytes)
            self._bytes += size_bytes - before
            while self._bytes > self._bytes_max:
                _, (_, dropped) = self._held.popitem(last=False)
                self._bytes -= dropped
