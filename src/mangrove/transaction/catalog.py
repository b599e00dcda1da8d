"""Create, alter, rename and drop operations on namespaces, tables, views and aliases.

Reads and changes of an object follow aliases. Only a rename or drop needs the own name
of the object, so that a table is not dropped by mistake through an alias.

A created or renamed view must not read itself, directly or through other views. All
names on the path are guarded, so that two concurrent transactions cannot create a
cycle together.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final, Generic, TypeVar

from mangrove.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from mangrove.metastore import BelowTable, MetastoreSnapshot, ObjectRange
from mangrove.model.locators import (
    AliasLocator,
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableIdentity,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.names import check_new_name, join_name, split_name
from mangrove.model.objects import (
    LAST_TABLE_VERSION,
    AliasEntry,
    NamespaceEntry,
    Object,
    Stream,
    TableEntry,
    TableType,
    TableVersion,
    ViewEntry,
)
from mangrove.model.properties import NO_PROPERTIES, Properties
from mangrove.model.schema import check_new_columns
from mangrove.transaction.aliases import (
    Named,
    drop_aliases,
    find_alias,
    is_listed,
    list_aliases,
    locate_namespace,
    locate_parent,
    locate_table,
    locate_view,
    rename_in_aliases,
)
from mangrove.transaction.workspace import Workspace

__all__ = [
    "KIND_BELOW",
    "VIEW_NAMESPACE",
    "CatalogReader",
    "NamedById",
    "NewTable",
    "alter_entry",
    "alter_namespace",
    "alter_table",
    "alter_view",
    "check_name_free",
    "check_new_table",
    "check_own_name",
    "create_alias",
    "create_namespace",
    "create_table",
    "create_view",
    "drop_alias",
    "drop_namespace",
    "drop_objects",
    "drop_table",
    "drop_view",
    "find_namespace",
    "find_table",
    "find_table_by_id",
    "find_view",
    "identity_of",
    "load_namespace",
    "load_table",
    "load_table_names",
    "load_view",
    "rename_entry",
    "rename_namespace",
    "rename_table",
    "rename_view",
    "replace_table",
    "scan_objects_below",
    "scan_tables",
    "search_table",
    "update_properties",
]

CatalogReader = MetastoreSnapshot | Workspace
"""The source of reads: a version, or a transaction on one."""

_SUGGESTED_FROM_MAX: Final = 1_000
NamedLocator = TypeVar("NamedLocator", NamespaceLocator, ViewLocator)


@dataclass(frozen=True, slots=True)
class NamedById(Generic[NamedLocator]):
    """A namespace or view with an id, under any name; the last known name is looked up first."""

    last: NamedLocator
    id: str

    def __str__(self) -> str:
        return str(self.last)


def find_namespace(
    reading: CatalogReader, locator: NamespaceLocator | NamedById[NamespaceLocator]
) -> tuple[NamespaceLocator, NamespaceEntry]:
    """Return the namespace that a name or alias names; raise `NotFoundError` with similar names if there is none."""
    if isinstance(locator, NamedById):
        found = _find_by_id(reading, locator.last, locator.id)
        assert isinstance(found, NamespaceLocator)
        return found, load_namespace(reading, found)
    own, value = locate_namespace(reading, locator)
    if value is not None:
        return own, value
    raise NotFoundError(f"namespace {locator} does not exist{_suggest_names(reading, locator)}")


def find_table(reading: CatalogReader, locator: TableLocator) -> tuple[TableLocator, TableEntry]:
    """Return the table that a name or alias names; raise `NotFoundError` with similar names if there is none."""
    own, value = locate_table(reading, locator)
    if value is not None:
        return own, value
    find_namespace(reading, own.parent)
    if reading.get(ViewLocator(own.namespace, own.name)) is not None:
        raise NotFoundError(f"{locator} is a view, not a table")
    raise NotFoundError(f"table {locator} does not exist{_suggest_names(reading, own)}")


def scan_tables(reading: CatalogReader) -> Iterator[tuple[TableLocator, TableEntry]]:
    """Yield all tables, namespace by namespace."""
    for locator, table in _scan_entries(reading, Kind.TABLE):
        if isinstance(locator, TableLocator) and isinstance(table, TableEntry):
            yield locator, table


def _scan_entries(reading: CatalogReader, kind: Kind) -> Iterator[tuple[Locator, Object]]:
    """Yield all namespaces, or the tables or views of all namespaces."""
    for space, value in reading.children(Kind.NAMESPACE, None):
        assert isinstance(space, NamespaceLocator)
        if kind is Kind.NAMESPACE:
            yield space, value
        else:
            yield from reading.children(kind, space)


def _find_by_id(reading: CatalogReader, last: NamespaceLocator | ViewLocator, entry_id: str) -> Locator:
    """Return the name of the namespace or view with an id; in a transaction the search is not recorded as a read."""
    if getattr(reading.get(last), "id", None) == entry_id:
        return last
    unrecorded = reading.unrecorded() if isinstance(reading, Workspace) else reading
    for locator, value in _scan_entries(unrecorded, last.kind):
        if isinstance(value, NamespaceEntry | ViewEntry) and value.id == entry_id:
            return locator
    raise NotFoundError(f"the {last.kind.word} with the id {entry_id}, which was {last}, was dropped")


def search_table(reading: CatalogReader, table_id: str) -> TableLocator | None:
    """Return the name of the table with an id, or None. All tables are searched: there is no index from ids to names.

    In a transaction the search is not recorded as a read.
    """
    unrecorded = reading.unrecorded() if isinstance(reading, Workspace) else reading
    return next((locator for locator, table in scan_tables(unrecorded) if table.id == table_id), None)


def find_table_by_id(
    reading: CatalogReader, table_id: str, last: TableLocator | None = None
) -> tuple[TableLocator, TableEntry]:
    """Return the table with an id under its current name; its `last` known name is looked up first."""
    there = None if last is None else reading.get(last)
    if last is not None and isinstance(there, TableEntry) and there.id == table_id:
        return last, there
    found = search_table(reading, table_id)
    if found is None:
        known = "" if last is None else f", which was {last},"
        raise NotFoundError(
            f"the table with the id {table_id}{known} does not exist; it was dropped or not created yet"
        )
    return found, load_table(reading, found)


def find_view(reading: CatalogReader, locator: ViewLocator | NamedById[ViewLocator]) -> tuple[ViewLocator, ViewEntry]:
    """Return the view that a name names; raise `NotFoundError` with similar names if there is none."""
    if isinstance(locator, NamedById):
        found = _find_by_id(reading, locator.last, locator.id)
        assert isinstance(found, ViewLocator)
        return found, load_view(reading, found)
    own, value = locate_view(reading, locator)
    if value is not None:
        return own, value
    find_namespace(reading, own.parent)
    if locate_table(reading, TableLocator(own.namespace, own.name))[1] is not None:
        raise NotFoundError(f"{locator} is a table, not a view")
    raise NotFoundError(f"view {locator} does not exist{_suggest_names(reading, own)}")


def load_namespace(reading: CatalogReader, locator: NamespaceLocator) -> NamespaceEntry:
    """Return the namespace that a name or alias names."""
    return find_namespace(reading, locator)[1]


def load_table(reading: CatalogReader, locator: TableLocator) -> TableEntry:
    """Return the table that a name or alias names."""
    return find_table(reading, locator)[1]


def load_view(reading: CatalogReader, locator: ViewLocator) -> ViewEntry:
    """Return the view that a name names."""
    return find_view(reading, locator)[1]


def check_name_free(workspace: Workspace, locator: NamespaceLocator | TableLocator | ViewLocator) -> None:
    """Raise an error for a name that is too long, unsafe or taken by an object or an alias.

    Tables, views and aliases of a namespace share names. The name is guarded against
    concurrent commits.
    """
    workspace.settings.check_object_name(locator.kind, locator.name)
    check_new_name(locator.name, locator.kind.word)
    if isinstance(locator, NamespaceLocator):
        sharing: tuple[Locator, ...] = (locator,)
    else:
        load_namespace(workspace, locator.parent)
        sharing = (TableLocator(locator.namespace, locator.name), ViewLocator(locator.namespace, locator.name))
    for taken in (*sharing, AliasLocator(locator.canonical)):
        if workspace.get(taken) is not None:
            raise AlreadyExistsError(f"{taken.kind.word} {taken} already exists; choose another name")
        if taken.kind is not locator.kind:
            workspace.guard(taken)


def check_own_name(reading: CatalogReader, locator: NamespaceLocator | TableLocator, operation: str) -> None:
    """Raise an error if the name is an alias: a rename or drop needs the own name of the object."""
    alias = find_alias(reading, locator)
    if alias is not None:
        raise InvalidInputError(
            f"{locator} is an alias of {alias.target_locator}: {operation} {alias.target_locator} by its own name, "
            f"or drop the alias"
        )


def load_table_names(requested: set[TableIdentity], *snapshots: MetastoreSnapshot) -> dict[TableIdentity, str]:
    """Return the names of tables by id, from the first version that has them.

    There is no index from ids to names, so this lists tables until all are found.
    """
    names: dict[TableIdentity, str] = {}
    for locator, table in chain.from_iterable(map(scan_tables, snapshots)):
        if len(names) == len(requested):
            break
        if identity_of(table) in requested:
            names.setdefault(identity_of(table), str(locator))
    return names


def update_properties(properties: Mapping[str, str], put: Mapping[str, str], removed: Iterable[str]) -> dict[str, str]:
    """Return the properties with some set and some removed."""
    gone = set(removed)
    missing = gone - properties.keys()
    if missing:
        raise NotFoundError(
            f"property {min(missing)!r} does not exist; existing properties: {', '.join(sorted(properties)) or 'none'}"
        )
    return {key: value for key, value in properties.items() if key not in gone} | dict(Properties(put))


def _suggest_names(reading: CatalogReader, locator: Locator) -> str:
    """Return a suggestion of similar names; the search is not part of the read set."""
    snapshot = reading.snapshot if isinstance(reading, Workspace) else reading
    parent = locator.parent if isinstance(locator, TableLocator | ViewLocator) else None
    there = [str(found.parts[-1]) for found, _ in islice(snapshot.children(locator.kind, parent), _SUGGESTED_FROM_MAX)]
    close = difflib.get_close_matches(str(locator.parts[-1]), there, n=3)
    if close:
        above = [str(part) for part in locator.parts[:-1]]
        return f"; did you mean {' or '.join(join_name(*above, name) for name in close)}?"
    if locator.kind is Kind.NAMESPACE:
        return "; create it first, or list the namespaces" if there else "; there are no namespaces"
    return f"; list the {locator.kind.word}s of {parent}" if there else f"; {parent} has no {locator.kind.word}s"


CatalogEntry = TypeVar("CatalogEntry", NamespaceEntry, TableEntry, ViewEntry)
NamedEntry = TypeVar("NamedEntry", TableEntry, ViewEntry)


def alter_entry(
    workspace: Workspace,
    locator: NamespaceLocator | TableLocator | ViewLocator,
    value: CatalogEntry,
    put: Mapping[str, str],
    removed: Iterable[str],
    description: str | None,
) -> None:
    """Set or remove properties or change the description; writes nothing if nothing changes."""
    altered = replace(
        value,
        properties=update_properties(value.properties, put, removed),
        description=value.description if description is None else description,
    )
    if altered != value:
        workspace.put(locator, altered)


def rename_entry(
    workspace: Workspace, old: TableLocator | ViewLocator, new: TableLocator | ViewLocator, value: NamedEntry
) -> None:
    """Rename it, within its namespace or to another."""
    if new == old:
        return
    check_name_free(workspace, new)
    workspace.delete(old)
    workspace.put(new, replace(value, name=new.name))


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to create; a managed one has its first table version and stream."""

    table: TableEntry
    table_version: TableVersion | None = None
    stream: Stream | None = None


