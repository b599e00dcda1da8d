"""The in-memory store, the reference implementation of the store interface."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from mangrove.errors import NotFoundError
from mangrove.model.paths import check_path, check_prefix, check_range
from mangrove.storage.port import ListEntry, ObjectInfo, Prefix

__all__ = ["MemoryStore", "open_memory_store"]


def _now_millis() -> int:
    return time.time_ns() // 1_000_000


class MemoryStore:
    """A thread-safe store in a dictionary."""

    def __init__(self, uri: str = "memory://unnamed/", now_millis: Callable[[], int] = _now_millis) -> None:
        self._uri = uri
        self._now_millis = now_millis
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, int]] = {}

    @property
    def uri(self) -> str:
        """The root, ending in exactly one `/`."""
        return self._uri

    @property
    def identity(self) -> str:
        """Text that is different for two storages with the same URI."""
        return self._uri

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the object's bytes, or a range of them."""
        check_path(path)
        check_range(start, length)
        found = self._objects.get(path)
        if found is None:
            raise NotFoundError(f"object {path!r} does not exist in {self._uri}")
        return found[0] if start == 0 and length is None else _part(found[0], start, length)

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return each object's bytes; None if there is none."""
        for path in paths:
            check_path(path)
        found = [self._objects.get(path) for path in paths]
        return [None if one is None else one[0] for one in found]

    def size(self, path: str) -> int | None:
        """Return the object's size in bytes, or None."""
        check_path(path)
        found = self._objects.get(path)
        return None if found is None else len(found[0])

    def exists(self, path: str) -> bool:
        """Return whether there is an object at `path`."""
        check_path(path)
        return path in self._objects

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[ListEntry]:
        """Yield the entries under `prefix` as of the start of the listing."""
        check_prefix(prefix)
        check_prefix(start_after)
        with self._lock:
            found = sorted(
                (path, len(data), millis)
                for path, (data, millis) in self._objects.items()
                if path.startswith(prefix) and path > start_after
            )
        return _entries(found, len(prefix), delimiter=delimiter)

    def put(self, path: str, data: bytes) -> None:
        """Write the object, replacing an existing one."""
        check_path(path)
        with self._lock:
            self._objects[path] = (bytes(data), self._now_millis())

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects."""
        for path in objects:
            check_path(path)
        for path, data in objects.items():
            self.put(path, data)

    def create(self, path: str, data: bytes) -> bool:
        """Write the object only if the path is free."""
        check_path(path)
        with self._lock:
            if path in self._objects:
                return False
            self._objects[path] = (bytes(data), self._now_millis())
            return True

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the objects that exist."""
        listed = [*paths]
        for path in listed:
            check_path(path)
        with self._lock:
            for path in listed:
                self._objects.pop(path, None)


_stores: dict[str, MemoryStore] = {}
_stores_lock = threading.Lock()


def open_memory_store(uri: str) -> MemoryStore:
    """Return the store of this process with that root; it is the same for every call."""
    with _stores_lock:
        return _stores.setdefault(uri, MemoryStore(uri))


def _part(data: bytes, start: int, length: int | None) -> bytes:
    return data[start:] if length is None else data[start : start + length]


def _entries(found: list[tuple[str, int, int]], prefix_length: int, *, delimiter: bool) -> Iterator[ListEntry]:
    last_prefix = None
    for path, size, millis in found:
        slash = path.find("/", prefix_length) if delimiter else -1
        if slash < 0:
            yield ObjectInfo(path, size, millis)
        elif path[: slash + 1] != last_prefix:
            last_prefix = path[: slash + 1]
            yield Prefix(last_prefix)
