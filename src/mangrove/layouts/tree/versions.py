"""Lookup of root nodes by version, with a hint to the newest version.

The hint is not authoritative. An unreadable hint counts as missing; one that is
behind or ahead only costs additional probes.

The name of every version up to the newest is taken, by its root or by an expired
marker. Only the names of versions that expired long ago are free again, and never
the name right after a live version. If the name after a version is free, that
version is the newest or has expired; in the second case the versions are listed.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import overload

from mangrove.errors import NotFoundError
from mangrove.layouts.tree.java_formats import OLYMPIA_JAVA, list_java_revisions
from mangrove.layouts.tree.paths import ROOT_DIGITS_KNOWN, RootNames
from mangrove.layouts.tree.revision import NEWER, OLDER, detect_root_names
from mangrove.layouts.tree.root import Root, decode_root
from mangrove.model.version_search import find_newest_version
from mangrove.storage.port import ObjectInfo, Store

__all__ = [
    "StoredRoots",
    "decode_hint",
    "encode_hint",
    "find_newest_root",
    "find_root_names",
    "list_taken_versions",
    "list_versions_since",
    "read_live_root_files",
    "read_live_roots",
    "read_newest_root",
    "read_retired_roots",
    "read_root",
    "read_roots",
]

_HINT = re.compile(rb"\s*([0-9]{1,20})\s*", re.ASCII)
_VERSION_END = 2**64
_BYTES_MAX = 64


def encode_hint(version: int) -> bytes:
    """Return the content of the hint file: ASCII decimal digits without a newline."""
    return b"%d" % version


def decode_hint(data: bytes) -> int | None:
    """Return the version in the hint, or None if it is invalid.

    >>> decode_hint(b"100")
    100
    >>> decode_hint(b"") is None
    True
    """
    match = _HINT.fullmatch(data) if len(data) <= _BYTES_MAX else None
    version = _VERSION_END if match is None else int(match[1])
    return version if version < _VERSION_END else None


_HINTS = (NEWER.hint_path, OLDER.hint_path)
_LISTINGS_MAX = 3
_ROOTS_PER_READ = 32


def read_root(store: Store, names: RootNames, version: int) -> Root | None:
    """Return the root of a version, which may be an expired marker; None if the name is free."""
    return read_roots(store, names, [version])[0]


def read_roots(store: Store, names: RootNames, versions: Sequence[int]) -> list[Root | None]:
    """Return the roots of several versions; None if the name is free."""
    paths = [names.path(version) for version in versions]
    revisions = list_java_revisions(names)
    return [
        None if data is None else decode_root(data, version, path, revisions)
        for version, path, data in zip(versions, paths, store.read_many(paths), strict=True)
    ]


class StoredRoots(Sequence[Root]):
    """The roots of consecutive versions, each decoded when it is first used."""

    def __init__(self, names: RootNames, first: int) -> None:
        self._names = names
        self._first = first
        self._files: list[bytes] = []
        self._decoded: dict[int, Root] = {}

    def read_next(self, store: Store, count: int) -> bool:
        """Read the next versions, and return whether all of them exist."""
        start = self._first + len(self._files)
        found = store.read_many([self._names.path(version) for version in range(start, start + count)])
        self._files += takewhile(lambda data: data is not None, found)  # type: ignore[arg-type]
        return None not in found

    def __len__(self) -> int:
        return len(self._files)

    @overload
    def __getitem__(self, index: int) -> Root: ...
    @overload
    def __getitem__(self, index: slice) -> list[Root]: ...
    def __getitem__(self, index: int | slice) -> Root | list[Root]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        if place not in self._decoded:
            version = self._first + place
            path, revisions = self._names.path(version), list_java_revisions(self._names)
            self._decoded[place] = decode_root(self._files[place], version, path, revisions)
        return self._decoded[place]


def read_live_roots(store: Store, names: RootNames, versions: Sequence[int]) -> Iterator[Root]:
    """Yield the roots of the live versions among these, read in batches."""
    return (root for root, _ in read_live_root_files(store, names, versions))


def read_live_root_files(store: Store, names: RootNames, versions: Sequence[int]) -> Iterator[tuple[Root, bytes]]:
    """Yield the roots of the live versions among these, with the bytes of their files."""
    revisions = list_java_revisions(names)
    for start in range(0, len(versions), _ROOTS_PER_READ):
        paths = {names.path(version): version for version in versions[start : start + _ROOTS_PER_READ]}
        for (path, version), data in zip(paths.items(), store.read_many(list(paths)), strict=True):
            root = None if data is None else decode_root(data, version, path, revisions)
            if root is not None and data is not None and not root.is_expired:
                yield root, data


def read_retired_roots(store: Store, names: RootNames, versions: Sequence[int]) -> Iterator[tuple[str, Root]]:
    """Yield the path and root of the copy of each expired version among these, if it still exists."""
    for start in range(0, len(versions), _ROOTS_PER_READ):
        expired = {
            root.retired_path: root.version
            for root in read_roots(store, names, versions[start : start + _ROOTS_PER_READ])
            if root is not None and root.retired_path is not None
        }
        revisions = list_java_revisions(names)
        for (path, version), data in zip(expired.items(), store.read_many(list(expired)), strict=True):
            if data is not None:
                yield path, decode_root(data, version, names.path(version), revisions)


def read_newest_root(store: Store, names: RootNames, known: int, known_root: Root | None = None) -> Root:
    """Return the root of the newest version; `known` is a taken version, `known_root` its root if already read."""
    newest = find_newest_version(lambda version: store.exists(names.path(version)), known)
    for _ in range(_LISTINGS_MAX):
        root = known_root if newest == known and known_root is not None else read_root(store, names, newest)
        if root is not None and not root.is_expired:
            return root
        newest = max(list_taken_versions(store, names), default=0)
    raise NotFoundError(f"the newest version of {store.uri} expired {_LISTINGS_MAX} times during the lookup; retry")


def find_root_names(store: Store) -> tuple[RootNames, int] | None:
    """Return the root naming of the lakehouse and an existing version, or None if there is no lakehouse.

    A missing, unreadable or wrong hint costs at most one listing.
    """
    for names, version in _read_hints(store):
        if store.exists(names.path(version)):
            return names, version
    return _list_root_names(store)


def find_newest_root(store: Store) -> tuple[RootNames, Root] | None:
    """Return the root naming of the lakehouse and its newest root, or None if there is no lakehouse.

    With a correct hint this takes two round trips: one for the hint, one for the root
    and the two names after it, which must be free.
    """
    for names, version in _read_hints(store):
        data, *after = store.read_many([names.path(version + place) for place in range(3)])
        if data is None:
            continue
        if all(one is None for one in after):
            root = decode_root(data, version, names.path(version), list_java_revisions(names))
            if not root.is_expired:
                return names, root
        return names, read_newest_root(store, names, version)
    listed = _list_root_names(store)
    return None if listed is None else (listed[0], read_newest_root(store, *listed))


def _read_hints(store: Store) -> Iterator[tuple[RootNames, int]]:
    """Yield the versions named by hints, with each possible root naming."""
    for hint in store.read_many(_HINTS):
        version = None if hint is None else decode_hint(hint)
        if version is not None:
            yield from ((RootNames(digits), version) for digits in ROOT_DIGITS_KNOWN if version < 2**digits - 2)


def list_taken_versions(store: Store, names: RootNames) -> list[int]:
    """Return the versions whose names are taken, oldest first; lists the store."""
    return sorted(names.version_of(path) for path in _paths(store, names.before) if names.is_root(path))


def list_versions_since(store: Store, names: RootNames, millis: int) -> list[int]:
    """Return the versions whose files were written at or after that time by the store's clock, oldest first."""
    entries = (entry for entry in store.list(names.before, delimiter=True) if isinstance(entry, ObjectInfo))
    return sorted(
        names.version_of(entry.path)
        for entry in entries
        if entry.modified_at_millis >= millis and names.is_root(entry.path)
    )


def _list_root_names(store: Store) -> tuple[RootNames, int] | None:
    names = detect_root_names(_paths(store, NEWER.roots.before)) or OLYMPIA_JAVA.revision.roots
    versions = list_taken_versions(store, names)
    return (names, versions[-1]) if versions else None


def _paths(store: Store, prefix: str) -> Iterator[str]:
    return (entry.path for entry in store.list(prefix, delimiter=True) if isinstance(entry, ObjectInfo))
