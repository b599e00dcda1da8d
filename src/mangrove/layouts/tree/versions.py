"""Finding the roots of versions: which are there, and one to start from by a hint that may be wrong."""

from collections.abc import Iterator, Sequence

from mangrove.errors import FormatError
from mangrove.layouts.tree.hint import decode_hint
from mangrove.layouts.tree.paths import ROOT_DIGITS_KNOWN, RootNames
from mangrove.layouts.tree.revision import NEWER, OLDER, root_names_among
from mangrove.layouts.tree.root import Root, decode_root
from mangrove.storage.port import ObjectInfo, Store

__all__ = ["find_root_names", "kept_versions", "read_root", "read_roots"]

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
