"""A deterministic scheduler that interleaves the requests of simulated writers."""

import logging
import random
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from itertools import count
from typing import Final, ParamSpec, TypeVar
from unittest.mock import patch

import pyarrow as pa
from tests.support.commit_queue import MemoryQueue

from mangrove.errors import StorageError
from mangrove.storage.port import ListEntry, Store
from mangrove.testing.effects import Clock
from mangrove.testing.faulty_store import FaultyStore, SimulatedCrash
from mangrove.transaction.intents import INTENTS_FOLDER

__all__ = [
    "ScheduledQueue",
    "ScheduledStore",
    "SimulatedInterrupt",
    "TurnCondition",
    "TurnScheduler",
    "run_single_threaded",
]

P = ParamSpec("P")
R = TypeVar("R")

_STUCK_SECONDS: Final = 120.0
_TIMEOUT_TURNS: Final = 8
_ROWS: Final = ".parquet"
_ARRIVES: Final = 0.1
"""The chance of a delayed request to take effect at each turn."""
_READS_FAIL: Final = 0.3
"""The chance of a process that learns of the commit of another one to meet an error afterwards."""
_REQUEST_MILLIS_MAX: Final = 10 * 60_000
"""A create takes no longer: an assumption of docs/guarantees.md."""
_HINTS: Final = ("_latest_hint.txt", "_latest_hint", "mangrove/latest")
_WRONG_HINTS: Final = (b"", b"0", b"1", b"999999", b"-7", b"\xff\x00 no number")


class SimulatedInterrupt(BaseException):
    """Ends what a thread does, as Ctrl-C does, or a time limit of the program; its process goes on."""


class TurnScheduler:
    """A baton that is handed over at each request, so that the same seed gives the same interleaving.

    Each thread waits at a gate of its own, so a turn wakes one thread, and none if it goes on itself.
    """

    def __init__(self, seed: int, names: Sequence[str], interrupts: float = 0.0) -> None:
        """Take the names of the threads, and the chance of each turn that an interrupt ends what the thread does."""
        self._chance = random.Random(f"turns/{seed}")
        self._interrupts = interrupts
        self._alive = sorted(names)
        self._gates = {name: threading.Lock() for name in names}
        self.taken: list[str] = []
        """Whose turn it was, in order."""
        self._delayed: list[Callable[[], object]] = []
        first = self._chance.choice(self._alive)
        for name in self._gates.keys() - {first}:
            self._gates[name].acquire()

    def begin(self, name: str) -> None:
        """Wait for the first turn."""
        if not self._gates[name].acquire(timeout=_STUCK_SECONDS):
            raise AssertionError(f"{name} waits for {self.taken[-1:]}, who neither asks storage nor ends")

    def hand_over(self, name: str) -> None:
        """Let the seed choose who goes on, and wait until it is this one's turn again."""
        chosen = self._choose()
        if chosen != name:
            self._gates[chosen].release()
            self.begin(name)
        if self._interrupts and self._chance.random() < self._interrupts:
            raise SimulatedInterrupt

    def delay(self, request: Callable[[], object]) -> None:
        """Let a request take effect some turns later, or when all have left."""
        self._delayed.append(request)

    def leave(self, name: str) -> None:
        """Take no more turns."""
        self._alive.remove(name)
        if self._alive:
            self._gates[self._choose()].release()
        else:
            for request in self._delayed:
                request()

    def _choose(self) -> str:
        if self._delayed and self._chance.random() < _ARRIVES:
            self._delayed.pop(0)()
        self.taken.append(self._chance.choice(self._alive))
        return self.taken[-1]


