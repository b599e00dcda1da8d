"""URLs of the explorer pages."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from mangrove.model.locators import NamespaceLocator, TableLocator, ViewLocator

__all__ = ["API", "STATIC", "Links"]

API: Final = "/api"
"""What stands before a page's address for its JSON."""
STATIC: Final = "/static"


@dataclass(frozen=True, slots=True)
class Links:
    """Makes addresses; `at` is the version as it was asked for, or None for the newest.

    Names go into a path in their quoted form, with backticks around all but plain
    words, so that no name reads as `..` or as more than one step.
    """

    at: str | None = None

    def overview(self) -> str:
        """The first page."""
        return self._to("/")

    def namespaces(self, *, after: str | None = None, prefix: str | None = None) -> str:
        """The list of namespaces, or what follows in it."""
        return self._to("/namespaces", prefix=prefix or None, after=after)

    def namespace(
        self, name: str, *, after_table: str | None = None, after_view: str | None = None, prefix: str | None = None
    ) -> str:
        """A namespace with its tables and views."""
        path = f"/namespaces/{_step(str(NamespaceLocator(name)))}"
        return self._to(path, prefix=prefix or None, after_table=after_table, after_view=after_view)

    def table(self, locator: TableLocator, *, after: str | None = None) -> str:
        """A table, or what follows in the list of its partitions."""
        return self._to(f"/tables/{_step(str(locator))}", after=after)

    def partition(self, locator: TableLocator, partition_id: str, *, after: int | None = None) -> str:
        """The deltas of one partition."""
        return self._to(f"/tables/{_step(str(locator))}/partitions/{_step(partition_id)}", after=after)

    def delta(self, locator: TableLocator, partition_id: str, position: int) -> str:
        """One delta with its files."""
        return self._to(f"/tables/{_step(str(locator))}/partitions/{_step(partition_id)}/deltas/{position}")

    def view(self, locator: ViewLocator) -> str:
        """A view."""
        return self._to(f"/views/{_step(str(locator))}")

    def history(self, *, before: int | None = None) -> str:
        """The versions, newest first."""
        return self._to("/history", before=before)

    def version(self, version: int, *, against: int | str | None = None) -> str:
        """What one version changed, or how it differs from another."""
        return self._to(f"/history/{version}", against=against)

    def rollback(self, version: int) -> str:
        """Where a form is sent that rolls back to a version; it is always the newest that is left."""
        return f"/history/{version}/rollback"

    def tree(self, way: str | None = None) -> str:
        """The tree, with one of its nodes open."""
        return self._to("/tree", node=way)

    def storage(self) -> str:
        """Files and growth."""
        return self._to("/storage")

    def _to(self, path: str, **requested: str | int | None) -> str:
        query = {name: str(value) for name, value in (*requested.items(), ("version", self.at)) if value is not None}
        return f"{path}?{urlencode(query)}" if query else path


def _step(text: str) -> str:
    return quote(text, safe="")
