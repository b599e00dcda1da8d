"""Running statements so that Ctrl-C ends them: in a thread of their own, while this one waits for the key.

A signal that comes while this thread speaks to Spark's Java would break the
conversation in the middle of a word, and nobody could tell Spark to stop.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event
from typing import Final, TypeVar

__all__ = ["Cancelling"]

T = TypeVar("T")
_LOOK_SECONDS: Final = 0.1


class Cancelling:
    """One thread for all statements of a conversation, since Spark keeps some things by thread."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self._thread = ThreadPoolExecutor(max_workers=1)

    def run(self, work: Callable[[], T]) -> T:
        """Return what the work gives; on Ctrl-C it is told to stop, and has stopped when KeyboardInterrupt is raised.

        Work that was done before it could be stopped is done: its answer is given.
        """
        may_begin = Event()

        def begun() -> T:
            may_begin.wait()
            return work()

        running: Future[T] = self._thread.submit(begun)
        try:
            # Only now, so that no key is pressed between the work's begin and our waiting for it.
            may_begin.set()
            # A signal that comes just before a thread falls asleep does not wake it, so it never sleeps for long.
            while not running.done():
                wait([running], timeout=_LOOK_SECONDS)
            return running.result()
        except KeyboardInterrupt:
            if running.done():
                raise
            self._cancel()
            wait([running])
            if running.exception() is None:
                return running.result()
            raise
