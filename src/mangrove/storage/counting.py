"""A store wrapper that counts requests and bytes."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from mangrove.storage.port import ListEntry, Store

__all__ = ["CountingStore", "StoreRequests"]

_PAGE_OBJECTS = 1000


@dataclass(frozen=True, slots=True)
class StoreRequests:
    """The number of requests of each kind, as a bucket bills them.

    A listing costs one request per 1,000 entries taken from it, a deletion one per 1,000
    paths. A check of existence or size is a `size`.
    """

    reads: int = 0
    sizes: int = 0
    lists: int = 0
    puts: int = 0
    creates: int = 0
    deletes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def __add__(self, other: "StoreRequests") -> "StoreRequests":
        return StoreRequests(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def __sub__(self, earlier: "StoreRequests") -> "StoreRequests":
        """Return the requests since `earlier`."""
        return StoreRequests(*(getattr(self, one.name) - getattr(earlier, one.name) for one in fields(self)))

    @property
    def total(self) -> int:
        """The total number of requests."""
        return self.reads + self.sizes + self.lists + self.puts + self.creates + self.deletes


class CountingStore:
    """Forwards to another store and counts requests; thread-safe.

    `check` is called before each request and may raise an error.
    """

    def __init__(self, store: Store, check: Callable[[StoreRequests], None] = lambda _: None) -> None:
        self._store = store
        self._check = check
        self._lock = threading.Lock()
        self._requests = StoreRequests()

    @property
    def uri(self) -> str:
        """The root, ending in exactly one `/`."""
        return self._store.uri

    @property
    def identity(self) -> str:
        """Text that is different for two storages with the same URI."""
        return self._store.identity

    @property
    def requests(self) -> StoreRequests:
        """The requests so far; subtract an earlier value to get the difference."""
        return self._requests

    def _count(self, made: StoreRequests) -> None:
        self._check(made)
        with self._lock:
            self._requests += made

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the object's bytes, or a range of them; a missing object costs a request too."""
        self._count(StoreRequests(reads=1))
        data = self._store.read(path, start, length)
        self._count(StoreRequests(bytes_read=len(data)))
        return data

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return each object's bytes; None if there is none."""
        self._count(StoreRequests(reads=len(paths)))
        found = self._store.read_many(paths)
        self._count(StoreRequests(bytes_read=sum(len(data) for data in found if data is not None)))
        return found

    def size(self, path: str) -> int | None:
        """Return the object's size in bytes, or None."""
        self._count(StoreRequests(sizes=1))
        return self._store.size(path)

    def exists(self, path: str) -> bool:
        """Return whether there is an object at `path`."""
        self._count(StoreRequests(sizes=1))
        return self._store.exists(path)

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[ListEntry]:
        """Yield the entries under `prefix`; a page is counted when its first entry is taken."""
        return self._pages(self._store.list(prefix, start_after=start_after, delimiter=delimiter))

    def _pages(self, entries: Iterator[ListEntry]) -> Iterator[ListEntry]:
        self._count(StoreRequests(lists=1))
        for number, entry in enumerate(entries):
            if number and number % _PAGE_OBJECTS == 0:
                self._count(StoreRequests(lists=1))
            yield entry

    def put(self, path: str, data: bytes) -> None:
        """Write the object, replacing an existing one."""
        self._count(StoreRequests(puts=1, bytes_written=len(data)))
        self._store.put(path, data)

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects."""
        self._count(StoreRequests(puts=len(objects), bytes_written=sum(map(len, objects.values()))))
        self._store.put_many(objects)

    def create(self, path: str, data: bytes) -> bool:
        """Write the object only if the path is free."""
        self._count(StoreRequests(creates=1, bytes_written=len(data)))
        return self._store.create(path, data)

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the objects that exist."""
        listed = [*paths]
        self._count(StoreRequests(deletes=-(-len(listed) // _PAGE_OBJECTS)))
        self._store.delete_many(listed)
