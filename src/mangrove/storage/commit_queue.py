"""A queue of the processes of one machine that commit to the same lakehouse.

Entries are small files in a folder of one user, in memory where the system has such a
folder. The lock is that of the operating system, so it ends with its process. Correctness
needs nothing of this: an entry that is lost, taken twice or never taken costs time.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

try:
    import fcntl as _fcntl
except ImportError:  # Windows
    _fcntl = None  # type: ignore[assignment]

__all__ = ["CommitQueue", "MachineQueue", "open_queue"]

_FORM: Final = 1
"""Releases that do not understand each other use different folders."""
_ACTIVE_MILLIS: Final = 2_000
_VERSIONS_MAX: Final = 64
_MEMORY_FOLDER: Final = Path("/dev/shm")  # noqa: S108 - the subfolder belongs to one user


class CommitQueue(Protocol):
    """Transactions that wait until one of the processes commits all of them, and the versions that it made."""

    def is_active(self, now_millis: int) -> bool:
        """Return whether several processes committed together in the last seconds."""
        ...

    def put(self, name: str, data: bytes) -> bool:
        """Add an entry, and return whether the queue can be used."""
        ...

    def contains(self, name: str) -> bool:
        """Return whether an entry waits."""
        ...

    def list(self) -> list[str]:
        """Return the names of all entries, in their order."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return an entry, or None if it was removed."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove entries."""
        ...

    def try_lock(self) -> bool:
        """Take the lock if nobody has it, and return whether it was taken."""
        ...

    def unlock(self) -> None:
        """Release the lock."""
        ...

    def put_version(self, version: int, data: bytes, *, is_group: bool) -> None:
        """Show a version to the others; a group of several processes keeps the queue active."""
        ...

    def read_version(self, version: int) -> bytes | None:
        """Return what was shown of a version, or None."""
        ...


class MachineQueue:
    """The queue in a folder, which is created when it is first used."""

    def __init__(self, folder: Path) -> None:
        # Text, because a waiting process polls.
        self._folder = str(folder)
        self._lock_path = self._locate("lock")
        self._descriptor: int | None = None

    def is_active(self, now_millis: int) -> bool:
        """Return whether several processes committed together in the last seconds."""
        try:
            return now_millis - os.stat(self._lock_path).st_mtime_ns // 1_000_000 < _ACTIVE_MILLIS
        except OSError:
            return False

    def put(self, name: str, data: bytes) -> bool:
        """Add an entry, and return whether the queue can be used."""
        return self._is_private() and self._write(name, data)

    def contains(self, name: str) -> bool:
        """Return whether an entry waits."""
        return os.path.exists(self._locate(name))

    def list(self) -> list[str]:
        """Return the names of all entries, in their order."""
        try:
            return sorted(name for name in os.listdir(self._folder) if name.endswith(".intent"))
        except OSError:
            return []

    def read(self, name: str) -> bytes | None:
        """Return an entry, or None if it was removed."""
        try:
            with open(self._locate(name), "rb") as file:
                return file.read()
        except OSError:
            return None

    def remove(self, names: Iterable[str]) -> None:
        """Remove entries."""
        for name in names:
            with suppress(OSError):
                os.unlink(self._locate(name))

    def try_lock(self) -> bool:
        """Take the lock if nobody has it, and return whether it was taken."""
        try:
            # Opened each time: a process that is forked meanwhile would share the lock.
            descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return False
        try:
            _fcntl.flock(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def unlock(self) -> None:
        """Release the lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _fcntl.flock(descriptor, _fcntl.LOCK_UN)
            os.close(descriptor)

    def put_version(self, version: int, data: bytes, *, is_group: bool) -> None:
        """Show a version to the others; a group of several processes keeps the queue active."""
        self._write(f"{version}.version", data)
        self.remove([f"{version - _VERSIONS_MAX}.version"])
        if is_group:
            with suppress(OSError):
                os.utime(self._lock_path)

    def read_version(self, version: int) -> bytes | None:
        """Return what was shown of a version, or None."""
        return self.read(f"{version}.version")

    def _locate(self, name: str) -> str:
        return f"{self._folder}{os.sep}{name}"

    def _is_private(self) -> bool:
        """Create the folder, and return whether only this user can use it."""
        try:
            for folder in (os.path.dirname(self._folder), self._folder):
                with suppress(FileExistsError):
                    os.mkdir(folder, 0o700)
                found = os.lstat(folder)
                if found.st_uid != os.getuid() or found.st_mode & 0o170077 != 0o040000:
                    return False
        except OSError:
            return False
        return True

    def _write(self, name: str, data: bytes) -> bool:
        """Write a file that is complete when it is seen, and return whether it was written."""
        path = self._locate(name)
        temporary = f"{path}.{os.getpid()}"
        try:
            with open(temporary, "wb") as file:
                file.write(data)
            os.rename(temporary, path)
        except OSError:
            return False
        return True


def open_queue(uri: str) -> MachineQueue | None:
    """Return the queue of this user and machine for a lakehouse; None where the system has none."""
    if _fcntl is None or uri.startswith("memory:"):
        return None
    base = _MEMORY_FOLDER if os.access(_MEMORY_FOLDER, os.W_OK) else Path(tempfile.gettempdir())
    name = hashlib.sha256(f"{_FORM}/{uri}".encode()).hexdigest()[:32]
    return MachineQueue(base / f"mangrove-{os.getuid()}" / name)
