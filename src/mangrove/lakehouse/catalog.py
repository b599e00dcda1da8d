"""The catalog API: namespaces, tables and views of a lakehouse, a transaction or a snapshot.

A lakehouse reads the newest version and commits each statement separately. A transaction
reads its own writes and commits at its end. A snapshot reads one version and has no
methods that change it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import islice, starmap
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypedDict, TypeVar, Unpack, cast, overload

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
from mangrove.lakehouse.listing import Listing
from mangrove.lakehouse.namespace import Namespace, NamespaceSnapshot
from mangrove.lakehouse.new_table import build_schema, plan_new_table, plan_schemaless_table
from mangrove.lakehouse.schema_update import validate_new_checks
from mangrove.lakehouse.sql_port import Arguments, QueryResult
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.lakehouse.table_staging import validate_property_changes
from mangrove.lakehouse.view import View, ViewSnapshot
from mangrove.metastore import LoadObject, MetastoreSnapshot
from mangrove.model.canonical import is_named_by_ids
from mangrove.model.locators import Kind, Locator, NamespaceLocator, TableIdentity, TableLocator, ViewLocator
from mangrove.model.objects import NamespaceEntry, Object, TableEntry, TableType, TableVersionState, ViewEntry
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.schema import Schema
from mangrove.transaction.aliases import (
    Named,
    find_alias,
    list_aliases,
    locate_namespace,
    locate_parent,
    locate_table,
)
from mangrove.transaction.canonical_names import ResolvedObject, resolve_locator, resolve_target, resolve_text
from mangrove.transaction.catalog import (
    CatalogReader,
    NamedById,
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
    load_table,
    rename_namespace,
    rename_table,
    rename_view,
    replace_table,
)
from mangrove.transaction.deltas import TableTarget, find_target_table, locate_target
from mangrove.transaction.transaction import StagedTransaction

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame

    from mangrove.lakehouse.engine_port import Engines
    from mangrove.lakehouse.table_snapshot import CatalogClient
    from mangrove.maintenance.progress import ProgressCallback
    from mangrove.tables.compaction import CompactionReport
    from mangrove.transaction.deltas import OpenTable


__all__ = [
    "Catalog",
    "CompactOptions",
    "NamespaceName",
    "ReadableCatalog",
    "TableName",
    "ViewName",
    "WritableCatalog",
    "compact_tables",
    "list_managed_tables",
    "list_written_versions",
]

_DESCRIBED: Final[Mapping[str, Callable[[Any], object]]] = {
    "name": lambda one: one.locator,
    "description": lambda one: one.description,
}
_ALIASED: Final[Mapping[str, Callable[[Any], object]]] = {
    "alias": lambda one: one.name,
    "target": lambda one: one.target,
}
TableName: TypeAlias = str | TableLocator | TableIdentity | TableTarget
"""What names a table: its name or canonical string, a locator or the string of one, or what a handle opened."""
NamespaceName: TypeAlias = str | NamespaceLocator | NamedById[NamespaceLocator]
"""What names a namespace: its name or locator, or what a handle opened."""
ViewName: TypeAlias = str | ViewLocator | NamedById[ViewLocator]
"""What names a view: its name or locator, or what a handle opened."""
T = TypeVar("T")
NamespaceT_co = TypeVar("NamespaceT_co", bound=NamespaceSnapshot, covariant=True)
TableT_co = TypeVar("TableT_co", bound=TableSnapshot, covariant=True)
ViewT_co = TypeVar("ViewT_co", bound=ViewSnapshot, covariant=True)


class ReadableCatalog(ABC, Generic[NamespaceT_co, TableT_co, ViewT_co]):
    """Read access to namespaces, tables and views."""

    clients: Mapping[str, CatalogClient]
    """Clients of other catalogs whose tables are federated, by name."""
    engines: Engines | None = None
    """Engines that read and write rows; without them only definitions are available."""

    @abstractmethod
    def _reading(self) -> CatalogReader:
        """Return the catalog state that reads currently use."""

    @abstractmethod
    def _namespace_handle(
        self, locator: NamespaceLocator, value: NamespaceEntry, follows_id: bool = False
    ) -> NamespaceT_co: ...

    @abstractmethod
    def _table_handle(self, locator: TableLocator, value: TableEntry | LoadObject) -> TableT_co: ...

    @abstractmethod
    def _view_handle(self, locator: ViewLocator, value: ViewEntry, follows_id: bool = False) -> ViewT_co: ...

    def __getitem__(self, name: str) -> TableT_co:
        """Return a table by name: `lake["shop.orders"]`."""
        return self.table(name)

    def __contains__(self, name: object) -> bool:
        """Return whether there is an object with a name, canonical string or locator: `"shop.orders" in lake`."""
        try:
            return isinstance(name, str | Locator | TableIdentity) and self.resolve(name) is not None
        except NotFoundError:
            return False

    __iter__ = None
    """Neither namespaces nor tables: `namespaces` and `tables` list them."""

    def namespaces(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Listing[NamespaceT_co]:
        """Return namespaces in order of their names: at most `limit`, starting with `prefix`, following `after`."""
        following = None if after is None else NamespaceLocator(after)
        found = self._reading().children(Kind.NAMESPACE, None, prefix=validate_prefix(prefix), after=following)
        return Listing(self._namespace_handles(islice(found, validate_limit(limit))), _DESCRIBED)

    def _namespace_handles(self, found: Iterable[tuple[Locator, Object]]) -> Iterator[NamespaceT_co]:
        for locator, value in found:
            assert isinstance(locator, NamespaceLocator)
            assert isinstance(value, NamespaceEntry)
            yield self._namespace_handle(locator, value)

    def namespace(self, name: str | NamespaceLocator) -> NamespaceT_co:
        """Return a namespace by name; one that an alias names is followed through renames."""
        given = parse_namespace_argument(name)
        own, value = find_namespace(self._reading(), given)
        return self._namespace_handle(own, value, own != given)

    def tables(
        self,
        namespace: NamespaceName,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int | None = None,
    ) -> Listing[TableT_co]:
        """Return the tables of a namespace in order of their names."""
        reading = self._reading()
        parent, _ = find_namespace(reading, _parse_namespace(namespace))
        following = None if after is None else TableLocator(parent.name, after)
        found = reading.list_children(Kind.TABLE, parent, prefix=validate_prefix(prefix), after=following)
        located = cast("Iterator[tuple[TableLocator, LoadObject]]", islice(found, validate_limit(limit)))
        return Listing(starmap(self._table_handle, located), _DESCRIBED)

    def table(
        self, name: str | Locator | TableIdentity, *, version: int | None = None, stream_id: str | None = None
    ) -> TableT_co:
        """Return a table, or a table version, stream, partition or delta of one, to read its rows and files.

        `shop.orders.version_2` and `shop|orders|2` name a table version, as `version` does. Streams,
        partitions and deltas are named by their canonical strings or locators, a stream also by
        its id; partitions and deltas are read-only. A table that is named by ids, with a locator
        or its string, stays the same through renames.

        >>> lake.table("shop|orders|1|main|deltacat").to_arrow()  # doctest: +SKIP
        """
        reading = self._reading()
        target = resolve_target(reading, name, version, stream_id)
        locator, table = find_table(reading, target.locator)
        if locator != target.locator:
            # An alias follows its table through renames.
            target = replace(target, table_id=table.id)
        return self._table_handle(locator, table)._bind(target)

    def views(
        self,
        namespace: NamespaceName,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int | None = None,
    ) -> Listing[ViewT_co]:
        """Return the views of a namespace in order of their names."""
        reading = self._reading()
        parent, _ = find_namespace(reading, _parse_namespace(namespace))
        following = None if after is None else ViewLocator(parent.name, after)
        found = reading.children(Kind.VIEW, parent, prefix=validate_prefix(prefix), after=following)
        return Listing(self._view_handles(islice(found, validate_limit(limit))), _DESCRIBED)

    def _view_handles(self, found: Iterable[tuple[Locator, Object]]) -> Iterator[ViewT_co]:
        for locator, value in found:
            assert isinstance(locator, ViewLocator)
            assert isinstance(value, ViewEntry)
            yield self._view_handle(locator, value)

    def view(self, name: str | ViewLocator) -> ViewT_co:
        """Return a view by name; one that an alias of its namespace names is followed through renames."""
        given = parse_view_argument(name)
        own, value = find_view(self._reading(), given)
        return self._view_handle(own, value, own != given)

    def resolve(self, name: str | Locator | TableIdentity) -> ResolvedObject:
        """Return the object with a canonical string, a dotted name or a locator, of any of the six kinds.

        The string of a locator begins with a bar.

        >>> lake.resolve("shop|orders|1").value.schema  # doctest: +SKIP
        """
        if isinstance(name, Locator | TableIdentity):
            return resolve_locator(self._reading(), name)
        return resolve_text(self._reading(), name)

    def aliases(self) -> Listing[Alias]:
        """Return the aliases of namespaces and tables in order of their canonical strings."""
        return Listing(map(build_alias, list_aliases(self._reading())), _ALIASED)


Catalog: TypeAlias = ReadableCatalog[NamespaceSnapshot, TableSnapshot, ViewSnapshot]
"""A lakehouse, transaction or snapshot, for reading."""


class WritableCatalog(ABC):
    """Methods that create, alter, rename and drop namespaces, tables and views."""

    clients: Mapping[str, CatalogClient]
    engines: Engines | None = None
    _new_id: Callable[[], str]
    """Returns an id for a new object."""

    @abstractmethod
    def _reading(self) -> CatalogReader:
        """Return the catalog state that reads currently use."""

    @abstractmethod
    def _change(
        self,
        statement: Callable[[StagedTransaction], T],
        message: str = "",
        *,
        is_blind: bool = False,
    ) -> T:
        """Run a statement in a transaction; `message` goes to the history if the statement is committed by itself.

        `is_blind` says that the result does not depend on rows, so that the statement need not
        begin on the newest version.
        """

    @abstractmethod
    def _check_write_privilege(self, reading: CatalogReader, opened: OpenTable) -> None:
        """Raise AccessDeniedError if a principal may not write to the table.

        The commit checks all privileges. This check is before data files are written.
        """

    @abstractmethod
    def _snapshot_at(self, where: int | str | datetime) -> MetastoreSnapshot:
        """Return the version that `where` selects."""

    @abstractmethod
    def _schedule_maintenance(self, target: TableTarget) -> None:
        """Run the maintenance of a table when its writes are committed, once for all of them."""

    @abstractmethod
    def _run_sql(self, text: str, arguments: Arguments, engine: str | None) -> QueryResult | DataFrame: ...

    @overload
    def sql(self, text: str, arguments: Arguments = None, *, engine: Literal["duckdb"]) -> QueryResult: ...
    @overload
    def sql(self, text: str, arguments: Arguments = None, *, engine: Literal["spark"]) -> DataFrame: ...
    @overload
    def sql(self, text: str, arguments: Arguments = None, *, engine: str | None = None) -> Any: ...
    def sql(self, text: str, arguments: Arguments = None, *, engine: str | None = None) -> QueryResult | DataFrame:
        """Run SQL statements, and return the rows of the last one; `arguments` are for `:name` or `?`.

        `engine` is "duckdb" or "spark". By default an active Spark session runs the SQL; without
        one DuckDB does if it is installed, else a new Spark session. The dialect is Spark SQL on
        both. DuckDB computes what is known to have the same result on Spark; an error says of
        anything else that it needs Spark.

        Spark returns a DataFrame. DuckDB returns a `QueryResult`, which computes its rows when
        they are read: `to_arrow(limit=None)`, `to_batches(limit=None)`, `columns` and `schema`,
        a pyarrow schema. `cancel()` ends a read in progress from another thread.

        >>> lake.sql("select id from shop.orders", engine="duckdb").to_arrow(limit=10)  # doctest: +SKIP
        """
        return self._run_sql(text, arguments, engine)

    if TYPE_CHECKING:
        # The other base of every writable catalog lists them.

        def table(
            self, name: str | Locator | TableIdentity, *, version: int | None = None, stream_id: str | None = None
        ) -> Table:
            """Return a table, or one of its table versions or streams."""

        def tables(
            self,
            namespace: NamespaceName,
            prefix: str = "",
            *,
            after: str | None = None,
            limit: int | None = None,
        ) -> Listing[Table]:
            """Return the tables of a namespace in order of their names."""

        def views(
            self,
            namespace: NamespaceName,
            prefix: str = "",
            *,
            after: str | None = None,
            limit: int | None = None,
        ) -> Listing[View]:
            """Return the views of a namespace in order of their names."""

    def _namespace_handle(
        self, locator: NamespaceLocator, value: NamespaceEntry, follows_id: bool = False
    ) -> Namespace:
        return Namespace(self, locator, value, follows_id)

    def _table_handle(self, locator: TableLocator, value: TableEntry | LoadObject) -> Table:
        return Table(self, locator, value)

    def _view_handle(self, locator: ViewLocator, value: ViewEntry, follows_id: bool = False) -> View:
        return View(self, locator, value, follows_id)

    def create_namespace(
        self,
        name: str | NamespaceLocator,
        *,
        properties: Mapping[str, str] = NO_PROPERTIES,
        description: str | None = None,
        if_not_exists: bool = False,
    ) -> Namespace:
        """Create a namespace."""
        locator = parse_namespace_argument(name)

        def statement(transaction: StagedTransaction) -> Namespace:
            workspace = transaction.workspace
            if if_not_exists:
                own, found = locate_namespace(workspace, locator)
                if found is not None:
                    return Namespace(self, own, found)
            made = NamespaceEntry(self._new_id(), locator.name, properties, description)
            create_namespace(workspace, locator, made)
            return Namespace(self, locator, made)

        return self._change(statement, f"create namespace {locator}", is_blind=True)

    def alter_namespace(
        self,
        name: NamespaceName,
        put: Mapping[str, str] = NO_PROPERTIES,
        remove: Iterable[str] | None = (),
        *,
        description: str | None = None,
    ) -> Namespace:
        """Set or remove properties of a namespace, or change its description."""
        locator, gone = _parse_namespace(name), validate_texts(remove, "the properties to remove")

        def statement(transaction: StagedTransaction) -> Namespace:
            workspace = transaction.workspace
            alter_namespace(workspace, locator, put=put, removed=gone, description=description)
            return Namespace(self, *find_namespace(workspace, locator), isinstance(locator, NamedById))

        return self._change(statement, f"alter namespace {locator}")

    def rename_namespace(self, name: NamespaceName, to: str | NamespaceLocator) -> Namespace:
        """Rename a namespace; its tables and views keep their ids and data."""
        old, new = _parse_namespace(name), parse_namespace_argument(to)

        def statement(transaction: StagedTransaction) -> Namespace:
            rename_namespace(transaction.workspace, old, new)
            return Namespace(self, new, load_namespace(transaction.workspace, new))

        return self._change(statement, f"rename namespace {old} to {new}")

    def drop_namespace(self, name: NamespaceName, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Drop an empty namespace, or with `cascade` a namespace and everything in it."""
        locator = _parse_namespace(name)

        def statement(transaction: StagedTransaction) -> None:
            with suppress(NotFoundError) if if_exists else nullcontext():
                drop_namespace(transaction.workspace, locator, cascade=cascade)

        self._change(statement, f"drop namespace {locator}")

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
        """Create a table; `schema` is SQL text, a dict of names and SQL types, a pyarrow schema or a Spark StructType.

        `as_` provides the initial rows, and the columns if no schema is given. `replace`
        replaces an existing table of the same name. `defaults` maps column names to SQL
        expressions, and `checks` maps constraint names to SQL conditions.

        `version` and `stream_id` are the ids of the first table version and stream.

        A `schemaless` table contains files, added with `add_files`, instead of rows.

        The table type is "external" for data at a `location` in a `table_format` that other
        programs maintain, or "federated" for a table of another catalog, which the
        `format_properties` "catalog" and "table" identify.
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
            made = requested(load_namespace(workspace, locator.parent).id, self._new_id)
            (replace_table if replace else create_table)(workspace, locator, made)
            table = Table(self, locator, made.table)
            if checks and self.engines is not None:
                validate_new_checks(self.engines, transaction, table.target)
            if as_ is not None:
                table._fill(transaction, as_)
            return table

        return self._change(statement, f"create table {name}", is_blind=as_ is None and not checks and not replace)

    def _schema_of_rows(self, rows: object) -> Schema:
        if self.engines is None:
            raise InvalidInputError("rows need an engine: open the lakehouse with mangrove.open or mangrove.create")
        engine: Engine = self.engines.spark() if is_spark_frame(rows) else self.engines.local()
        return build_schema(engine.detect_columns(None, rows))

    def alter_table(
        self,
        name: TableName,
        put: Mapping[str, str] = NO_PROPERTIES,
        remove: Iterable[str] | None = (),
        *,
        description: str | None = None,
    ) -> Table:
        """Set or remove properties of a table, or change its description."""
        target, gone = self._parse_table_name(name), validate_texts(remove, "the properties to remove")

        def statement(transaction: StagedTransaction) -> Table:
            workspace = transaction.workspace
            locator, _ = find_target_table(workspace, target)
            validate_property_changes(workspace, TableTarget(locator), put)
            alter_table(workspace, locator, put=put, removed=gone, description=description)
            return Table(self, locator, load_table(workspace, locator), replace(target, locator=locator))

        return self._change(statement, f"alter table {target}")

    def rename_table(self, name: TableName, to: str | TableLocator) -> Table:
        """Rename a table, within its namespace or into another; no data file is moved or rewritten."""
        target, new = self._parse_table_name(name), parse_table_argument(to)

        def statement(transaction: StagedTransaction) -> Table:
            rename_table(transaction.workspace, locate_target(transaction.workspace, target), new)
            locator, table = find_table(transaction.workspace, new)
            return Table(self, locator, table, replace(target, locator=locator))

        return self._change(statement, f"rename table {target} to {new}")

    def drop_table(self, name: TableName, *, if_exists: bool = False) -> None:
        """Drop a table; the data of an external or federated table is not deleted."""
        with suppress(NotFoundError) if if_exists else nullcontext():
            target = self._parse_table_name(name)
            self._change(
                lambda transaction: drop_table(transaction.workspace, locate_target(transaction.workspace, target)),
                f"drop table {target}",
            )

    def _parse_table_name(self, name: TableName) -> TableTarget:
        """Return the table that an argument names; one that is named by ids is looked up."""
        if isinstance(name, TableTarget):
            return name
        if isinstance(name, TableLocator) or (isinstance(name, str) and not is_named_by_ids(name)):
            return TableTarget(parse_table_argument(name))
        target = resolve_target(self._reading(), name)
        if target.kind is not Kind.TABLE:
            raise InvalidInputError(f"{name!r} names a {target.kind.word}; expected a table")
        return target

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
        """Create a view, or with `or_replace` replace an existing view.

        `reads` lists the tables and views that the query reads; by default they are
        extracted from the query. A view that would read itself, directly or through other
        views, is refused.
        """
        locator = parse_view_argument(name)
        found = find_view_references(self.engines, sql, dialect, locator.namespace) if reads is None else reads
        read = validate_texts(found, "what a view reads")
        value = ViewEntry(self._new_id(), locator.name, sql, dialect, None, read, properties, description)

        def statement(transaction: StagedTransaction) -> View:
            create_view(transaction.workspace, locator, value, or_replace=or_replace)
            return View(self, *find_view(transaction.workspace, locator))

        return self._change(statement, f"create view {locator}")

    def alter_view(
        self,
        name: ViewName,
        put: Mapping[str, str] = NO_PROPERTIES,
        remove: Iterable[str] | None = (),
        *,
        description: str | None = None,
    ) -> View:
        """Set or remove properties of a view, or change its description."""
        locator, gone = _parse_view(name), validate_texts(remove, "the properties to remove")

        def statement(transaction: StagedTransaction) -> View:
            alter_view(transaction.workspace, locator, put=put, removed=gone, description=description)
            return View(self, *find_view(transaction.workspace, locator), isinstance(locator, NamedById))

        return self._change(statement, f"alter view {locator}")

    def rename_view(self, name: ViewName, to: str | ViewLocator) -> View:
        """Rename a view, within its namespace or into another."""
        old, new = _parse_view(name), parse_view_argument(to)

        def statement(transaction: StagedTransaction) -> View:
            rename_view(transaction.workspace, old, new)
            return View(self, *find_view(transaction.workspace, new))

        return self._change(statement, f"rename view {old} to {new}")

    def drop_view(self, name: ViewName, *, if_exists: bool = False) -> None:
        """Drop a view; the tables and views that it reads remain."""
        locator = _parse_view(name)

        def statement(transaction: StagedTransaction) -> None:
            with suppress(NotFoundError) if if_exists else nullcontext():
                drop_view(transaction.workspace, locator)

        self._change(statement, f"drop view {locator}")

    def create_alias(
        self, name: str | Named, target: str | Named | TableIdentity, *, if_not_exists: bool = False
    ) -> Alias:
        """Create an alias of a namespace or table; it follows its target through renames.

        Reads and changes accept the alias. To rename or drop the target, use its own name.
        An alias must not have the name of a namespace, or of a table or view beside it.
        `if_not_exists` accepts an existing alias of the same target.

        >>> lake.create_alias("shop.purchases", "shop.orders")  # doctest: +SKIP
        """
        alias = parse_named_argument(name)
        of: TableTarget | Named
        if isinstance(target, TableIdentity) or (isinstance(target, str) and is_named_by_ids(target)):
            of = self._parse_table_name(target)
        else:
            of = parse_named_argument(target)

        def statement(transaction: StagedTransaction) -> Alias:
            workspace = transaction.workspace
            named = locate_target(workspace, of) if isinstance(of, TableTarget) else of
            return build_alias(create_alias(workspace, alias, named, self._new_id(), if_not_exists=if_not_exists))

        return self._change(statement, f"create alias {alias} of {of}")

    def drop_alias(self, name: str | Named, *, if_exists: bool = False) -> None:
        """Drop an alias; its namespace or table remains."""
        alias = parse_named_argument(name)

        def statement(transaction: StagedTransaction) -> None:
            if not if_exists or find_alias(transaction.workspace, alias) is not None:
                drop_alias(transaction.workspace, alias)

        self._change(statement, f"drop alias {alias}")


def _parse_namespace(name: NamespaceName) -> NamespaceLocator | NamedById[NamespaceLocator]:
    return name if isinstance(name, NamedById) else parse_namespace_argument(name)


def _parse_view(name: ViewName) -> ViewLocator | NamedById[ViewLocator]:
    return name if isinstance(name, NamedById) else parse_view_argument(name)


class CompactOptions(TypedDict, total=False):
    """Options of a compaction."""

    engine: str | None
    bytes_max: int | None
    files_max: int | None
    full: bool
    watch: ProgressCallback


def list_managed_tables(catalog: ReadableCatalog[Namespace, Table, View]) -> list[Table]:
    """Return the managed tables in order of their names, one entry for each table version that is not deleted."""
    found = (table for namespace in catalog.namespaces() for table in namespace.tables())
    return [one for table in found if table.table_type is TableType.MANAGED for one in list_written_versions(table)]


def list_written_versions(table: Table) -> list[Table]:
    """Return the table itself if its only version is active, else a handle for each version that is not deleted."""
    if table.value.latest_table_version == table.value.latest_active_table_version == 1:
        return [table]
    deleted = TableVersionState.DELETED.value
    return [table.version(one.version) for one in table.versions() if one.state != deleted]


def compact_tables(tables: list[Table], **options: Unpack[CompactOptions]) -> dict[str, CompactionReport]:
    """Compact tables, and return the reports of those that changed, by table name."""
    reports: dict[str, CompactionReport] = {}
    for table in tables:
        try:
            if table.schema is None:
                continue
            report = table.compact(**options)
        except NotFoundError:
            if table.catalog._reading().get(table.locator) is not None:
                raise
            continue
        if report.logs:
            reports[str(table)] = report
    return reports
