"""The entries that a strict tree rewrites with a transaction, so that readers need no extension of the format.

A rename of a namespace moves the keys of its tables and views. The definition of a
managed table has a copy of the schema and keys of its served table version. Both depend
on the version that a commit follows, so they are computed for every attempt to commit.
Concurrent commits do not conflict with them: the objects themselves do not change.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mangrove.betree.search import scan
from mangrove.layouts.tree.definition_files import append_checksum
from mangrove.layouts.tree.definitions import encode_definition
from mangrove.layouts.tree.paths import definition_path
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.metastore import Changes, ObjectRange
from mangrove.model.locators import Kind, Locator, NamespaceLocator, TableLocator, TableVersionLocator, ViewLocator
from mangrove.model.objects import NamespaceEntry, Object, TableEntry, TableType, TableVersion

__all__ = [
    "NO_REWRITES",
    "Rewrites",
    "WrittenNamespaces",
    "build_rewrites",
    "copies_schema",
    "find_written_namespaces",
    "served_version_locator",
]


@dataclass(frozen=True, slots=True)
class WrittenNamespaces:
    """The ids of the namespaces that a transaction writes or deletes, by name, before and after it."""

    before: Mapping[str, str]
    after: Mapping[str, str]

    @property
    def renames(self) -> dict[str, str]:
        """The new name of each renamed namespace, by its former name."""
        names = {namespace_id: name for name, namespace_id in self.after.items()}
        return {old: names[one] for old, one in self.before.items() if names.get(one, old) != old}


def find_written_namespaces(base: TreeSnapshot, changes: Changes) -> WrittenNamespaces:
    """Return the namespaces that the changes write or delete."""
    after = {
        locator.name: value.id
        for locator, value in changes.puts.items()
        if isinstance(locator, NamespaceLocator) and isinstance(value, NamespaceEntry)
    }
    touched = [*after, *(locator.name for locator in changes.deletes if isinstance(locator, NamespaceLocator))]
    there = base.get_many([NamespaceLocator(name) for name in touched]) if touched else []
    before = {name: value.id for name, value in zip(touched, there, strict=True) if isinstance(value, NamespaceEntry)}
    return WrittenNamespaces(before, after)


@dataclass(frozen=True, slots=True)
class Rewrites:
    """What a commit writes in addition to the changes of its transaction."""

    renames: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The new name of each renamed namespace, by its former name, unless another namespace takes that name."""
    pointers: Mapping[Locator, str] = field(default_factory=lambda: MappingProxyType({}))
    """The definitions of written tables, with a copy of the schema."""
    replaced: frozenset[str] = frozenset()
    """The keys in renamed namespaces of objects that the transaction itself writes under the new name."""
    entries: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    """The pointers of the rewritten keys; None deletes a key."""
    files: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))

    def locate(self, locator: Locator) -> Locator:
        """Return the locator after the transaction of an object that it writes."""
        if isinstance(locator, TableLocator | ViewLocator) and locator.namespace in self.renames:
            return replace(locator, namespace=self.renames[locator.namespace])
        return locator


NO_REWRITES = Rewrites()


def copies_schema(value: Object) -> bool:
    """Return whether the definition of this object in a strict tree has a copy of a table version's schema."""
    return (
        isinstance(value, TableEntry)
        and value.table_type is TableType.MANAGED
        and value.schema is None
        and not value.keys
        and served_version_locator(value) is not None
    )


