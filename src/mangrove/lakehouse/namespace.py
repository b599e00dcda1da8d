"""Namespace handles: read-only ones of snapshots, and writable ones of lakehouses and transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from mangrove.model.locators import AliasLocator, NamespaceLocator
from mangrove.model.objects import NamespaceEntry
from mangrove.model.properties import NO_PROPERTIES
from mangrove.transaction.aliases import list_aliases

if TYPE_CHECKING:
    from mangrove.lakehouse.catalog import WritableCatalog
    from mangrove.lakehouse.table import Table
    from mangrove.lakehouse.table_snapshot import TableSnapshot
    from mangrove.lakehouse.view import View, ViewSnapshot
    from mangrove.transaction.catalog import CatalogReader

__all__ = ["Namespace", "NamespaceReader", "NamespaceSnapshot"]


class NamespaceReader(Protocol):
    """What a namespace is read through: a lakehouse, a transaction or a snapshot."""

    def reading(self) -> CatalogReader:
        """Return where objects are read from now."""
        ...

    def tables(self, namespace: str | NamespaceLocator, prefix: str = "") -> Iterator[TableSnapshot]:
        """Yield the tables of a namespace."""
        ...

    def views(self, namespace: str | NamespaceLocator, prefix: str = "") -> Iterator[ViewSnapshot]:
        """Yield the views of a namespace."""
        ...


class NamespaceSnapshot:
    """A namespace that is only read, with the properties of the lookup."""

    def __init__(self, catalog: NamespaceReader, locator: NamespaceLocator, value: NamespaceEntry) -> None:
        self.catalog = catalog
        self.locator = locator
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.catalog, self.locator, self.value)

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
    def aliases(self) -> tuple[str, ...]:
        """Its other names."""
        return tuple(str(AliasLocator(one.name)) for one in list_aliases(self.catalog.reading(), self.locator))

    @property
    def properties(self) -> Mapping[str, str]:
        """What people attached to it."""
        return self.value.properties

    @property
    def description(self) -> str | None:
        """What people say that it is for."""
        return self.value.description

    def tables(self, prefix: str = "") -> Iterator[TableSnapshot]:
        """Yield its tables in order of their names."""
        return self.catalog.tables(self.locator, prefix=prefix)

    def views(self, prefix: str = "") -> Iterator[ViewSnapshot]:
        """Yield its views in order of their names."""
        return self.catalog.views(self.locator, prefix=prefix)


class Namespace(NamespaceSnapshot):
    """A namespace of a lakehouse or a transaction, which can be altered."""

    catalog: WritableCatalog

    def __init__(self, catalog: WritableCatalog, locator: NamespaceLocator, value: NamespaceEntry) -> None:
        super().__init__(catalog, locator, value)

    def tables(self, prefix: str = "") -> Iterator[Table]:
        """Yield its tables in order of their names."""
        return self.catalog.tables(self.locator, prefix=prefix)

    def views(self, prefix: str = "") -> Iterator[View]:
        """Yield its views in order of their names."""
        return self.catalog.views(self.locator, prefix=prefix)

    def alter(
        self, put: Mapping[str, str] = NO_PROPERTIES, remove: Iterable[str] | None = (), description: str | None = None
    ) -> Namespace:
        """Put or remove properties, or describe it anew."""
        return self.catalog.alter_namespace(self.locator, put, remove, description=description)

    def rename(self, name: str) -> Namespace:
        """Give it another name."""
        return self.catalog.rename_namespace(self.locator, NamespaceLocator(name))

    def drop(self, *, cascade: bool = False) -> None:
        """Drop it, with `cascade` together with all that is in it."""
        self.catalog.drop_namespace(self.locator, cascade=cascade)
