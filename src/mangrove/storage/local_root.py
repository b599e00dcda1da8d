"""Which folder of this machine a store stands on, told from any other that comes to lie at the same path."""

import errno
import os
import threading
import weakref

from mangrove.errors import StorageError

__all__ = ["StandingRoot"]

_KEPT_OPEN = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class StandingRoot:
    """The folder at `path` from when it was first seen, kept open: else its number could go to the next folder."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._lock = threading.Lock()

    @property
    def is_known(self) -> bool:
        """Whether the folder has been seen, so that it must not be made again."""
        return self._descriptor is not None

    def check(self) -> None:
        """Remember the folder if it is there for the first time; refuse any other, and none, ever after."""
        if self._descriptor is None:
            self._remember()
        elif not self._is_the_same(self._descriptor):
            raise StorageError(
                f"the folder {self.path} was moved, deleted or made anew since it was opened, so nothing was done: "
                "open the lakehouse again, where it lies now"
            )

    def _remember(self) -> None:
        with self._lock:
            if self._descriptor is not None:
                return
            try:
                descriptor = os.open(self.path, _KEPT_OPEN)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                # Not there yet, or not for us: whoever reads or writes next says so better.
                return
            # At the end of the process threads may still write, and the system closes it anyway.
            weakref.finalize(self, os.close, descriptor).atexit = False
            self._descriptor = descriptor

    def _is_the_same(self, descriptor: int) -> bool:
        try:
            now, known = os.stat(self.path), os.fstat(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            # What a network's file system says of a folder that is no more.
            return False
        return os.path.samestat(now, known) and known.st_nlink > 0
