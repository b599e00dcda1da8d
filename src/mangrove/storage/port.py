"""The store interface with reads, writes, listings and an atomic create.

A path is relative to the store's root, uses `/`, and names an object: no empty,
`.` or `..` segment, no control character (see `mangrove.storage.paths`). Every
store checks each path it is given and touches nothing when it refuses one.

Objects are whole or absent: a reader never sees half of a `put` or `create`,
whatever happens to the writer. Whether a path can be an object and have others
below it is left open: a bucket can hold both `a` and `a/b`, a disk cannot.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["ListEntry", "ObjectInfo", "Prefix", "Store"]


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object that a listing found."""

    path: str
    size: int
    modified_at_millis: int


@dataclass(frozen=True, slots=True)
class Prefix:
    """Where a listing with a delimiter stopped: objects lie below `path`, which ends in `/`."""

    path: str


ListEntry = ObjectInfo | Prefix


class Store(Protocol):
    """Bytes at paths under one root."""

    @property
    def uri(self) -> str:
        """The root, ending in exactly one `/`."""
        ...

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the object's bytes, or `length` of them from `start` on.

        A range that goes past the end is cut there. A missing object is a
        `NotFoundError`.
        """
        ...

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return each object's bytes in the order asked, None where there is none.

        Reads run in parallel, bounded by the store.
        """
        ...

    def size(self, path: str) -> int | None:
        """Return the object's size in bytes, or None if there is no such object."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether there is an object at `path`."""
        ...

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[ListEntry]:
        """Yield the objects whose path starts with `prefix`, in order of their paths' UTF-8 bytes.

        Only paths greater than `start_after` are yielded. With `delimiter`, what
        lies deeper than the next `/` after `prefix` is yielded once, as a
        `Prefix`, if any of it is greater than `start_after`. Nothing that a crashed writer left behind is shown.
        """
        ...

    def put(self, path: str, data: bytes) -> None:
        """Write the object, replacing what was there. Durable when this returns."""
        ...

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects in parallel, bounded by the store; durable when this returns.

        There is no order between them: after a failure any of them may be there.
        """
        ...

    def create(self, path: str, data: bytes) -> bool:
        """Write the object only if the path is free; return whether this call did it.

        Of all the calls that ever name one path exactly one returns True, unless
        the object is deleted in between. `data` must hold something that no other
        writer would write (its transaction's id): where a cloud's answer was lost,
        the store reads the object back and knows its own write by its bytes. After
        a `StorageError` the object may be there or not; its message says which.
        """
        ...

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the objects; those that are not there already are no error."""
        ...
