"""View handles: read-only ones of snapshots, and writable ones of lakehouses and transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from mangrove.model.locators import ViewLocator
from mangrove.model.objects import ViewEntry
from mangrove.model.properties import NO_PROPERTIES

if TYPE_CHECKING:
    from mangrove.lakehouse.catalog import WritableCatalog
    from mangrove.transaction.catalog import CatalogReader

__all__ = ["View", "ViewReader", "ViewSnapshot"]


class ViewReader(Protocol):
    """What a view is read through: a lakehouse, a transaction or a snapshot."""

    def reading(self) -> CatalogReader:
        """Return where objects are read from now."""
        ...


class ViewSnapshot:
    """A view that is only read, as of the lookup."""

    def __init__(self, catalog: ViewReader, locator: ViewLocator, value: ViewEntry) -> None:
        self.catalog = catalog
        self.locator = locator
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.catalog, self.locator, self.value)

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


class View(ViewSnapshot):
    """A view of a lakehouse or a transaction, which can be altered."""

    catalog: WritableCatalog

    def __init__(self, catalog: WritableCatalog, locator: ViewLocator, value: ViewEntry) -> None:
        super().__init__(catalog, locator, value)

    def alter(
        self, put: Mapping[str, str] = NO_PROPERTIES, remove: Iterable[str] | None = (), description: str | None = None
    ) -> View:
        """Put or remove properties, or describe it anew."""
        return self.catalog.alter_view(self.locator, put, remove, description=description)

    def rename(self, name: str | ViewLocator) -> View:
        """Give it another name, in its namespace or in another."""
        return self.catalog.rename_view(self.locator, name)

    def drop(self) -> None:
        """Drop it."""
        self.catalog.drop_view(self.locator)