def identity_of(table: TableEntry) -> TableIdentity:
    """Return the identity by which all objects below the table are located."""
    return TableIdentity(table.namespace_id, table.id)


def check_new_table(workspace: Workspace, locator: TableLocator, new: NewTable) -> None:
    """Raise an error if the name is taken, or if column names or their number are not allowed in a new table."""
    check_name_free(workspace, locator)
    check_new_columns(new.table.schema if new.table_version is None else new.table_version.schema)


def create_table(workspace: Workspace, locator: TableLocator, new: NewTable) -> None:
    """Create a table."""
    check_new_table(workspace, locator, new)
    workspace.put(locator, new.table)
    if new.table_version is not None:
        version = TableVersionLocator(new.table.namespace_id, new.table.id, new.table_version.version)
        workspace.put(version, new.table_version)
        if new.stream is not None:
            workspace.put(StreamLocator(*_ids(version), new.stream.id), new.stream)


def replace_table(workspace: Workspace, locator: TableLocator, new: NewTable) -> None:
    """Create a table in the place of one with its name, if there is one, whose aliases it gets."""
    aliases: list[AliasEntry] = []
    if isinstance(workspace.get(locator), TableEntry):
        aliases = list(list_aliases(workspace, locator))
        drop_table(workspace, locator)
    create_table(workspace, locator, new)
    for alias in aliases:
        workspace.put(AliasLocator(alias.name), replace(alias, target_id=new.table.id))


