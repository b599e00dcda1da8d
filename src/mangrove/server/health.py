"""Readiness: whether the newest version of the lakehouse can be read, asked of storage once in a while."""

import threading
from typing import Final

from mangrove.effects import Effects
from mangrove.errors import MangroveError
from mangrove.lakehouse.layouts import open_layout

__all__ = ["READY_FOR_MILLIS", "Readiness"]

READY_FOR_MILLIS: Final = 5_000
"""For how long an answer holds, so that probes, which need no token, cause few requests to storage."""


class Readiness:
    """The last answer, and when it was found; while one thread asks storage, others get the answer before."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._lock = threading.Lock()
        self._found: tuple[int, bool] | None = None

    def is_ready(self) -> bool:
        """Return whether the newest version could be read just now, or a few seconds ago."""
        now_millis = self._effects.now_millis()
        is_over = self._found is None or not 0 <= now_millis - self._found[0] < READY_FOR_MILLIS
        # Nobody waits here: storage that hangs must not take the threads that answer other requests.
        if is_over and self._lock.acquire(blocking=False):
            try:
                self._found = now_millis, self._is_readable()
            finally:
                self._lock.release()
        return self._found is not None and self._found[1]

    def _is_readable(self) -> bool:
        try:
            # Opened again, because what is held in memory would stay well after the files are gone.
            open_layout(self._effects).metastore.latest()
        except MangroveError:
            return False
        return True
