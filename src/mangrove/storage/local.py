"""The local file system store with durable writes and atomic creates.

    create    unnamed file, write, fsync, link to the name, fsync the folder
    put       temporary file, write, fsync, rename to the name, fsync the folder

The object appears complete with the link or the rename, so a writer may crash at any
time. The parent of a folder that this store has not seen before is fsynced too,
because its creator may have crashed before that.
"""

import errno
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TypeVar

from mangrove.errors import InvalidInputError, NotFoundError, StorageError
from mangrove.model.paths import TEMPORARY_PREFIX, check_path, check_prefix, check_range
from mangrove.storage.local_folders import LocalFolders, fsync_descriptor, list_files, list_temporary_files
from mangrove.storage.port import ListEntry, ObjectInfo
from mangrove.storage.uri import RootUri

__all__ = ["LocalStore"]

T = TypeVar("T")

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_UNNAMED_FILE = getattr(os, "O_TMPFILE", 0) and (os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC)
_UNNAMED_UNSUPPORTED = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.EXDEV}
_OPEN_FILES_MAX = 64


class LocalStore:
    """A store below a folder, which is created at the first write."""

    def __init__(self, root: RootUri, *, unnamed_files: bool = True) -> None:
        """Take the folder; `unnamed_files=False` is for file systems with broken support for them."""
        self._root = root
        self._folders = LocalFolders(root.path)
        self._unnamed_files = unnamed_files and bool(_UNNAMED_FILE) and os.path.isdir("/proc/self/fd")

    @property
    def uri(self) -> str:
        """The root, ending in exactly one `/`."""
        return self._root.text

    @property
    def identity(self) -> str:
        """The file system and the number of the folder, whatever its path is; the URI before it exists."""
        try:
            found = os.stat(self._root.path)
        except OSError:
            return self.uri
        return f"{found.st_dev}:{found.st_ino}"

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the object's bytes, or a range of them."""
        check_range(start, length)
        data = self._read(path, start, length)
        if data is None:
            raise NotFoundError(f"object {path!r} does not exist in {self.uri}")
        return data

    def read_into(self, path: str, start: int, buffer: memoryview) -> int:
        """Fill the buffer with the object's bytes from `start` on; return how many there were."""
        check_range(start, len(buffer))
        count = self._open_and_read(path, lambda descriptor, _: _read_range_into(descriptor, start, buffer))
        if count is None:
            raise NotFoundError(f"object {path!r} does not exist in {self.uri}")
        return count

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return each object's bytes; None if there is none. Reads are sequential, which is the fastest here."""
        return [self._read(path, 0, None) for path in paths]

    def size(self, path: str) -> int | None:
        """Return the object's size in bytes, or None."""
        check_path(path)
        try:
            descriptor = self._folders.open_file(path)
            if descriptor is None:
                return None
            try:
                status = os.fstat(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._failure("looked at", path, error) from error
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def exists(self, path: str) -> bool:
        """Return whether there is an object at `path`."""
        return self.size(path) is not None

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[ListEntry]:
        """Yield the entries under `prefix`; each folder is read when it is reached."""
        check_prefix(prefix)
        check_prefix(start_after)
        return self._listed(prefix, list_files(self._folders, prefix, start_after, delimiter=delimiter))

    def leftovers(self) -> Iterator[ObjectInfo]:
        """Yield the temporary files of crashed writers; a young one may belong to a running writer."""
        for entry in self._listed("", list_temporary_files(self._folders)):
            if isinstance(entry, ObjectInfo):
                yield entry

    def delete_leftovers(self, paths: Iterable[str]) -> None:
        """Delete temporary files from `leftovers` that are too old to belong to a running writer."""
        listed = [*paths]
        for path in listed:
            folder, _, name = path.rpartition("/")
            check_prefix(f"{folder}/" if folder else "")
            if not name.startswith(TEMPORARY_PREFIX):
                raise InvalidInputError(f"{path!r} is not a temporary file; use delete_many for objects")
        self._delete(listed)

    def put(self, path: str, data: bytes) -> None:
        """Write the object, replacing an existing one."""
        check_path(path)
        folder, _, name = path.rpartition("/")
        try:
            folder_descriptor, unsettled = self._folders.open_for_writing(folder)
            try:
                temporary = _new_name()
                _write_named(folder_descriptor, temporary, data)
                _rename(folder_descriptor, temporary, name)
                fsync_descriptor(folder_descriptor)
            finally:
                os.close(folder_descriptor)
            self._folders.settle(unsettled)
        except OSError as error:
            raise self._failure("written", path, error) from error

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects; each folder is fsynced once."""
        for path in objects:
            check_path(path)
        paths = [*objects]
        for first in range(0, len(paths), _OPEN_FILES_MAX):
            batch = paths[first : first + _OPEN_FILES_MAX]
            try:
                self._put_together({path: objects[path] for path in batch})
            except OSError as error:
                raise self._failure("written", f"{batch[0]} and others", error) from error

    def create(self, path: str, data: bytes) -> bool:
        """Write the object only if the path is free."""
        check_path(path)
        folder, _, name = path.rpartition("/")
        try:
            folder_descriptor, unsettled = self._folders.open_for_writing(folder)
            try:
                won = not _is_there(folder_descriptor, name) and self._link_new(folder_descriptor, name, data)
                if won:
                    fsync_descriptor(folder_descriptor)
                else:
                    self._refuse_unless_object(folder_descriptor, name, path)
            finally:
                os.close(folder_descriptor)
            self._folders.settle(unsettled)
        except OSError as error:
            raise self._failure("written", path, error) from error
        return won

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the objects that exist."""
        listed = [*paths]
        for path in listed:
            check_path(path)
        self._delete(listed)

    def _read(self, path: str, start: int, length: int | None) -> bytes | None:
        def read(descriptor: int, size: int) -> bytes:
            return _read_range(descriptor, start, size if length is None else min(size, start + length))

        return self._open_and_read(path, read)

    def _open_and_read(self, path: str, read: Callable[[int, int], T]) -> T | None:
        """Return what `read` returns for the descriptor and the size of a file, or None if there is no file."""
        check_path(path)
        try:
            descriptor = self._folders.open_file(path)
            if descriptor is None:
                return None
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    return None
                return read(descriptor, status.st_size)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._failure("read", path, error) from error

    def _put_together(self, objects: Mapping[str, bytes]) -> None:
        """Write all, then fsync all: the first fsync covers most of the others."""
        unsettled: dict[str, None] = {}
        folders: dict[str, int] = {}
        temporaries: dict[str, tuple[int, str]] = {}
        with ExitStack() as opened:
            try:
                files = []
                for path, data in objects.items():
                    folder = path.rpartition("/")[0]
                    if folder not in folders:
                        folders[folder], fresh = self._folders.open_for_writing(folder)
                        opened.callback(os.close, folders[folder])
                        unsettled |= dict.fromkeys(fresh)
                    temporaries[path] = (folders[folder], _new_name())
                    files.append(os.open(temporaries[path][1], _NEW_FILE, 0o666, dir_fd=folders[folder]))
                    opened.callback(os.close, files[-1])
                    _write(files[-1], data)
                for file in files:
                    fsync_descriptor(file)
                for path in objects:
                    at, temporary = temporaries[path]
                    os.rename(temporary, path.rpartition("/")[2], src_dir_fd=at, dst_dir_fd=at)
                    del temporaries[path]
            finally:
                for at, temporary in temporaries.values():
                    _unlink(at, temporary)
            for folder_descriptor in folders.values():
                fsync_descriptor(folder_descriptor)
        self._folders.settle(unsettled)

    def _link_new(self, folder_descriptor: int, name: str, data: bytes) -> bool:
        if self._unnamed_files:
            try:
                return _link_unnamed(folder_descriptor, name, data)
            except OSError as error:
                if error.errno not in _UNNAMED_UNSUPPORTED:
                    raise
                self._unnamed_files = False
        return _link_named(folder_descriptor, name, data)

    def _refuse_unless_object(self, folder_descriptor: int, name: str, path: str) -> None:
        """Raise an error if the path is taken by a folder or link, on which no create can succeed."""
        try:
            status = os.stat(name, dir_fd=folder_descriptor, follow_symlinks=False)
        except FileNotFoundError:
            # The winner's object was deleted since; this call lost anyway.
            return
        if not stat.S_ISREG(status.st_mode):
            raise StorageError(f"{path!r} in {self.uri} is a folder or a link, not an object; choose another path")

    def _delete(self, paths: Iterable[str]) -> None:
        folders: defaultdict[str, list[str]] = defaultdict(list)
        for path in paths:
            folder, _, name = path.rpartition("/")
            folders[folder].append(name)
        for folder, names in folders.items():
            try:
                folder_descriptor = self._folders.open(folder)
                if folder_descriptor is None:
                    continue
                try:
                    if sum(_unlink(folder_descriptor, name) for name in names):
                        fsync_descriptor(folder_descriptor)
                finally:
                    os.close(folder_descriptor)
            except OSError as error:
                raise self._failure("deleted", f"{folder}/…" if folder else "…", error) from error

    def _listed(self, prefix: str, entries: Iterator[ListEntry]) -> Iterator[ListEntry]:
        try:
            yield from entries
        except OSError as error:
            raise self._failure("listed", prefix, error) from error

    def _failure(self, done: str, path: str, error: OSError) -> StorageError:
        remedies = {
            errno.EACCES: "give this user permissions on the folder",
            errno.EDQUOT: "free some space or increase the quota",
            errno.EISDIR: "the path is a folder, choose another path",
            errno.EMFILE: "increase the limit of open files (ulimit -n)",
            errno.ENOSPC: "free some space",
            errno.ENOTDIR: "a parent of the path is a file, choose another path",
            errno.EOPNOTSUPP: "the file system has no hard links, choose another one",
            errno.EPERM: "give this user permissions on the folder, or choose a file system with hard links",
            errno.EROFS: "the file system is read-only, choose another one",
        }
        remedy = remedies.get(error.errno or 0, "check the disk and its file system")
        where = f"{path!r} in {self.uri}" if path else self.uri
        return StorageError(f"{where} could not be {done}: {error.strerror}; {remedy}")


def _new_name() -> str:
    return TEMPORARY_PREFIX + os.urandom(12).hex()


def _read_range(descriptor: int, start: int, end: int) -> bytes:
    if end <= start:
        return b""
    data = os.pread(descriptor, end - start, start)
    if len(data) == end - start:
        return data
    # One call returns at most about 2 GiB, and less after a signal.
    parts = [data]
    at = start + len(data)
    while data and at < end:
        data = os.pread(descriptor, end - at, at)
        parts.append(data)
        at += len(data)
    return b"".join(parts)


def _read_range_into(descriptor: int, start: int, buffer: memoryview) -> int:
    count = 0
    while count < len(buffer):
        # One call reads at most about 2 GiB, and less after a signal.
        part = os.preadv(descriptor, [buffer[count:]], start + count)
        if not part:
            break
        count += part
    return count


def _write(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    if written == len(data):
        return
    rest = memoryview(data)[written:]
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _write_named(folder_descriptor: int, temporary: str, data: bytes) -> None:
    descriptor = os.open(temporary, _NEW_FILE, 0o666, dir_fd=folder_descriptor)
    try:
        _write(descriptor, data)
        fsync_descriptor(descriptor)
    except BaseException:
        _unlink(folder_descriptor, temporary)
        raise
    finally:
        os.close(descriptor)


def _rename(folder_descriptor: int, temporary: str, name: str) -> None:
    try:
        os.rename(temporary, name, src_dir_fd=folder_descriptor, dst_dir_fd=folder_descriptor)
    except BaseException:
        _unlink(folder_descriptor, temporary)
        raise


def _link_unnamed(folder_descriptor: int, name: str, data: bytes) -> bool:
    descriptor = os.open(".", _UNNAMED_FILE, 0o666, dir_fd=folder_descriptor)
    try:
        _write(descriptor, data)
        fsync_descriptor(descriptor)
        # A folder argument makes Python call linkat, which follows the link in /proc.
        os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=folder_descriptor, follow_symlinks=True)
    except FileExistsError:
        return False
    finally:
        os.close(descriptor)
    return True


def _link_named(folder_descriptor: int, name: str, data: bytes) -> bool:
    temporary = _new_name()
    _write_named(folder_descriptor, temporary, data)
    try:
        os.link(temporary, name, src_dir_fd=folder_descriptor, dst_dir_fd=folder_descriptor, follow_symlinks=False)
    except FileExistsError:
        return False
    finally:
        _unlink(folder_descriptor, temporary)
    return True


def _is_there(folder_descriptor: int, name: str) -> bool:
    """Check before the write: a path that is already taken costs no fsync."""
    try:
        os.stat(name, dir_fd=folder_descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _unlink(folder_descriptor: int, name: str) -> bool:
    """Remove a file; return whether it existed. A folder is not an object and counts as absent."""
    with suppress(FileNotFoundError, IsADirectoryError):
        os.unlink(name, dir_fd=folder_descriptor)
        return True
    return False
