"""The local disk cache for immutable files of a remote lakehouse.

Immutable files have a unique id in their names. Roots, guards and hints are not
cached: expiry overwrites roots and guards, and their names are the same in every
lakehouse. Files named by other programs are not cached either. See decision 34.

A store on the local disk does not benefit from a cache and is used directly, so a
program may configure a cache for any lakehouse.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.arguments import validate_count
from mangrove.layouts.deltacat.paths import NODE_FOLDER, is_numbered_path
from mangrove.layouts.tree.maintenance.reachability import is_layout_file
from mangrove.storage.cache import CachingStore
from mangrove.storage.disk_cache import DiskCache
from mangrove.storage.port import Store
from mangrove.storage.uri import parse_root_uri

__all__ = ["CACHE_BYTES_MAX", "CacheSettings", "build_cache_settings", "is_immutable_path", "wrap_in_cache"]

_DATA_FILE: Final = re.compile(r"data/.+/[^/]*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[^/]*\.parquet")


def is_immutable_path(path: str) -> bool:
    """Return whether the file at `path` can never be replaced by another one.

    >>> is_immutable_path("mangrove/node/6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8.mpk")
    True
    >>> is_immutable_path("mangrove/version/00000000000000000007.mpk")
    False
    >>> is_immutable_path("_00100110000000000000000000000000.ipc")
    False
    """
    return (
        is_layout_file(path)
        or path.startswith(NODE_FOLDER)
        or is_numbered_path(path)
        or _DATA_FILE.fullmatch(path) is not None
    )


CACHE_BYTES_MAX: Final = 1_000_000_000
"""Default capacity of a cache in bytes."""
_MEMORY_BYTES_MAX: Final = 32 * 1024 * 1024
"""Capacity of the memory cache. Small, because decoded nodes and the operating system's page cache hold most files."""
_ON_THIS_MACHINE: Final = frozenset({"file", "memory"})


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """Absolute path of a cache folder, and its approximate capacity in bytes."""

    folder: str
    bytes_max: int = CACHE_BYTES_MAX

    def __post_init__(self) -> None:
        validate_count(self.bytes_max, "the number of bytes of a cache", 1)

    def before(self, store: Store) -> CachingStore:
        """Return the store wrapped in the cache."""
        # The layouts take long to import, and who has no cache needs only one of them.

        return CachingStore(store, is_immutable_path, _MEMORY_BYTES_MAX, DiskCache(self.folder, self.bytes_max))


def build_cache_settings(folder: str | os.PathLike[str] | None, bytes_max: int | None = None) -> CacheSettings | None:
    """Return the settings of a cache in a folder, resolved to an absolute path, or None without a folder."""
    if folder is None:
        if bytes_max is not None:
            raise InvalidInputError("a cache size without a cache folder; give a folder too, or leave it out")
        return None
    text = os.fspath(folder) if isinstance(folder, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or "://" in text:
        raise InvalidInputError(f"{folder!r} is no folder for a cache: give the path of one on this machine")
    try:
        full = Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise InvalidInputError(f"{folder!r} is no folder for a cache: {error}") from error
    for part in (full, *full.parents):
        if _is_not_folder(part):
            raise InvalidInputError(f"{part} is a file, and a cache needs a folder: name another one")
    return CacheSettings(str(full), CACHE_BYTES_MAX if bytes_max is None else bytes_max)


def _is_not_folder(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except OSError:
        return False  # it cannot be looked at, let alone written to, and then nothing is remembered


def wrap_in_cache(store: Store, cache: CacheSettings | None) -> Store:
    """Return the store wrapped in the cache; without a cache, or for a store on the local disk, the store itself."""
    if cache is None or parse_root_uri(store.uri).scheme in _ON_THIS_MACHINE:
        return store
    return cache.before(store)
