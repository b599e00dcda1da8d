"""A store wrapper that injects faults from a seed.

Whether a request fails depends only on the seed, the operation, the path and the number
of earlier such requests for the path, so the order of threads does not change the faults.
"""

import random  # noqa: TID251 - all chance here comes from the seed
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mangrove.errors import InvalidInputError, StorageError
from mangrove.model.paths import check_path, check_prefix
from mangrove.storage.port import ListEntry, Store

__all__ = ["FaultKind", "Faults", "FaultyStore", "SimulatedCrash", "StoreOperation"]

StoreOperation = Literal["read", "size", "list", "put", "create", "delete"]
FaultKind = Literal["before", "after", "lost answer", "crash"]
_KINDS: tuple[FaultKind, ...] = ("before", "after", "lost answer", "crash")


class SimulatedCrash(BaseException):
    """Raised when the simulated process has crashed; code under test must not catch it."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Probability of each fault, from 0 to 1.

    `before` fails without the effect, `after` with it. A `lost answer` is for creates only:
    an error after which the object may or may not exist. A `crash` occurs with or without
    the effect, or with a part of several puts, and all later requests fail.
    `delay_seconds` is the maximum delay before a request.
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
    """Forwards requests to another store, or fails them according to `faults` and `fail_next`."""

    def __init__(self, store: Store, faults: Faults, pause: Callable[[float], None] = lambda _: None) -> None:
        """Wrap the store; `pause` is called with each delay in seconds, so that a test need not wait."""
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
        """URI of the root, ending in exactly one `/`."""
        return self._store.uri

    @property
    def identity(self) -> str:
        """Text that is different for two storages with the same URI."""
        return self._store.identity

    def fail_next(self, operation: StoreOperation, kind: FaultKind, containing: str = "") -> None:
        """Inject a fault into the next such operation whose path contains `containing`."""
        with self._lock:
            self._planned.append((operation, kind, containing))

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the object's bytes, or a range of them."""
        self._meet("read", path, lambda _: None)
        return self._store.read(path, start, length)

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return each object's bytes, or None for a missing object."""
        for path in paths:
            self._meet("read", path, lambda _: None)
        return self._store.read_many(paths)

    def size(self, path: str) -> int | None:
        """Return the object's size in bytes, or None."""
        self._meet("size", path, lambda _: None)
        return self._store.size(path)

    def exists(self, path: str) -> bool:
        """Return whether an object exists at `path`."""
        self._meet("size", path, lambda _: None)
        return self._store.exists(path)

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[ListEntry]:
        """Yield the entries under `prefix`."""
        self._meet("list", prefix, lambda _: None)
        return self._store.list(prefix, start_after=start_after, delimiter=delimiter)

    def put(self, path: str, data: bytes) -> None:
        """Write the object, replacing an existing one."""
        self._meet("put", path, lambda _: self._store.put(path, data))
        self._store.put(path, data)

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects; after a fault any subset of the others may be written."""

        def some(chance: random.Random) -> None:
            self._store.put_many({path: data for path, data in objects.items() if chance.random() < 0.5})

        for path in objects:
            self._meet("put", path, some)
        self._store.put_many(objects)

    def create(self, path: str, data: bytes) -> bool:
        """Write the object only if none exists at the path."""
        self._meet("create", path, lambda _: self._store.create(path, data))
        return self._store.create(path, data)

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the objects; after a fault any subset of the others may be deleted."""
        listed = [*paths]

        def some(chance: random.Random) -> None:
            self._store.delete_many([path for path in listed if chance.random() < 0.5])

        for path in listed:
            self._meet("delete", path, some)
        self._store.delete_many(listed)

    def _meet(self, operation: StoreOperation, path: str, effect: Callable[[random.Random], object]) -> None:
        """Raise an error if a fault is due, after the `effect` if the fault includes it."""
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
