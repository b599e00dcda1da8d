"""A lakehouse version read through its root node."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from mangrove.betree import search
from mangrove.betree.node import Node
from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.tree.definition_files import DecodedSettings
from mangrove.layouts.tree.files import TreeFiles
from mangrove.layouts.tree.java_formats import list_java_revisions
from mangrove.layouts.tree.keys import KeyParts, LocatorKeyCodec, TreeKeyRange, locator_of_parts
from mangrove.layouts.tree.root import Root
from mangrove.metastore import (
    BelowTable,
    Changes,
    Commit,
    LoadObject,
    ObjectPage,
    ObjectRange,
    Parent,
    list_pages,
    load_pages,
    split_into_pages,
)
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    TableLocator,
    build_delta_locators,
    build_table_locators,
)
from mangrove.model.objects import Object
from mangrove.model.settings import LakehouseSettings

__all__ = ["TreeSnapshot"]

_PAGE_MAX = 512
_KNOWN_MAX: Final = 1024
"""How many objects above deltas, and how many last children, a version has in memory for later versions."""


class TreeSnapshot:
    """A version, pinned for reading."""

    nests_tables_in_namespaces = False
    inline_rows_default = 2_000
    """With statistics and the usual sizes of a tree, the definition of such a delta is in a root."""

    def __init__(self, files: TreeFiles, root: Root, new_nodes: Mapping[str, bytes] | None = None) -> None:
        """Take the reader of files, the root, and the node files to show with it, if this process wrote them."""
        self.files = files
        self.root = root
        self.new_nodes = new_nodes or {}
        own: DecodedSettings = files.settings(root.revision.definitions, root.definition_path)
        self.settings: LakehouseSettings = own.settings
        self.carried_settings = own.unknown
        self.keys = LocatorKeyCodec(root.revision.keys, own.sizes, root.key_names)
        self._revisions = list_java_revisions(root.revision.roots)
        self._unknown: dict[Locator, bytes] = {}
        self._objects: dict[Locator, Object] = {}
        self._last: dict[tuple[Kind, Parent], Locator | None] = {}
        self.written_since: dict[int, set[str] | None] = {}
        """By version, the keys that later versions up to this one wrote, as far as a conflict detection listed them."""

    def build_next(self, root: Root, changes: Changes, new_nodes: Mapping[str, bytes]) -> "TreeSnapshot":
        """Return the version that the changes made of this one, with what is known here and did not change.

        A namespace can rename the objects in it, and a strict tree writes more objects than the changes do.
        """
        following = TreeSnapshot(self.files, root, new_nodes)
        written = [locator for locator in (*changes.puts, *changes.deletes) if locator.kind is not Kind.DELTA]
        is_usual = changes.settings is None and all(locator.kind is not Kind.NAMESPACE for locator in written)
        if is_usual and not self.settings.is_strict_tree and len(self._last) < _KNOWN_MAX:
            following._objects = self._objects.copy()
            for locator in written:
                following._objects.pop(locator, None)
            following._last = self._last.copy()
            for last in _find_last_deltas(changes.puts):
                before = following._last.get((Kind.DELTA, last.parent), last)
                if before is None or before < last:
                    following._last[Kind.DELTA, last.parent] = last
            for locator in (*written, *changes.deletes):
                following._last.pop((locator.kind, locator.parent), None)
        return following

    @property
    def allows_groups(self) -> bool:
        """Whether the next version may contain several transactions."""
        return not self.settings.is_strict_tree

    @property
    def version(self) -> int:
        """The version number."""
        return self.root.version

    @property
    def commit(self) -> Commit:
        """The history entry of this version."""
        return self.root.commit

    def get(self, locator: Locator) -> Object | None:
        """Return the object, or None if there is none."""
        found = self._objects.get(locator)
        if found is not None:
            return found
        pointer = self.pointer(locator)
        if pointer is None:
            return None
        (found,) = self.load_objects([(locator, pointer)])
        if locator.kind is not Kind.DELTA and locator not in self._unknown:
            if len(self._objects) >= _KNOWN_MAX:
                self._objects = {}
            self._objects[locator] = found
        return found

    def get_many(self, locators: Sequence[Locator]) -> list[Object | None]:
        """Return the objects in the requested order; nodes and definitions are read in batches."""
        if len(locators) == 1:
            return [self.get(locators[0])]
        keys = {locator: self.keys.key_of(locator) for locator in locators}
        pointers = search.get_many(self.root.node, keys.values(), self.read_nodes)
        requested = [(locator, pointers[key]) for locator, key in keys.items() if key in pointers]
        found = {locator: value for (locator, _), value in zip(requested, self.load_objects(requested), strict=True)}
        return [found.get(locator) for locator in locators]

    def children(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> Iterator[tuple[Locator, Object]]:
        """Yield the objects of `kind` below `parent` lazily, in locator order."""
        return load_pages(self._found(kind, parent, [self.keys.range_of(ObjectRange(kind, parent, prefix), after)]))

    def list_children(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> Iterator[tuple[Locator, LoadObject]]:
        """Yield the locators that `children` yields, each with a function that returns the object."""
        return list_pages(self._found(kind, parent, [self.keys.range_of(ObjectRange(kind, parent, prefix), after)]))

    def children_of(self, kind: Kind, parents: Sequence[BelowTable]) -> Iterator[tuple[Locator, Object]]:
        """Yield the objects of `kind` below any of the parents, all of one table, in locator order."""
        ranges = {self.keys.range_of(ObjectRange(kind, parent)) for parent in parents}
        return load_pages(self._found(kind, parents[0], sorted(ranges)) if parents else ())

    def last_child(self, kind: Kind, parent: Parent) -> Locator | None:
        """Return the last object of `kind` below `parent`, or None."""
        return self._last_in(kind, parent, self.keys.range_of(ObjectRange(kind, parent)))

    def last_children(self, kind: Kind, parents: Sequence[BelowTable]) -> list[Locator | None]:
        """Return the last object of `kind` below each of the parents, with batched reads.

        Many threads begin on one version and append to the same partitions, so it is kept.
        """
        missing = [parent for parent in parents if (kind, parent) not in self._last]
        for first in range(0, len(missing), _PAGE_MAX):
            page = missing[first : first + _PAGE_MAX]
            ranges = [self.keys.range_of(ObjectRange(kind, parent)) for parent in page]
            if len(page) > 1:
                # Reads the nodes on the paths to the ends of the ranges into the cache.
                search.get_many(self.root.node, [end for _, end in ranges], self.read_nodes)
            for parent, found in zip(page, ranges, strict=True):
                self._last[kind, parent] = self._last_in(kind, parent, found)
        return [self._last[kind, parent] for parent in parents]

    def pointer(self, locator: Locator) -> str | None:
        """Return the value of the object's tree key, or None."""
        return search.get(self.root.node, self.keys.key_of(locator), self.read_nodes)

    def carried(self, locator: Locator) -> bytes:
        """Return the unknown fields of the object's definition, if it was read here."""
        return self._unknown.get(locator, b"")

    def read_nodes(self, pointers: Sequence[str]) -> list[Node]:
        """Return the nodes at these pointers."""
        return self.files.nodes(pointers, self.settings.order, self._revisions)

    def load_objects(self, requested: Sequence[tuple[Locator, str]]) -> list[Object]:
        """Return the objects at the locators from the values of their tree keys."""
        read = self.files.objects(self.root.revision.definitions, requested)
        for (locator, _), (_, unknown) in zip(requested, read, strict=True):
            if unknown:
                self._unknown[locator] = unknown
        return [value for value, _ in read]

    def locator(self, key: str, *, namespace: str | None = None, namespace_id: str | None = None) -> Locator:
        """Return the locator of the object with this tree key, given the parts that the key does not contain."""
        parts = self.keys.encoding.parts_of(key, self.keys.sizes)
        return _locator_from_parts(parts, namespace, namespace_id)

    def _found(self, kind: Kind, parent: Parent, ranges: Sequence[TreeKeyRange]) -> Iterator[ObjectPage[str]]:
        """Yield the objects in pages."""
        for keys, pointers in split_into_pages(search.scan_chunks(self.root.node, ranges, self.read_nodes)):
            usual = self._locate_usual(kind, parent, keys)
            if usual is not None:
                yield ObjectPage(usual, pointers, self.load_objects)
                continue
            parts = [self.keys.encoding.parts_of(key, self.keys.sizes) for key in keys]
            found = [
                (self._below(parent, one), at) for one, at in zip(parts, pointers, strict=True) if one.kind is kind
            ]
            yield ObjectPage([locator for locator, _ in found], [pointer for _, pointer in found], self.load_objects)

    def _locate_usual(self, kind: Kind, parent: Parent, keys: Sequence[str]) -> Sequence[Locator] | None:
        """Return the locators of tables of a namespace, or of deltas of one partition; None for unusual keys."""
        if kind is Kind.TABLE and isinstance(parent, NamespaceLocator):
            names = self.keys.table_names_in(keys)
            return None if names is None else _build_table_locators(parent.name, names)
        positions = self.keys.delta_positions_in(keys) if kind is Kind.DELTA else None
        if positions is None or min(positions) < 1:
            return None
        first = self._below(parent, self.keys.encoding.parts_of(keys[0], self.keys.sizes))
        return build_delta_locators(first, positions) if isinstance(first, DeltaLocator) else None

    def _last_in(self, kind: Kind, parent: Parent, within: TreeKeyRange) -> Locator | None:
        first, end = within
        while (found := search.last(self.root.node, first, end, self.read_nodes)) is not None:
            parts = self.keys.encoding.parts_of(found.key, self.keys.sizes)
            if parts.kind is kind:
                return self._below(parent, parts)
            end = found.key
        return None

    def _below(self, parent: Parent, parts: KeyParts) -> Locator:
        if isinstance(parent, NamespaceLocator):
            return _locator_from_parts(parts, parent.name, None)
        return _locator_from_parts(parts, None, None if parent is None else parent.namespace_id)


def _find_last_deltas(puts: Iterable[Locator]) -> Iterable[DeltaLocator]:
    """Return the last of the deltas of each partition."""
    last: dict[tuple[str | int, ...], DeltaLocator] = {}
    for locator in puts:
        if isinstance(locator, DeltaLocator):
            before = last.setdefault(locator.parts[:-1], locator)
            if locator.position > before.position:
                last[locator.parts[:-1]] = locator
    return last.values()


def _build_table_locators(namespace: str, names: Sequence[str]) -> list[TableLocator]:
    try:
        return build_table_locators(namespace, names)
    except InvalidInputError as error:
        raise FormatError(f"a table of {namespace!r} has an invalid name ({error}); run `mangrove check`") from error


def _locator_from_parts(parts: KeyParts, namespace: str | None, namespace_id: str | None) -> Locator:
    try:
        return locator_of_parts(parts, namespace=namespace, namespace_id=namespace_id)
    except InvalidInputError as error:
        raise FormatError(f"{parts!r} is not a valid tree key ({error}); run `mangrove check`") from error
