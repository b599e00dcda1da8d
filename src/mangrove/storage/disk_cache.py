"""A disk cache for immutable objects, shared by processes.

A file contains an object or one block of it: a checksum over store, path, block and
bytes, then the bytes. It is created by a rename, so readers see it complete; a damaged
file fails the checksum and counts as absent. Disk errors are ignored: the object is
read from the store instead.

    <2 digits>/<62 digits>.whole      an object
    <2 digits>/<62 digits>.<block>    a block of one
    .partial-<16 digits>              a file being written

Only files with such names are counted and deleted. They are readable by their owner
only, because the bucket may be private.

Each process sweeps the folder after it has added a tenth of the limit, so the folder
exceeds the limit by at most a tenth per process.
"""

import hashlib
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress

from mangrove.errors import InvalidInputError

__all__ = ["DiskCache"]

_CHECKSUM_BYTES = 32
_PARTIAL = ".partial-"
_WHOLE = "whole"
_OURS = re.compile(rf"(?:[0-9a-f]{{2}}/[0-9a-f]{{62}}\.(?:{_WHOLE}|[0-9]+)|{re.escape(_PARTIAL)}[0-9a-f]{{16}})")


class DiskCache:
    """The bytes of immutable objects in a folder of at most about `bytes_max` bytes."""

    def __init__(self, folder: str, bytes_max: int) -> None:
        if bytes_max <= 0:
            raise InvalidInputError(f"a cache of {bytes_max} bytes is too small; use a larger one, or no folder")
        self._folder = folder
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        # The first write sweeps, because other processes may have filled the folder.
        self._added_bytes = bytes_max

    def read(self, uri: str, path: str, block: int | None = None) -> bytes | None:
        """Return the bytes of the object, or of one block of it, if they are cached and intact."""
        file = self._file(uri, path, block)
        try:
            with open(file, "rb") as opened:
                held = opened.read()
        except OSError:
            return None
        data = memoryview(held)[_CHECKSUM_BYTES:]
        if held[:_CHECKSUM_BYTES] != _checksum(uri, path, block, data):
            with suppress(OSError):
                os.unlink(file)
            return None
        # Sweeping is by time of last use.
        with suppress(OSError):
            os.utime(file)
        return bytes(data)

    def write(self, uri: str, path: str, data: bytes | memoryview, block: int | None = None) -> None:
        """Cache the object, or one block of it, if it fits."""
        if len(data) > self._bytes_max // 4:
            return
        file = self._file(uri, path, block)
        partial = f"{self._folder}/{_PARTIAL}{os.urandom(8).hex()}"
        try:
            for folder in (self._folder, os.path.dirname(file)):
                os.makedirs(folder, mode=stat.S_IRWXU, exist_ok=True)
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR), "wb") as new:
                new.write(_checksum(uri, path, block, data))
                new.write(data)
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
        """Evict the object and all of its blocks."""
        folder, name = os.path.split(self._file(uri, path, None).removesuffix(_WHOLE))
        with suppress(OSError):
            for other in os.listdir(folder):
                if other.startswith(name):
                    os.unlink(f"{folder}/{other}")

    def _file(self, uri: str, path: str, block: int | None) -> str:
        name = hashlib.sha256(f"{uri}\0{path}".encode()).hexdigest()
        return f"{self._folder}/{name[:2]}/{name[2:]}.{_WHOLE if block is None else block}"

    def _sweep(self) -> None:
        """Delete the least recently used files until the rest fits."""
        files: list[tuple[int, int, str]] = []
        for file in self._files():
            with suppress(OSError):
                status = os.stat(file, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    files.append((status.st_mtime_ns, status.st_size, file))
        excess = sum(size for _, size, _ in files) - self._bytes_max
        for _, size, file in sorted(files):
            if excess <= 0:
                return
            with suppress(OSError):
                os.unlink(file)
            excess -= size

    def _files(self) -> Iterator[str]:
        for name in _names_in(self._folder):
            below = [f"{name}/{one}" for one in _names_in(f"{self._folder}/{name}")] if len(name) == 2 else [name]
            yield from (f"{self._folder}/{one}" for one in below if _OURS.fullmatch(one))


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _checksum(uri: str, path: str, block: int | None, data: bytes | memoryview) -> bytes:
    """Return the checksum; it covers the location, so that a file under a wrong name is invalid."""
    covered = hashlib.sha256(f"{uri}\0{path}\0{block}\0".encode())
    covered.update(data)
    return covered.digest()
