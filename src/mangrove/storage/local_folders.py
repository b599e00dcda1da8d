"""Directory access and listing confined to the root folder.

Each step opens one folder relative to its parent and follows no symbolic link, so
every opened file is below the root, even during concurrent changes.
"""

import contextlib
import errno
import os
import stat
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator

from mangrove.errors import InvalidInputError, StorageError
from mangrove.model.paths import TEMPORARY_PREFIX, check_path
from mangrove.storage.local_links import link_refusal
from mangrove.storage.port import ListEntry, ObjectInfo, Prefix

__all__ = ["LocalFolders", "PinnedRoot", "fsync_descriptor", "list_files", "list_temporary_files"]

_PIN_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class PinnedRoot:
    """The folder at `path`, kept open since it was first seen, so that its inode number is not reused."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._lock = threading.Lock()

    @property
    def is_known(self) -> bool:
        """Whether the folder has been seen, so that it must not be created again."""
        return self._descriptor is not None

    def check(self) -> None:
        """Pin the folder when it first exists; raise an error if it is missing or replaced later."""
        if self._descriptor is None:
            self._remember()
        elif not self._is_the_same(self._descriptor):
            raise StorageError(
                f"the folder {self.path} was moved, deleted or recreated since it was opened; nothing was done; "
                "open the lakehouse again at its current location"
            )

    def _remember(self) -> None:
        with self._lock:
            if self._descriptor is not None:
                return
            try:
                descriptor = os.open(self.path, _PIN_FLAGS)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                # Missing or not accessible: the next read or write reports it better.
                return
            # At process exit threads may still write; the system closes it anyway.
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
            # Returned by network file systems for a deleted folder.
            return False
        return os.path.samestat(now, known) and known.st_nlink > 0


_PASSED = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPENED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDERS_KNOWN_MAX = 100_000

if sys.platform == "darwin":
    import fcntl

    def fsync_descriptor(descriptor: int) -> None:
        """Wait until the file's bytes are on the disk itself; plain fsync stops at the drive's cache there."""
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
else:

    def fsync_descriptor(descriptor: int) -> None:
        """Return when the file's bytes, or the folder's names, are on the disk."""
        os.fsync(descriptor)


class LocalFolders:
    """The folders below `root`, an absolute path that ends in `/`."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._index_live_files = PinnedRoot(root)
        self._durable: set[str] = set()

    def open_file(self, path: str) -> int | None:
        """Open the file at `path` for reading, or return None if there is no such file."""
        self._index_live_files.check()
        return self._descend(path.split("/"), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)

    def open(self, folder: str) -> int | None:
        """Open an existing folder, or return None if there is no such folder."""
        self._index_live_files.check()
        return self._open_known(folder)

    def open_for_writing(self, folder: str) -> tuple[int, list[str]]:
        """Open the folder, creating it if necessary, and return the folders that are not durable yet.

        Pass those to `settle` after the write: fsyncing them last is cheap, because most file
        systems have written them along with the file.
        """
        if folder in self._durable:
            descriptor = self.open(folder)
            if descriptor is not None:
                return descriptor, []
            # It was removed concurrently: forget what was known of it.
            self._durable.clear()
        if len(self._durable) > _FOLDERS_KNOWN_MAX:
            self._durable.clear()
        return self._make(folder)

    def settle(self, unsettled: Iterable[str]) -> None:
        """Make these folders durable, whoever created them."""
        fresh = [folder for folder in unsettled if folder not in self._durable]
        for parent in dict.fromkeys(folder.rpartition("/")[0] for folder in fresh):
            # Unchecked: the write is complete, and an error would deny that.
            descriptor = self._open_known(parent)
            if descriptor is None:
                raise StorageError(f"the folder {parent!r} in {self._root} was removed during a write; write again")
            try:
                fsync_descriptor(descriptor)
            finally:
                os.close(descriptor)
        self._durable.update(fresh)

    def _open_known(self, folder: str) -> int | None:
        return self._descend(folder.split("/"), _OPENED) if folder else self._open_root()

    def _descend(self, segments: list[str], last_flags: int) -> int | None:
        """Open the last segment step by step; each step closes the previous folder."""
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
            # A link raises ELOOP or, if a folder was requested, ENOTDIR like a file.
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
            child = self._step(at, name, _OPENED)
            if child is None:
                raise StorageError(
                    f"{made!r} in {self._root} is an object and cannot have objects below it; choose another path"
                )
            at = child
        return at, unsettled

    def _make_root(self) -> int:
        self._index_live_files.check()
        if "" not in self._durable:
            may_make = not self._index_live_files.is_known
            missing = self._root.rstrip("/") or "/"
            ancestors = [missing]
            while not os.path.isdir(os.path.dirname(missing)):
                missing = os.path.dirname(missing)
                ancestors.append(missing)
            for ancestor in reversed(ancestors):
                if may_make:
                    os.makedirs(ancestor, exist_ok=True)
                _fsync_folder(os.path.dirname(ancestor))
            self._index_live_files.check()
            self._durable.add("")
        return os.open(self._root, _ROOT)


