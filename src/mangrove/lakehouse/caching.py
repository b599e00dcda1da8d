"""A cache in a folder of this machine, between a bucket and those who read it.

A store on this machine gains nothing by one, and is used as it is. So a program may
name a cache wherever its lakehouse lies.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.arguments import checked_count
from mangrove.storage.caching import CachingStore
from mangrove.storage.disk_cache import DiskCache
from mangrove.storage.port import Store
from mangrove.storage.uri import parse_root

__all__ = ["CACHE_BYTES_MAX", "Cache", "cache_in", "cached"]

CACHE_BYTES_MAX: Final = 1_000_000_000
"""How much a cache holds where nobody says it."""
_MEMORY_BYTES_MAX: Final = 32 * 1024 * 1024
"""Little, since nodes are held decoded anyway, and the system holds files of the folder."""
_ON_THIS_MACHINE: Final = frozenset({"file", "memory"})


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder, in full, and about how many bytes it may hold."""

    folder: str
    bytes_max: int = CACHE_BYTES_MAX

    def __post_init__(self) -> None:
        checked_count(self.bytes_max, "the number of bytes of a cache", 1)

    def before(self, store: Store) -> CachingStore:
        """Return the store with the cache before it."""
        # The layouts take long to import, and who has no cache needs only one of them.
        from mangrove.lakehouse.lasting_files import is_lasting  # noqa: PLC0415

        return CachingStore(store, is_lasting, _MEMORY_BYTES_MAX, DiskCache(self.folder, self.bytes_max))


def cache_in(folder: str | os.PathLike[str] | None, bytes_max: int | None = None) -> Cache | None:
    """Return the cache in a folder, as seen from here, or None where none is named."""
    if folder is None:
        if bytes_max is not None:
            raise InvalidInputError("a number of bytes was given for a cache, but no folder: name one, or leave it out")
        return None
    text = os.fspath(folder) if isinstance(folder, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or "://" in text:
        raise InvalidInputError(f"{folder!r} is no folder for a cache: give the path of one on this machine")
    try:
        full = Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise InvalidInputError(f"{folder!r} is no folder for a cache: {error}") from error
    for part in (full, *full.parents):
        if _is_there_and_no_folder(part):
            raise InvalidInputError(f"{part} is a file, and a cache needs a folder: name another one")
    return Cache(str(full), CACHE_BYTES_MAX if bytes_max is None else bytes_max)


def _is_there_and_no_folder(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except OSError:
        return False  # it cannot be looked at, let alone written to, and then nothing is remembered


def cached(store: Store, cache: Cache | None) -> Store:
    """Return the store with the cache before it, if there is one and the store is not on this machine anyway."""
    if cache is None or parse_root(store.uri).scheme in _ON_THIS_MACHINE:
        return store
    return cache.before(store)
