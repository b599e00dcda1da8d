"""View handles: read-only ones of snapshots, and writable ones of lakehouses and transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from mangrove.errors import NotFoundError
from mangrove.model.locators import ViewLocator
from mangrove.model.objects import ViewEntry
from mangrove.model.properties import NO_PROPERTIES
from mangrove.transaction.catalog import NamedById, find_view

if TYPE_CHECKING:
    from mangrove.lakehouse.catalog import WritableCatalog
    from mangrove.transaction.catalog import CatalogReader

__all__ = ["View", "ViewReader", "ViewSnapshot"]


class ViewReader(Protocol):
    """Interface through which a view is read: a lakehouse, a transaction or a snapshot."""

    def _reading(self) -> CatalogReader:
        """Return the catalog state that reads currently use."""
        ...


class ViewSnapshot:
    """A read-only view, as of the lookup.

    One that was looked up by an alias of its namespace stays the same through renames: its
    `follows_id` is true.
    """

    def __init__(self, catalog: ViewReader, locator: ViewLocator, value: ViewEntry, follows_id: bool = False) -> None:
        self.catalog = catalog
        self.value = value
        self._locator = locator
        self._follows_id = follows_id

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.catalog, self._locator, self.value, self._follows_id)

    def __str__(self) -> str:
        return str(self.locator)

    def __repr__(self) -> str:
        return f"<view {self.locator}>"

    @property
    def locator(self) -> ViewLocator:
        """Locator of the view: the name that was looked up, or the current one after a lookup by an alias."""
        if self._follows_id:
            with suppress(NotFoundError):
                self._locator, self.value = find_view(self.catalog._reading(), self._reference)
        return self._locator

    @property
    def _reference(self) -> ViewLocator | NamedById[ViewLocator]:
        return NamedById(self._locator, self.id) if self._follows_id else self._locator

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

    def __init__(
        self, catalog: WritableCatalog, locator: ViewLocator, value: ViewEntry, follows_id: bool = False
    ) -> None:
        super().__init__(catalog, locator, value, follows_id)

    def alter(
        self, put: Mapping[str, str] = NO_PROPERTIES, remove: Iterable[str] | None = (), description: str | None = None
    ) -> View:
        """Set or remove properties, or change the description."""
        return self.catalog.alter_view(self._reference, put, remove, description=description)

    def rename(self, name: str | ViewLocator) -> View:
        """Rename the view, within its namespace or into another; this object then has the new name."""
        renamed = self.catalog.rename_view(self._reference, name)
        self._locator, self.value = renamed.locator, renamed.value
        return renamed

    def drop(self) -> None:
        """Drop the view."""
        self.catalog.drop_view(self._reference)