def alter_table(
    workspace: Workspace,
    locator: TableLocator,
    *,
    put: Mapping[str, str] = NO_PROPERTIES,
    removed: Iterable[str] = (),
    description: str | None = None,
) -> None:
    """Set or remove properties, or change the description of the table."""
    removed = tuple(removed)
    if LAST_TABLE_VERSION in (*put, *removed):
        raise InvalidInputError(
            f"{LAST_TABLE_VERSION} of {locator} is set when a table version is dropped and cannot be changed"
        )
    alter_entry(workspace, *find_table(workspace, locator), put, removed, description)


def rename_table(workspace: Workspace, old: TableLocator, new: TableLocator) -> None:
    """Rename a table, within its namespace or to another; its aliases follow.

    Objects below it are not changed, unless the layout stores them below their namespace.
    """
    old, new = locate_parent(workspace, old), locate_parent(workspace, new)
    check_own_name(workspace, old, "rename")
    table = load_table(workspace, old)
    if new.namespace != old.namespace and workspace.snapshot.nests_tables_in_namespaces:
        _move_table(workspace, old, new, table)
    else:
        rename_entry(workspace, old, new, table)
    rename_in_aliases(workspace, lambda name: new if name == old else name)


def _move_table(workspace: Workspace, old: TableLocator, new: TableLocator, table: TableEntry) -> None:
    """Write a table and all objects below it under another namespace; data files stay where they are.

    The move conflicts with concurrent writes below the table.
    """
    namespace_id = load_namespace(workspace, new.parent).id
    check_name_free(workspace, new)
    found = scan_objects_below(workspace, identity_of(table))
    below = [locator for locator in found if isinstance(locator, BelowTable | DeltaLocator)]
    values = workspace.get_many(below)
    _delete_table(workspace, old, table)
    workspace.put(new, replace(table, name=new.name, namespace_id=namespace_id))
    for locator, value in zip(below, values, strict=True):
        assert value is not None
        workspace.put(replace(locator, namespace_id=namespace_id), value)


