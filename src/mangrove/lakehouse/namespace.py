"""Namespace handles: read-only ones of snapshots, and writable ones of lakehouses and transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from mangrove.errors import NotFoundError
from mangrove.lakehouse.listing import SHOWN_MAX, Listing, render_html
from mangrove.model.locators import AliasLocator, NamespaceLocator, TableIdentity, TableLocator
from mangrove.model.objects import NamespaceEntry
from mangrove.model.properties import NO_PROPERTIES
from mangrove.transaction.aliases import list_aliases
from mangrove.transaction.catalog import NamedById, find_namespace

if TYPE_CHECKING:
    from mangrove.lakehouse.catalog import WritableCatalog
    from mangrove.lakehouse.table import Table
    from mangrove.lakehouse.table_snapshot import TableSnapshot
    from mangrove.lakehouse.view import View, ViewSnapshot
    from mangrove.transaction.catalog import CatalogReader

__all__ = ["Namespace", "NamespaceReader", "NamespaceSnapshot"]


class NamespaceReader(Protocol):
    """Interface through which a namespace is read: a lakehouse, a transaction or a snapshot."""

    def _reading(self) -> CatalogReader:
        """Return the catalog state that reads currently use."""
        ...

    def tables(
        self, namespace: str | NamespaceLocator | NamedById[NamespaceLocator], prefix: str = ""
    ) -> Listing[TableSnapshot]:
        """Return the tables of a namespace."""
        ...

    def views(
        self, namespace: str | NamespaceLocator | NamedById[NamespaceLocator], prefix: str = ""
    ) -> Listing[ViewSnapshot]:
        """Return the views of a namespace."""
        ...

    def table(self, name: str | TableLocator | TableIdentity) -> TableSnapshot:
        """Return a table by name or ids."""
        ...


class NamespaceSnapshot:
    """A read-only namespace, with the properties as of the lookup.

    A namespace that was looked up by its name is the one that has the name at each use. One
    that was looked up by an alias stays the same through renames: its `follows_id` is true.
    """

    def __init__(
        self, catalog: NamespaceReader, locator: NamespaceLocator, value: NamespaceEntry, follows_id: bool = False
    ) -> None:
        self.catalog = catalog
        self.value = value
        self._locator = locator
        self._follows_id = follows_id

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.catalog, self._locator, self.value, self._follows_id)

    def __str__(self) -> str:
        return str(self.locator)

    def __repr__(self) -> str:
        return f"<namespace {self.locator}>"

    def _repr_html_(self) -> str:
        rows = [("table", one.name, one.description) for one in self.tables()[:SHOWN_MAX]]
        rows += [("view", one.name, one.description) for one in self.views()[:SHOWN_MAX]]
        title = f"namespace {self.locator}"
        return render_html(title, ("kind", "name", "description"), rows, note=self.description or "")

    def __getitem__(self, name: str) -> TableSnapshot:
        """Return a table of the namespace by name: `shop["orders"]`."""
        table = self.catalog.table(TableLocator(self.name, name))
        return self.catalog.table(table.identity) if self._follows_id else table

    @property
    def locator(self) -> NamespaceLocator:
        """Locator of the namespace: the name that was looked up, or the current one after a lookup by an alias."""
        if self._follows_id:
            with suppress(NotFoundError):
                self._locator, self.value = find_namespace(self.catalog._reading(), self._reference)
        return self._locator

    @property
    def _reference(self) -> NamespaceLocator | NamedById[NamespaceLocator]:
        return NamedById(self._locator, self.id) if self._follows_id else self._locator

    @property
    def name(self) -> str:
        """Name of the namespace."""
        return self.locator.name

    @property
    def id(self) -> str:
        """Id of the namespace, which does not change when it is renamed."""
        return self.value.id

    @property
    def aliases(self) -> tuple[str, ...]:
        """Aliases of the namespace."""
        return tuple(str(AliasLocator(one.name)) for one in list_aliases(self.catalog._reading(), self.locator))

    @property
    def properties(self) -> Mapping[str, str]:
        """Properties set by users."""
        return self.value.properties

    @property
    def description(self) -> str | None:
        """Description set by the user, or None."""
        return self.value.description

    def tables(self, prefix: str = "") -> Listing[TableSnapshot]:
        """Return the tables of the namespace in order of their names."""
        return self.catalog.tables(self._reference, prefix=prefix)

    def views(self, prefix: str = "") -> Listing[ViewSnapshot]:
        """Return the views of the namespace in order of their names."""
        return self.catalog.views(self._reference, prefix=prefix)


class Namespace(NamespaceSnapshot):
    """A namespace of a lakehouse or a transaction, which can be altered."""

    catalog: WritableCatalog

    def __init__(
        self, catalog: WritableCatalog, locator: NamespaceLocator, value: NamespaceEntry, follows_id: bool = False
    ) -> None:
        super().__init__(catalog, locator, value, follows_id)

    if TYPE_CHECKING:
        # The tables of a writable catalog are writable.

        def __getitem__(self, name: str) -> Table:
            """Return a table of the namespace by name: `shop["orders"]`."""

    def tables(self, prefix: str = "") -> Listing[Table]:
        """Return the tables of the namespace in order of their names."""
        return self.catalog.tables(self._reference, prefix=prefix)

    def views(self, prefix: str = "") -> Listing[View]:
        """Return the views of the namespace in order of their names."""
        return self.catalog.views(self._reference, prefix=prefix)

    def alter(
        self, put: Mapping[str, str] = NO_PROPERTIES, remove: Iterable[str] | None = (), description: str | None = None
    ) -> Namespace:
        """Set or remove properties, or change the description."""
        return self.catalog.alter_namespace(self._reference, put, remove, description=description)

    def rename(self, name: str) -> Namespace:
        """Rename the namespace; this object then has the new name."""
        renamed = self.catalog.rename_namespace(self._reference, NamespaceLocator(name))
        self._locator, self.value = renamed.locator, renamed.value
        return renamed

    def drop(self, *, cascade: bool = False) -> None:
        """Drop the namespace if it is empty; with `cascade`, drop it and everything in it."""
        self.catalog.drop_namespace(self._reference, cascade=cascade)
