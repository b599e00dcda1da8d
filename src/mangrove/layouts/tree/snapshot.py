"""One version of the whole lakehouse, read through its root node."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from mangrove.betree import search
from mangrove.betree.node import Entry, Node
from mangrove.layouts.tree.contest import Keys
from mangrove.layouts.tree.files import Definition, TreeFiles
from mangrove.layouts.tree.keys import locator_of_parts
from mangrove.layouts.tree.root import Root, sizes_of
from mangrove.metastore import Commit, Parent, Scan
from mangrove.model.locators import DeltaLocator, Kind, Locator, NamespaceLocator
from mangrove.model.objects import Delta, Object
from mangrove.model.settings import LakehouseSettings

__all__ = ["TreeSnapshot"]

_PAGE_FIRST, _PAGE_MAX = 16, 512


class TreeSnapshot:
    """A version, pinned for reading."""

    def __init__(self, files: TreeFiles, root: Root) -> None:
        self.files = files
        self.root = root
        self.settings: LakehouseSettings = files.settings(root.definition_path)
        self.keys = Keys(root.revision.keys, sizes_of(self.settings), root.key_names)
        self._unknown: dict[Locator, bytes] = {}

    @property
    def version(self) -> int:
        """The version's number."""
        return self.root.version

    @property
    def commit(self) -> Commit:
        """The history's line about this version."""
        return self.root.commit

    def get(self, locator: Locator) -> Object | None:
        """Return the object, or None if there is none."""
        return self.get_many([locator])[0]

    def get_many(self, locators: Sequence[Locator]) -> list[Object | None]:
        """Return the objects in the order asked; the definitions of one kind are read with one request for many."""
        pointers = {locator: self.pointer(locator) for locator in locators}
        found: dict[Locator, Object] = {}
        for kind in {locator.kind for locator in locators}:
            wanted = {
                locator: pointer
                for locator, pointer in pointers.items()
                if locator.kind is kind and pointer is not None
            }
            definitions = self.files.definitions(kind, list(wanted.values()))
            for locator, definition in zip(wanted, definitions, strict=True):
                found[locator] = self._found(locator, definition)
        return [found.get(locator) for locator in locators]

    def children(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> Iterator[tuple[Locator, Object]]:
        """Yield the objects of `kind` below `parent` in order of their locators, as they are asked for."""
        entries = self._entries(Scan(kind, parent, prefix), after)
        page = _PAGE_FIRST
        while batch := list(islice(entries, page)):
            definitions = self.files.definitions(kind, [value for _, value in batch])
            for (key, _), definition in zip(batch, definitions, strict=True):
                locator = self._locator(key, parent)
                yield locator, self._found(locator, definition)
            page = min(2 * page, _PAGE_MAX)

    def last_child(self, kind: Kind, parent: Parent) -> Locator | None:
        """Return the last of the objects of `kind` below `parent`, or None if there is none."""
        first, end = self.keys.range_of(Scan(kind, parent))
        found = search.last(self.root.node, first, end, self.read_nodes)
        while found is not None and not self._is(found.key, kind):
            found = search.last(self.root.node, first, found.key, self.read_nodes)
        return None if found is None else self._locator(found.key, parent)

    def pointer(self, locator: Locator) -> str | None:
        """Return the value of the object's tree key, or None if there is none."""
        return search.get(self.root.node, self.keys.key_of(locator), self.read_nodes)

    def carried(self, locator: Locator) -> bytes:
        """Return what was found in the object's definition and not understood when it was read here."""
        return self._unknown.get(locator, b"")

    @property
    def carried_settings(self) -> bytes:
        """Return what the lakehouse's own definition holds that this release does not know."""
        return self.files.definitions(Kind.LAKEHOUSE, [self.root.definition_path])[0].unknown

    def read_nodes(self, pointers: Sequence[str]) -> list[Node]:
        """Return the nodes that the pointers of this tree lead to."""
        return self.files.nodes(pointers, self.settings.order)

    def _entries(self, scan: Scan, after: Locator | None) -> Iterator[Entry]:
        first, end = self.keys.range_of(scan, after)
        found = search.scan(self.root.node, first, end, self.read_nodes)
        return (entry for entry in found if self._is(entry.key, scan.kind))

    def _is(self, key: str, kind: Kind) -> bool:
        return self.keys.encoding.is_of_kind(key, kind, self.keys.sizes)

    def _locator(self, key: str, parent: Parent) -> Locator:
        parts = self.keys.encoding.parts_of(key, self.keys.sizes)
        if isinstance(parent, NamespaceLocator):
            return locator_of_parts(parts, namespace=parent.name)
        return locator_of_parts(parts, namespace_id=None if parent is None else parent.namespace_id)

    def _found(self, locator: Locator, definition: Definition) -> Object:
        """Return the object as it is at its place: a delta's position is in its tree key only."""
        if definition.unknown:
            self._unknown[locator] = definition.unknown
        if isinstance(locator, DeltaLocator) and isinstance(definition.value, Delta):
            return replace(definition.value, position=locator.position)
        return definition.value
