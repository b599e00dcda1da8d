"""Handles of namespaces, tables and views."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.new_table import FEDERATED_CATALOG, FEDERATED_TABLE
from mangrove.lakehouse.table import TableOutputs
from mangrove.model.locators import DeltaLocator, NamespaceLocator, PartitionLocator, TableLocator, ViewLocator
from mangrove.model.objects import Delta, Namespace, Partition, Table, TableType, View
from mangrove.model.partitioning import format_partition_field, format_sort_field
from mangrove.model.properties import NO_PROPERTIES
from mangrove.model.schema import Schema
from mangrove.transaction.deltas import OpenTable, open_table, scan_deltas_of_partitions, scan_partitions

if TYPE_CHECKING:
    # The catalog makes these and these call it back.
    from mangrove.lakehouse.catalog import Catalog, CatalogViews

__all__ = ["CatalogClient", "LakeNamespace", "LakeTable", "LakeView"]


class CatalogClient(Protocol):
    """What a lakehouse asks of another catalog about the tables that it federates."""

    def schema_of(self, table: str) -> Schema:
        """Return the columns of the other catalog's table."""
        ...


class LakeNamespace:
    """A namespace, with the properties that it had when it was looked up."""

    def __init__(self, catalog: "Catalog", locator: NamespaceLocator, value: Namespace) -> None:
        self.catalog = catalog
        self.locator = locator
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return LakeNamespace, (self.catalog, self.locator, self.value)

    def __str__(self) -> str:
        return str(self.locator)

    def __repr__(self) -> str:
        return f"<namespace {self.locator}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self.locator.name

    @property
    def id(self) -> str:
        """What stays when its name changes."""
        return self.value.id

    @property
    def properties(self) -> Mapping[str, str]:
        """What people attached to it."""
        return self.value.properties

    @property
    def description(self) -> str | None:
        """What people say that it is for."""
        return self.value.description

    def tables(self, prefix: str = "") -> "Iterator[LakeTable]":
        """Yield its tables in order of their names."""
        return self.catalog.tables(self.locator, prefix=prefix)

    def views(self, prefix: str = "") -> "Iterator[LakeView]":
        """Yield its views in order of their names."""
        return self.catalog.views(self.locator, prefix=prefix)

    def alter(
        self, put: Mapping[str, str] = NO_PROPERTIES, remove: Iterable[str] | None = (), description: str | None = None
    ) -> "LakeNamespace":
        """Put or remove properties, or describe it anew."""
        return self.catalog.alter_namespace(self.locator, put, remove, description=description)

    def rename(self, name: str) -> "LakeNamespace":
        """Give it another name."""
        return self.catalog.rename_namespace(self.locator, NamespaceLocator(name))

    def drop(self, *, cascade: bool = False) -> None:
        """Drop it, with `cascade` together with all that is in it."""
        self.catalog.drop_namespace(self.locator, cascade=cascade)


