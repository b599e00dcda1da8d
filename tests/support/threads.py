"""Waiting for what another thread does."""

import threading
from collections.abc import Callable

__all__ = ["wait_until"]

_POLLS_MAX = 60_000
_POLL_SECONDS = 0.001


def wait_until(is_met: Callable[[], bool]) -> None:
    """Wait until another thread has met the condition, for a minute at most."""
    pause = threading.Event()
    for _ in range(_POLLS_MAX):
        if is_met():
            return
        pause.wait(_POLL_SECONDS)
    raise AssertionError("the condition was not met within a minute")
