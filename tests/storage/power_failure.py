"""A model of a disk that loses what was not fsynced, fed with the system calls of the local store.

A name is durable when its folder was fsynced after the change, and the bytes of a file when the file
was. After a power failure the disk holds what is durable and, of the other changes of names, the
first so many: file systems write them in order. Bytes that are not durable are gone.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

__all__ = ["Disk", "record_calls"]

Tree = dict[str, bytes]


@dataclass
class _Inode:
    """A file or a folder, as the processes see it and as it is on the disk."""

    data: bytes = b""
    durable_data: bytes = b""
    names: dict[str, "_Inode"] | None = None
    """The durable names in a folder; None for a file."""


@dataclass(frozen=True)
class _NameChange:
    """A change of one folder that is not durable yet: a name is given to an inode, or removed."""

    folder: _Inode
    removed: str | None
    added: str | None = None
    inode: _Inode | None = None

    def apply(self, names: dict[str, _Inode]) -> None:
        if self.removed is not None:
            names.pop(self.removed, None)
        if self.added is not None and self.inode is not None:
            names[self.added] = self.inode


@dataclass
class Disk:
    """All inodes below a root, and the changes of names that are not durable yet."""

    root: Path
    on_call: Callable[["Disk"], None]
    """Is called after each recorded call, which is when the power may fail."""
    _inodes: dict[int, _Inode] = field(default_factory=dict)
    _pending: list[_NameChange] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self._inodes[self.root.stat().st_ino] = _Inode(names={})

    def list_remains(self) -> Iterator[Tree]:
        """Yield the files that a power failure may leave, for each number of name changes that were written."""
        for count in range(len(self._pending) + 1):
            yield self._build_tree(self._inodes[self.root.stat().st_ino], self._pending[:count], "")

    def _build_tree(self, folder: _Inode, written: list[_NameChange], prefix: str) -> Tree:
        names = dict(folder.names or {})
        for change in written:
            if change.folder is folder:
                change.apply(names)
        found: Tree = {}
        for name, inode in names.items():
            if inode.names is None:
                found[prefix + name] = inode.durable_data
            else:
                found |= self._build_tree(inode, written, f"{prefix}{name}/")
        return found

    def _find(self, descriptor: int) -> _Inode:
        return self._inodes[os.fstat(descriptor).st_ino]

    def _change_names(
        self, at: int, removed: str | None, added: str | None = None, inode: _Inode | None = None
    ) -> None:
        self._pending.append(_NameChange(self._find(at), removed, added, inode))

    def opened(self, descriptor: int, path: str, flags: int, *_: object, dir_fd: int | None = None) -> None:
        is_unnamed = flags & os.O_TMPFILE == os.O_TMPFILE
        if is_unnamed or flags & os.O_CREAT:
            self._inodes[os.fstat(descriptor).st_ino] = inode = _Inode()
            if not is_unnamed and dir_fd is not None:
                self._change_names(dir_fd, None, path, inode)

    def written(self, count: int, descriptor: int, data: bytes) -> None:
        self._find(descriptor).data += bytes(data[:count])

    def fsynced(self, _: None, descriptor: int) -> None:
        inode = self._inodes.get(os.fstat(descriptor).st_ino)
        if inode is None:
            return  # the folder of the root, whose name is durable here
        inode.durable_data = inode.data
        if inode.names is not None:
            for change in self._pending:
                if change.folder is inode:
                    change.apply(inode.names)
            self._pending = [change for change in self._pending if change.folder is not inode]

    def linked(
        self, _: None, source: str, name: str, *, dst_dir_fd: int, src_dir_fd: int | None = None, **__: Any
    ) -> None:
        number = os.stat(name, dir_fd=dst_dir_fd).st_ino
        self._change_names(dst_dir_fd, None, name, self._inodes[number])

    def renamed(self, _: None, source: str, name: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        self._change_names(dst_dir_fd, source, name, self._inodes[os.stat(name, dir_fd=dst_dir_fd).st_ino])

    def unlinked(self, _: None, name: str, *, dir_fd: int) -> None:
        self._change_names(dir_fd, name)

    def folder_made(self, _: None, name: str, *__: object, dir_fd: int) -> None:
        number = os.stat(name, dir_fd=dir_fd).st_ino
        self._inodes[number] = _Inode(names={})
        self._change_names(dir_fd, None, name, self._inodes[number])


@contextmanager
def record_calls(disk: Disk) -> Iterator[None]:
    """Let a disk follow the system calls of the local store."""
    recorded: dict[str, Callable[..., None]] = {
        "open": disk.opened,
        "write": disk.written,
        "fsync": disk.fsynced,
        "link": disk.linked,
        "rename": disk.renamed,
        "unlink": disk.unlinked,
        "mkdir": disk.folder_made,
    }

    def follow(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            with disk._lock:
                result = real(*arguments, **named)
                recorded[name](result, *arguments, **named)
                if name != "open" or arguments[1] & os.O_CREAT:
                    disk.on_call(disk)
                return result

        return call

    with ExitStack() as patched:
        for name in recorded:
            patched.enter_context(patch.object(os, name, follow(name, getattr(os, name))))
        yield