def _fsync_folder(folder: str) -> None:
    try:
        descriptor = os.open(folder, _ROOT)
    except PermissionError:
        # An inaccessible root was not created here: it existed before.
        return
    try:
        fsync_descriptor(descriptor)
    finally:
        os.close(descriptor)


def list_files(folders: LocalFolders, prefix: str, start_after: str, *, delimiter: bool) -> Iterator[ListEntry]:
    """Yield the objects whose path starts with `prefix` and is greater than `start_after`.

    Each folder is read when it is reached, so memory holds one folder per level.
    """
    waiting = _list_entries(folders, prefix[: prefix.rfind("/") + 1], prefix, start_after)
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, ObjectInfo):
            yield entry
        elif not delimiter:
            waiting += _list_entries(folders, entry.path, entry.path, start_after)
        elif next(list_files(folders, entry.path, start_after, delimiter=False), None) is not None:
            yield entry


def list_temporary_files(folders: LocalFolders) -> Iterator[ObjectInfo]:
    """Yield the temporary files of crashed writers, and those that running writers are about to rename."""
    waiting = [""]
    while waiting:
        for entry in _scan_folder(folders, waiting.pop()):
            if isinstance(entry, Prefix):
                waiting.append(entry.path)
            elif entry.path.rpartition("/")[2].startswith(TEMPORARY_PREFIX):
                yield entry


def _list_entries(folders: LocalFolders, folder: str, prefix: str, start_after: str) -> list[ListEntry]:
    """Return the entries of `folder`, last first; a folder sorts with a slash at its end."""
    found = [
        entry
        for entry in _scan_folder(folders, folder)
        if entry.path.startswith(prefix)
        and (entry.path > start_after or (isinstance(entry, Prefix) and start_after.startswith(entry.path)))
        and _is_object_path(entry.path.removesuffix("/"))
    ]
    found.sort(key=lambda entry: entry.path, reverse=True)
    return found


def _scan_folder(folders: LocalFolders, folder: str) -> list[ListEntry]:
    descriptor = folders.open(folder.removesuffix("/"))
    if descriptor is None:
        return []
    try:
        with os.scandir(descriptor) as entries:
            found = [_build_entry(folder, entry) for entry in entries]
    finally:
        os.close(descriptor)
    return [entry for entry in found if entry is not None]


def _build_entry(folder: str, entry: os.DirEntry[str]) -> ListEntry | None:
    if entry.is_dir(follow_symlinks=False):
        return Prefix(f"{folder}{entry.name}/")
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return ObjectInfo(folder + entry.name, status.st_size, status.st_mtime_ns // 1_000_000)


def _is_object_path(path: str) -> bool:
    """Whether the path is valid for an object; other files in the folder are not listed."""
    try:
        check_path(path)
    except InvalidInputError:
        return False
    return True
