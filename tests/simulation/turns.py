"""A deterministic scheduler that interleaves the requests of simulated writers."""

import random
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from mangrove.storage.port import ListEntry, Store

__all__ = ["ScheduledStore", "TurnScheduler"]

_STUCK_SECONDS: Final = 120.0
_ROWS: Final = ".parquet"


class TurnScheduler:
    """A baton that is handed over at each request, so that the same seed gives the same interleaving."""

    def __init__(self, seed: int, names: Sequence[str]) -> None:
        self._chance = random.Random(f"turns/{seed}")
        self._alive = sorted(names)
        self._changed = threading.Condition()
        self._current = self._chance.choice(self._alive)
        self.taken: list[str] = []
        """Whose turn it was, in order."""

    def begin(self, name: str) -> None:
        """Wait for the first turn."""
        with self._changed:
            self._wait_for(name)

    def hand_over(self, name: str) -> None:
        """Let the seed choose who goes on, and wait until it is this one's turn again."""
        with self._changed:
            self._choose()
            self._wait_for(name)

    def leave(self, name: str) -> None:
        """Take no more turns."""
        with self._changed:
            self._alive.remove(name)
            if self._alive:
                self._choose()

    def _choose(self) -> None:
        self._current = self._chance.choice(self._alive)
        self.taken.append(self._current)
        self._changed.notify_all()

    def _wait_for(self, name: str) -> None:
        if not self._changed.wait_for(lambda: self._current == name, _STUCK_SECONDS):
            raise AssertionError(f"{name} waits for {self._current}, who neither asks storage nor ends")


class ScheduledStore:
    """One writer's view of a store that all share: before each request others may go first.

    Files of rows are never changed, so reading them is nobody's turn: an engine does
    it on several threads at once, whose order nobody decides.
    """

    def __init__(self, store: Store, turns: TurnScheduler, name: str) -> None:
        self._store = store
        self._turns = turns
        self._name = name

    @property
    def uri(self) -> str:
        """The root, ending in exactly one `/`."""
        return self._store.uri

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the object's bytes, or a range of them."""
        self._turn(path)
        return self._store.read(path, start, length)

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return each object's bytes, None where there is none."""
        self._turn(*paths)
        return self._store.read_many(paths)

    def size(self, path: str) -> int | None:
        """Return the object's size in bytes, or None."""
        self._turn(path)
        return self._store.size(path)

    def exists(self, path: str) -> bool:
        """Return whether there is an object at `path`."""
        self._turn(path)
        return self._store.exists(path)

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[ListEntry]:
        """Yield what lies under `prefix`, as it is when the listing begins."""
        self._turn(prefix)
        return iter([*self._store.list(prefix, start_after=start_after, delimiter=delimiter)])

    def put(self, path: str, data: bytes) -> None:
        """Write the object, replacing what was there."""
        self._turn(path)
        self._store.put(path, data)

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects."""
        self._turn(*objects)
        self._store.put_many(objects)

    def create(self, path: str, data: bytes) -> bool:
        """Write the object only if the path is free."""
        self._turn(path)
        return self._store.create(path, data)

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the objects."""
        listed = [*paths]
        self._turn(*listed)
        self._store.delete_many(listed)

    def _turn(self, *paths: str) -> None:
        if not (paths and all(path.endswith(_ROWS) for path in paths)):
            self._turns.hand_over(self._name)
