"""What two versions hold differently, and everything of one kind that a version holds, by locators."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from mangrove.betree.difference import Change
from mangrove.betree.difference import differences as tree_differences
from mangrove.betree.search import scan
from mangrove.layouts.tree.keys import KeyRange
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.metastore import Difference
from mangrove.model.locators import Kind, Locator
from mangrove.model.objects import Object, Table

__all__ = ["Birthplaces", "differences", "objects"]

_OBJECTS_AT_ONCE = 512
_IN_NAMESPACES = (Kind.TABLE, Kind.VIEW)
_EVERYTHING = KeyRange("", "\U0010ffff")

_Pointers: TypeAlias = tuple[str | None, str | None]
"""The value of a tree key before and after."""


class Birthplaces:
    """In which namespace each table was born: locators below a table say it, and their tree keys do not.

    It never changes, so what was learnt from one version holds for all. What is
    below a table that no version at hand has is given the table's own id.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._learnt: set[int] = set()

    def namespace_id_of(self, table_id: str, versions: Sequence[TreeSnapshot]) -> str:
        """Return the id of the namespace in which the table was born, looking into these versions if need be."""
        for snapshot in versions:
            if table_id in self._known:
                break
            if snapshot.version not in self._learnt:
                self.learn(value for _, value in objects(snapshot, Kind.TABLE, self))
                self._learnt.add(snapshot.version)
        return self._known.get(table_id, table_id)

    def learn(self, objects: Iterable[Object]) -> None:
        """Note the birthplaces of the tables among these objects, so that no version is searched for them."""
        self._known |= {table.id: table.namespace_id for table in objects if isinstance(table, Table)}


def objects(snapshot: TreeSnapshot, kind: Kind, birthplaces: Birthplaces) -> Iterator[tuple[Locator, Object]]:
    """Yield every object of a kind in the whole version, in the order of their tree keys."""
    first, end = snapshot.keys.encoding.range_below(kind, (), snapshot.keys.sizes)
    wanted = _located(snapshot, KeyRange(first, end), [snapshot], birthplaces, kind)
    while batch := list(islice(wanted, _OBJECTS_AT_ONCE)):
        for (locator, _), value in zip(batch, snapshot.defined(batch), strict=True):
            yield locator, value


def differences(before: TreeSnapshot, after: TreeSnapshot, birthplaces: Birthplaces) -> Iterator[Difference]:
    """Yield the objects that differ, in order of their locators.

    Where both versions have the same pointer they have the same object, and
    nothing is read. What differs is held in memory by its locators and pointers.
    """
    changed = _changed(before, after, birthplaces)
    ordered = iter(sorted(changed, key=lambda locator: (locator.kind, locator.parts)))
    while batch := list(islice(ordered, _OBJECTS_AT_ONCE)):
        old = _defined(before, ((locator, changed[locator][0]) for locator in batch))
        new = _defined(after, ((locator, changed[locator][1]) for locator in batch))
        for locator in batch:
            if old.get(locator) != new.get(locator):
                yield Difference(locator, old.get(locator), new.get(locator))


def _changed(before: TreeSnapshot, after: TreeSnapshot, birthplaces: Birthplaces) -> dict[Locator, _Pointers]:
    """Return the pointers, before and after, of the objects whose pointers differ."""
    pair = (after, before)
    if (before.keys.encoding, before.keys.sizes) != (after.keys.encoding, after.keys.sizes):
        return _between(before, after, [_EVERYTHING], birthplaces)
    moved = _moved_namespaces(before, after)
    found: dict[Locator, _Pointers] = {}
    below: list[Change] = []
    for change in tree_differences(before.root.node, after.root.node, after.read_nodes):
        kind, parts = after.keys.encoding.parts_of(change.key, after.keys.sizes)
        if kind > Kind.SHARED_TRANSACTION:
            below.append(change)
        elif kind not in _IN_NAMESPACES or parts[0] not in moved:
            locator = _locator(after, change.key, pair, birthplaces)
            if locator is not None:
                found[locator] = (change.before, change.after)
    if below:
        # A table that was made or dropped in between is among the changes: no version need be searched for it.
        for snapshot, place in ((before, 0), (after, 1)):
            changed = ((way, pointers[place]) for way, pointers in found.items() if way.kind is Kind.TABLE)
            birthplaces.learn(_defined(snapshot, changed).values())
    for change in below:
        locator = _locator(after, change.key, pair, birthplaces)
        if locator is not None:
            found[locator] = (change.before, change.after)
    ranges = [
        after.keys.encoding.range_below(kind, (name,), after.keys.sizes)
        for name in sorted(moved)
        for kind in _IN_NAMESPACES
    ]
    return found | _between(before, after, ranges, birthplaces)


def _moved_namespaces(before: TreeSnapshot, after: TreeSnapshot) -> set[str]:
    """Return the key names whose tables have another way to them after than before, though their tree keys stay."""
    old, new = before.root.key_names, after.root.key_names
    maybe = {*old.renamed, *old.renamed.values(), *new.renamed, *new.renamed.values()}
    return {name for name in maybe if old.name_filed_under(name) != new.name_filed_under(name)}


def _between(
    before: TreeSnapshot, after: TreeSnapshot, ranges: Iterable[KeyRange], birthplaces: Birthplaces
) -> dict[Locator, _Pointers]:
    """Return the pointers that differ, from reading everything in these ranges of both versions."""
    pair = (after, before)
    old: dict[Locator, str] = {}
    new: dict[Locator, str] = {}
    for key_range in ranges:
        old.update(_located(before, key_range, pair, birthplaces))
        new.update(_located(after, key_range, pair, birthplaces))
    return {
        locator: (old.get(locator), new.get(locator))
        for locator in old.keys() | new.keys()
        if old.get(locator) != new.get(locator)
    }


def _located(
    snapshot: TreeSnapshot,
    key_range: KeyRange,
    versions: Sequence[TreeSnapshot],
    birthplaces: Birthplaces,
    kind: Kind | None = None,
) -> Iterator[tuple[Locator, str]]:
    """Yield the locators and pointers of what lies in the range, optionally of one kind, and has a way to it."""
    for key, pointer in scan(snapshot.root.node, key_range.first, key_range.end, snapshot.read_nodes):
        if kind is not None and not snapshot.keys.encoding.is_of_kind(key, kind, snapshot.keys.sizes):
            continue
        locator = _locator(snapshot, key, versions, birthplaces)
        if locator is not None:
            yield locator, pointer


def _locator(
    snapshot: TreeSnapshot, key: str, versions: Sequence[TreeSnapshot], birthplaces: Birthplaces
) -> Locator | None:
    """Return the way to the object with this tree key; None if it was left behind by a namespace that is gone."""
    kind, parts = snapshot.keys.encoding.parts_of(key, snapshot.keys.sizes)
    first = str(parts[0])
    if kind in _IN_NAMESPACES:
        name = snapshot.root.key_names.name_filed_under(first)
        return None if name is None else snapshot.locator(key, namespace=name)
    if kind in (Kind.NAMESPACE, Kind.SHARED_TRANSACTION):
        return snapshot.locator(key)
    return snapshot.locator(key, namespace_id=birthplaces.namespace_id_of(first, versions))


def _defined(snapshot: TreeSnapshot, wanted: Iterable[tuple[Locator, str | None]]) -> dict[Locator, Object]:
    there = [(locator, pointer) for locator, pointer in wanted if pointer is not None]
    return dict(zip((locator for locator, _ in there), snapshot.defined(there), strict=True))
