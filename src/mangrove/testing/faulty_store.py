"""A store wrapper that injects faults from a seed.

Whether a request fails depends only on the seed, the operation, the path and
how often that was asked before, so threads that run in another order meet the
same faults.
"""

import random  # noqa: TID251 - all chance here comes from the seed
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mangrove.errors import InvalidInputError, StorageError
from mangrove.storage.paths import check_path, check_prefix
from mangrove.storage.port import ListEntry, Store

__all__ = ["FaultKind", "Faults", "FaultyStore", "SimulatedCrash", "StoreOperation"]

StoreOperation = Literal["read", "size", "list", "put", "create", "delete"]
FaultKind = Literal["before", "after", "lost answer", "crash"]
_KINDS: tuple[FaultKind, ...] = ("before", "after", "lost answer", "crash")


class SimulatedCrash(BaseException):
    """The process that used the store is dead; no code under test may catch this and go on."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How likely each fault is, from 0 to 1.

    `before` fails without the effect, `after` with it. A `lost answer` is for
    creates only: an error after which the object may be there or not. A `crash`
    has the effect or not, of several puts any part, and ends the store's use.
    `delay_seconds` is the longest wait before a request.
    """

    seed: int
    before: float = 0.0
    after: float = 0.0
    lost_answer: float = 0.0
    crash: float = 0.0
    delay_seconds: float = 0.0

    def __post_init__(self) -> None:
        if min(self.before, self.after, self.lost_answer, self.crash, self.delay_seconds) < 0:
            raise InvalidInputError(f"{self} has a negative part; give chances from 0 to 1")
        if self.before + self.after + self.lost_answer + self.crash > 1:
            raise InvalidInputError(f"the chances of {self} add up to more than 1; lower them")


class FaultyStore:
    """Passes requests on to another store, or fails them as `faults` and `fail_next` say."""

    def __init__(self, store: Store, faults: Faults, pause: Callable[[float], None] = lambda _: None) -> None:
        """Take the store; `pause` gets each delay in seconds, so a test may count them instead of waiting."""
        self._store = store
        self._faults = faults
        self._pause = pause
        self._lock = threading.Lock()
        self._times: Counter[tuple[StoreOperation, str]] = Counter()
        self._planned: list[tuple[StoreOperation, FaultKind, str]] = []
        self._crashed = False
        self.made: Counter[FaultKind] = Counter()

    @property
    def uri(self) -> str:
        """The root, ending in exactly one `/`."""
        return self._store.uri

    def fail_next(self, operation: StoreOperation, kind: FaultKind, containing: str = "") -> None:
        """Plan a fault for the next such operation whose path has `containing` in it."""
        with self._lock:
            self._planned.append((operation, kind, containing))

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the object's bytes, or a range of them."""
        self._meet("read", path, lambda _: None)
        return self._store.read(path, start, length)

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return each object's bytes, None where there is none."""
        for path in paths:
            self._meet("read", path, lambda _: None)
        return self._store.read_many(paths)

    def size(self, path: str) -> int | None:
        """Return the object's size in bytes, or None."""
        self._meet("size", path, lambda _: None)
        return self._store.size(path)

    def exists(self, path: str) -> bool:
        """Return whether there is an object at `path`."""
        self._meet("size", path, lambda _: None)
        return self._store.exists(path)

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[ListEntry]:
        """Yield what lies under `prefix`."""
        self._meet("list", prefix, lambda _: None)
        return self._store.list(prefix, start_after=start_after, delimiter=delimiter)

    def put(self, path: str, data: bytes) -> None:
        """Write the object, replacing what was there."""
        self._meet("put", path, lambda _: self._store.put(path, data))
        self._store.put(path, data)

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects; a fault at one of them leaves any part of the others."""

        def some(chance: random.Random) -> None:
            self._store.put_many({path: data for path, data in objects.items() if chance.random() < 0.5})

        for path in objects:
            self._meet("put", path, some)
        self._store.put_many(objects)

    def create(self, path: str, data: bytes) -> bool:
        """Write the object only if the path is free."""
        self._meet("create", path, lambda _: self._store.create(path, data))
        return self._store.create(path, data)

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the objects; a fault at one of them leaves any part of the others."""
        listed = [*paths]

        def some(chance: random.Random) -> None:
            self._store.delete_many([path for path in listed if chance.random() < 0.5])

        for path in listed:
            self._meet("delete", path, some)
        self._store.delete_many(listed)

    def _meet(self, operation: StoreOperation, path: str, effect: Callable[[random.Random], object]) -> None:
        """Raise if a fault is due, after the `effect` where it shall happen all the same; else return."""
        (check_prefix if operation == "list" else check_path)(path)
        with self._lock:
            if self._crashed:
                raise SimulatedCrash(f"{operation} of {path!r} after the crash")
            self._times[operation, path] += 1
            chance = random.Random(f"{self._faults.seed}/{operation}/{path}/{self._times[operation, path]}")
            kind = self._due(operation, path, chance)
            if kind is not None:
                self.made[kind] += 1
                self._crashed = kind == "crash"
        if self._faults.delay_seconds:
            self._pause(chance.uniform(0, self._faults.delay_seconds))
        if kind is None:
            return
        happens = kind == "after" or (kind != "before" and chance.random() < 0.5)
        if happens:
            effect(chance)
        if kind == "crash":
            raise SimulatedCrash(f"{operation} of {path!r}")
        outcome = "it was not done" if kind == "before" else "whether it was done is not known"
        raise StorageError(f"{operation} of {path!r} in {self.uri} failed on purpose; {outcome}")

    def _due(self, operation: StoreOperation, path: str, chance: random.Random) -> FaultKind | None:
        for number, (planned, kind, containing) in enumerate(self._planned):
            if planned == operation and containing in path:
                del self._planned[number]
                return kind
        shares = (self._faults.before, self._faults.after, self._faults.lost_answer, self._faults.crash)
        at = chance.random()
        for kind, share in zip(_KINDS, shares, strict=True):
            if at < share:
                return kind if kind != "lost answer" or operation == "create" else None
            at -= share
        return None
