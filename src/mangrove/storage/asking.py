"""The way past a cache, for those who must see what really lies there.

Every read asks the store, and what the cache remembers of the object is
forgotten: where somebody put a damaged object right, the cache has learnt it then.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from mangrove.storage.caching import CachingStore
from mangrove.storage.port import Entry

__all__ = ["AskingStore"]


class AskingStore:
    """A store behind a cache, without it."""

    def __init__(self, cache: CachingStore) -> None:
        self._cache = cache
        self._store = cache.behind
        self.create = cache.create

    @property
    def uri(self) -> str:
        """The root, ending in exactly one `/`."""
        return self._store.uri

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the object's bytes, or a range of them."""
        self._cache.forget([path])
        return self._store.read(path, start, length)

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return each object's bytes, None where there is none."""
        self._cache.forget(paths)
        return self._store.read_many(paths)

    def size(self, path: str) -> int | None:
        """Return the object's size in bytes, or None."""
        return self._store.size(path)

    def exists(self, path: str) -> bool:
        """Return whether there is an object at `path`."""
        return self._store.exists(path)

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[Entry]:
        """Yield what lies under `prefix`."""
        return self._store.list(prefix, start_after=start_after, delimiter=delimiter)

    def put(self, path: str, data: bytes) -> None:
        """Write the object, replacing what was there."""
        self._cache.put(path, data)

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects."""
        self._cache.put_many(objects)

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the objects that are there."""
        self._cache.delete_many(paths)
