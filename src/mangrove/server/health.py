"""Readiness check that reads the newest version at most once in a few seconds."""

import threading
from typing import Final

from mangrove.effects import Effects
from mangrove.errors import MangroveError
from mangrove.lakehouse.layout_detection import open_layout

__all__ = ["READY_FOR_MILLIS", "Readiness"]

READY_FOR_MILLIS: Final = 5_000
"""How long a result is cached, so that probes without a token cause few storage requests."""


class Readiness:
    """The last result with its time; while one thread reads storage, others get the previous result."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._lock = threading.Lock()
        self._result: tuple[int, bool] | None = None

    def is_ready(self) -> bool:
        """Return whether the newest version could be read at the last check."""
        now_millis = self._effects.now_millis()
        is_over = self._result is None or not 0 <= now_millis - self._result[0] < READY_FOR_MILLIS
        # Not blocking: storage that hangs must not occupy all worker threads.
        if is_over and self._lock.acquire(blocking=False):
            try:
                self._result = now_millis, self._is_readable()
            finally:
                self._lock.release()
        return self._result is not None and self._result[1]

    def _is_readable(self) -> bool:
        try:
            # A new metastore: a cached one would still succeed after the files are deleted.
            open_layout(self._effects).metastore.latest()
        except MangroveError:
            return False
        return True
