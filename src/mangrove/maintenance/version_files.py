"""The files that make a version be one, in either layout: root nodes and guards, and the hints to the newest."""

from collections.abc import Sequence

from mangrove.errors import FormatError
from mangrove.layouts.deltacat.paths import HINT_PATH, VERSION_FOLDER, guard_path, version_of
from mangrove.layouts.deltacat.versions import read_guard
from mangrove.layouts.deltacat.versions import taken_versions as taken_by_guards
from mangrove.layouts.tree.paths import ROOT_DIGITS_KNOWN, RootNames
from mangrove.layouts.tree.revision import NEWER, OLDER
from mangrove.layouts.tree.upkeep_expiry import EXPIRED_NAMES_MAX
from mangrove.layouts.tree.versions import taken_versions as taken_by_roots
from mangrove.storage.port import Store

__all__ = [
    "HINTS",
    "lost_versions",
    "names_a_version",
    "version_at_location",
    "version_file",
    "version_files",
    "with_files",
]

HINTS = frozenset({NEWER.hint_path, OLDER.hint_path, HINT_PATH})
"""What speaks of versions without being one."""


def version_files(version: int) -> list[str]:
    """Return the paths at which the file of a version can lie.

    >>> version_files(4)[0], version_files(4)[-1]
    ('_00100000000000000000000000000000.ipc', 'mangrove/version/00000000000000000004.mpk')
    """
    roots = [RootNames(digits).path(version) for digits in ROOT_DIGITS_KNOWN if version < 2**digits]
    return [*roots, guard_path(version)]


def version_file(store: Store, version: int) -> str | None:
    """Return where the file of a version lies; None if the version was made by a program that writes none."""
    return next((path for path in version_files(version) if store.exists(path)), None)


def lost_versions(store: Store, newest: int) -> dict[str, int]:
    """Return the versions that somebody deleted by hand, by the paths at which their files should lie, oldest first.

    A version that expires leaves a file that says so. In the tree layout that goes
    when as many newer versions have names as stay taken; a guard stays for ever.
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


def with_files(store: Store, versions: Sequence[int]) -> Sequence[int]:
    """Return those of the versions, oldest first, that have a file; those that have none are the oldest."""
    low, high = 0, len(versions)
    if versions and version_file(store, versions[0]) is not None:
        return versions
    while low < high:
        middle = (low + high) // 2
        if version_file(store, versions[middle]) is None:
            low = middle + 1
        else:
            high = middle
    return versions[low:]


def names_a_version(path: str) -> bool:
    """Return whether the file at a path says which versions there are."""
    return version_at_location(path) is not None or path in HINTS


def version_at_location(location: str) -> int | None:
    """Return the version whose file lies at a path, or at a URI that ends in one; None if it is another file."""
    name = location.rpartition("/")[2]
    for digits in ROOT_DIGITS_KNOWN:
        if RootNames(digits).is_root(name):
            return RootNames(digits).version_of(name)
    try:
        return version_of(f"{VERSION_FOLDER}{name}") if location.endswith(f"{VERSION_FOLDER}{name}") else None
    except FormatError:
        return None
