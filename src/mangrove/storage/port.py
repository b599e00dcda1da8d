"""The store interface with reads, writes, listings and an atomic create.

A path is relative to the store's root, uses `/`, and names an object: no empty, `.`
or `..` segment, no control character (see `mangrove.model.paths`). Every store
validates each path before it does anything.

Objects are complete or absent: a reader never sees a partial `put` or `create`. It is
unspecified whether a path can be an object and have others below it: a bucket can
hold both `a` and `a/b`, a disk cannot.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = ["BufferedReads", "ListEntry", "ObjectInfo", "Prefix", "Store"]


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object in a listing."""

    path: str
    size: int
    modified_at_millis: int


@dataclass(frozen=True, slots=True)
class Prefix:
    """A common prefix in a listing with a delimiter: objects are below `path`, which ends in `/`."""

    path: str


ListEntry = ObjectInfo | Prefix


class Store(Protocol):
    """An object store under one root."""

    @property
    def uri(self) -> str:
        """The root, ending in exactly one `/`."""
        ...

    @property
    def identity(self) -> str:
        """Text that is different for two storages with the same URI: other servers, accounts or file systems."""
        ...

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the object's bytes, or `length` of them from `start` on.

        A range past the end is truncated. A missing object raises `NotFoundError`.
        """
        ...

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return each object's bytes in the requested order; None if there is none.

        Reads run in parallel, bounded by the store.
        """
        ...

    def size(self, path: str) -> int | None:
        """Return the object's size in bytes, or None if it does not exist."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether there is an object at `path`."""
        ...

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[ListEntry]:
        """Yield the objects whose path starts with `prefix`, ordered by the UTF-8 bytes of their paths.

        Only paths greater than `start_after` are yielded. With `delimiter`, all objects
        deeper than the next `/` after `prefix` are yielded once, as a `Prefix`, if any of
        them is greater than `start_after`. Temporary files of crashed writers are omitted.
        """
        ...

    def put(self, path: str, data: bytes) -> None:
        """Write the object, replacing an existing one. Durable on return."""
        ...

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects in parallel, bounded by the store; durable on return.

        Writes are unordered: after a failure any of them may exist.
        """
        ...

    def create(self, path: str, data: bytes) -> bool:
        """Write the object only if the path is free; return whether this call did it.

        Of all calls for one path exactly one returns True, unless the object is deleted in
        between. `data` must be unique to this writer (it contains its transaction id): after
        a lost response the store reads the object back and recognizes its own write by its
        bytes. After a `StorageError` the object may exist or not; the message says which.
        """
        ...

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the objects; missing ones are ignored."""
        ...


@runtime_checkable
class BufferedReads(Protocol):
    """A store that can also read into memory of the caller, which saves a copy."""

    def read_into(self, path: str, start: int, buffer: memoryview) -> int:
        """Fill the buffer with the object's bytes from `start` on; return how many there were.

        Fewer bytes than the buffer has room for are the end of the object. A missing object
        raises `NotFoundError`.
        """
        ...