def drop_table(workspace: Workspace, locator: TableLocator) -> None:
    """Drop a table and its aliases. For an external table only the catalog entry is deleted.

    The drop conflicts with concurrent writes below the table, so no unseen rows are lost.
    """
    locator = locate_parent(workspace, locator)
    check_own_name(workspace, locator, "drop")
    _delete_table(workspace, locator, load_table(workspace, locator))
    drop_aliases(workspace, lambda alias: alias.target_locator == locator)


def _delete_table(workspace: Workspace, locator: TableLocator, table: TableEntry) -> None:
    workspace.delete(locator)
    if table.table_type is not TableType.MANAGED:
        return
    workspace.guard(ObjectRange(Kind.TABLE_VERSION, identity_of(table)))
    drop_objects(workspace, scan_objects_below(workspace, identity_of(table)))


def drop_objects(workspace: Workspace, found: Iterable[Locator]) -> None:
    """Delete objects below a table; conflicts with concurrent writes below them."""
    for below in list(found):
        following = KIND_BELOW.get(below.kind)
        if following is not None:
            assert isinstance(below, TableVersionLocator | StreamLocator | PartitionLocator)
            workspace.guard(ObjectRange(following, below))
        workspace.delete(below)


KIND_BELOW: Final[Mapping[Kind, Kind]] = {
    Kind.TABLE_VERSION: Kind.STREAM,
    Kind.STREAM: Kind.PARTITION,
    Kind.PARTITION: Kind.DELTA,
}


