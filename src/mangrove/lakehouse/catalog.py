"""The catalog API: namespaces, tables and views of a lakehouse, a transaction or a snapshot.

A lakehouse reads the newest version and commits each statement by itself, a transaction
reads its own writes and commits at its end, a snapshot reads one version and has no
methods that change anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeAlias, TypedDict, TypeVar, Unpack

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.alias import Alias, build_alias, parse_named_argument
from mangrove.lakehouse.arguments import (
    parse_namespace_argument,
    parse_table_argument,
    parse_view_argument,
    validate_limit,
    validate_prefix,
    validate_texts,
)
from mangrove.lakehouse.engine_port import SPARK_DIALECT, Engine, find_view_references, is_spark_frame, make_repeatable
from mangrove.lakehouse.namespace import Namespace, NamespaceSnapshot
from mangrove.lakehouse.new_table import build_schema, plan_new_table, plan_schemaless_table
from mangrove.lakehouse.schema_update import validate_new_checks
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.lakehouse.table_staging import validate_property_changes
from mangrove.lakehouse.view import View, ViewSnapshot
from mangrove.model.canonical import parse_object_name
from mangrove.model.locators import Kind, Locator, NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.objects import NamespaceEntry, TableEntry, TableType, TableVersionState, ViewEntry
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.schema import Schema
from mangrove.transaction.aliases import (
    Named,
    find_alias,
    list_aliases,
    locate_namespace,
    locate_parent,
    locate_table,
    locate_view,
)
from mangrove.transaction.canonical_names import ResolvedObject, resolve_locator, resolve_name
from mangrove.transaction.catalog import (
    CatalogReader,
    alter_namespace,
    alter_table,
    alter_view,
    create_alias,
    create_namespace,
    create_table,
    create_view,
    drop_alias,
    drop_namespace,
    drop_table,
    drop_view,
    find_namespace,
    find_table,
    find_view,
    load_namespace,
    rename_namespace,
    rename_table,
    rename_view,
    replace_table,
)
from mangrove.transaction.deltas import TableTarget, parse_table_target
from mangrove.transaction.transaction import StagedTransaction

if TYPE_CHECKING:
    from mangrove.lakehouse.engine_port import Engines
    from mangrove.lakehouse.table_snapshot import CatalogClient
    from mangrove.maintenance.progress import ProgressCallback
    from mangrove.tables.compaction import CompactionReport


__all__ = [
    "Catalog",
    "CompactOptions",
    "ReadableCatalog",
    "WritableCatalog",
    "compact_tables",
    "list_managed_tables",
    "list_written_versions",
]

T = TypeVar("T")
NamespaceT_co = TypeVar("NamespaceT_co", bound=NamespaceSnapshot, covariant=True)
TableT_co = TypeVar("TableT_co", bound=TableSnapshot, covariant=True)
ViewT_co = TypeVar("ViewT_co", bound=ViewSnapshot, covariant=True)


class ReadableCatalog(ABC, Generic[NamespaceT_co, TableT_co, ViewT_co]):
    """Namespaces with their tables and views, to be read."""

    clients: Mapping[str, CatalogClient]
    """The clients of other catalogs whose tables are federated here, by name."""
    engines: Engines | None = None
    """What reads and writes rows; without it there are only definitions."""

    @abstractmethod
    def reading(self) -> CatalogReader:
        """Return where objects are read from now."""

    @abstractmethod
    def _namespace_handle(self, locator: NamespaceLocator, value: NamespaceEntry) -> NamespaceT_co: ...

    @abstractmethod
    def _table_handle(self, locator: TableLocator, value: TableEntry) -> TableT_co: ...

    @abstractmethod
    def _view_handle(self, locator: ViewLocator, value: ViewEntry) -> ViewT_co: ...

    def namespaces(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[NamespaceT_co]:
        """Yield the namespaces in order of their names: those that start with `prefix`, come after `after`, so many."""
        following = None if after is None else NamespaceLocator(after)
        found = self.reading().children(Kind.NAMESPACE, None, prefix=validate_prefix(prefix), after=following)
        for locator, value in islice(found, validate_limit(limit)):
            assert isinstance(locator, NamespaceLocator)
            assert isinstance(value, NamespaceEntry)
            yield self._namespace_handle(locator, value)

    def namespace(self, name: str | NamespaceLocator) -> NamespaceT_co:
        """Return a namespace."""
        return self._namespace_handle(*find_namespace(self.reading(), parse_namespace_argument(name)))

    def tables(
        self,
        namespace: str | NamespaceLocator,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int | None = None,
    ) -> Iterator[TableT_co]:
        """Yield the tables of a namespace in order of their names."""
        reading = self.reading()
        parent, _ = find_namespace(reading, parse_namespace_argument(namespace))
        following = None if after is None else TableLocator(parent.name, after)
        found = reading.children(Kind.TABLE, parent, prefix=validate_prefix(prefix), after=following)
        for locator, value in islice(found, validate_limit(limit)):
            assert isinstance(locator, TableLocator)
            assert isinstance(value, TableEntry)
            yield self._table_handle(locator, value)

    def table(self, name: str | TableLocator, *, version: int | None = None) -> TableT_co:
        """Return a table, or one of its table versions, which `shop.orders.version_2` and `shop|orders|2` name too."""
        target = TableTarget(name) if isinstance(name, TableLocator) else parse_table_target(name)
        table = self._table_handle(*find_table(self.reading(), target.locator))
        number = target.version if version is None else version
        return table if number is None else table.version(number)

    def views(
        self,
        namespace: str | NamespaceLocator,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int | None = None,
    ) -> Iterator[ViewT_co]:
        """Yield the views of a namespace in order of their names."""
        reading = self.reading()
        parent, _ = find_namespace(reading, parse_namespace_argument(namespace))
        following = None if after is None else ViewLocator(parent.name, after)
        found = reading.children(Kind.VIEW, parent, prefix=validate_prefix(prefix), after=following)
        for locator, value in islice(found, validate_limit(limit)):
            assert isinstance(locator, ViewLocator)
            assert isinstance(value, ViewEntry)
            yield self._view_handle(locator, value)

    def view(self, name: str | ViewLocator) -> ViewT_co:
        """Return a view."""
        return self._view_handle(*find_view(self.reading(), parse_view_argument(name)))

    def resolve(self, name: str | Locator) -> ResolvedObject:
        """Return the object with a canonical string, a dotted name or a locator, of any of the six kinds.

        >>> lake.resolve("shop|orders|1").value.schema  # doctest: +SKIP
        """
        if isinstance(name, Locator):
            return resolve_locator(self.reading(), name)
        return resolve_name(self.reading(), parse_object_name(name))

    def aliases(self) -> Iterator[Alias]:
        """Yield the aliases of namespaces and tables in order of their canonical strings."""
        return map(build_alias, list_aliases(self.reading()))


Catalog: TypeAlias = ReadableCatalog[NamespaceSnapshot, TableSnapshot, ViewSnapshot]
"""A lakehouse, a transaction or a snapshot, to be read."""


class WritableCatalog(ABC):
    """Creates, alters, renames and drops namespaces, tables and views."""

    clients: Mapping[str, CatalogClient]
    engines: Engines | None = None

    @abstractmethod
    def reading(self) -> CatalogReader:
        """Return where objects are read from now."""

    @abstractmethod
    def change(self, statement: Callable[[StagedTransaction], T], message: str = "") -> T:
        """Run a statement in a transaction; `message` is for the history where it is committed by itself."""

    @abstractmethod
    def new_id(self) -> str:
        """Return an id for a new object."""

    if TYPE_CHECKING:
        # The other base of every writable catalog lists them.

        def tables(
            self,
            namespace: str | NamespaceLocator,
            prefix: str = "",
            *,
            after: str | None = None,
            limit: int | None = None,
        ) -> Iterator[Table]:
            """Yield the tables of a namespace in order of their names."""

        def views(
            self,
            namespace: str | NamespaceLocator,
            prefix: str = "",
            *,
            after: str | None = None,
            limit: int | None = None,
        ) -> Iterator[View]:
            """Yield the views of a namespace in order of their names."""

    def _namespace_handle(self, locator: NamespaceLocator, value: NamespaceEntry) -> Namespace:
        return Namespace(self, locator, value)

    def _table_handle(self, locator: TableLocator, value: TableEntry) -> Table:
        return Table(self, locator, value)

    def _view_handle(self, locator: ViewLocator, value: ViewEntry) -> View:
        return View(self, locator, value)

    def create_namespace(
        self,
        name: str | NamespaceLocator,
        *,
        properties: Mapping[str, str] = NO_PROPERTIES,
        description: str | None = None,
        if_not_exists: bool = False,
    ) -> Namespace:
        """Make a namespace."""
        locator = parse_namespace_argument(name)

        def statement(transaction: StagedTransaction) -> Namespace:
            workspace = transaction.workspace
            if if_not_exists:
                own, found = locate_namespace(workspace, locator)
                if found is not None:
                    return Namespace(self, own, found)
            made = NamespaceEntry(self.new_id(), locator.name, properties, description)
            create_namespace(workspace, locator, made)
            return Namespace(self, locator, made)

        return self.change(statement, f"create namespace {locator}")

    def alter_namespace(
        self,
        name: str | NamespaceLocator,
        put: Mapping[str, str] = NO_PROPERTIES,
        remove: Iterable[str] | None = (),
        *,
        description: str | None = None,
    ) -> Namespace:
        """Put or remove properties of a namespace, or describe it anew."""
        locator, gone = parse_namespace_argument(name), validate_texts(remove, "the properties to remove")

        def statement(transaction: StagedTransaction) -> Namespace:
            workspace = transaction.workspace
            alter_namespace(workspace, locator, put=put, removed=gone, description=description)
            return Namespace(self, *find_namespace(workspace, locator))

        return self.change(statement, f"alter namespace {locator}")

    def rename_namespace(self, name: str | NamespaceLocator, to: str | NamespaceLocator) -> Namespace:
        """Give a namespace another name; its tables and views come along untouched."""
        old, new = parse_namespace_argument(name), parse_namespace_argument(to)

        def statement(transaction: StagedTransaction) -> Namespace:
            rename_namespace(transaction.workspace, old, new)
            return Namespace(self, new, load_namespace(transaction.workspace, new))

        return self.change(statement, f"rename namespace {old} to {new}")

    def drop_namespace(self, name: str | NamespaceLocator, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Drop a namespace that is empty, or with `cascade` together with all that is in it."""
        locator = parse_namespace_argument(name)

        def statement(transaction: StagedTransaction) -> None:
            if not if_exists or locate_namespace(transaction.workspace, locator)[1] is not None:
                drop_namespace(transaction.workspace, locator, cascade=cascade)

        self.change(statement, f"drop namespace {locator}")

    def create_table(
        self,
        name: str | TableLocator,
        schema: object | None = None,
        *,
        keys: Sequence[str] | None = (),
        partition_by: Sequence[str] | None = (),
        sort_by: Sequence[str] | None = (),
        table_type: TableType | str = TableType.MANAGED,
        table_format: str | None = None,
        location: str | None = None,
        format_properties: Mapping[str, str] = NO_PROPERTIES,
        properties: Mapping[str, str] = NO_PROPERTIES,
        description: str | None = None,
        checks: Mapping[str, str] = NO_PROPERTIES,
        defaults: Mapping[str, str] = NO_PROPERTIES,
        version: int = 1,
        stream_id: str | None = None,
        as_: object | None = None,
        schemaless: bool = False,
        replace: bool = False,
        if_not_exists: bool = False,
    ) -> Table:
        """Make a table; `schema` is SQL text, a dict of names and SQL types, a pyarrow schema or a Spark StructType.

        With `as_` it has these rows from the start, and their columns where no schema
        is given; with `replace` it takes the place of a table of its name. `defaults`
        and `checks` are SQL text, by the names of columns and by names of their own.

        `version` and `stream_id` are the ids of its first table version and stream.

        A `schemaless` table has files as they are, added with `add_files`, in place of rows.

        A table whose data others keep is of the type "external", with a location and
        a format, or "federated", with the `format_properties` "catalog" and "table".
        """
        name, as_ = parse_table_argument(name), make_repeatable(as_)
        requested = partial(
            plan_schemaless_table if schemaless else plan_new_table, name,
            schema=self._schema_of_rows(as_) if schema is None and as_ is not None else schema,
            keys=validate_texts(keys, "the keys"), sort_by=validate_texts(sort_by, "the sort fields"),
            partition_by=validate_texts(partition_by, "the partition fields"), checks=checks, defaults=defaults,
            table_type=table_type, table_format=table_format, location=location, format_properties=format_properties,
            properties=properties, description=description, version=version, stream_id=stream_id,
        )  # fmt: skip

        def statement(transaction: StagedTransaction) -> Table:
            workspace = transaction.workspace
            own, existing = locate_table(workspace, name) if if_not_exists and not replace else (name, None)
            if existing is not None:
                return Table(self, own, existing)
            locator = locate_parent(workspace, name)
            made = requested(load_namespace(workspace, locator.parent).id, self.new_id)
            (replace_table if replace else create_table)(workspace, locator, made)
            table = Table(self, locator, made.table)
            if checks and self.engines is not None:
                validate_new_checks(self.engines, transaction, table.target)
            if as_ is not None:
                table.fill(transaction, as_)
            return table

        return self.change(statement, f"create table {name}")

    def _schema_of_rows(self, rows: object) -> Schema:
        if self.engines is None:
            raise InvalidInputError("rows need an engine: open the lakehouse with mangrove.open or mangrove.create")
        engine: Engine = self.engines.spark() if is_spark_frame(rows) else self.engines.local()
        return build_schema(engine.detect_columns(None, rows))

    def alter_table(
        self,
        name: str | TableLocator,
        put: Mapping[str, str] = NO_PROPERTIES,
        remove: Iterable[str] | None = (),
        *,
        description: str | None = None,
    ) -> Table:
        """Put or remove properties of a table, or describe it anew."""
        locator, gone = parse_table_argument(name), validate_texts(remove, "the properties to remove")

        def statement(transaction: StagedTransaction) -> Table:
            workspace = transaction.workspace
            validate_property_changes(workspace, locator, put)
            alter_table(workspace, locator, put=put, removed=gone, description=description)
            return Table(self, *find_table(workspace, locator))

        return self.change(statement, f"alter table {locator}")

    def rename_table(self, name: str | TableLocator, to: str | TableLocator) -> Table:
        """Give a table another name, in its namespace or in another; however much lies below, it stays where it is."""
        old, new = parse_table_argument(name), parse_table_argument(to)

        def statement(transaction: StagedTransaction) -> Table:
            rename_table(transaction.workspace, old, new)
            return Table(self, *find_table(transaction.workspace, new))

        return self.change(statement, f"rename table {old} to {new}")

    def drop_table(self, name: str | TableLocator, *, if_exists: bool = False) -> None:
        """Drop a table; the data of an external or federated one stays."""
        locator = parse_table_argument(name)

        def statement(transaction: StagedTransaction) -> None:
            if not if_exists or locate_table(transaction.workspace, locator)[1] is not None:
                drop_table(transaction.workspace, locator)

        self.change(statement, f"drop table {locator}")

    def create_view(
        self,
        name: str | ViewLocator,
        sql: str,
        *,
        reads: Sequence[str] | None = None,
        dialect: str = SPARK_DIALECT,
        properties: Mapping[str, str] = NO_PROPERTIES,
        description: str | None = None,
        or_replace: bool = False,
    ) -> View:
        """Make a view, or with `or_replace` put it in the place of another view.

        `reads` are what its query reads; without it that is told from the query. A view
        that would read itself, also by way of others, is refused.
        """
        locator = parse_view_argument(name)
        found = find_view_references(self.engines, sql, dialect, locator.namespace) if reads is None else reads
        read = validate_texts(found, "what a view reads")
        value = ViewEntry(self.new_id(), locator.name, sql, dialect, None, read, properties, description)

        def statement(transaction: StagedTransaction) -> View:
            create_view(transaction.workspace, locator, value, or_replace=or_replace)
            return View(self, *find_view(transaction.workspace, locator))

        return self.change(statement, f"create view {locator}")

    def alter_view(
        self,
        name: str | ViewLocator,
        put: Mapping[str, str] = NO_PROPERTIES,
        remove: Iterable[str] | None = (),
        *,
        description: str | None = None,
    ) -> View:
        """Put or remove properties of a view, or describe it anew."""
        locator, gone = parse_view_argument(name), validate_texts(remove, "the properties to remove")

        def statement(transaction: StagedTransaction) -> View:
            alter_view(transaction.workspace, locator, put=put, removed=gone, description=description)
            return View(self, *find_view(transaction.workspace, locator))

        return self.change(statement, f"alter view {locator}")

    def rename_view(self, name: str | ViewLocator, to: str | ViewLocator) -> View:
        """Give a view another name, in its namespace or in another."""
        old, new = parse_view_argument(name), parse_view_argument(to)

        def statement(transaction: StagedTransaction) -> View:
            rename_view(transaction.workspace, old, new)
            return View(self, *find_view(transaction.workspace, new))

        return self.change(statement, f"rename view {old} to {new}")

    def drop_view(self, name: str | ViewLocator, *, if_exists: bool = False) -> None:
        """Drop a view; what it reads stays."""
        locator = parse_view_argument(name)

        def statement(transaction: StagedTransaction) -> None:
            if not if_exists or locate_view(transaction.workspace, locator)[1] is not None:
                drop_view(transaction.workspace, locator)

        self.change(statement, f"drop view {locator}")

    def create_alias(self, name: str | Named, target: str | Named, *, if_not_exists: bool = False) -> Alias:
        """Give a namespace or table another name, which follows it through renames.

        Every read and change accepts the alias; a rename or drop of the target needs its
        own name. Aliases share names with namespaces, or with tables and views.

        >>> lake.create_alias("shop.purchases", "shop.orders")  # doctest: +SKIP
        """
        alias, of = parse_named_argument(name), parse_named_argument(target)

        def statement(transaction: StagedTransaction) -> Alias:
            workspace = transaction.workspace
            there = find_alias(workspace, alias) if if_not_exists else None
            return build_alias(there or create_alias(workspace, alias, of, self.new_id()))

        return self.change(statement, f"create alias {alias} of {of}")

    def drop_alias(self, name: str | Named, *, if_exists: bool = False) -> None:
        """Drop an alias; its namespace or table stays."""
        alias = parse_named_argument(name)

        def statement(transaction: StagedTransaction) -> None:
            if not if_exists or find_alias(transaction.workspace, alias) is not None:
                drop_alias(transaction.workspace, alias)

        self.change(statement, f"drop alias {alias}")


