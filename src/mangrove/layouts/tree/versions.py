"""Finding versions: the newest from a hint that may be wrong, and the one of a time."""

from collections.abc import Callable, Iterator, Sequence

from mangrove.errors import FormatError, NotFoundError
from mangrove.layouts.tree.hint import decode_hint
from mangrove.layouts.tree.paths import ROOT_DIGITS_KNOWN, RootNames
from mangrove.layouts.tree.revision import NEWER, OLDER, root_names_among
from mangrove.layouts.tree.root import Root, decode_root
from mangrove.storage.port import ObjectInfo, Store

__all__ = ["find_root_names", "kept_versions", "newest_version", "read_root", "read_roots", "version_at"]

_HINTS = (NEWER.hint_path, OLDER.hint_path)


def read_root(store: Store, names: RootNames, version: int) -> Root | None:
    """Return the root of a version, or None if there is none."""
    return read_roots(store, names, [version])[0]


def read_roots(store: Store, names: RootNames, versions: Sequence[int]) -> list[Root | None]:
    """Return the roots of several versions, None where there is none."""
    paths = [names.path(version) for version in versions]
    return [
        None if data is None else decode_root(data, version, path)
        for version, path, data in zip(versions, paths, store.read_many(paths), strict=True)
    ]


def newest_version(exists: Callable[[int], bool], known: int) -> int:
    """Return the newest version, of which `known` is one that exists.

    Versions follow each other without a gap up to the newest, so steps that
    double find one that does not exist, and bisecting finds the last that does:
    as many probes as the gap has binary digits, twice.
    """
    step = 1
    while exists(known + step):
        known += step
        step *= 2
    low, high = known, known + step
    while high - low > 1:
        middle = (low + high) // 2
        if exists(middle):
            low = middle
        else:
            high = middle
    return low


def find_root_names(store: Store) -> tuple[RootNames, int] | None:
    """Return how the roots of the lakehouse are named and a version that exists, or None if there is no lakehouse.

    A hint that is missing, unreadable, behind or ahead costs a listing at most.
    """
    for hint in store.read_many(_HINTS):
        version = None if hint is None else decode_hint(hint)
        if version is None:
            continue
        for digits in ROOT_DIGITS_KNOWN:
            if version < 2**digits and store.exists(RootNames(digits).path(version)):
                return RootNames(digits), version
    return _listed(store)


def kept_versions(store: Store, names: RootNames) -> list[int]:
    """Return all versions that are kept, oldest first, from a listing."""
    return sorted(names.version_of(path) for path in _top_level(store) if names.is_root(path))


def version_at(created_at: Callable[[int], int | None], newest: int, millis: int) -> int:
    """Return the newest version created at that time or before.

    `created_at` gives None for a version that has expired; those are the oldest.
    Times grow strictly with versions, so this bisects.
    """
    low, high = -1, newest + 1
    found = False
    while high - low > 1:
        middle = (low + high) // 2
        created = created_at(middle)
        if created is None or created <= millis:
            low, found = middle, created is not None or found
        else:
            high = middle
    if not found or created_at(low) is None:
        raise NotFoundError(
            f"no version that is kept was committed at {millis} ms since 1970 or before: "
            "ask for a later time, or see the history for what is there"
        )
    return low


def _listed(store: Store) -> tuple[RootNames, int] | None:
    paths = list(_top_level(store))
    names = root_names_among(paths)
    if names is None:
        return None
    versions = [names.version_of(path) for path in paths if names.is_root(path)]
    if not versions:
        raise FormatError(f"{store.uri} has root nodes that are named in no known way")
    return names, max(versions)


def _top_level(store: Store) -> Iterator[str]:
    return (entry.path for entry in store.list("_", delimiter=True) if isinstance(entry, ObjectInfo))
