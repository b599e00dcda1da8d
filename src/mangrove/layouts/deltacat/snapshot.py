"""A catalog version read through the index in its guard."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from mangrove.betree import search
from mangrove.betree.node import Entry, Node
from mangrove.errors import FormatError
from mangrove.layouts.deltacat.files import DeltaCatFiles, RevisionRef
from mangrove.layouts.deltacat.guards import Guard
from mangrove.layouts.deltacat.index import (
    IndexKeyRange,
    RevisionEntry,
    folder_of,
    key_of_locator,
    locator_of_key,
    mapping_key,
    name_key,
    name_of,
    object_key,
    parse_mapping_entry,
    parse_name_entry,
    parse_revision_entry,
    range_below,
)
from mangrove.layouts.deltacat.object_codec import ObjectBody
from mangrove.layouts.deltacat.paths import SETTINGS_FOLDER
from mangrove.layouts.deltacat.revision import digest_of
from mangrove.metastore import (
    BelowTable,
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
    AliasLocator,
    Kind,
    Locator,
    NamespaceLocator,
    SharedTransactionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.objects import STREAM_FORMAT, AliasEntry, Object, TableVersion
from mangrove.model.settings import LakehouseSettings

__all__ = ["DeltaCatSnapshot"]

_PAGE_MAX = 512


class DeltaCatSnapshot:
    """A version, pinned for reading."""

    nests_tables_in_namespaces = True
    inline_rows_default = 0

    def __init__(self, files: DeltaCatFiles, guard: Guard) -> None:
        self.files = files
        self.guard = guard
        self._settings: LakehouseSettings | None = None

    @property
    def allows_groups(self) -> bool:
        """Whether the next version may be committed by its number: it has none after commits of other programs."""
        return not self.guard.is_foreign

    @property
    def version(self) -> int:
        """The version number."""
        return self.guard.version

    @property
    def commit(self) -> Commit:
        """The history entry of this version."""
        return self.guard.commit

    @property
    def settings(self) -> LakehouseSettings:
        """The lakehouse definition; the default for a catalog of another program."""
        if self._settings is None:
            stored = self.stored_at(object_key(SETTINGS_FOLDER))
            settings = LakehouseSettings()
            if stored is not None:
                (body,) = self.files.bodies([RevisionRef(Kind.LAKEHOUSE, SETTINGS_FOLDER, stored)])
                assert isinstance(body.value, LakehouseSettings)
                settings = body.value
            self._settings = settings
        return self._settings

    def get(self, locator: Locator) -> Object | None:
        """Return the object, or None if there is none."""
        return self.get_many([locator])[0]

    def get_many(self, locators: Sequence[Locator]) -> list[Object | None]:
        """Return the objects in the requested order, with batched reads."""
        bodies = self.bodies(locators)
        return [
            self._mapped_alias(at) if body is None else self._shown(at, body)
            for at, body in zip(locators, bodies, strict=True)
        ]

    def bodies(self, locators: Sequence[Locator]) -> list[ObjectBody | None]:
        """Return the objects with all fields of their bodies."""
        keys = [self.key_of(locator) for locator in locators]
        values = search.get_many(self.guard.root, [key for key in keys if key is not None], self.read_nodes)
        places = [
            None if key is None or key not in values else self._revision_at(at.kind, at, Entry(key, values[key]))
            for at, key in zip(locators, keys, strict=True)
        ]
        found = iter(self.files.bodies([place for place in places if place is not None]))
        return [None if place is None else next(found) for place in places]

    def children(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> Iterator[tuple[Locator, Object]]:
        """Yield the objects of `kind` below `parent` lazily, in locator order."""
        found = self.range_of(ObjectRange(kind, parent, prefix), after)
        return load_pages(self._found(kind, parent, [] if found is None else [found]))

    def list_children(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> Iterator[tuple[Locator, LoadObject]]:
        """Yield the locators that `children` yields, each with a function that returns the object."""
        found = self.range_of(ObjectRange(kind, parent, prefix), after)
        return list_pages(self._found(kind, parent, [] if found is None else [found]))

    def children_of(self, kind: Kind, parents: Sequence[BelowTable]) -> Iterator[tuple[Locator, Object]]:
        """Yield the objects of `kind` below any of the parents, all of one table, in locator order."""
        ranges = {found for parent in parents if (found := self.range_of(ObjectRange(kind, parent))) is not None}
        return load_pages(self._found(kind, parents[0], sorted(ranges)) if parents else ())

    def last_child(self, kind: Kind, parent: Parent) -> Locator | None:
        """Return the last object of `kind` below `parent`, or None."""
        found = self.range_of(ObjectRange(kind, parent))
        last = None if found is None else search.last(self.guard.root, found.first, found.end, self.read_nodes)
        return None if last is None else locator_of_key(last.key, _namespace_of(parent))

    def last_children(self, kind: Kind, parents: Sequence[BelowTable]) -> list[Locator | None]:
        """Return the last object of `kind` below each of the parents, with batched reads."""
        last: list[Locator | None] = []
        for first in range(0, len(parents), _PAGE_MAX):
            page = parents[first : first + _PAGE_MAX]
            ends = [found.end for parent in page if (found := self.range_of(ObjectRange(kind, parent))) is not None]
            # Reads the nodes on the paths to the ends of the ranges into the cache.
            search.get_many(self.guard.root, ends, self.read_nodes)
            last += [self.last_child(kind, parent) for parent in page]
        return last

    def value_of(self, key: str) -> str | None:
        """Return the index value of a key."""
        return search.get(self.guard.root, key, self.read_nodes)

    def stored_at(self, key: str) -> RevisionEntry | None:
        """Return the newest revision under an index key."""
        text = self.value_of(key)
        return None if text is None else parse_revision_entry(text)

    def namespace_id(self, name: str) -> str | None:
        """Return the id of the namespace with this current name; it is also its folder name."""
        text = self.value_of(name_key(Kind.NAMESPACE, "", name))
        return None if text is None else parse_name_entry(text).folder

    def key_of(self, locator: Locator) -> str | None:
        """Return the index key of a locator, or None if its namespace does not exist."""
        match locator:
            case TableLocator() | ViewLocator():
                namespace_id = self.namespace_id(locator.namespace)
                return None if namespace_id is None else name_key(locator.kind, namespace_id, locator.name)
            case NamespaceLocator() | SharedTransactionLocator() | AliasLocator():
                return name_key(locator.kind, "", locator.name)
            case _:
                return key_of_locator(locator)

    def range_of(self, scan: ObjectRange, after: Locator | None = None) -> IndexKeyRange | None:
        """Return the key range that a scan covers, or None if its namespace does not exist."""
        namespace_id: str | None = ""
        if isinstance(scan.parent, NamespaceLocator):
            namespace_id = self.namespace_id(scan.parent.name)
        if namespace_id is None:
            return None
        return range_below(scan.kind, scan.parent, namespace_id, scan.prefix, after)

    def read_nodes(self, pointers: Sequence[str]) -> list[Node]:
        """Return the nodes at these pointers."""
        return self.files.nodes(pointers)

    def _found(self, kind: Kind, parent: Parent, ranges: Sequence[IndexKeyRange]) -> Iterator[ObjectPage[Entry]]:
        """Yield the objects in pages."""
        namespace = _namespace_of(parent)
        for keys, values in split_into_pages(search.scan_chunks(self.guard.root, ranges, self.read_nodes)):
            locators = [locator_of_key(key, namespace) for key in keys]
            yield ObjectPage(locators, list(map(Entry, keys, values)), partial(self._load_objects, kind))

    def _load_objects(self, kind: Kind, requested: Sequence[tuple[Locator, Entry]]) -> list[Object]:
        bodies = self.files.bodies([self._revision_at(kind, locator, entry) for locator, entry in requested])
        return [self._shown(locator, body) for (locator, _), body in zip(requested, bodies, strict=True)]

    def locate_revision(self, locator: Locator) -> RevisionRef | None:
        """Return the revision of an object in this version, or None."""
        key = self.key_of(locator)
        value = None if key is None else self.value_of(key)
        return None if key is None or value is None else self._revision_at(locator.kind, locator, Entry(key, value))

    def _revision_at(self, kind: Kind, locator: Locator, entry: Entry) -> RevisionRef:
        match locator:
            case NamespaceLocator() | TableLocator() | ViewLocator() | SharedTransactionLocator() | AliasLocator():
                folder = parse_name_entry(entry.value).folder
                stored = self.stored_at(object_key(folder))
                if stored is None:
                    raise FormatError(
                        f"the index maps a name to {folder}, but has no revision of it; run `mangrove check`"
                    )
                return RevisionRef(kind, folder, stored)
            case _:
                return RevisionRef(kind, folder_of(locator), parse_revision_entry(entry.value))

    def _shown(self, locator: Locator, body: ObjectBody) -> Object:
        """Return the object as of this version.

        Another program records the stream of a table version only in a mapping, and may
        have replaced the stream that Mangrove recorded.
        """
        if not isinstance(locator, TableVersionLocator) or not isinstance(body.value, TableVersion):
            return body.value
        noted = body.value.latest_stream_id
        if noted is not None and self._has_stream(locator, noted):
            return body.value
        folder = f"{folder_of(locator)}/{digest_of(STREAM_FORMAT)}"
        mapped = parse_mapping_entry(self.value_of(mapping_key(folder))).target
        return replace(body.value, latest_stream_id=mapped) if mapped else body.value

    def _mapped_alias(self, locator: Locator) -> AliasEntry | None:
        """Return an alias that only its name mapping records, as in a catalog without Mangrove's folder."""
        if not isinstance(locator, AliasLocator):
            return None
        named = locator.named
        namespace = named.namespace if isinstance(named, TableLocator) else ""
        namespace_id = self.namespace_id(namespace) if namespace else ""
        if namespace_id is None:
            return None
        digest = digest_of(self.files.revision.canonical(namespace, named.name))
        mapping_folder = f"{namespace_id}/{digest}".lstrip("/")
        target_id = parse_mapping_entry(self.value_of(mapping_key(mapping_folder))).target
        stored = self.stored_at(object_key(f"{namespace_id}/{target_id}".lstrip("/"))) if target_id else None
        if stored is None or not stored.name or name_of(stored.name) == named.name:
            return None
        target = "|".join(filter(None, (namespace, name_of(stored.name))))
        return AliasEntry(digest, locator.name, target, target_id)

    def _has_stream(self, table_version: TableVersionLocator, stream_id: str) -> bool:
        stream = StreamLocator(table_version.namespace_id, table_version.table_id, table_version.version, stream_id)
        return self.value_of(key_of_locator(stream)) is not None


def _namespace_of(parent: Parent) -> str:
    return parent.name if isinstance(parent, NamespaceLocator) else ""
