"""Authorization at the metastore: a principal reads what it may read, and commits what it may change.

All reads and commits of tables, SQL and Iceberg clients pass the metastore, so this is the only
place that enforces rights. What a principal may not read does not exist for it. The grants are those
of the newest version, also for reads of earlier versions. A table or view that was moved since
must be readable at both places.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import cast

from mangrove.errors import AccessDeniedError
from mangrove.metastore import (
    BelowTable,
    Changes,
    Commit,
    CommitResult,
    Difference,
    Isolation,
    LoadObject,
    Metastore,
    MetastoreMaintenance,
    MetastoreSnapshot,
    Parent,
    RowChangeDetector,
    assume_rows_changed,
)
from mangrove.model.access import Privilege, Rights, load_rules, strip_rules
from mangrove.model.locators import (
    AliasLocator,
    Kind,
    Locator,
    NamespaceLocator,
    TableIdentity,
    TableLocator,
    ViewLocator,
)
from mangrove.model.objects import AliasEntry, NamespaceEntry, Object, TableEntry, TableType, ViewEntry
from mangrove.model.settings import LakehouseSettings
from mangrove.transaction.aliases import locate_table
from mangrove.transaction.transaction import Committer

__all__ = ["AuthorizedCommitter", "AuthorizedMetastore", "AuthorizedSnapshot", "check_changes", "check_lakehouse"]

_Named = TableLocator | ViewLocator


def check_lakehouse(rights: Rights, privilege: Privilege) -> None:
    """Raise AccessDeniedError unless the principal has a privilege on the whole lakehouse."""
    if rights.lakehouse < privilege:
        raise _build_error(rights, privilege, "the lakehouse")


def _build_error(rights: Rights, privilege: Privilege, what: str) -> AccessDeniedError:
    return AccessDeniedError(f"principal {rights.principal} lacks the privilege {privilege.word} on {what}")


@dataclass(eq=False)
class _Places:
    """The namespaces of tables and views in one version, with rights on them."""

    snapshot: MetastoreSnapshot
    rights: Rights
    namespace_ids: dict[str, str | None] = field(default_factory=dict)

    def namespace_id(self, name: str) -> str | None:
        """Return the id of a namespace, or None if there is none."""
        if name not in self.namespace_ids:
            found = self.snapshot.get(NamespaceLocator(name))
            self.namespace_ids[name] = found.id if isinstance(found, NamespaceEntry) else None
        return self.namespace_ids[name]

    def privilege_on(self, locator: _Named, value: TableEntry | ViewEntry) -> Privilege:
        """Return the privilege on a table or view at its place in this version."""
        return self.rights.on_object(self.namespace_id(locator.namespace), value.id)

    @cached_property
    def privileges(self) -> dict[str, Privilege]:
        """The privileges on all tables and views by id. There is no index from ids to names."""
        return {value.id: self.privilege_on(locator, value) for locator, value in _scan_named(self.snapshot)}


def _scan_named(snapshot: MetastoreSnapshot) -> Iterator[tuple[_Named, TableEntry | ViewEntry]]:
    for space, _ in snapshot.children(Kind.NAMESPACE, None):
        assert isinstance(space, NamespaceLocator)
        for kind in (Kind.TABLE, Kind.VIEW):
            for locator, value in snapshot.children(kind, space):
                if isinstance(locator, TableLocator | ViewLocator) and isinstance(value, TableEntry | ViewEntry):
                    yield locator, value


class AuthorizedSnapshot:
    """A version without what a principal may not read."""

    def __init__(self, inner: MetastoreSnapshot, rights: Rights, newest: MetastoreSnapshot) -> None:
        self.inner = inner
        self._rights = rights
        self._places = _Places(inner, rights)
        self._newest = None if newest.version == inner.version else _Places(newest, rights)
        self._tables: dict[str, bool] = {}
        """Whether tables are readable, by id, as far as known."""

    @property
    def nests_tables_in_namespaces(self) -> bool:
        """Whether the objects of a table are stored below its namespace."""
        return self.inner.nests_tables_in_namespaces

    @property
    def allows_groups(self) -> bool:
        """Whether the next version may be committed by its number, and contain several transactions."""
        return self.inner.allows_groups

    @property
    def inline_rows_default(self) -> int:
        """The maximum size of inline rows in tables without a property for it."""
        return self.inner.inline_rows_default

    @property
    def version(self) -> int:
        """The version number."""
        return self.inner.version

    @property
    def commit(self) -> Commit:
        """The history entry of this version, without what its transactions did."""
        return _hide_message(self.inner.commit)

    @property
    def settings(self) -> LakehouseSettings:
        """The lakehouse definition without the access rules."""
        return strip_rules(self.inner.settings)

    def get(self, locator: Locator) -> Object | None:
        """Return the object, or None if there is none or it may not be read."""
        return self.get_many([locator])[0]

    def get_many(self, locators: Sequence[Locator]) -> list[Object | None]:
        """Return the objects in the requested order; None for those that may not be read."""
        found = self.inner.get_many(locators)
        return [self.filter_object(locator, value) for locator, value in zip(locators, found, strict=True)]

    def children(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> Iterator[tuple[Locator, Object]]:
        """Yield the readable objects of `kind` below `parent`."""
        for locator, value in self.inner.children(kind, parent, prefix=prefix, after=after):
            readable = self.filter_object(locator, value)
            if readable is not None:
                yield locator, readable

    def list_children(
        self, kind: Kind, parent: Parent, *, prefix: str = "", after: Locator | None = None
    ) -> Iterator[tuple[Locator, LoadObject]]:
        """Yield the locators that `children` yields, each with a function that returns the object."""
        for locator, value in self.children(kind, parent, prefix=prefix, after=after):
            yield locator, partial(_return, value)

    def children_of(self, kind: Kind, parents: Sequence[BelowTable]) -> Iterator[tuple[Locator, Object]]:
        """Yield the objects of `kind` below any of the parents, if their table is readable."""
        readable = [parent for parent in parents if self._is_table_readable(parent.table_id)]
        return self.inner.children_of(kind, readable) if readable else iter(())

    def last_child(self, kind: Kind, parent: Parent) -> Locator | None:
        """Return the last readable object of `kind` below `parent`."""
        if isinstance(parent, TableIdentity | BelowTable):
            return self.inner.last_child(kind, parent) if self._is_table_readable(parent.table_id) else None
        return max((locator for locator, _ in self.children(kind, parent)), default=None)

    def last_children(self, kind: Kind, parents: Sequence[BelowTable]) -> list[Locator | None]:
        """Return the last readable object of `kind` below each of the parents."""
        found = self.inner.last_children(kind, parents)
        return [
            locator if self._is_table_readable(parent.table_id) else None
            for parent, locator in zip(parents, found, strict=True)
        ]

    def filter_object(self, locator: Locator, value: Object | None) -> Object | None:
        """Return an object as the principal may read it, or None.

        A namespace that is visible only for a table in it has a name and nothing else.
        """
        if value is None or not self.is_readable(locator, value):
            return None
        if isinstance(value, NamespaceEntry) and self._rights.on_namespace(value.id) < Privilege.READ:
            return NamespaceEntry(value.id, value.name)
        return value

    def is_readable(self, locator: Locator, value: Object) -> bool:
        """Return whether the principal may read an object of this version."""
        match locator, value:
            case NamespaceLocator(), NamespaceEntry():
                return self._rights.on_namespace(value.id) >= Privilege.READ or locator.name in self._with_grants
            case ((TableLocator() | ViewLocator()), (TableEntry() | ViewEntry())):
                is_readable = self._is_named_readable(locator, value)
                if isinstance(value, TableEntry):
                    self._tables[value.id] = is_readable
                return is_readable
            case AliasLocator(), AliasEntry():
                return self.get(value.target_locator) is not None
            case _ if locator.kind.is_below_table:
                return self._is_table_readable(str(locator.parts[1]))
        return False

    @cached_property
    def _with_grants(self) -> frozenset[str]:
        """The namespaces with a table or view that is granted by itself: its name is visible, the rest is not."""
        if not self._rights.objects:
            return frozenset()
        return frozenset(
            locator.namespace for locator, value in _scan_named(self.inner) if value.id in self._rights.objects
        )

    def _is_named_readable(self, locator: _Named, value: TableEntry | ViewEntry) -> bool:
        if self._places.privilege_on(locator, value) < Privilege.READ:
            return False
        if self._newest is None:
            return True
        now = self._newest.snapshot.get(locator)
        if isinstance(now, TableEntry | ViewEntry) and now.id == value.id:
            return self._newest.privilege_on(locator, now) >= Privilege.READ
        # Renamed, moved or dropped since. What was dropped is read with the rights at its last place in this version.
        return self._newest.privileges.get(value.id, Privilege.READ) >= Privilege.READ

    def _is_table_readable(self, table_id: str) -> bool:
        if table_id not in self._tables:
            for locator, value in _scan_named(self.inner):
                self.is_readable(locator, value)
        return self._tables.get(table_id, False)


def _return(value: Object, _: Locator) -> Object:
    return value


def _unwrap(snapshot: MetastoreSnapshot) -> MetastoreSnapshot:
    return snapshot.inner if isinstance(snapshot, AuthorizedSnapshot) else snapshot


def _hide_message(commit: Commit) -> Commit:
    """Return the commit with its version and time only: messages name tables."""
    return Commit(commit.version, commit.created_at_millis, commit.transaction_id)


def check_changes(rights: Rights, base: MetastoreSnapshot, changes: Changes) -> None:
    """Raise AccessDeniedError if the changes contain one that the principal may not make."""
    if rights.lakehouse < Privilege.MANAGE:
        for granted, privilege, what in _ChangeCheck(rights, base, changes).list_requirements():
            if granted < privilege:
                raise _build_error(rights, privilege, what)


_Requirement = tuple[Privilege, Privilege, str]
"""The privilege that the principal has, the one that it needs, and on what."""


@dataclass(eq=False)
class _ChangeCheck:
    """The privileges that changes need.

    To use a name, one needs WRITE on the place of the name; to change an object or what is below a table, WRITE on it;
    to rename, replace or drop an object, MANAGE on it.
    """

    rights: Rights
    base: MetastoreSnapshot
    changes: Changes

    @cached_property
    def _places(self) -> _Places:
        put = {one.name: one.id for one in self.changes.puts.values() if isinstance(one, NamespaceEntry)}
        return _Places(self.base, self.rights, {**put})

    def list_requirements(self) -> Iterator[_Requirement]:
        """Yield the requirements of all changes."""
        if self.changes.settings is not None:
            yield self._on_lakehouse(Privilege.MANAGE)
        for locator, value in self.changes.puts.items():
            if not locator.kind.is_below_table:
                yield from self._list_for_put(locator, value)
        for locator in self.changes.deletes:
            if not locator.kind.is_below_table:
                yield from self._list_for_delete(locator)
        yield from self._list_below_tables()

    def _list_for_put(self, locator: Locator, value: Object) -> Iterator[_Requirement]:
        before = self.base.get(locator)
        if isinstance(value, TableEntry) and value.table_type is not TableType.MANAGED:
            # The location of an external table can be anything that the server can read.
            yield self._on_lakehouse(Privilege.MANAGE)
        match value, before:
            case AliasEntry(), _:
                if not self._follows_target(before, value):
                    yield self._on_place_of(locator)
            case ((NamespaceEntry() | TableEntry() | ViewEntry()), None):
                yield self._on_place_of(locator)
                yield from self._list_for_new(locator, value)
            case ((NamespaceEntry() | TableEntry() | ViewEntry()), (NamespaceEntry() | TableEntry() | ViewEntry())):
                if before.id == value.id:
                    yield self._on_named(locator, before, Privilege.WRITE)
                else:
                    # In this order the error does not tell a hidden name from a free one.
                    yield self._on_place_of(locator)
                    yield self._on_named(locator, before, Privilege.MANAGE)
                    yield from self._list_for_new(locator, value)
            case _:
                yield self._on_lakehouse(Privilege.WRITE)

    def _list_for_new(self, locator: Locator, value: NamespaceEntry | TableEntry | ViewEntry) -> Iterator[_Requirement]:
        """Yield requirements for a name that a hidden alias has, and for an id that a hidden object has."""
        if isinstance(locator, NamespaceLocator | TableLocator):
            alias = AliasLocator(locator.canonical)
            if alias not in self.changes.deletes and self.base.get(alias) is not None:
                yield self.rights.lakehouse, Privilege.MANAGE, f"the alias {alias}"
        if value.id in self._places.privileges and value.id not in self._removed_ids:
            yield self.rights.lakehouse, Privilege.MANAGE, f"the object with the id {value.id}"

    @cached_property
    def _removed_ids(self) -> set[str]:
        """The ids of the objects whose names are deleted, such as that of a renamed table."""
        found = self.base.get_many([one for one in self.changes.deletes if not one.kind.is_below_table])
        return {one.id for one in found if isinstance(one, NamespaceEntry | TableEntry | ViewEntry)}

    def _list_for_delete(self, locator: Locator) -> Iterator[_Requirement]:
        match self.base.get(locator):
            case (NamespaceEntry() | TableEntry() | ViewEntry()) as before:
                yield self._on_named(locator, before, Privilege.MANAGE)
            case AliasEntry() as before:
                if before.target_locator not in self.changes.deletes:
                    yield self._on_place_of(locator)
            case _:
                yield self._on_lakehouse(Privilege.WRITE)

    def _follows_target(self, before: Object | None, value: AliasEntry) -> bool:
        """Return whether an alias is only rewritten because its target was renamed or replaced."""
        return isinstance(before, AliasEntry) and (
            before.target_id == value.target_id or before.target_locator in self.changes.deletes
        )

    def _list_below_tables(self) -> Iterator[_Requirement]:
        """Yield one requirement for each table with changed rows, columns or table versions.

        Those of a table that is created, renamed or dropped follow from what that needs.
        """
        named = {value.id for value in self.changes.puts.values() if isinstance(value, TableEntry)}
        for locator in self.changes.deletes:
            if isinstance(locator, TableLocator) and isinstance(before := self.base.get(locator), TableEntry):
                named.add(before.id)
        written = (*self.changes.puts, *self.changes.deletes)
        for table_id in sorted({str(one.parts[1]) for one in written if one.kind.is_below_table} - named):
            yield self._on_table(table_id)

    def _on_table(self, table_id: str) -> _Requirement:
        for locator in self._list_names():
            value = self.base.get(locator)
            if isinstance(value, TableEntry) and value.id == table_id:
                return self._places.privilege_on(locator, value), Privilege.WRITE, f"table {locator}"
        granted = self._places.privileges.get(table_id, self.rights.lakehouse)
        return granted, Privilege.WRITE, f"the table with the id {table_id}"

    def _list_names(self) -> Iterable[TableLocator]:
        """Return the tables that the transaction read or guards by name, so that few are searched by id."""
        guarded = {one.table for one in self.changes.default_versions}
        return guarded | {one for one in self.changes.guards | self.changes.reads if isinstance(one, TableLocator)}

    def _on_lakehouse(self, privilege: Privilege) -> _Requirement:
        return self.rights.lakehouse, privilege, "the lakehouse"

    def _on_named(self, locator: Locator, value: Object, privilege: Privilege) -> _Requirement:
        if isinstance(locator, TableLocator | ViewLocator) and isinstance(value, TableEntry | ViewEntry):
            granted = self._places.privilege_on(locator, value)
        else:
            assert isinstance(value, NamespaceEntry)
            granted = self.rights.on_namespace(value.id)
        return granted, privilege, f"{locator.kind.word} {locator}"

    def _on_place_of(self, locator: Locator) -> _Requirement:
        """Return the requirement for a name: WRITE on its namespace, or on the lakehouse for a namespace."""
        named = locator.named if isinstance(locator, AliasLocator) else locator
        if not isinstance(named, TableLocator | ViewLocator):
            return self._on_lakehouse(Privilege.WRITE)
        granted = self.rights.on_namespace(self._places.namespace_id(named.namespace))
        return granted, Privilege.WRITE, f"namespace {named.parent}"


@dataclass(frozen=True, slots=True)
class AuthorizedMetastore:
    """All versions of a lakehouse, as a principal may read and change them.

    The rights for reads are those given. A commit uses those of the newest version.
    """

    inner: Metastore
    rights: Rights

    def wrap(self, snapshot: MetastoreSnapshot, newest: MetastoreSnapshot | None = None) -> MetastoreSnapshot:
        """Return a version as the principal may read it."""
        if self.rights.lakehouse >= Privilege.READ:
            return snapshot
        return AuthorizedSnapshot(snapshot, self.rights, newest or self.inner.latest())

    def latest(self) -> MetastoreSnapshot:
        """Return the newest committed version."""
        newest = self.inner.latest()
        return self.wrap(newest, newest)

    def latest_since(self, millis: int) -> MetastoreSnapshot | None:
        """Return the newest version in memory if it was the newest at that time or later."""
        newest = self.inner.latest_since(millis)
        return None if newest is None else self.wrap(newest, newest)

    def at_version(self, version: int) -> MetastoreSnapshot:
        """Return a version by its number."""
        return self.wrap(self.inner.at_version(version))

    def at_time(self, millis: int) -> MetastoreSnapshot:
        """Return the newest version committed at or before that time."""
        return self.wrap(self.inner.at_time(millis))

    def history(self, *, before: int | None = None) -> Iterator[Commit]:
        """Yield the live versions, newest first; their messages only to readers of the whole lakehouse."""
        found = self.inner.history(before=before)
        return found if self.rights.lakehouse >= Privilege.READ else map(_hide_message, found)

    def authorize(self, base: MetastoreSnapshot, changes: Changes) -> Changes:
        """Return the changes with the principal as their author, or raise AccessDeniedError."""
        if changes.is_empty:
            return changes
        check_changes(self.load_rights(), _unwrap(base), changes)
        return replace(changes, author=self.rights.principal)

    def load_rights(self) -> Rights:
        """Return the rights in the newest version."""
        return load_rules(self.inner.latest().settings).rights_again(self.rights)

    def privilege_on(self, locator: TableLocator | None) -> Privilege:
        """Return the privilege on a table in the newest version, or on the name of a new one; None is the lakehouse."""
        newest = self.inner.latest()
        rights = load_rules(newest.settings).rights_again(self.rights)
        if locator is None:
            return rights.lakehouse
        own, value = locate_table(newest, locator)
        return rights.on_object(_Places(newest, rights).namespace_id(own.namespace), "" if value is None else value.id)

    def commit(
        self,
        base: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        have_rows_changed: RowChangeDetector = assume_rows_changed,
    ) -> CommitResult:
        """Commit the changes if the principal may make all of them."""
        committed = self.inner.commit(_unwrap(base), self.authorize(base, changes), isolation, have_rows_changed)
        return self.wrap_result(committed)

    def wrap_result(self, committed: CommitResult) -> CommitResult:
        """Return what was committed, with a version as the principal may read it."""
        return replace(committed, snapshot=self.wrap(committed.snapshot, committed.snapshot))

    def commit_next(self, base: MetastoreSnapshot, changes: Changes) -> CommitResult | None:
        """Commit the changes as the version after `base` if the principal may make all of them."""
        committed = self.inner.commit_next(_unwrap(base), self.authorize(base, changes))
        return None if committed is None else self.wrap_result(committed)

    def load_later(self, base: MetastoreSnapshot, count: int) -> Sequence[MetastoreSnapshot]:
        """Return those of the next `count` versions after `base` that exist."""
        return [self.wrap(one) for one in self.inner.load_later(_unwrap(base), count)]

    def encode_version(self, snapshot: MetastoreSnapshot) -> Mapping[str, bytes]:
        """Return the file that commits a version."""
        return self.inner.encode_version(_unwrap(snapshot))

    def decode_version(self, version: int, files: Mapping[str, bytes]) -> MetastoreSnapshot:
        """Return the version that `encode_version` of another process returned as bytes."""
        return self.wrap(self.inner.decode_version(version, files))

    def remember(self, snapshot: MetastoreSnapshot, at_millis: int = 0) -> None:
        """Keep a version in memory; it was the newest at that time or later."""
        self.inner.remember(_unwrap(snapshot), at_millis)

    def is_affected(
        self, base: MetastoreSnapshot, later: Sequence[MetastoreSnapshot], changes: Changes, isolation: Isolation
    ) -> bool:
        """Return whether one of the versions after `base` wrote anything that concerns the changes."""
        return self.inner.is_affected(_unwrap(base), [*map(_unwrap, later)], changes, isolation)

    def rebase(
        self,
        base: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        have_rows_changed: RowChangeDetector = assume_rows_changed,
    ) -> tuple[MetastoreSnapshot, Changes]:
        """Return the newest version that is in memory, and the changes rebased on it."""
        newest, rebased = self.inner.rebase(_unwrap(base), changes, isolation, have_rows_changed)
        return self.wrap(newest), rebased

    def roll_back(self, to: MetastoreSnapshot, changes: Changes) -> MetastoreSnapshot:
        """Commit the content of `to` as the next version; this needs MANAGE on the lakehouse."""
        check_lakehouse(self.load_rights(), Privilege.MANAGE)
        return self._maintenance.roll_back(_unwrap(to), replace(changes, author=self.rights.principal))

    def differences(self, before: MetastoreSnapshot, after: MetastoreSnapshot) -> Iterator[Difference]:
        """Yield the objects that differ and may be read in the version that has them."""
        for one in self._maintenance.differences(_unwrap(before), _unwrap(after)):
            old, new = _filter(before, one.locator, one.before), _filter(after, one.locator, one.after)
            if (old is None, new is None) == (one.before is None, one.after is None) and old != new:
                yield Difference(one.locator, old, new)

    def objects(self, snapshot: MetastoreSnapshot, kind: Kind) -> Iterator[tuple[Locator, Object]]:
        """Yield every readable object of a kind in the whole version."""
        for locator, value in self._maintenance.objects(_unwrap(snapshot), kind):
            readable = _filter(snapshot, locator, value)
            if readable is not None:
                yield locator, readable

    @property
    def _maintenance(self) -> MetastoreMaintenance:
        return cast(MetastoreMaintenance, self.inner)


def _filter(snapshot: MetastoreSnapshot, locator: Locator, value: Object | None) -> Object | None:
    return snapshot.filter_object(locator, value) if isinstance(snapshot, AuthorizedSnapshot) else value


@dataclass(frozen=True, slots=True)
class AuthorizedCommitter:
    """Commits the changes that a principal may make, together with those of other principals."""

    metastore: AuthorizedMetastore
    inner: Committer

    def commit(self, base: MetastoreSnapshot, changes: Changes, isolation: Isolation) -> CommitResult:
        """Commit the changes as the next version if the principal may make all of them."""
        committed = self.inner.commit(_unwrap(base), self.metastore.authorize(base, changes), isolation)
        return self.metastore.wrap_result(committed)
