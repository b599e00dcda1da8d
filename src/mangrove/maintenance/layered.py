"""A store that reads what it lacks from another: how an export that is not full is opened."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from posixpath import commonprefix

from mangrove.errors import NotFoundError
from mangrove.maintenance.version_files import names_a_version
from mangrove.storage.port import Entry, ObjectInfo, Store

__all__ = ["LayeredStore"]


class LayeredStore:
    """Writes and lists above; what is not there is read from below.

    Which versions there are is a matter of the upper store alone: root nodes and
    hints are never looked for below, where versions of the same numbers hold
    something else.
    """

    def __init__(self, above: Store, below: Store) -> None:
        self._above = above
        self._below = below
        # A version of the copy is committed by the upper store itself: this one adds nothing to an exclusive create.
        self.create = above.create

    @property
    def uri(self) -> str:
        """The root, ending in exactly one `/`."""
        return self._above.uri

    @property
    def layers(self) -> tuple[Store, Store]:
        """The upper store and the lower one."""
        return self._above, self._below

    @property
    def uris(self) -> tuple[str, ...]:
        """The roots of all layers, the upper one first."""
        return (self._above.uri, *(self._below.uris if isinstance(self._below, LayeredStore) else (self._below.uri,)))

    def roots_of(self, paths: Sequence[str]) -> list[str]:
        """Return the root of the layer from which each object is read, for readers that open files by themselves."""
        here = {entry.path for entry in self._above.list(commonprefix(list(paths))) if isinstance(entry, ObjectInfo)}
        lacking = [path for path in paths if path not in here]
        deeper = self._below.roots_of(lacking) if isinstance(self._below, LayeredStore) else None
        roots = dict(zip(lacking, deeper or [self._below.uri] * len(lacking), strict=True))
        return [roots.get(path, self._above.uri) for path in paths]

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the object's bytes, or a range of them."""
        try:
            return self._above.read(path, start, length)
        except NotFoundError:
            if names_a_version(path):
                raise
            return self._below.read(path, start, length)

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return each object's bytes, None where neither store has it."""
        found = self._above.read_many(paths)
        lacking = [number for number, data in enumerate(found) if data is None and not names_a_version(paths[number])]
        if lacking:
            below = self._below.read_many([paths[number] for number in lacking])
            for number, data in zip(lacking, below, strict=True):
                found[number] = data
        return found

    def size(self, path: str) -> int | None:
        """Return the object's size in bytes, or None."""
        size = self._above.size(path)
        return self._below.size(path) if size is None and not names_a_version(path) else size

    def exists(self, path: str) -> bool:
        """Return whether there is an object at `path`."""
        return self._above.exists(path) or (not names_a_version(path) and self._below.exists(path))

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[Entry]:
        """Yield what lies above under `prefix`: what lies below belongs to somebody else."""
        return self._above.list(prefix, start_after=start_after, delimiter=delimiter)

    def put(self, path: str, data: bytes) -> None:
        """Write the object above."""
        self._above.put(path, data)

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects above."""
        self._above.put_many(objects)

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the objects above."""
        self._above.delete_many(paths)
