"""SQL session of a command whose statements Ctrl-C cancels.

Statements run in a separate thread, because a signal would break the connection of the
main thread to the JVM.

The first Ctrl-C cancels the statement's Spark jobs repeatedly until the statement has
ended. The second one abandons the statement: its thread may continue, but all its
writes and commits are rejected.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mangrove.cli.context import CommandContext
from mangrove.cli.quiet_engines import QuietEngines
from mangrove.effects import Effects
from mangrove.errors import StorageError
from mangrove.storage.counting import StoreRequests
from mangrove.wiring import open_sql_session

if TYPE_CHECKING:
    from mangrove.lakehouse.sql_port import Arguments
    from mangrove.sql.results import Result

__all__ = ["CancellableRunner", "CancellableSession", "WriteFence"]

T = TypeVar("T")
_LOOK_SECONDS: Final = 0.1
_CANCEL_AGAIN_SECONDS: Final = 0.5
_INTERRUPTS_TO_ABANDON: Final = 2


class WriteFence:
    """Rejects the writes of a conversation's lakehouse once it is closed.

    Both layouts commit with an exclusive create, so a statement without an exclusive
    create has committed nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_closed = False
        """Whether all writes are rejected."""
        self._has_begun_commit = False

    def begin_statement(self) -> None:
        """Reset `has_begun_commit` for the next statement."""
        with self._lock:
            self._has_begun_commit = False

    def check(self, requests: StoreRequests) -> None:
        """Raise StorageError for a write if the fence is closed; called before each request."""
        with self._lock:
            if self.is_closed and (requests.puts or requests.creates or requests.deletes):
                raise StorageError("write rejected: the statement was abandoned with a second Ctrl-C")
            self._has_begun_commit = self._has_begun_commit or requests.creates > 0

    @property
    def has_begun_commit(self) -> bool:
        """Whether the statement may have committed."""
        with self._lock:
            return self._has_begun_commit

    def close(self) -> None:
        """Reject all further writes; a write in progress may still succeed."""
        with self._lock:
            self.is_closed = True


class CancellableRunner:
    """Runs all statements of a conversation in one thread, because Spark has thread-local state."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self._interrupts = 0
        self._running: Future[Any] = Future()
        self._running.set_result(None)
        self._works: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        # A daemon thread, so that an abandoned statement does not block the exit.
        self._thread = threading.Thread(target=self._work, name="mangrove statements", daemon=True)

    @property
    def is_busy(self) -> bool:
        """Whether a statement still runs; after `run` has returned, it was abandoned."""
        return not self._running.done()

    @property
    def is_cancelled(self) -> bool:
        """Whether Ctrl-C was pressed since the work started."""
        return self._interrupts > 0

    def run(self, work: Callable[[], T]) -> T:
        """Run the work and return its result.

        On Ctrl-C the work is cancelled until it has ended, and KeyboardInterrupt is
        raised; if the work completes first, its result is returned. On a second Ctrl-C
        KeyboardInterrupt is raised at once, and `is_busy` is true.
        """
        running: Future[T] = Future()
        self._interrupts, self._running = 0, running
        canceller = threading.Thread(target=self._cancel_until_done, args=(running,), daemon=True)
        with _handle_interrupts(self._count_interrupt):
            self._works.put((running, work))
            if not self._thread.is_alive():
                self._thread.start()
            while not running.done() and self._interrupts < _INTERRUPTS_TO_ABANDON:
                if self.is_cancelled and canceller.ident is None:
                    canceller.start()
                wait([running], timeout=_LOOK_SECONDS)
        if self.is_cancelled and (not running.done() or running.exception() is not None):
            raise KeyboardInterrupt
        return running.result()

    def stop(self) -> None:
        """End the thread after its work, so that the process exits without it; abandoned work is not waited for."""
        if self._thread.is_alive() and not self.is_busy:
            self._works.put(None)
            self._thread.join()

    def _count_interrupt(self) -> None:
        self._interrupts += 1

    def _work(self) -> None:
        while (item := self._works.get()) is not None:
            running, work = item
            try:
                running.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
                running.set_exception(error)
            del item, running, work

    def _cancel_until_done(self, running: "Future[Any]") -> None:
        """Cancel repeatedly: a cancellation does not affect jobs that are submitted after it."""
        while not running.done():
            self._cancel()
            wait([running], timeout=_CANCEL_AGAIN_SECONDS)


@contextmanager
def _handle_interrupts(handle: Callable[[], None]) -> Iterator[None]:
    """Call `handle` on each Ctrl-C instead of raising KeyboardInterrupt, unless SIGINT is ignored."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: handle())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class CancellableSession:
    """A SQL session with the thread that runs its statements and the write fence of its store."""

    def __init__(self, session: CommandContext, lake: str, engine: str | None = None) -> None:
        self.fence = WriteFence()
        engines: list[QuietEngines] = []

        def make_engines(effects: Effects) -> QuietEngines:
            engines.append(QuietEngines(effects, session.storage_options))
            return engines[-1]

        self.sql_session = open_sql_session(session.open(lake, make_engines, self.fence), engine)
        (self._engines,) = engines
        self.cancelling = CancellableRunner(self._engines.cancel)

    @property
    def is_over(self) -> bool:
        """Whether a statement was abandoned with a second Ctrl-C, so that no further statement can run."""
        return self.cancelling.is_busy or self.fence.is_closed

    def run(self, work: Callable[[], T]) -> T:
        """Run work that calls `script` and return its result; Ctrl-C raises KeyboardInterrupt."""

        def cancellable() -> T:
            with self._engines.cancellable():
                return work()

        return self.cancelling.run(cancellable)

    def script(self, text: str, arguments: "Arguments" = None) -> "Iterator[Result]":
        """Yield the result of each statement; no statement starts after Ctrl-C."""
        return self.sql_session.script(text, arguments, self._before_statement)

    def abandon(self) -> None:
        """Stop waiting for the running statement and reject its further writes and commits."""
        self.fence.close()

    def _before_statement(self) -> None:
        self.fence.begin_statement()
        if self.cancelling.is_cancelled:
            raise KeyboardInterrupt