def scan_objects_below(
    reading: CatalogReader, top: TableIdentity | TableVersionLocator | StreamLocator
) -> Iterator[Locator]:
    """Yield all objects below a table, or a table version or stream and all below it."""
    found: list[Locator]
    if isinstance(top, TableIdentity):
        found = [locator for locator, _ in reading.children(Kind.TABLE_VERSION, top)]
    else:
        found = [top]
    yield from found
    while found and (kind := KIND_BELOW.get(found[0].kind)) is not None:
        parents = [
            locator for locator in found if isinstance(locator, TableVersionLocator | StreamLocator | PartitionLocator)
        ]
        found = [locator for locator, _ in reading.children_of(kind, parents)]
        yield from found


def _ids(version: TableVersionLocator) -> tuple[str, str, int]:
    return version.namespace_id, version.table_id, version.version


def create_namespace(workspace: Workspace, locator: NamespaceLocator, value: NamespaceEntry) -> None:
    """Create a namespace."""
    check_name_free(workspace, locator)
    workspace.put(locator, value)


def alter_namespace(
    workspace: Workspace,
    locator: NamespaceLocator | NamedById[NamespaceLocator],
    *,
    put: Mapping[str, str] = NO_PROPERTIES,
    removed: Iterable[str] = (),
    description: str | None = None,
) -> None:
    """Set or remove properties, or change the description of the namespace."""
    alter_entry(workspace, *find_namespace(workspace, locator), put, removed, description)


def _find_own_namespace(
    workspace: Workspace, locator: NamespaceLocator | NamedById[NamespaceLocator], operation: str
) -> tuple[NamespaceLocator, NamespaceEntry]:
    if isinstance(locator, NamespaceLocator):
        check_own_name(workspace, locator, operation)
    return find_namespace(workspace, locator)


def rename_namespace(
    workspace: Workspace, name: NamespaceLocator | NamedById[NamespaceLocator], new: NamespaceLocator
) -> None:
    """Rename a namespace; objects in it are not changed."""
    old, value = _find_own_namespace(workspace, name, "rename")
    if new == old:
        return
    check_name_free(workspace, new)
    workspace.move_namespace(old, new, replace(value, name=new.name))

    def rename(named: Named) -> Named:
        if isinstance(named, TableLocator):
            return replace(named, namespace=new.name) if named.parent == old else named
        return new if named == old else named

    rename_in_aliases(workspace, rename)


def drop_namespace(
    workspace: Workspace, name: NamespaceLocator | NamedById[NamespaceLocator], *, cascade: bool = False
) -> None:
    """Drop an empty namespace, or with `cascade` also all objects in it; its aliases and those in it go too."""
    locator, _ = _find_own_namespace(workspace, name, "drop")
    inside = [found for kind in (Kind.TABLE, Kind.VIEW) for found, _ in workspace.children(kind, locator)]
    if inside and not cascade:
        first = f"{inside[0].kind.word} {inside[0]}"
        raise InvalidInputError(
            f"namespace {locator} is not empty: it contains {first}"
            f"{f' and {len(inside) - 1} more' if len(inside) > 1 else ''}. Drop them first, or use cascade"
        )
    for kind in (Kind.TABLE, Kind.VIEW):
        workspace.guard(ObjectRange(kind, locator))
    for found in inside:
        if isinstance(found, TableLocator):
            drop_table(workspace, found)
        else:
            workspace.delete(found)
    workspace.delete(locator)
    drop_aliases(workspace, lambda alias: locator in (alias.target_locator, AliasLocator(alias.name).named.parent))


