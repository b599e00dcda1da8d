"""A queue of the processes of one machine that commit to the same lakehouse.

Entries are small files in a folder of one user, in memory where the system has such a
folder. The locks are those of the operating system, so they end with their process: a
process that waits has a lock on its entry. It sleeps until a byte arrives in the named
pipe of its entry. Correctness needs neither: an entry that is lost, taken twice or never
taken costs time, and so does a byte that is lost.
"""

import errno
import hashlib
import os
import select
import shutil
import stat
import tempfile
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol

from mangrove.storage.port import Store

try:
    import fcntl as _fcntl
except ImportError:  # Windows
    _fcntl = None  # type: ignore[assignment]

__all__ = ["CommitQueue", "MachineQueue", "open_queue"]

_FORM: Final = 2
"""Releases that do not understand each other use different folders."""
_ACTIVE_MILLIS: Final = 2_000
_MAINTENANCE_MILLIS: Final = 60_000
_VERSIONS_MAX: Final = 64
_VERSION_BYTES_MAX: Final = 1024 * 1024
"""A larger version is not shown: the folder is in memory, and a container often has 64 MB for it."""
_UNUSED_SECONDS_MAX: Final = 3600
_CHECKSUM_BYTES: Final = 32
_WAKES_MAX: Final = 64
"""So many bytes of a pipe are read at once."""
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
        """Return an entry; None if it was removed, or if its process does not exist any more."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove entries."""
        ...

    def wait(self, name: str, seconds: float, pause: Callable[[float], None]) -> None:
        """Wait until another process removes the own entry or leaves the lock to it, at most so long, often shorter.

        `pause` is used where nothing can wake the process.
        """
        ...

    def try_lock(self) -> bool:
        """Take the lock if nobody has it, and return whether it was taken."""
        ...

    def unlock(self) -> None:
        """Release the lock, and wake the process that has waited longest."""
        ...

    def try_lock_maintenance(self, now_millis: int) -> bool:
        """Return whether no other process has begun to maintain a table recently; this one does until it unlocks."""
        ...

    def unlock_maintenance(self) -> None:
        """Let another process maintain tables."""
        ...

    def put_version(self, version: int, data: bytes, *, is_group: bool) -> None:
        """Show a version to the others; a group of several processes keeps the queue active."""
        ...

    def read_version(self, version: int) -> bytes | None:
        """Return what was shown of a version, or None."""
        ...


