"""The folders below one root of this machine, opened without ever leaving that root.

Each step opens one folder relative to the one before and follows no symbolic
link, so what is opened lies below the root whatever others do meanwhile.
"""

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterable

from mangrove.errors import StorageError
from mangrove.storage.local_links import link_refusal
from mangrove.storage.local_root import StandingRoot

__all__ = ["Folders", "durably"]

_PASSED = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HELD = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDERS_KNOWN_MAX = 100_000

if sys.platform == "darwin":
    import fcntl

    def durably(descriptor: int) -> None:
        """Return when the file's bytes are on the disk itself; plain fsync stops at the drive's cache there."""
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
else:

    def durably(descriptor: int) -> None:
        """Return when the file's bytes, or the folder's names, are on the disk."""
        os.fsync(descriptor)


class Folders:
    """The folders below `root`, an absolute path that ends in `/`."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._standing = StandingRoot(root)
        self._durable: set[str] = set()

    def open_file(self, path: str) -> int | None:
        """Open the file at `path` for reading, or return None if there is no such file."""
        self._standing.check()
        return self._descend(path.split("/"), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)

    def open(self, folder: str) -> int | None:
        """Open an existing folder, or return None if there is no such folder."""
        self._standing.check()
        return self._open_known(folder)

    def open_for_writing(self, folder: str) -> tuple[int, list[str]]:
        """Open the folder, made if need be, and name the folders that are not known to survive a power cut.

        Hand those to `settle` when the write is done: fsyncing them last costs
        little, because most file systems have written them along with the file.
        """
        if folder in self._durable:
            descriptor = self.open(folder)
            if descriptor is not None:
                return descriptor, []
            # Somebody removed it behind our back: what was known of it is void.
            self._durable.clear()
        if len(self._durable) > _FOLDERS_KNOWN_MAX:
            self._durable.clear()
        return self._make(folder)

    def settle(self, unsettled: Iterable[str]) -> None:
        """Return when a power cut cannot take these folders away, whoever made them."""
        fresh = [folder for folder in unsettled if folder not in self._durable]
        for parent in dict.fromkeys(folder.rpartition("/")[0] for folder in fresh):
            # Unchecked: what is written is written, and a refusal would say that it is not.
            descriptor = self._open_known(parent)
            if descriptor is None:
                raise StorageError(f"the folder {parent!r} in {self._root} was removed during a write; write again")
            try:
                durably(descriptor)
            finally:
                os.close(descriptor)
        self._durable.update(fresh)

    def _open_known(self, folder: str) -> int | None:
        return self._descend(folder.split("/"), _HELD) if folder else self._open_root()

    def _descend(self, segments: list[str], last_flags: int) -> int | None:
        """Open the last segment, stepping from folder to folder; each step closes the one before."""
        last = segments.pop()
        at: int | None = None
        for name in segments:
            at = self._step(at, name, _PASSED)
            if at is None:
                return None
        return self._step(at, last, last_flags)

    def _step(self, parent: int | None, name: str, flags: int) -> int | None:
        """Open `name` in `parent`, or in the root if that is None, and close `parent`."""
        try:
            if parent is None:
                return os.open(self._root + name, flags)
            return os.open(name, flags, dir_fd=parent)
        except FileNotFoundError:
            return None
        except OSError as error:
            # A link shows as ELOOP or, where a folder was asked for, as ENOTDIR like any file in the way.
            if error.errno not in {errno.ELOOP, errno.ENOTDIR, errno.ENXIO}:
                raise
            self._refuse_link(parent, name)
            return None
        finally:
            if parent is not None:
                os.close(parent)

    def _refuse_link(self, parent: int | None, name: str) -> None:
        try:
            status = os.stat(self._root + name if parent is None else name, dir_fd=parent, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return
        if stat.S_ISLNK(status.st_mode):
            raise link_refusal(name, self._root)

    def _open_root(self) -> int | None:
        try:
            return os.open(self._root, _ROOT)
        except FileNotFoundError:
            return None

    def _make(self, folder: str) -> tuple[int, list[str]]:
        at = self._make_root()
        made = ""
        unsettled: list[str] = []
        for name in folder.split("/") if folder else ():
            made = f"{made}/{name}" if made else name
            if made not in self._durable:
                unsettled.append(made)
                try:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, dir_fd=at)
                except BaseException:
                    os.close(at)
                    raise
            child = self._step(at, name, _HELD)
            if child is None:
                raise StorageError(
                    f"{made!r} in {self._root} is an object, so nothing can lie below it; choose another path"
                )
            at = child
        return at, unsettled

    def _make_root(self) -> int:
        self._standing.check()
        if "" not in self._durable:
            may_make = not self._standing.is_known
            missing = self._root.rstrip("/") or "/"
            ancestors = [missing]
            while not os.path.isdir(os.path.dirname(missing)):
                missing = os.path.dirname(missing)
                ancestors.append(missing)
            for ancestor in reversed(ancestors):
                if may_make:
                    os.makedirs(ancestor, exist_ok=True)
                _name_durably(os.path.dirname(ancestor))
            self._standing.check()
            self._durable.add("")
        return os.open(self._root, _ROOT)


def _name_durably(folder: str) -> None:
    try:
        descriptor = os.open(folder, _ROOT)
    except PermissionError:
        # Where we may not even look we made nothing: the root was there before us.
        return
    try:
        durably(descriptor)
    finally:
        os.close(descriptor)
