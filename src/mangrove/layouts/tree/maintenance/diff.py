"""Object differences between two tree versions."""

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from mangrove.betree.diff import KeyChange
from mangrove.betree.diff import diff_trees as tree_differences
from mangrove.betree.search import scan
from mangrove.layouts.tree.keys import TreeKeyRange
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.metastore import Difference
from mangrove.model.locators import Kind, Locator
from mangrove.model.objects import Object, TableEntry

__all__ = ["TableOrigins", "diff_snapshots", "scan_objects"]

_OBJECTS_PER_READ = 512
_IN_NAMESPACES = (Kind.TABLE, Kind.VIEW)
_EVERYTHING = TreeKeyRange("", "\U0010ffff")

_Pointers: TypeAlias = tuple[str | None, str | None]
"""The value of a tree key before and after."""


class TableOrigins:
    """The namespace in which each table was created: locators below a table contain it, their tree keys do not.

    It never changes, so an answer from one version is valid for all. For objects below
    a table that no given version has, the table id is used.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._learnt: set[int] = set()

    def namespace_id_of(self, table_id: str, versions: Sequence[TreeSnapshot]) -> str:
        """Return the id of the namespace in which the table was created, searching these versions if necessary."""
        for snapshot in versions:
            if table_id in self._known:
                break
            if snapshot.version not in self._learnt:
                self.learn(value for _, value in scan_objects(snapshot, Kind.TABLE, self))
                self._learnt.add(snapshot.version)
        return self._known.get(table_id, table_id)

    def learn(self, objects: Iterable[Object]) -> None:
        """Record the origins of the tables among these objects, which saves a search."""
        self._known |= {table.id: table.namespace_id for table in objects if isinstance(table, TableEntry)}


def scan_objects(snapshot: TreeSnapshot, kind: Kind, table_origins: TableOrigins) -> Iterator[tuple[Locator, Object]]:
    """Yield every object of a kind in the whole version, in the order of their tree keys."""
    first, end = snapshot.keys.encoding.range_below(kind, (), snapshot.keys.sizes)
    requested = _scan_located(snapshot, TreeKeyRange(first, end), [snapshot], table_origins, kind)
    while batch := list(islice(requested, _OBJECTS_PER_READ)):
        for (locator, _), value in zip(batch, snapshot.load_objects(batch), strict=True):
            yield locator, value


def diff_snapshots(
    before: TreeSnapshot, after: TreeSnapshot, table_origins: TableOrigins, kinds: Container[Kind] = frozenset(Kind)
) -> Iterator[Difference]:
    """Yield the objects of these kinds that differ, in locator order.

    Equal pointers mean equal objects, so these are not read. The locators and pointers
    of the differences are held in memory.
    """
    changed = _changed_pointers(before, after, table_origins, kinds)
    requested = (locator for locator in changed if locator.kind in kinds)
    ordered = iter(sorted(requested, key=lambda locator: (locator.kind, locator.parts)))
    while batch := list(islice(ordered, _OBJECTS_PER_READ)):
        old = _load_objects(before, ((locator, changed[locator][0]) for locator in batch))
        new = _load_objects(after, ((locator, changed[locator][1]) for locator in batch))
        for locator in batch:
            if old.get(locator) != new.get(locator):
                yield Difference(locator, old.get(locator), new.get(locator))


def _changed_pointers(
    before: TreeSnapshot, after: TreeSnapshot, table_origins: TableOrigins, kinds: Container[Kind]
) -> dict[Locator, _Pointers]:
    """Return the pointers, before and after, of the objects whose pointers differ."""
    pair = (after, before)
    if (before.keys.encoding, before.keys.sizes) != (after.keys.encoding, after.keys.sizes):
        return _diff_ranges(before, after, [_EVERYTHING], table_origins)
    moved = _renamed_key_names(before, after)
    found: dict[Locator, _Pointers] = {}
    below: list[KeyChange] = []
    for change in tree_differences(before.root.node, after.root.node, after.read_nodes):
        kind, parts = after.keys.encoding.parts_of(change.key, after.keys.sizes)
        if kind not in kinds:
            continue
        if kind.is_below_table:
            below.append(change)
        elif kind not in _IN_NAMESPACES or parts[0] not in moved:
            locator = _locator(after, change.key, pair, table_origins)
            if locator is not None:
                found[locator] = (change.before, change.after)
    if below:
        # Tables created or dropped in between are among the changes, so no search is needed for them.
        for snapshot, place in ((before, 0), (after, 1)):
            changed = ((one, pointers[place]) for one, pointers in found.items() if one.kind is Kind.TABLE)
            table_origins.learn(_load_objects(snapshot, changed).values())
    for change in below:
        locator = _locator(after, change.key, pair, table_origins)
        if locator is not None:
            found[locator] = (change.before, change.after)
    ranges = [
        after.keys.encoding.range_below(kind, (name,), after.keys.sizes)
        for name in sorted(moved)
        for kind in _IN_NAMESPACES
    ]
    return found | _diff_ranges(before, after, ranges, table_origins)


def _renamed_key_names(before: TreeSnapshot, after: TreeSnapshot) -> set[str]:
    """Return the key names whose namespace has another name afterwards: the locators change, the tree keys do not."""
    old, new = before.root.key_names, after.root.key_names
    maybe = {*old.renamed, *old.renamed.values(), *new.renamed, *new.renamed.values()}
    return {name for name in maybe if old.name_filed_under(name) != new.name_filed_under(name)}


def _diff_ranges(
    before: TreeSnapshot, after: TreeSnapshot, ranges: Iterable[TreeKeyRange], table_origins: TableOrigins
) -> dict[Locator, _Pointers]:
    """Return the pointers that differ, by a full scan of these ranges in both versions."""
    pair = (after, before)
    old: dict[Locator, str] = {}
    new: dict[Locator, str] = {}
    for key_range in ranges:
        old.update(_scan_located(before, key_range, pair, table_origins))
        new.update(_scan_located(after, key_range, pair, table_origins))
    return {
        locator: (old.get(locator), new.get(locator))
        for locator in old.keys() | new.keys()
        if old.get(locator) != new.get(locator)
    }


def _scan_located(
    snapshot: TreeSnapshot,
    key_range: TreeKeyRange,
    versions: Sequence[TreeSnapshot],
    table_origins: TableOrigins,
    kind: Kind | None = None,
) -> Iterator[tuple[Locator, str]]:
    """Yield the locators and pointers in the range, optionally of one kind; unreachable objects are skipped."""
    for key, pointer in scan(snapshot.root.node, key_range.first, key_range.end, snapshot.read_nodes):
        if kind is not None and not snapshot.keys.encoding.is_of_kind(key, kind, snapshot.keys.sizes):
            continue
        locator = _locator(snapshot, key, versions, table_origins)
        if locator is not None:
            yield locator, pointer


def _locator(
    snapshot: TreeSnapshot, key: str, versions: Sequence[TreeSnapshot], table_origins: TableOrigins
) -> Locator | None:
    """Return the locator of the object with this tree key; None if its namespace was dropped."""
    kind, parts = snapshot.keys.encoding.parts_of(key, snapshot.keys.sizes)
    first = str(parts[0])
    if kind in _IN_NAMESPACES:
        name = snapshot.root.key_names.name_filed_under(first)
        return None if name is None else snapshot.locator(key, namespace=name)
    if not kind.is_below_table:
        return snapshot.locator(key)
    return snapshot.locator(key, namespace_id=table_origins.namespace_id_of(first, versions))


def _load_objects(snapshot: TreeSnapshot, requested: Iterable[tuple[Locator, str | None]]) -> dict[Locator, Object]:
    there = [(locator, pointer) for locator, pointer in requested if pointer is not None]
    return dict(zip((locator for locator, _ in there), snapshot.load_objects(there), strict=True))
