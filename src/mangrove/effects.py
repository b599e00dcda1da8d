"""Everything outside that deciding code may need, handed in: bytes, time, fresh ids, waiting."""

import random
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from mangrove.storage.port import Store

__all__ = ["Effects", "real_effects"]


@dataclass(frozen=True, slots=True)
class Effects:
    """The outside world as a value, so that tests can hand in another one."""

    store: Store
    now_millis: Callable[[], int]
    new_id: Callable[[], str]
    """A fresh version 4 UUID as text."""
    pause: Callable[[float], None]
    """Wait about that many seconds, with jitter: only between attempts of a lost race."""
    later: Callable[[Callable[[], None]], None]
    """Run something that nobody waits for and that may be lost, such as writing a hint."""


def real_effects(store: Store) -> Effects:
    """Return the machine's clock, chance and threads around `store`."""
    return Effects(
        store=store,
        now_millis=lambda: time.time_ns() // 1_000_000,
        new_id=lambda: str(uuid.uuid4()),
        pause=lambda seconds: time.sleep(seconds * random.uniform(0.5, 1.5)),
        later=_on_a_daemon_thread,
    )


def _on_a_daemon_thread(task: Callable[[], None]) -> None:
    threading.Thread(target=task, name="mangrove-later", daemon=True).start()
