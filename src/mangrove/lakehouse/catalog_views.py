"""What can be asked of views, wherever they are seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from mangrove.lakehouse.arguments import checked_limit, checked_prefix, checked_texts, meant_namespace, meant_view
from mangrove.lakehouse.catalog_ground import CatalogGround
from mangrove.lakehouse.handles import LakeView
from mangrove.lakehouse.sql_running import SPARK, names_read
from mangrove.model.locators import Kind, NamespaceLocator, ViewLocator
from mangrove.model.objects import View
from mangrove.model.properties import NO_PROPERTIES
from mangrove.transaction import views
from mangrove.transaction.names import found_namespace, found_view
from mangrove.transaction.transaction import Transaction

__all__ = ["CatalogViews"]


class CatalogViews(CatalogGround):
    """The views of a catalog."""

    def views(
        self,
        namespace: str | NamespaceLocator,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int | None = None,
    ) -> Iterator[LakeView]:
        """Yield the views of a namespace in order of their names."""
        reading, parent = self.reading(), meant_namespace(namespace)
        found_namespace(reading, parent)
        following = None if after is None else ViewLocator(parent.name, after)
        found = reading.children(Kind.VIEW, parent, prefix=checked_prefix(prefix), after=following)
        for locator, value in islice(found, checked_limit(limit)):
            assert isinstance(locator, ViewLocator)
            assert isinstance(value, View)
            yield LakeView(self, locator, value)

    def view(self, name: str | ViewLocator) -> LakeView:
        """Return a view."""
        locator = meant_view(name)
        return LakeView(self, locator, found_view(self.reading(), locator))

    def create_view(
        self,
        name: str | ViewLocator,
        sql: str,
        *,
        reads: Sequence[str] | None = None,
        dialect: str = SPARK,
        properties: Mapping[str, str] = NO_PROPERTIES,
        description: str | None = None,
        or_replace: bool = False,
    ) -> LakeView:
        """Make a view, or with `or_replace` put it in the place of another view.

        `reads` are what its query reads; without it that is told from the query. A view
        that would read itself, also by way of others, is refused.
        """
        locator = meant_view(name)
        found = names_read(self.engines, sql, dialect, locator.namespace) if reads is None else reads
        read = checked_texts(found, "what a view reads")
        value = View(self.new_id(), locator.name, sql, dialect, None, read, properties, description)

        def statement(transaction: Transaction) -> LakeView:
            views.create_view(transaction.workspace, locator, value, or_replace=or_replace)
            return LakeView(self, locator, found_view(transaction.workspace, locator))

        return self.change(statement, f"create view {locator}")

    def alter_view(
        self,
        name: str | ViewLocator,
        put: Mapping[str, str] = NO_PROPERTIES,
        remove: Iterable[str] | None = (),
        *,
        description: str | None = None,
    ) -> LakeView:
        """Put or remove properties of a view, or describe it anew."""
        locator, gone = meant_view(name), checked_texts(remove, "the properties to remove")

        def statement(transaction: Transaction) -> LakeView:
            views.alter_view(transaction.workspace, locator, put=put, removed=gone, description=description)
            return LakeView(self, locator, found_view(transaction.workspace, locator))

        return self.change(statement, f"alter view {locator}")

    def rename_view(self, name: str | ViewLocator, to: str | ViewLocator) -> LakeView:
        """Give a view another name, in its namespace or in another."""
        old, new = meant_view(name), meant_view(to)

        def statement(transaction: Transaction) -> LakeView:
            views.rename_view(transaction.workspace, old, new)
            return LakeView(self, new, found_view(transaction.workspace, new))

        return self.change(statement, f"rename view {old} to {new}")

    def drop_view(self, name: str | ViewLocator, *, if_exists: bool = False) -> None:
        """Drop a view; what it reads stays."""
        locator = meant_view(name)

        def statement(transaction: Transaction) -> None:
            if not if_exists or transaction.workspace.get(locator) is not None:
                views.drop_view(transaction.workspace, locator)

        self.change(statement, f"drop view {locator}")
