"""Deterministic effects with a manual clock and sequential ids."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from mangrove.effects import Effects
from mangrove.storage.port import Store

__all__ = ["Clock", "build_deterministic_effects"]


@dataclass
class Clock:
    """A clock that advances by `tick_millis` at each reading, and can be set."""

    now_millis: int = 1_736_928_000_000
    tick_millis: int = 1
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def read(self) -> int:
        """Return the time, and advance the clock."""
        with self._lock:
            now = self.now_millis
            self.now_millis += self.tick_millis
            return now


def build_deterministic_effects(store: Store, clock: Clock | None = None, first_id: int = 1) -> Effects:
    """Return effects around `store` that are the same in every run.

    Ids count up from `first_id`; deferred work runs immediately.
    """
    ids = _count_ids(first_id)
    return Effects(
        store=store,
        now_millis=(clock or Clock()).read,
        new_id=ids,
        pause=lambda _: None,
        later=lambda task: task(),
    )


def _count_ids(first: int) -> Callable[[], str]:
    lock = threading.Lock()
    count = first

    def new_id() -> str:
        nonlocal count
        with lock:
            number = count
            count += 1
        return f"00000000-0000-4000-8000-{number:012x}"

    return new_id
