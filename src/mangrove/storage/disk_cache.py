"""A folder that remembers immutable objects between runs, shared by any number of processes.

A file holds a checksum over store, path and bytes, then the bytes. It appears
by a rename, so readers see it whole; whatever a crash or a bad disk did to it
fails the checksum and counts as absent. Nothing here is precious: any error of
the disk means only that the store is asked instead.

Each process sweeps the folder when it has added a tenth of the bound since it
last looked, so the folder holds at most the bound and a tenth per process.
"""

import hashlib
import os
import stat
import threading
from contextlib import suppress

from mangrove.errors import InvalidInputError

__all__ = ["DiskCache"]

_CHECKSUM_BYTES = 32
_PARTIAL = ".partial-"


class DiskCache:
    """Bytes of immutable objects in a folder of at most about `bytes_max` bytes."""

    def __init__(self, folder: str, bytes_max: int) -> None:
        if bytes_max <= 0:
            raise InvalidInputError(f"a cache of {bytes_max} bytes holds nothing; give more, or no folder")
        self._folder = folder
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        # The first write sweeps: other processes may have filled the folder before.
        self._added_bytes = bytes_max

    def read(self, uri: str, path: str) -> bytes | None:
        """Return the object's bytes if they are here and sound."""
        file = self._file(uri, path)
        try:
            with open(file, "rb") as opened:
                held = opened.read()
        except OSError:
            return None
        checksum, data = held[:_CHECKSUM_BYTES], held[_CHECKSUM_BYTES:]
        if checksum != _checksum(uri, path, data):
            with suppress(OSError):
                os.unlink(file)
            return None
        # The time of the last use is what sweeping goes by.
        with suppress(OSError):
            os.utime(file)
        return data

    def write(self, uri: str, path: str, data: bytes) -> None:
        """Remember the object, if it fits."""
        if len(data) > self._bytes_max // 4:
            return
        file = self._file(uri, path)
        partial = f"{self._folder}/{_PARTIAL}{os.urandom(8).hex()}"
        try:
            os.makedirs(os.path.dirname(file), exist_ok=True)
            with open(partial, "xb") as opened:
                opened.write(_checksum(uri, path, data) + data)
            os.replace(partial, file)
        except OSError:
            with suppress(OSError):
                os.unlink(partial)
            return
        with self._lock:
            self._added_bytes += _CHECKSUM_BYTES + len(data)
            due = self._added_bytes > self._bytes_max // 10
            if due:
                self._added_bytes = 0
        if due:
            self._sweep()

    def forget(self, uri: str, path: str) -> None:
        """Drop the object."""
        with suppress(OSError):
            os.unlink(self._file(uri, path))

    def _file(self, uri: str, path: str) -> str:
        name = hashlib.sha256(f"{uri}\0{path}".encode()).hexdigest()
        return f"{self._folder}/{name[:2]}/{name[2:]}"

    def _sweep(self) -> None:
        """Delete what was not used for longest until the rest fits."""
        files: list[tuple[int, int, str]] = []
        for folder, _, names in os.walk(self._folder):
            for name in names:
                with suppress(OSError):
                    status = os.stat(f"{folder}/{name}", follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        files.append((status.st_mtime_ns, status.st_size, f"{folder}/{name}"))
        excess = sum(size for _, size, _ in files) - self._bytes_max
        for _, size, file in sorted(files):
            if excess <= 0:
                return
            with suppress(OSError):
                os.unlink(file)
            excess -= size


def _checksum(uri: str, path: str, data: bytes) -> bytes:
    """Cover the place too, so that a file under a wrong name is not believed."""
    covered = hashlib.sha256(f"{uri}\0{path}\0".encode())
    covered.update(data)
    return covered.digest()
