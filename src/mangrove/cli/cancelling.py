"""Running a statement so that Ctrl-C ends it: it runs in a thread of its own while the main thread waits.

A signal that comes while a thread talks to Spark's Java would break that connection.

The first Ctrl-C cancels the statement's Spark jobs, again and again until the
statement has ended. The second one abandons the statement: its thread may go on,
but it can neither write nor commit any more.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from mangrove.errors import StorageError
from mangrove.storage.counting import Requests

__all__ = ["Cancelling", "WriteGate"]

T = TypeVar("T")
_LOOK_SECONDS: Final = 0.1
_CANCEL_AGAIN_SECONDS: Final = 0.5


class WriteGate:
    """Stands before the store of a conversation's lakehouse, and refuses its writes once it is closed.

    The commit of both layouts is an exclusive create, so a statement that has made
    none has committed nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_closed = False
        """Whether nothing more is written."""
        self._has_begun_commit = False

    def begin_statement(self) -> None:
        """Forget the commits of earlier statements."""
        with self._lock:
            self._has_begun_commit = False

    def check(self, made: Requests) -> None:
        """Refuse a request that would write, where the gate is closed; called before each request."""
        with self._lock:
            if self.is_closed and (made.puts or made.creates or made.deletes):
                raise StorageError("the statement was abandoned with a second Ctrl-C, so nothing more of it is written")
            self._has_begun_commit = self._has_begun_commit or made.creates > 0

    @property
    def has_begun_commit(self) -> bool:
        """Whether the statement may have committed."""
        with self._lock:
            return self._has_begun_commit

    def close(self) -> None:
        """Refuse all writes from now on; one that is under way may still succeed."""
        with self._lock:
            self.is_closed = True


class Cancelling:
    """One thread for all statements of a conversation, since Spark keeps some things by thread."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self.is_cancelled = False
        """Whether Ctrl-C came since the work began."""
        self._running: Future[Any] = Future()
        self._running.set_result(None)
        self._works: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        # A daemon, so that an abandoned statement keeps nobody from leaving.
        self._thread = threading.Thread(target=self._work, name="mangrove statements", daemon=True)

    @property
    def is_busy(self) -> bool:
        """Whether a statement still runs; after `run` has ended this means that it was abandoned."""
        return not self._running.done()

    def run(self, work: Callable[[], T]) -> T:
        """Return what the work gives.

        On Ctrl-C the work is cancelled until it has ended, and KeyboardInterrupt is
        raised. Work that was done before it could be cancelled is done: its result is
        returned. On a second Ctrl-C KeyboardInterrupt is raised at once, and `is_busy`
        says that the work has not ended.
        """
        may_begin = threading.Event()

        def begun() -> T:
            may_begin.wait()
            return work()

        self.is_cancelled = False
        running: Future[T] = Future()
        self._running = running
        self._works.put((running, begun))
        try:
            if not self._thread.is_alive():
                self._thread.start()
            # Only now, so that no key is pressed between the begin of the work and our waiting for it.
            may_begin.set()
            _wait_until_done(running)
            return running.result()
        except KeyboardInterrupt:
            if not running.done():
                self.is_cancelled = True
                threading.Thread(target=self._cancel_until_done, args=(running,), daemon=True).start()
                # Also work that had not begun must end.
                may_begin.set()
                _wait_until_done(running)
            if running.exception() is None:
                return running.result()
            raise

    def _work(self) -> None:
        while True:
            running, work = self._works.get()
            try:
                running.set_result(work())
            except BaseException as error:  # noqa: BLE001 - whoever waits for the work gets it
                running.set_exception(error)

    def _cancel_until_done(self, running: "Future[Any]") -> None:
        """Cancel again and again: a job that is submitted after a cancellation is not cancelled by it."""
        while not running.done():
            self._cancel()
            wait([running], timeout=_CANCEL_AGAIN_SECONDS)


def _wait_until_done(running: "Future[Any]") -> None:
    """Wait in short steps: a signal that comes just before a thread falls asleep does not wake it."""
    while not running.done():
        wait([running], timeout=_LOOK_SECONDS)
