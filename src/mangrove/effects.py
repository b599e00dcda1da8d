"""The store, clock, id generator and timers that the core receives as parameters."""

import os
import random
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass

from mangrove.storage.commit_queue import CommitQueue, open_queue
from mangrove.storage.port import Store

__all__ = ["Effects", "build_effects", "wait_for_pending"]


@dataclass(frozen=True, slots=True)
class Effects:
    """The store, clock, id generator and timers as a value, so that tests can replace them."""

    store: Store
    now_millis: Callable[[], int]
    new_id: Callable[[], str]
    """A fresh version 4 UUID as text."""
    pause: Callable[[float], None]
    """Wait about that many seconds, with jitter; used only between commit attempts."""
    later: Callable[[Callable[[], None]], None]
    """Run a task in the background. It may be lost or replaced by the next one; used for hints."""
    queue: CommitQueue | None = None
    """Where transactions of the processes of this machine wait for each other; None: nowhere."""
    clock_tolerance_millis: int | None = None
    """How far in the future the newest version may be dated at a commit; None: the lakehouse setting."""


def build_effects(store: Store, clock_tolerance_millis: int | None = None) -> Effects:
    """Return the system clock, random ids and threads around `store`."""
    return Effects(
        store=store,
        now_millis=lambda: time.time_ns() // 1_000_000,
        new_id=_new_uuid,
        pause=lambda seconds: time.sleep(seconds * random.uniform(0.5, 1.5)),
        later=_DeferredTasks(),
        queue=open_queue(store),
        clock_tolerance_millis=clock_tolerance_millis,
    )


def _new_uuid() -> str:
    """Return what `str(uuid.uuid4())` returns, in a quarter of the time."""
    text = os.urandom(16).hex()
    variant = "89ab"[int(text[16], 16) % 4]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"


def wait_for_pending(effects: Effects, timeout_seconds: float = 1.0) -> None:
    """Wait for background tasks, at most for the timeout."""
    if isinstance(effects.later, _DeferredTasks):
        effects.later.finish(timeout_seconds)


class _DeferredTasks:
    """Runs the newest task on its own thread, at most ten per second; a waiting task is replaced."""

    def __init__(self) -> None:
        self._slot = _TaskSlot()
        # A short program should write its hint, but not hang if the store does.
        weakref.finalize(self, self._slot.finish, 1.0)

    def __call__(self, task: Callable[[], None]) -> None:
        self._slot.take(task)

    def finish(self, timeout_seconds: float) -> None:
        self._slot.finish(timeout_seconds)


class _TaskSlot:
    """A slot for one waiting task, and the thread that runs it."""

    _IDLE_SECONDS = 2.0
    _REST_SECONDS = 0.1

    def __init__(self) -> None:
        lock = threading.Lock()
        # Separate conditions: frequent commits must not wake the thread while it pauses.
        self._given = threading.Condition(lock)
        self._done = threading.Condition(lock)
        self._hurried = threading.Condition(lock)
        self._waiting: Callable[[], None] | None = None
        self._busy = False
        self._running = False
        self._hurry = False

    def take(self, task: Callable[[], None]) -> None:
        with self._given:
            self._waiting = task
            self._given.notify_all()
            if not self._running:
                try:
                    threading.Thread(target=self._run, name="mangrove-later", daemon=True).start()
                except RuntimeError:
                    # The system has no more threads; the commit before this task is not to fail.
                    return
                self._running = True

    def finish(self, timeout_seconds: float) -> None:
        with self._done:
            self._hurry = True
            self._hurried.notify_all()
            self._done.wait_for(lambda: self._waiting is None and not self._busy, timeout_seconds)
            self._hurry = False

    def _run(self) -> None:
        while True:
            with self._given:
                if not self._given.wait_for(lambda: self._waiting is not None, self._IDLE_SECONDS):
                    self._running = False
                    return
                task, self._waiting, self._busy = self._waiting, None, True
            assert task is not None
            try:
                task()
            finally:
                with self._done:
                    self._busy = False
                    self._done.notify_all()
                    self._hurried.wait_for(lambda: self._hurry, self._REST_SECONDS)
