"""URLs of the explorer pages."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from mangrove.inspect.rows import RowOrder
from mangrove.model.locators import NamespaceLocator, TableLocator, ViewLocator

__all__ = ["API", "STATIC", "Links"]

API: Final = "/api"
"""The path prefix of the JSON API."""
STATIC: Final = "/static"


@dataclass(frozen=True, slots=True)
class Links:
    """Builds URLs; `at` is the version as requested, or None for the newest.

    Names are quoted with backticks unless they are plain identifiers, so that no name is `..`
    or has more than one path segment.
    """

    at: str | None = None

    def overview(self) -> str:
        """The first page."""
        return self._to("/")

    def namespaces(self, *, after: str | None = None, prefix: str | None = None) -> str:
        """The list of namespaces, or its next page."""
        return self._to("/namespaces", prefix=prefix or None, after=after)

    def namespace(
        self, name: str, *, after_table: str | None = None, after_view: str | None = None, prefix: str | None = None
    ) -> str:
        """A namespace with its tables and views."""
        path = f"/namespaces/{_quote_segment(str(NamespaceLocator(name)))}"
        return self._to(path, prefix=prefix or None, after_table=after_table, after_view=after_view)

    def table(self, locator: TableLocator, *, after: str | None = None, table_version: int | None = None) -> str:
        """A table or one of its table versions, or the next page of its partitions."""
        return self._to(f"/tables/{_quote_segment(str(locator))}", after=after, table_version=table_version)

    def table_tabs(self, locator: TableLocator, table_version: int | None) -> list[tuple[str, str]]:
        """The pages about one table, with their names."""
        return [
            ("Table", self.table(locator, table_version=table_version)),
            ("Rows", self.rows(locator, table_version=table_version)),
            ("Profile", self._to_table(locator, "profile", table_version=table_version)),
            ("History", self.table_history(locator, table_version=table_version)),
            ("Files", self.files(locator, table_version=table_version)),
        ]

    def rows(
        self,
        locator: TableLocator,
        *,
        where: str | None = None,
        order: RowOrder | None = None,
        offset: int | None = None,
        table_version: int | None = None,
    ) -> str:
        """A page of the rows of a table."""
        sort = None if order is None else order.column
        direction = "desc" if order is not None and order.is_descending else None
        return self._to_table(
            locator, "rows", where=where, sort=sort, order=direction, offset=offset, table_version=table_version
        )

    def table_history(
        self, locator: TableLocator, *, before: int | None = None, table_version: int | None = None
    ) -> str:
        """The versions that changed a table."""
        return self._to_table(locator, "history", before=before, table_version=table_version)

    def row_changes(
        self,
        locator: TableLocator,
        to_version: int,
        *,
        from_version: int | None = None,
        offset: int | None = None,
        table_version: int | None = None,
    ) -> str:
        """The rows of a table that differ between two versions."""
        query = {"from": from_version, "to": to_version, "offset": offset, "table_version": table_version}
        return self._to_table(locator, "changes", **query)

    def files(self, locator: TableLocator, *, table_version: int | None = None) -> str:
        """The live data files of a table."""
        return self._to_table(locator, "files", table_version=table_version)

    def compaction(self, locator: TableLocator) -> str:
        """The target of the compaction form."""
        return f"/tables/{_quote_segment(str(locator))}/compact"

    def partition(
        self, locator: TableLocator, partition_id: str, *, after: int | None = None, table_version: int | None = None
    ) -> str:
        """The deltas of one partition."""
        path = f"/tables/{_quote_segment(str(locator))}/partitions/{_quote_segment(partition_id)}"
        return self._to(path, after=after, table_version=table_version)

    def delta(
        self, locator: TableLocator, partition_id: str, position: int, *, table_version: int | None = None
    ) -> str:
        """One delta with its files."""
        path = f"/tables/{_quote_segment(str(locator))}/partitions/{_quote_segment(partition_id)}/deltas/{position}"
        return self._to(path, table_version=table_version)

    def object(self, name: str | None = None) -> str:
        """An object of any kind by its canonical string, or the form to find one."""
        return self._to("/objects", name=name)

    def view(self, locator: ViewLocator) -> str:
        """A view."""
        return self._to(f"/views/{_quote_segment(str(locator))}")

    def view_rows(self, locator: ViewLocator, *, offset: int | None = None) -> str:
        """A page of the rows of a view."""
        return self._to(f"/views/{_quote_segment(str(locator))}/rows", offset=offset)

    def sql(self, text: str | None = None) -> str:
        """The SQL editor, with a text to start with."""
        return self._to("/sql", text=text)

    def query(self, locator: TableLocator | ViewLocator) -> str:
        """The SQL editor, with a query of a table or view."""
        return self.sql(f"SELECT * FROM {locator} LIMIT 100")  # noqa: S608 - names are quoted

    def sql_export(self) -> str:
        """The target of the form that downloads the rows of a query."""
        return "/sql/export"

    def lineage(self) -> str:
        """Views and what they read."""
        return self._to("/lineage")

    def search(self, text: str | None = None) -> str:
        """The hits of a search."""
        return self._to("/search", text=text)

    def shared_transaction(self, name: str) -> str:
        """A shared transaction with a preview of its merge."""
        return self._to(f"/shared/{_quote_segment(name)}")

    def history(self, *, before: int | None = None) -> str:
        """The versions, newest first."""
        return self._to("/history", before=before)

    def version(self, version: int, *, against: int | str | None = None) -> str:
        """The changes of one version, or its differences from another."""
        return self._to(f"/history/{version}", against=against)

    def rollback(self, version: int) -> str:
        """The target of the rollback form; a rollback always starts from the newest version."""
        return f"/history/{version}/rollback"

    def tree(self, node: str | None = None) -> str:
        """The tree, with one node open."""
        return self._to("/tree", node=node)

    def storage(self) -> str:
        """Files and growth."""
        return self._to("/storage")

    def _to_table(self, locator: TableLocator, page: str, **parameters: str | int | None) -> str:
        return self._to(f"/tables/{_quote_segment(str(locator))}/{page}", **parameters)

    def _to(self, path: str, **parameters: str | int | None) -> str:
        query = {name: str(value) for name, value in (*parameters.items(), ("version", self.at)) if value is not None}
        return f"{path}?{urlencode(query)}" if query else path


def _quote_segment(text: str) -> str:
    return quote(text, safe="")
