"""What can be asked of namespaces and tables, and beside them of views, wherever they are seen.

A lakehouse shows the newest version and commits each statement by itself, a
transaction shows its own writes and keeps statements until it ends, a past
version shows what was and refuses to change. All three are catalogs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Unpack, overload

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.arguments import checked_limit, checked_prefix, checked_texts, meant_namespace
from mangrove.lakehouse.catalog_views import CatalogViews
from mangrove.lakehouse.compacting import compact_tables, managed_tables
from mangrove.lakehouse.handles import LakeNamespace, LakeTable
from mangrove.lakehouse.new_tables import new_table, schema_of_columns
from mangrove.lakehouse.row_engines import Engine
from mangrove.lakehouse.row_frames import is_spark_frame, repeatable
from mangrove.lakehouse.table_staging import check_heeded_of
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator, parse_table_name
from mangrove.model.objects import Namespace, Table, TableType
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.schema import Schema
from mangrove.transaction import namespaces, tables
from mangrove.transaction.names import found_namespace, found_table
from mangrove.transaction.transaction import Transaction

if TYPE_CHECKING:
    from mangrove.lakehouse.compacting import CompactOptions
    from mangrove.tables.compaction import CompactionReport

__all__ = ["Catalog", "parsed_table"]


class Catalog(CatalogViews):
    """Namespaces with their tables and views."""

    # Namespaces

    def namespaces(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[LakeNamespace]:
        """Yield the namespaces in order of their names: those that start with `prefix`, come after `after`, so many."""
        following = None if after is None else NamespaceLocator(after)
        found = self.reading().children(Kind.NAMESPACE, None, prefix=checked_prefix(prefix), after=following)
        for locator, value in islice(found, checked_limit(limit)):
            assert isinstance(locator, NamespaceLocator)
            assert isinstance(value, Namespace)
            yield LakeNamespace(self, locator, value)

    def namespace(self, name: str | NamespaceLocator) -> LakeNamespace:
        """Return a namespace."""
        locator = meant_namespace(name)
        return LakeNamespace(self, locator, found_namespace(self.reading(), locator))

    def create_namespace(
        self,
        name: str | NamespaceLocator,
        *,
        properties: Mapping[str, str] = NO_PROPERTIES,
        description: str | None = None,
        if_not_exists: bool = False,
    ) -> LakeNamespace:
        """Make a namespace."""
        locator = meant_namespace(name)

        def statement(transaction: Transaction) -> LakeNamespace:
            workspace = transaction.workspace
            there = workspace.get(locator) if if_not_exists else None
            if not isinstance(there, Namespace):
                there = Namespace(self.new_id(), locator.name, properties, description)
                namespaces.create_namespace(workspace, locator, there)
            return LakeNamespace(self, locator, there)

        return self.change(statement, f"create namespace {locator}")

    def alter_namespace(
        self,
        name: str | NamespaceLocator,
        put: Mapping[str, str] = NO_PROPERTIES,
        remove: Iterable[str] | None = (),
        *,
        description: str | None = None,
    ) -> LakeNamespace:
        """Put or remove properties of a namespace, or describe it anew."""
        locator, gone = meant_namespace(name), checked_texts(remove, "the properties to remove")

        def statement(transaction: Transaction) -> LakeNamespace:
            workspace = transaction.workspace
            namespaces.alter_namespace(workspace, locator, put=put, removed=gone, description=description)
            return LakeNamespace(self, locator, found_namespace(workspace, locator))

        return self.change(statement, f"alter namespace {locator}")

    def rename_namespace(self, name: str | NamespaceLocator, to: str | NamespaceLocator) -> LakeNamespace:
        """Give a namespace another name; its tables and views come along untouched."""
        old, new = meant_namespace(name), meant_namespace(to)

        def statement(transaction: Transaction) -> LakeNamespace:
            namespaces.rename_namespace(transaction.workspace, old, new)
            return LakeNamespace(self, new, found_namespace(transaction.workspace, new))

        return self.change(statement, f"rename namespace {old} to {new}")

    def drop_namespace(self, name: str | NamespaceLocator, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Drop a namespace that is empty, or with `cascade` together with all that is in it."""
        locator = meant_namespace(name)

        def statement(transaction: Transaction) -> None:
            if not if_exists or transaction.workspace.get(locator) is not None:
                namespaces.drop_namespace(transaction.workspace, locator, cascade=cascade)

        self.change(statement, f"drop namespace {locator}")

    # Tables

    def tables(
        self,
        namespace: str | NamespaceLocator,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int | None = None,
    ) -> Iterator[LakeTable]:
        """Yield the tables of a namespace in order of their names."""
        reading, parent = self.reading(), meant_namespace(namespace)
        found_namespace(reading, parent)
        following = None if after is None else TableLocator(parent.name, after)
        found = reading.children(Kind.TABLE, parent, prefix=checked_prefix(prefix), after=following)
        for locator, value in islice(found, checked_limit(limit)):
            assert isinstance(locator, TableLocator)
            assert isinstance(value, Table)
            yield LakeTable(self, locator, value)

    def table(self, name: str | TableLocator) -> LakeTable:
        """Return a table."""
        locator = parsed_table(name)
        return LakeTable(self, locator, found_table(self.reading(), locator))

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
        as_: object | None = None,
        replace: bool = False,
        if_not_exists: bool = False,
    ) -> LakeTable:
        """Make a table; `schema` is SQL text, a dict of names and SQL types, a pyarrow schema or a Spark StructType.

        With `as_` it has these rows from the start, and their columns where no schema
        is given; with `replace` it takes the place of a table of its name. `defaults`
        and `checks` are SQL text, by the names of columns and by names of their own.

        A table whose data others keep is of the type "external", with a location and
        a format, or "federated", with the `format_properties` "catalog" and "table".
        """
        locator, as_ = parsed_table(name), repeatable(as_)
        asked = partial(
            new_table, locator, schema=self._schema_of_rows(as_) if schema is None and as_ is not None else schema,
            checks=checks, defaults=defaults, keys=checked_texts(keys, "the keys"),
            partition_by=checked_texts(partition_by, "the partition fields"),
            sort_by=checked_texts(sort_by, "the sort fields"),
            table_type=table_type, table_format=table_format, location=location, format_properties=format_properties,
            properties=properties, description=description,
        )  # fmt: skip

        def statement(transaction: Transaction) -> LakeTable:
            workspace = transaction.workspace
            there = workspace.get(locator) if if_not_exists or replace else None
            if isinstance(there, Table) and not replace:
                return LakeTable(self, locator, there)
            if isinstance(there, Table):
                tables.drop_table(workspace, locator)
            made = asked(found_namespace(workspace, locator.parent).id, self.new_id)
            tables.create_table(workspace, locator, made)
            table = LakeTable(self, locator, made.table)
            if checks and self.engines is not None:
                table.try_checks(transaction)
            if as_ is not None:
                table.fill(transaction, as_)
            return table

        return self.change(statement, f"create table {locator}")

    def _schema_of_rows(self, rows: object) -> Schema:
        if self.engines is None:
            raise InvalidInputError("rows need an engine: open the lakehouse with mangrove.open or mangrove.create")
        engine: Engine = self.engines.spark() if is_spark_frame(rows) else self.engines.local()
        return schema_of_columns(engine.given_columns(None, rows))

    def alter_table(
        self,
        name: str | TableLocator,
        put: Mapping[str, str] = NO_PROPERTIES,
        remove: Iterable[str] | None = (),
        *,
        description: str | None = None,
    ) -> LakeTable:
        """Put or remove properties of a table, or describe it anew."""
        locator, gone = parsed_table(name), checked_texts(remove, "the properties to remove")

        def statement(transaction: Transaction) -> LakeTable:
            workspace = transaction.workspace
            check_heeded_of(workspace, locator, put)
            tables.alter_table(workspace, locator, put=put, removed=gone, description=description)
            return LakeTable(self, locator, found_table(workspace, locator))

        return self.change(statement, f"alter table {locator}")

    def rename_table(self, name: str | TableLocator, to: str | TableLocator) -> LakeTable:
        """Give a table another name, in its namespace or in another; however much lies below, it stays where it is."""
        old, new = parsed_table(name), parsed_table(to)

        def statement(transaction: Transaction) -> LakeTable:
            tables.rename_table(transaction.workspace, old, new)
            return LakeTable(self, new, found_table(transaction.workspace, new))

        return self.change(statement, f"rename table {old} to {new}")

    @overload
    def compact(self, name: str | TableLocator, **options: Unpack[CompactOptions]) -> CompactionReport: ...

    @overload
    def compact(self, name: None = None, **options: Unpack[CompactOptions]) -> dict[str, CompactionReport]: ...

    def compact(
        self, name: str | TableLocator | None = None, **options: Unpack[CompactOptions]
    ) -> CompactionReport | dict[str, CompactionReport]:
        """Merge what was written to a table into files that need no merging; others may write meanwhile.

        Without a name it goes through all tables, each in a commit of its own, and returns
        the reports of those in which there was something to do, by name. The options are
        those of the table's own `compact`; bounds are for each table.
        """
        return compact_tables(managed_tables(self), **options) if name is None else self.table(name).compact(**options)

    def drop_table(self, name: str | TableLocator, *, if_exists: bool = False) -> None:
        """Drop a table; the data of an external or federated one stays."""
        locator = parsed_table(name)

        def statement(transaction: Transaction) -> None:
            if not if_exists or transaction.workspace.get(locator) is not None:
                tables.drop_table(transaction.workspace, locator)

        self.change(statement, f"drop table {locator}")


def parsed_table(name: str | TableLocator) -> TableLocator:
    """Return the table that is meant."""
    return name if isinstance(name, TableLocator) else parse_table_name(name)