def build_rewrites(base: TreeSnapshot, changes: Changes, new_id: Callable[[], str]) -> Rewrites:
    """Return the rewrites of a commit of these changes after `base`, a strict tree."""
    namespaces = find_written_namespaces(base, changes)
    renames = namespaces.renames
    placed = Rewrites(renames={old: new for old, new in renames.items() if old not in namespaces.after})
    files: dict[str, bytes] = {}

    def write(locator: TableLocator, table: TableEntry, version: TableVersion | None, carried: bytes) -> str:
        names = (locator.name, locator.namespace)
        path = definition_path(Kind.TABLE, names, new_id(), base.settings.file_path_max_size_bytes)
        files[path] = append_checksum(encode_definition(table, carried, version), Kind.TABLE)
        return path

    pointers: dict[Locator, str] = {
        locator: write(locator, value, _find_served_version(base, changes, value), base.carried(locator))
        for locator, value in changes.puts.items()
        if isinstance(locator, TableLocator) and isinstance(value, TableEntry) and copies_schema(value)
    }
    put = {base.keys.key_of(placed.locate(locator)) for locator in changes.puts}
    deleted = {base.keys.key_of(locator) for locator in changes.deletes}
    entries: dict[str, str | None] = {}
    moved: dict[str, str] = {}
    replaced: set[str] = set()
    for old, new in renames.items():
        for key, new_key, pointer in _scan_moved(base, old, new):
            if key in deleted:
                continue
            if new_key in put:
                replaced.add(key)
            else:
                moved[new_key] = pointer
            entries[key] = None
    entries |= moved
    for locator, table, version in _find_changed_schemas(base, changes):
        name = renames.get(locator.namespace, locator.namespace)
        key = base.keys.key_of(replace(locator, namespace=name))
        entries[key] = write(replace(locator, namespace=name), table, version, base.carried(locator))
    for key in put | replaced:
        entries.pop(key, None)
    return replace(placed, pointers=pointers, replaced=frozenset(replaced - put), entries=entries, files=files)


def _scan_moved(base: TreeSnapshot, old: str, new: str) -> Iterator[tuple[str, str, str]]:
    """Yield the key, the new key and the pointer of each table and view of a renamed namespace."""
    for kind, locate in ((Kind.TABLE, TableLocator), (Kind.VIEW, ViewLocator)):
        first, end = base.keys.range_of(ObjectRange(kind, NamespaceLocator(old)))
        for key, pointer in scan(base.root.node, first, end, base.read_nodes):
            parts = base.keys.encoding.parts_of(key, base.keys.sizes)
            if parts.kind is kind:
                yield key, base.keys.key_of(locate(new, str(parts.parts[-1]))), pointer


def served_version_locator(table: TableEntry) -> TableVersionLocator | None:
    """Return the locator of the table version that readers of the table get, or None."""
    number = table.latest_active_table_version or table.latest_table_version
    return None if number is None else TableVersionLocator(table.namespace_id, table.id, number)


def _find_served_version(base: TreeSnapshot, changes: Changes, table: TableEntry) -> TableVersion | None:
    locator = served_version_locator(table)
    if locator is None:
        return None
    value = changes.puts.get(locator) or (None if locator in changes.deletes else base.get(locator))
    return value if isinstance(value, TableVersion) else None


def _find_changed_schemas(
    base: TreeSnapshot, changes: Changes
) -> Iterator[tuple[TableLocator, TableEntry, TableVersion]]:
    """Yield the tables that the changes do not write, but whose served table version gets another schema or keys."""
    written = {value.id for value in changes.puts.values() if isinstance(value, TableEntry)}
    versions = {
        locator: value
        for locator, value in changes.puts.items()
        if isinstance(locator, TableVersionLocator)
        and isinstance(value, TableVersion)
        and locator.table_id not in written
        and not _has_same_schema(base.get(locator), value)
    }
    for table_locator, table in _find_tables(base, {locator.table_id for locator in versions}):
        locator = served_version_locator(table)
        if locator in versions and table_locator not in changes.deletes and copies_schema(table):
            yield table_locator, table, versions[locator]


def _has_same_schema(before: Object | None, after: TableVersion) -> bool:
    return isinstance(before, TableVersion) and (before.schema, before.keys) == (after.schema, after.keys)


def _find_tables(base: TreeSnapshot, table_ids: set[str]) -> Iterator[tuple[TableLocator, TableEntry]]:
    """Yield the tables with these ids: from the names at which they were last read, else by a scan of all tables."""
    missing = set(table_ids)
    for table_id in sorted(table_ids):
        locator = base.files.last_table_locator(table_id)
        table = None if locator is None else base.get(locator)
        if locator is not None and isinstance(table, TableEntry) and table.id == table_id:
            missing.discard(table_id)
            yield locator, table
    # The key names of a strict tree are the names, so all namespaces are one range.
    for found, value in base.children(Kind.TABLE, None) if missing else ():
        if isinstance(found, TableLocator) and isinstance(value, TableEntry) and value.id in missing:
            missing.discard(value.id)
            yield found, value
            if not missing:
                return
