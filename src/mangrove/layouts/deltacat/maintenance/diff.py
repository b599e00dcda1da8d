"""Object differences between two catalog versions."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeAlias

from mangrove.betree.diff import diff_trees as index_differences
from mangrove.betree.search import scan
from mangrove.layouts.deltacat.index import (
    IndexKeyRange,
    folder_of_key,
    key_class_of,
    locator_from_key,
    locator_from_parts,
    locator_of_key,
    name_of,
    namespace_id_of,
    object_key,
    parse_name_entry,
    parse_revision_entry,
    range_of_kind,
)
from mangrove.layouts.deltacat.revision import digest_of
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot
from mangrove.metastore import Difference
from mangrove.model.locators import (
    Kind,
    Locator,
    StreamLocator,
)
from mangrove.model.objects import STREAM_FORMAT, Object

_Names: TypeAlias = "Mapping[str, str] | _NamespaceNames"

__all__ = ["diff_snapshots", "load_namespace_names", "scan_objects"]

_OBJECTS_PER_READ = 512
_NAMESPACE = "1"
_NAMED = "12349"
_IN_NAMESPACES = "23"
_OBJECT = "o"
_BELOW = "5678"
_MAPPING = "y"
_TABLE_VERSION_DEPTH = 2


def scan_objects(snapshot: DeltaCatSnapshot, kind: Kind) -> Iterator[tuple[Locator, Object]]:
    """Yield every object of a kind in the whole version, in index order."""
    names = load_namespace_names(snapshot) if kind in (Kind.TABLE, Kind.VIEW) else {}
    keys = _keys_in(snapshot, range_of_kind(kind))
    locators = (locator for key in keys if (locator := _locator(key, names)) is not None)
    while batch := list(islice(locators, _OBJECTS_PER_READ)):
        for locator, value in zip(batch, snapshot.get_many(batch), strict=True):
            assert value is not None, f"{locator} is in the index and is not found"
            yield locator, value


def diff_snapshots(before: DeltaCatSnapshot, after: DeltaCatSnapshot) -> Iterator[Difference]:
    """Yield the objects that differ, in locator order; reads only what the versions do not share."""
    ordered = iter(sorted(_changed_locators(before, after)))
    while batch := list(islice(ordered, _OBJECTS_PER_READ)):
        pairs = zip(batch, before.get_many(batch), after.get_many(batch), strict=True)
        yield from (Difference(locator, old, new) for locator, old, new in pairs if old != new)


def load_namespace_names(snapshot: DeltaCatSnapshot) -> dict[str, str]:
    """Return the names of a version's namespaces by id."""
    first, end = range_of_kind(Kind.NAMESPACE)
    entries = scan(snapshot.guard.root, first, end, snapshot.read_nodes)
    return {parse_name_entry(entry.value).folder: name_of(entry.key) for entry in entries}


def _changed_locators(before: DeltaCatSnapshot, after: DeltaCatSnapshot) -> set[Locator]:
    """Return the locators under which the two versions may have something different."""
    names = _NamespaceNames(before), _NamespaceNames(after)
    found: set[Locator] = set()
    renamed: set[str] = set()
    for key, old, new in index_differences(before.guard.root, after.guard.root, after.read_nodes):
        for text, known in ((old, names[0]), (new, names[1])):
            if text is None:
                continue
            if key[0] == _NAMESPACE:
                renamed.add(parse_name_entry(text).folder)
            if key[0] == _OBJECT:
                # The name stayed, but maps to another object.
                found |= _locators_of_key(parse_revision_entry(text).name, known)
            elif key[0] in _NAMED + _BELOW:
                found |= _locators_of_key(key, known)
            found |= _table_version_of_stream(key)
    for folder in sorted(renamed):
        if None not in (names[0].get(folder), names[1].get(folder)) and names[0].get(folder) != names[1].get(folder):
            # Renaming a namespace changes the locators of all objects in it.
            for snapshot, known in ((before, names[0]), (after, names[1])):
                for kind in (Kind.TABLE, Kind.VIEW):
                    for key in _keys_in(snapshot, range_of_kind(kind, folder)):
                        found |= _locators_of_key(key, known)
    return found


def _table_version_of_stream(key: str) -> set[Locator]:
    """Return the table version whose newest stream changes with this key, or None.

    Other programs record it only in a mapping.
    """
    locator = locator_from_key(key) if key[0] in _BELOW else None
    if isinstance(locator, StreamLocator):
        return {locator.parent}
    folder = folder_of_key(key) if key[0] == _MAPPING else ""
    above, _, name = folder.rpartition("/")
    if name == digest_of(STREAM_FORMAT) and above.count("/") == _TABLE_VERSION_DEPTH:
        return {locator_from_parts(Kind.TABLE_VERSION, above.split("/"))}
    return set()


def _keys_in(snapshot: DeltaCatSnapshot, requested: IndexKeyRange) -> Iterator[str]:
    return (entry.key for entry in scan(snapshot.guard.root, requested.first, requested.end, snapshot.read_nodes))


class _NamespaceNames:
    """The names of a version's namespaces by id, looked up on demand."""

    def __init__(self, snapshot: DeltaCatSnapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[str, str | None] = {}

    def get(self, folder: str) -> str | None:
        """Return the name, or None if there is no such namespace."""
        if folder not in self._known:
            self._known[folder] = self._look_up(folder)
        return self._known[folder]

    def _look_up(self, folder: str) -> str | None:
        stored = self._snapshot.stored_at(object_key(folder))
        if stored is None:
            return None
        led_to = self._snapshot.value_of(stored.name) if stored.name else None
        if led_to is not None and parse_name_entry(led_to).folder == folder:
            return name_of(stored.name)
        return load_namespace_names(self._snapshot).get(folder)


def _locators_of_key(key: str, names: _Names) -> set[Locator]:
    locator = _locator(key, names) if key else None
    return set() if locator is None else {locator}


def _locator(key: str, names: _Names) -> Locator | None:
    """Return the locator of the object with this key; None if its namespace was dropped."""
    if key_class_of(key) not in _IN_NAMESPACES:
        return locator_of_key(key)
    namespace = names.get(namespace_id_of(key))
    return None if namespace is None else locator_of_key(key, namespace)
