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
    """Interface through which a view is read: a lakehouse, a transaction or a snapshot."""

    def reading(self) -> CatalogReader:
        """Return the catalog state that reads currently use."""
        ...


class ViewSnapshot:
    """A read-only view, as of the lookup."""

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
        """Name of the view within its namespace."""
        return self.locator.name

    @property
    def id(self) -> str:
        """Id of the view, which does not change when it is renamed."""
        return self.value.id

    @property
    def sql(self) -> str:
        """Query of the view."""
        return self.value.sql

    @property
    def reads(self) -> tuple[str, ...]:
        """Tables and views that the query reads."""
        return self.value.reads

    @property
    def properties(self) -> Mapping[str, str]:
        """Properties set by users."""
        return self.value.properties

    @property
    def description(self) -> str | None:
        """Description set by the user, or None."""
        return self.value.description


class View(ViewSnapshot):
    """A view of a lakehouse or a transaction, which can be altered."""

    catalog: WritableCatalog

    def __init__(self, catalog: WritableCatalog, locator: ViewLocator, value: ViewEntry) -> None:
        super().__init__(catalog, locator, value)

    def alter(
        self, put: Mapping[str, str] = NO_PROPERTIES, remove: Iterable[str] | None = (), description: str | None = None
    ) -> View:
        """Set or remove properties, or change the description."""
        return self.catalog.alter_view(self.locator, put, remove, description=description)

    def rename(self, name: str | ViewLocator) -> View:
        """Rename the view, within its namespace or into another; this object then has the new name."""
        renamed = self.catalog.rename_view(self.locator, name)
        self.locator, self.value = renamed.locator, renamed.value
        return renamed

    def drop(self) -> None:
        """Drop the view."""
        self.catalog.drop_view(self.locator)
