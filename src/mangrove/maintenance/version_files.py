"""Paths of root nodes, guards and hints in both layouts."""

from collections.abc import Sequence

from mangrove.errors import FormatError
from mangrove.layouts.deltacat.guards import list_taken_versions as taken_by_guards
from mangrove.layouts.deltacat.guards import read_guard
from mangrove.layouts.deltacat.paths import HINT_PATH, VERSION_FOLDER, guard_path, version_of_guard
from mangrove.layouts.tree.maintenance.expiry import EXPIRED_NAMES_MAX
from mangrove.layouts.tree.paths import ROOT_DIGITS_KNOWN, RootNames
from mangrove.layouts.tree.revision import NEWER, OLDER
from mangrove.layouts.tree.versions import list_taken_versions as taken_by_roots
from mangrove.storage.port import Store

__all__ = [
    "HINT_PATHS",
    "filter_versions_with_file",
    "find_lost_versions",
    "find_version_file",
    "is_version_file",
    "parse_version_location",
    "version_paths_of",
]

HINT_PATHS = frozenset({NEWER.hint_path, OLDER.hint_path, HINT_PATH})
"""The hint files, which name versions."""


def version_paths_of(version: int) -> list[str]:
    """Return the possible paths of the file of a version.

    >>> version_paths_of(4)[0], version_paths_of(4)[-1]
    ('_00100000000000000000000000000000.ipc', 'mangrove/version/00000000000000000004.mpk')
    """
    roots = [RootNames(digits).path(version) for digits in ROOT_DIGITS_KNOWN if version < 2**digits]
    return [*roots, guard_path(version)]


def find_version_file(store: Store, version: int) -> str | None:
    """Return the path of the file of a version; None if it was committed by a program that writes none."""
    return next((path for path in version_paths_of(version) if store.exists(path)), None)


def find_lost_versions(store: Store, newest: int) -> dict[str, int]:
    """Return the manually deleted versions by the expected paths of their files, oldest first.

    An expired version leaves a marker file. In the tree layout it is deleted after
    enough newer versions; a guard stays for ever.
    """
    guard = read_guard(store, newest)
    if guard is not None:
        lost = set(range(guard.first, newest)) - set(taken_by_guards(store))
        return {guard_path(version): version for version in sorted(lost)}
    for names in map(RootNames, ROOT_DIGITS_KNOWN):
        if newest < 2**names.digits and store.exists(names.path(newest)):
            lost = set(range(max(0, newest - EXPIRED_NAMES_MAX + 1), newest)) - set(taken_by_roots(store, names))
            return {names.path(version): version for version in sorted(lost)}
    return {}


def filter_versions_with_file(store: Store, versions: Sequence[int]) -> Sequence[int]:
    """Return those of the versions, oldest first, that have a file; the oldest may have none."""
    low, high = 0, len(versions)
    if versions and find_version_file(store, versions[0]) is not None:
        return versions
    while low < high:
        middle = (low + high) // 2
        if find_version_file(store, versions[middle]) is None:
            low = middle + 1
        else:
            high = middle
    return versions[low:]


def is_version_file(path: str) -> bool:
    """Return whether the file at a path determines which versions exist."""
    return parse_version_location(path) is not None or path in HINT_PATHS


def parse_version_location(location: str) -> int | None:
    """Return the version of the file at a path or URI; None for any other file."""
    name = location.rpartition("/")[2]
    for digits in ROOT_DIGITS_KNOWN:
        if RootNames(digits).is_root(name):
            return RootNames(digits).version_of(name)
    try:
        return version_of_guard(f"{VERSION_FOLDER}{name}") if location.endswith(f"{VERSION_FOLDER}{name}") else None
    except FormatError:
        return None