def create_alias(
    workspace: Workspace, locator: Named, target: Named, alias_id: str, *, if_not_exists: bool = False
) -> AliasEntry:
    """Create an alias, or list one that only its name mapping records.

    It refers to the target itself, also if `target` is an alias. With `if_not_exists`, an
    existing alias of the same target is returned.
    """
    found: NamespaceEntry | TableEntry
    if isinstance(locator, TableLocator) and isinstance(target, TableLocator):
        target, found = find_table(workspace, target)
        locator = locate_parent(workspace, locator)
        workspace.guard(locator.parent)
        workspace.guard(target.parent)
    elif isinstance(locator, NamespaceLocator) and isinstance(target, NamespaceLocator):
        target, found = find_namespace(workspace, target)
    else:
        raise InvalidInputError(f"alias {locator} of {target}: an alias has as many parts as its target")
    workspace.settings.check_object_name(Kind.ALIAS, locator.canonical)
    there = find_alias(workspace, locator)
    if there is None or there.target_id != found.id:
        check_name_free(workspace, locator)
    elif is_listed(workspace, there):
        if if_not_exists:
            return there
        check_name_free(workspace, locator)
    workspace.guard(locator)
    workspace.guard(target)
    alias = AliasEntry(alias_id, locator.canonical, target.canonical, found.id)
    workspace.put(AliasLocator(alias.name), alias)
    return alias


def drop_alias(workspace: Workspace, locator: Named) -> None:
    """Drop an alias; its target stays."""
    if isinstance(locator, TableLocator):
        locator = locate_parent(workspace, locator)
    if find_alias(workspace, locator) is None:
        known = [str(AliasLocator(alias.name)) for alias in list_aliases(workspace.snapshot)]
        close = difflib.get_close_matches(str(locator), known, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"existing aliases: {', '.join(known) or 'none'}"
        raise NotFoundError(f"alias {locator} does not exist; {hint}")
    workspace.delete(AliasLocator(locator.canonical))


VIEW_NAMESPACE: Final = "sql.namespace"
"""The view property with the namespace of unqualified names; the default is the view's own namespace."""


def create_view(workspace: Workspace, locator: ViewLocator, value: ViewEntry, *, or_replace: bool = False) -> None:
    """Create a view; with `or_replace` it may replace another view and keeps its id."""
    locator = locate_parent(workspace, locator)
    before = workspace.get(locator) if or_replace else None
    if not isinstance(before, ViewEntry):
        check_name_free(workspace, locator)
    _check_reads(workspace, locator, value)
    if isinstance(before, ViewEntry):
        check_new_columns(value.schema, before.schema)
        workspace.put(locator, replace(value, id=before.id))
        return
    check_new_columns(value.schema)
    workspace.put(locator, value)


def alter_view(
    workspace: Workspace,
    locator: ViewLocator | NamedById[ViewLocator],
    *,
    put: Mapping[str, str] = NO_PROPERTIES,
    removed: Iterable[str] = (),
    description: str | None = None,
) -> None:
    """Set or remove properties, or change the description of the view."""
    alter_entry(workspace, *find_view(workspace, locator), put, removed, description)


def rename_view(workspace: Workspace, name: ViewLocator | NamedById[ViewLocator], new: ViewLocator) -> None:
    """Rename a view, within its namespace or to another."""
    old, value = find_view(workspace, name)
    new = locate_parent(workspace, new)
    if new != old:
        _check_reads(workspace, new, value, was=old)
    rename_entry(workspace, old, new, value)


def drop_view(workspace: Workspace, locator: ViewLocator | NamedById[ViewLocator]) -> None:
    """Drop a view; the tables that it reads stay."""
    own, _ = find_view(workspace, locator)
    workspace.delete(own)


def _check_reads(workspace: Workspace, locator: ViewLocator, value: ViewEntry, was: ViewLocator | None = None) -> None:
    """Raise an error for a view that would read itself; `was` is its former name."""
    paths: list[tuple[ViewLocator, ...]] = [(locator, read) for read in _views_read(locator, value)]
    seen = {was}
    while paths:
        *path, last = paths.pop()
        last = locate_parent(workspace, last)
        if last == locator:
            cycle = " reads ".join(map(str, (*path, last)))
            raise InvalidInputError(f"the view {locator} would read itself: {cycle}. Change one of these views")
        if last in seen:
            continue
        seen.add(last)
        workspace.guard(last)
        there = workspace.get(last)
        if isinstance(there, ViewEntry):
            paths += [(*path, last, read) for read in _views_read(last, there)]


def _views_read(locator: ViewLocator, value: ViewEntry) -> list[ViewLocator]:
    """Return the names that a view reads, as view locators; unqualified names are in the view's namespace."""
    parts = [split_name(read) for read in value.reads]
    named = [(locator.namespace, *names) if len(names) == 1 else tuple(names) for names in parts]
    return [ViewLocator(*names) for names in named if len(names) == 2]
