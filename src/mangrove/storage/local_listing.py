"""Listing the files below a folder of this machine in the order of their paths."""

import os
import stat
from collections.abc import Iterator

from mangrove.errors import InvalidInputError
from mangrove.storage.local_folders import Folders
from mangrove.storage.paths import TEMPORARY_PREFIX, check_path
from mangrove.storage.port import Entry, ObjectInfo, Prefix

__all__ = ["leftovers_below", "objects_below"]


def objects_below(folders: Folders, prefix: str, start_after: str, *, delimiter: bool) -> Iterator[Entry]:
    """Yield the objects whose path starts with `prefix` and is greater than `start_after`.

    Each folder is read when its turn comes, so memory holds one folder per level.
    """
    waiting = _entries(folders, prefix[: prefix.rfind("/") + 1], prefix, start_after)
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, ObjectInfo):
            yield entry
        elif not delimiter:
            waiting += _entries(folders, entry.path, entry.path, start_after)
        elif next(objects_below(folders, entry.path, start_after, delimiter=False), None) is not None:
            yield entry


def leftovers_below(folders: Folders) -> Iterator[ObjectInfo]:
    """Yield the temporary files that killed writers left, and those that live writers are about to rename."""
    waiting = [""]
    while waiting:
        for entry in _scan(folders, waiting.pop()):
            if isinstance(entry, Prefix):
                waiting.append(entry.path)
            elif entry.path.rpartition("/")[2].startswith(TEMPORARY_PREFIX):
                yield entry


def _entries(folders: Folders, folder: str, prefix: str, start_after: str) -> list[Entry]:
    """Return what lies directly in `folder`, last first; a folder sorts as the slash at its end says."""
    found = [
        entry
        for entry in _scan(folders, folder)
        if entry.path.startswith(prefix)
        and (entry.path > start_after or (isinstance(entry, Prefix) and start_after.startswith(entry.path)))
        and _is_object_path(entry.path.removesuffix("/"))
    ]
    found.sort(key=lambda entry: entry.path, reverse=True)
    return found


def _scan(folders: Folders, folder: str) -> list[Entry]:
    descriptor = folders.open(folder.removesuffix("/"))
    if descriptor is None:
        return []
    try:
        with os.scandir(descriptor) as entries:
            found = [_entry(folder, entry) for entry in entries]
    finally:
        os.close(descriptor)
    return [entry for entry in found if entry is not None]


def _entry(folder: str, entry: os.DirEntry[str]) -> Entry | None:
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
    """Whether somebody could have put it: other files in the folder are not ours to show."""
    try:
        check_path(path)
    except InvalidInputError:
        return False
    return True