class CompactOptions(TypedDict, total=False):
    """How tables are compacted, where it is not as usual."""

    engine: str | None
    bytes_max: int | None
    files_max: int | None
    full: bool
    watch: ProgressCallback


def list_managed_tables(catalog: ReadableCatalog[Namespace, Table, View]) -> list[Table]:
    """Return the tables whose rows are ours to write, in order of their names, each table version by itself."""
    found = (table for namespace in catalog.namespaces() for table in namespace.tables())
    return [one for table in found if table.table_type is TableType.MANAGED for one in list_written_versions(table)]


def list_written_versions(table: Table) -> list[Table]:
    """Return the table if it has one table version, else one for each version that is not deleted."""
    if table.value.latest_table_version == 1:
        return [table]
    deleted = TableVersionState.DELETED.value
    return [table.version(one.version) for one in table.versions() if one.state != deleted]


def compact_tables(tables: list[Table], **options: Unpack[CompactOptions]) -> dict[str, CompactionReport]:
    """Compact tables, and return by their names the reports of those in which there was something to do."""
    reports: dict[str, CompactionReport] = {}
    for table in tables:
        try:
            if table.schema is None:
                continue
            report = table.compact(**options)
        except NotFoundError:
            if table.catalog.reading().get(table.locator) is not None:
                raise
            continue
        if report.logs:
            reports[str(table)] = report
    return reports
