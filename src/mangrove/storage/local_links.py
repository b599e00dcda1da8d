"""Symbolic links below a local root, which could lead outside it.

The local store follows none. Other engines follow all of them, so the paths passed to
them are checked first.
"""

import os
from collections.abc import Iterable, Iterator

from mangrove.errors import StorageError
from mangrove.storage.uri import parse_root_uri

__all__ = ["link_refusal", "linked_paths", "refuse_links"]


def link_refusal(name: str, root: str) -> StorageError:
    """Return the error for a symbolic link below a root."""
    return StorageError(
        f"{name!r} below {root} is a symbolic link, which could lead outside; nothing was changed; "
        "replace it by the files themselves, or open the folder that it points to"
    )


def linked_paths(root_uri: str, paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths that are symbolic links or below one; a bucket has none.

    It costs one system call for each path and one for each folder. The root itself may be
    a link.
    """
    if not root_uri.startswith("file://"):
        return
    root = parse_root_uri(root_uri).path
    folders = {"": False}

    def is_linked(folder: str) -> bool:
        known = folders.get(folder)
        if known is None:
            known = is_linked(folder.rpartition("/")[0]) or os.path.islink(root + folder)
            folders[folder] = known
        return known

    for path in paths:
        if is_linked(path.rpartition("/")[0]) or os.path.islink(root + path):
            yield path


def refuse_links(root_uri: str, paths: Iterable[str]) -> None:
    """Raise an error for paths that another engine would follow out of the root."""
    for path in linked_paths(root_uri, paths):
        raise link_refusal(path, root_uri)