class MachineQueue:
    """The queue in a folder, which is created when it is first used.

    Files are written in place. A reader recognizes one that is not complete by its checksum.
    """

    def __init__(self, find_folder: Callable[[], Path]) -> None:
        """Take the folder, which may depend on a lakehouse that does not exist yet."""
        self._find_folder = find_folder
        self._lock: int | None = None
        self._maintenance: int | None = None
        self._entries: dict[str, list[int]] = {}
        """The pipe and the open file of each own entry. The lock of the file shows that this process exists."""
        self._removed: list[str] = []
        """The entries of others that this process removed since it got the lock."""
        _QUEUES.add(self)

    @cached_property
    def _folder(self) -> str:
        return str(self._find_folder())  # text, because a waiting process polls

    def is_active(self, now_millis: int) -> bool:
        """Return whether several processes committed together in the last seconds."""
        try:
            since_millis = now_millis - os.stat(self._locate("lock")).st_mtime_ns // 1_000_000
        except OSError:
            return False
        return abs(since_millis) < _ACTIVE_MILLIS and self._is_private()  # the clock may have been set back

    def put(self, name: str, data: bytes) -> bool:
        """Add an entry, and return whether the queue can be used."""
        self.remove([name])
        if not self._is_private(create=True):
            return False
        files = self._entries[name] = []
        try:
            os.mkfifo(self._locate_pipe(name), 0o600)
            # This process has both ends, so the pipe does not end when one who wrote to it closes it.
            files.append(os.open(self._locate_pipe(name), os.O_RDWR | os.O_NONBLOCK))
            files.append(os.open(self._locate(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            _fcntl.flock(files[-1], _fcntl.LOCK_EX | _fcntl.LOCK_NB)
            _write(files[-1], data)
        except OSError:
            self.remove([name])
            return False
        return True

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
        """Return an entry; None if it was removed, or if its process does not exist any more."""
        try:
            with open(self._locate(name), "rb") as file:
                if _try_lock(file.fileno(), _fcntl.LOCK_SH):
                    self.remove([name])
                    return None
                return file.read()
        except OSError:
            return None

    def remove(self, names: Iterable[str]) -> None:
        """Remove entries; the owner of the lock wakes their processes when it releases the lock.

        Otherwise they would compete for the processor with it and with the process that commits next.
        """
        for name in names:
            with suppress(OSError):
                os.unlink(self._locate(name))
            if name not in self._entries:
                self._removed.append(name)
                continue
            files = self._entries.pop(name)
            with suppress(OSError):
                os.unlink(self._locate_pipe(name))
            for descriptor in files:
                os.close(descriptor)
        if self._lock is None:
            self._wake_removed()

    def _wake_removed(self) -> None:
        names, self._removed = self._removed, []
        for name in names:
            self._wake(name)
            if name not in self._entries:
                with suppress(OSError):
                    os.unlink(self._locate_pipe(name))

    def wait(self, name: str, seconds: float, pause: Callable[[float], None]) -> None:
        """Wait until another process removes the own entry or leaves the lock to it, at most so long."""
        if name not in self._entries:
            pause(seconds)
            return
        pipe = self._entries[name][0]
        if _is_readable(pipe, seconds):
            os.read(pipe, _WAKES_MAX)

    def try_lock(self) -> bool:
        """Take the lock if nobody has it, and return whether it was taken."""
        if self._lock is not None:
            return True  # a thread was interrupted before it could release it
        try:
            descriptor = os.open(self._locate("lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return False
        try:
            if _try_lock(descriptor, _fcntl.LOCK_EX):
                self._lock = descriptor
        finally:
            if self._lock is None:
                os.close(descriptor)  # an interrupted thread does not keep the lock
        return self._lock is not None

    def unlock(self) -> None:
        """Release the lock, and wake the process that has waited longest, then those whose entries were removed."""
        descriptor, self._lock = self._lock, None
        if descriptor is not None:
            _fcntl.flock(descriptor, _fcntl.LOCK_UN)
            os.close(descriptor)
        # Who adds an entry after this looks for others finds the lock free.
        any(self._wake(name) for name in self.list() if name not in self._entries)
        self._wake_removed()

    def try_lock_maintenance(self, now_millis: int) -> bool:
        """Return whether no other process has begun to maintain a table recently; without a folder nobody has."""
        if not self._is_private():
            return True
        try:
            descriptor = os.open(self._locate("maintenance"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return True
        if not _try_lock(descriptor, _fcntl.LOCK_EX):
            # The other process may be suspended.
            is_old = now_millis - os.fstat(descriptor).st_mtime_ns // 1_000_000 >= _MAINTENANCE_MILLIS
            os.close(descriptor)
            return is_old
        os.utime(descriptor)
        self._maintenance = descriptor
        return True

    def unlock_maintenance(self) -> None:
        """Let another process maintain tables."""
        descriptor, self._maintenance = self._maintenance, None
        if descriptor is not None:
            os.close(descriptor)

    def put_version(self, version: int, data: bytes, *, is_group: bool) -> None:
        """Show a version to the others; a group of several processes keeps the queue active."""
        path = self._locate_version(version)
        content = b"%d\n" % version + data
        try:
            if len(content) > _VERSION_BYTES_MAX:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                _write(descriptor, hashlib.sha256(content).digest() + content)
            finally:
                os.close(descriptor)
        except OSError:
            with suppress(OSError):
                os.unlink(path)
        if is_group:
            with suppress(OSError):
                os.utime(self._locate("lock"))

    def read_version(self, version: int) -> bytes | None:
        """Return what was shown of a version, or None."""
        if not self._is_private():
            return None
        try:
            with open(self._locate_version(version), "rb") as file:
                checksum, content = file.read(_CHECKSUM_BYTES), file.read()
        except OSError:
            return None
        number, _, data = content.partition(b"\n")
        is_whole = hashlib.sha256(content).digest() == checksum
        return data if is_whole and number == b"%d" % version else None

    def forget_inherited(self) -> None:
        """Close the files that a forked process got from its parent, so that their locks end with the parent."""
        inherited = [self._lock, self._maintenance, *(one for files in self._entries.values() for one in files)]
        for descriptor in inherited:
            if descriptor is not None:
                os.close(descriptor)
        self._entries, self._removed, self._lock, self._maintenance = {}, [], None, None

    def _wake(self, name: str) -> bool:
        """Wake the process that waits for an entry; return whether there is one that was not woken before.

        One that has not read its last byte may be suspended.
        """
        try:
            os.close(os.open(self._locate_pipe(name), os.O_WRONLY | os.O_NONBLOCK))  # an error if nobody has it open
            # With both ends open, no signal ends this process if the other one stops waiting now.
            pipe = os.open(self._locate_pipe(name), os.O_RDWR | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            if _is_readable(pipe, 0):
                return False
            os.write(pipe, b"1")
        except OSError:
            return False
        finally:
            os.close(pipe)
        return True

    def _locate(self, name: str) -> str:
        return f"{self._folder}{os.sep}{name}"

    def _locate_pipe(self, name: str) -> str:
        return self._locate(f"{name}.pipe")

    def _locate_version(self, version: int) -> str:
        return self._locate(f"{version % _VERSIONS_MAX}.version")

    def _is_private(self, *, create: bool = False) -> bool:
        """Return whether there is a folder, or now is one, that only this user can use and replace.

        Everything in the folder of another user is forged.
        """
        user = os.path.dirname(self._folder)
        try:
            base = os.stat(os.path.dirname(user))
            if (base.st_mode & 0o022 and not base.st_mode & stat.S_ISVTX) or base.st_uid not in (0, os.getuid()):
                return False  # others could put another folder in its place
            is_new = False
            for folder in (user, self._folder):
                is_new = create and _make_folder(folder)
                found = os.lstat(folder)
                if found.st_uid != os.getuid() or found.st_mode & 0o170077 != 0o040000:
                    return False
            if is_new:
                self._remove_unused(user)
        except OSError:
            return False
        return True

    def _remove_unused(self, user: str) -> None:
        """Remove the queues that were not used for a long time: they are in memory."""
        now = os.lstat(self._folder).st_mtime
        with os.scandir(user) as found:
            for entry in found:
                if now - entry.stat(follow_symlinks=False).st_mtime > _UNUSED_SECONDS_MAX:
                    shutil.rmtree(entry.path, ignore_errors=True)


def open_queue(store: Store) -> MachineQueue | None:
    """Return the queue of this user and machine for a lakehouse; None where the system has none."""
    if _fcntl is None or store.uri.startswith("memory:"):
        return None
    try:
        base = _MEMORY_FOLDER if os.access(_MEMORY_FOLDER, os.W_OK) else Path(tempfile.gettempdir())
    except OSError:
        return None

    def find_folder() -> Path:
        name = hashlib.sha256(f"{_FORM}/{store.identity}".encode()).hexdigest()[:32]
        return base / f"mangrove-{os.getuid()}" / name

    return MachineQueue(find_folder)


def _make_folder(folder: str) -> bool:
    """Create the folder, and return whether it is new."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return False
    return True


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        _fcntl.flock(descriptor, kind | _fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_readable(pipe: int, seconds: float) -> bool:
    """Return whether a byte is in the pipe, or arrives within so many seconds."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _write(descriptor: int, data: bytes) -> None:
    """Write all bytes, or raise an `OSError`: there may be no room."""
    while data:
        data = data[os.write(descriptor, data) :]


_QUEUES: Final = weakref.WeakSet[MachineQueue]()


def _forget_inherited() -> None:
    for queue in _QUEUES:
        queue.forget_inherited()


if _fcntl is not None:
    os.register_at_fork(after_in_child=_forget_inherited)