class LakeTable(TableOutputs):
    """A table. Its entry is as it was when it was looked up; its columns, partitions and deltas are as they are now."""

    def __init__(self, catalog: "Catalog", locator: TableLocator, value: Table) -> None:
        self.catalog = catalog
        self.locator = locator
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return LakeTable, (self.catalog, self.locator, self.value)

    def __str__(self) -> str:
        return str(self.locator)

    def __repr__(self) -> str:
        return f"<{self.value.table_type.value} table {self.locator}>"

    @property
    def name(self) -> str:
        """Its name within its namespace."""
        return self.locator.name

    @property
    def id(self) -> str:
        """What stays when its name changes."""
        return self.value.id

    @property
    def table_type(self) -> TableType:
        """Who keeps its data."""
        return self.value.table_type

    @property
    def location(self) -> str | None:
        """Where an external table's data lies."""
        return self.value.location

    @property
    def properties(self) -> Mapping[str, str]:
        """What people attached to it."""
        return self.value.properties

    @property
    def description(self) -> str | None:
        """What people say that it is for."""
        return self.value.description

    @property
    def schema(self) -> Schema | None:
        """Its columns; None where nobody says them."""
        if self.table_type is TableType.MANAGED:
            return self.opened().version.schema
        if self.value.schema is not None or self.table_type is TableType.EXTERNAL:
            return self.value.schema
        return self._client().schema_of(self.value.format_properties[FEDERATED_TABLE])

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the columns that identify a row."""
        if self.table_type is TableType.MANAGED:
            version = self.opened().version
            return _names(version.schema, version.keys)
        return _names(self.value.schema, self.value.keys)

    @property
    def partition_by(self) -> tuple[str, ...]:
        """By what its rows are grouped, in the words of `create_table`."""
        version = self.opened().version
        if version.schema is None:
            return ()
        return tuple(format_partition_field(field, version.schema) for field in version.partition_scheme.fields)

    @property
    def sort_by(self) -> tuple[str, ...]:
        """By what the rows of its files are ordered."""
        version = self.opened().version
        if version.schema is None:
            return ()
        return tuple(format_sort_field(field, version.schema) for field in version.sort_scheme.fields)

    def opened(self) -> OpenTable:
        """Return its table version and stream, from which its rows are planned."""
        return open_table(self.catalog.reading(), self.locator)

    def partitions(self) -> Iterator[tuple[PartitionLocator, Partition]]:
        """Yield its partitions."""
        reading = self.catalog.reading()
        return scan_partitions(reading, open_table(reading, self.locator))

    def deltas(self) -> Iterator[tuple[DeltaLocator, Delta]]:
        """Yield its deltas, partition by partition, each in the order in which they apply."""
        reading = self.catalog.reading()
        return scan_deltas_of_partitions(
            reading, [way for way, _ in scan_partitions(reading, open_table(reading, self.locator))]
        )

    def alter(
        self, put: Mapping[str, str] = NO_PROPERTIES, remove: Iterable[str] | None = (), description: str | None = None
    ) -> "LakeTable":
        """Put or remove properties, or describe it anew."""
        return self.catalog.alter_table(self.locator, put, remove, description=description)

    def rename(self, name: str | TableLocator) -> "LakeTable":
        """Give it another name, in its namespace or in another."""
        return self.catalog.rename_table(self.locator, name)

    def drop(self) -> None:
        """Drop it."""
        self.catalog.drop_table(self.locator)

    def _client(self) -> CatalogClient:
        catalog = self.value.format_properties[FEDERATED_CATALOG]
        client = self.catalog.clients.get(catalog)
        if client is None:
            raise InvalidInputError(
                f"{self.locator} lies in the catalog {catalog!r}, for which there is no client here: "
                f"open the lakehouse with clients={{{catalog!r}: …}}"
            )
        return client


class LakeView:
    """A view, as it was when it was looked up."""

    def __init__(self, catalog: "CatalogViews", locator: ViewLocator, value: View) -> None:
        self.catalog = catalog
        self.locator = locator
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return LakeView, (self.catalog, self.locator, self.value)

    def __str__(self) -> str:
        return str(self.locator)

    def __repr__(self) -> str:
        return f"<view {self.locator}>"

    @property
    def name(self) -> str:
        """Its name within its namespace."""
        return self.locator.name

    @property
    def id(self) -> str:
        """What stays when its name changes."""
        return self.value.id

    @property
    def sql(self) -> str:
        """The query that it stands for."""
        return self.value.sql

    @property
    def reads(self) -> tuple[str, ...]:
        """The tables and views that the query reads."""
        return self.value.reads

    @property
    def properties(self) -> Mapping[str, str]:
        """What people attached to it."""
        return self.value.properties

    @property
    def description(self) -> str | None:
        """What people say that it is for."""
        return self.value.description

    def alter(
        self, put: Mapping[str, str] = NO_PROPERTIES, remove: Iterable[str] | None = (), description: str | None = None
    ) -> "LakeView":
        """Put or remove properties, or describe it anew."""
        return self.catalog.alter_view(self.locator, put, remove, description=description)

    def rename(self, name: str | ViewLocator) -> "LakeView":
        """Give it another name, in its namespace or in another."""
        return self.catalog.rename_view(self.locator, name)

    def drop(self) -> None:
        """Drop it."""
        self.catalog.drop_view(self.locator)


def _names(schema: Schema | None, ids: tuple[int, ...]) -> tuple[str, ...]:
    return () if schema is None else tuple(schema.column_with_id(one).name for one in ids)
