"""One version of the whole lakehouse, read through its root node."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from mangrove.betree import search
from mangrove.betree.node import Node
from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.tree.contest import Keys
from mangrove.layouts.tree.definition_codec import SettingsRead
from mangrove.layouts.tree.files import TreeFiles
from mangrove.layouts.tree.java_dialects import revisions_named
from mangrove.layouts.tree.keys import KeyParts, locator_of_parts
from mangrove.layouts.tree.root import Root
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
        own: SettingsRead = files.settings(root.revision.definitions, root.definition_path)
        self.settings: LakehouseSettings = own.settings
        self.carried_settings = own.unknown
        self.keys = Keys(root.revision.keys, own.sizes, root.key_names)
        self._revisions = revisions_named(root.revision.roots)
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
        """Return the objects in the order asked; their definitions are read with one request for many."""
        wanted = {locator: pointer for locator in locators if (pointer := self.pointer(locator)) is not None}
        found = dict(zip(wanted, self.defined(list(wanted.items())), strict=True))
        return [found.get(locator) for locator in locators]

    def children(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> Iterator[tuple[Locator, Object]]:
        """Yield the objects of `kind` below `parent` in order of their locators, as they are asked for."""
        found = self._found(Scan(kind, parent, prefix), after)
        page = _PAGE_FIRST
        while wanted := list(islice(found, page)):
            for (locator, _), value in zip(wanted, self.defined(wanted), strict=True):
                yield locator, value
            page = min(2 * page, _PAGE_MAX)

    def last_child(self, kind: Kind, parent: Parent) -> Locator | None:
        """Return the last of the objects of `kind` below `parent`, or None if there is none."""
        first, end = self.keys.range_of(Scan(kind, parent))
        found = search.last(self.root.node, first, end, self.read_nodes)
        while found is not None:
            parts = self.keys.encoding.parts_of(found.key, self.keys.sizes)
            if parts.kind is kind:
                return self._below(parent, parts)
            found = search.last(self.root.node, first, found.key, self.read_nodes)
        return None

    def pointer(self, locator: Locator) -> str | None:
        """Return the value of the object's tree key, or None if there is none."""
        return search.get(self.root.node, self.keys.key_of(locator), self.read_nodes)

    def carried(self, locator: Locator) -> bytes:
        """Return what was found in the object's definition and not understood when it was read here."""
        return self._unknown.get(locator, b"")

    def read_nodes(self, pointers: Sequence[str]) -> list[Node]:
        """Return the nodes that the pointers of this tree lead to."""
        return self.files.nodes(pointers, self.settings.order, self._revisions)

    def defined(self, wanted: Sequence[tuple[Locator, str]]) -> list[Object]:
        """Return the objects to which the locators lead, from the values of their tree keys."""
        read = self.files.objects(self.root.revision.definitions, wanted)
        self._unknown |= {locator: unknown for (locator, _), (_, unknown) in zip(wanted, read, strict=True) if unknown}
        return [_in_place(locator, value) for (locator, _), (value, _) in zip(wanted, read, strict=True)]

    def locator(self, key: str, *, namespace: str | None = None, namespace_id: str | None = None) -> Locator:
        """Return the way to the object with this tree key, given what the key does not say."""
        parts = self.keys.encoding.parts_of(key, self.keys.sizes)
        return _located(parts, namespace, namespace_id)

    def _found(self, scan: Scan, after: Locator | None) -> Iterator[tuple[Locator, str]]:
        first, end = self.keys.range_of(scan, after)
        for key, pointer in search.scan(self.root.node, first, end, self.read_nodes):
            parts = self.keys.encoding.parts_of(key, self.keys.sizes)
            if parts.kind is scan.kind:
                yield self._below(scan.parent, parts), pointer

    def _below(self, parent: Parent, parts: KeyParts) -> Locator:
        if isinstance(parent, NamespaceLocator):
            return _located(parts, parent.name, None)
        return _located(parts, None, None if parent is None else parent.namespace_id)


def _located(parts: KeyParts, namespace: str | None, namespace_id: str | None) -> Locator:
    try:
        return locator_of_parts(parts, namespace=namespace, namespace_id=namespace_id)
    except InvalidInputError as error:
        raise FormatError(f"{parts!r} is not the tree key of any object ({error}): run `mangrove check`") from error


def _in_place(locator: Locator, value: Object) -> Object:
    """Return the object as it is at its place: a delta's position is in its tree key only."""
    if isinstance(locator, DeltaLocator) and isinstance(value, Delta) and value.position != locator.position:
        return replace(value, position=locator.position)
    return value