class TurnCondition:
    """A condition for threads of which one runs at a time: who waits lets the seed choose who goes on."""

    def __init__(self, turns: TurnScheduler, lock: threading.Lock) -> None:
        self._turns = turns
        self._lock = lock

    def notify(self) -> None:
        """Do nothing: who waits looks again at each of its turns."""

    def notify_all(self) -> None:
        """Do nothing: who waits looks again at each of its turns."""

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until the predicate holds, with a time limit for a few turns; return whether it holds."""
        turns = count() if timeout is None else range(_TIMEOUT_TURNS if timeout > 0 else 0)
        for _ in turns:
            if predicate():
                return True
            self._lock.release()
            try:
                self._turns.hand_over(threading.current_thread().name)
            finally:
                self._lock.acquire()
        return predicate()


class ScheduledStore:
    """One process's view of a store that all share: before each request of a thread others may go first.

    Files of rows are never changed, so reading them is nobody's turn.
    """

    def __init__(
        self, store: Store, turns: TurnScheduler, clock: Clock, delays: float, wrong_hints: float, seed: str
    ) -> None:
        """Take the store that all share.

        `clock` is the common one. `delays` is the chance that a create or the put of an intent is
        delayed, and `wrong_hints` that of a hint to be written wrong.
        """
        self._store = store
        self._turns = turns
        self._clock = clock
        self._delays = delays
        self._wrong_hints = wrong_hints
        self._chance = random.Random(f"delays/{seed}")

    @property
    def uri(self) -> str:
        """The root, ending in exactly one `/`."""
        return self._store.uri

    @property
    def identity(self) -> str:
        """Text that is different for two storages with the same URI."""
        return self._store.identity

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
        if path.startswith(INTENTS_FOLDER):
            self._delay_by_chance(lambda: self._store.put(path, data))
        if path.endswith(_HINTS) and self._chance.random() < self._wrong_hints:
            data = self._chance.choice(_WRONG_HINTS)
        self._store.put(path, data)

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects."""
        self._turn(*objects)
        self._store.put_many(objects)

    def create(self, path: str, data: bytes) -> bool:
        """Write the object only if the path is free, and only soon after the request."""
        until_millis = self._clock.now_millis + _REQUEST_MILLIS_MAX
        self._turn(path)

        def create() -> bool:
            if self._clock.now_millis > until_millis:
                raise StorageError("no response in time; the request has no effect any more")
            return self._store.create(path, data)

        self._delay_by_chance(create)
        return create()

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the objects."""
        listed = [*paths]
        self._turn(*listed)
        self._store.delete_many(listed)

    def _delay_by_chance(self, request: Callable[[], object]) -> None:
        def arrive() -> None:
            # Nobody waits for the response.
            with suppress(StorageError):
                request()

        if self._chance.random() < self._delays:
            self._turns.delay(arrive)
            raise StorageError("no response in time; the request may still take effect")

    def _turn(self, *paths: str) -> None:
        if not (paths and all(path.endswith(_ROWS) for path in paths)):
            self._turns.hand_over(threading.current_thread().name)


class ScheduledQueue(MemoryQueue):
    """One process's view of the queue of its machine, which loses entries and versions, and whose lock fails."""

    def __init__(self, shared: MemoryQueue, turns: TurnScheduler, store: FaultyStore, seed: str) -> None:
        """Take the queue that all share, and the store of the process."""
        super().__init__()
        self._shared = shared
        self._turns = turns
        self._store = store
        self._chance = random.Random(f"queue/{seed}")
        self.entries, self.versions = shared.entries, shared.versions

    def is_active(self, now_millis: int) -> bool:
        """Return whether a writer joins the queue although it lost no race."""
        del now_millis
        return self._happens(0.3)

    def put(self, name: str, data: bytes) -> bool:
        """Add an entry; sometimes the queue cannot be used."""
        self._turn()
        return not self._happens(0.05) and super().put(name, data)

    def read(self, name: str) -> bytes | None:
        """Return an entry; sometimes it cannot be read."""
        return None if self._happens(0.05) else super().read(name)

    def remove(self, names: Iterable[str]) -> None:
        """Remove entries; sometimes one too many, and nothing if the process was killed."""
        self._turn()
        if isinstance(sys.exc_info()[1], SimulatedCrash):
            return
        lost = self.list()[:1] if self._happens(0.05) else []
        super().remove([*names, *lost])

    def try_lock(self) -> bool:
        """Take the lock; sometimes although another process has it."""
        self._turn()
        return self._shared.try_lock() or self._happens(0.02)

    def unlock(self) -> None:
        """Release the lock, whoever has it."""
        self._shared.unlock()

    def put_version(self, version: int, data: bytes, *, is_group: bool) -> None:
        """Show a version to the others; sometimes it gets lost."""
        self._turn()
        if not self._happens(0.1):
            super().put_version(version, data, is_group=is_group)

    def read_version(self, version: int) -> bytes | None:
        """Return what was shown of a version; sometimes the next read in the store fails, also if it is calm."""
        found = super().read_version(version)
        if found is not None and self._happens(_READS_FAIL):
            self._store.fail_next("read", "before")
        return found

    def _happens(self, chance: float) -> bool:
        return self._chance.random() < chance

    def _turn(self) -> None:
        self._turns.hand_over(threading.current_thread().name)


class _InlineExecutor(Executor):
    """A thread pool without threads: each call is made when it is submitted."""

    def __init__(self, *_: object, **__: object) -> None:
        """Ignore the number of threads."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Make the call now."""
        future: Future[R] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - raised where the result is read, as by threads
            future.set_exception(error)
        return future


class _ErrorHandler(logging.Handler):
    """Keeps the errors that are logged with their traceback: such an error after a commit is a bug."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])


@contextmanager
def _raise_logged_errors() -> Iterator[None]:
    handler = _ErrorHandler()
    logger = logging.getLogger("mangrove")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
    for error in handler.errors:
        raise error


@contextmanager
def run_single_threaded() -> Iterator[None]:
    """Let each writer read and write data files on its own thread, and Arrow use no more than one.

    The seed does not decide the order of threads in a pool: it decided how often a file of deleted keys
    was read, and so which request failed, and Arrow joined rows in another order. Starting threads took a
    fifth of the time.
    """
    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        with (
            _raise_logged_errors(),
            patch("mangrove.parallel.ThreadPoolExecutor", _InlineExecutor),
            patch("mangrove.maintenance.check.ThreadPoolExecutor", _InlineExecutor),
        ):
            yield
    finally:
        pa.set_cpu_count(threads)
