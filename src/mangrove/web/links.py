"""URLs of the explorer pages."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, urlencode

from mangrove.inspect.rows import RowOrder
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator, ViewLocator, parse_view_name
from mangrove.transaction.deltas import TableTarget, parse_table_target

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

    def table(self, target: TableLocator | TableTarget, *, after: str | None = None) -> str:
        """A table, or one of its table versions or streams, or the next page of its partitions."""
        target = _as_target(target)
        return self._to_table(replace(target, partition_id=None, position=None), "", after=after)

    def table_tabs(self, target: TableTarget) -> list[tuple[str, str]]:
        """The pages about one table, or a part of it, with their names."""
        return [
            ("Table", self.table(target)),
            ("Rows", self.rows(target)),
            ("Profile", self._to_table(target, "/profile")),
            ("History", self.table_history(target)),
            ("Files", self.files(target)),
        ]

    def rows(
        self,
        target: TableLocator | TableTarget,
        *,
        where: str | None = None,
        order: RowOrder | None = None,
        offset: int | None = None,
    ) -> str:
        """A page of the rows of a table, or of a part of it, in the order of a column or without one."""
        sort = None if order is None else order.column
        direction = "desc" if order is not None and order.is_descending else None
        return self._to_table(target, "/rows", where=where, sort=sort, order=direction, offset=offset)

    def table_history(self, target: TableTarget, *, before: int | None = None) -> str:
        """The versions that changed a table."""
        return self._to_table(target, "/history", before=before)

    def row_changes(
        self, target: TableTarget, to_version: int, *, from_version: int | None = None, offset: int | None = None
    ) -> str:
        """The rows of a table that differ between two versions."""
        return self._to_table(target, "/changes", **{"from": from_version}, to=to_version, offset=offset)

    def files(self, target: TableLocator | TableTarget) -> str:
        """The live data files of a table, or of a part of it."""
        return self._to_table(target, "/files")

    def compaction(self, locator: TableLocator) -> str:
        """The target of the compaction form."""
        return self._to_table(locator, "/compact")

    def partition(self, target: TableTarget, partition_id: str, *, after: int | None = None) -> str:
        """The deltas of one partition of the table version and stream of a target."""
        target = replace(target, partition_id=None, position=None)
        return self._to_table(target, f"/partitions/{_quote_segment(partition_id)}", after=after)

    def delta(self, target: TableTarget, partition_id: str, position: int) -> str:
        """One delta with its files."""
        target = replace(target, partition_id=None, position=None)
        return self._to_table(target, f"/partitions/{_quote_segment(partition_id)}/deltas/{position}")

    def object(self, name: str | None = None) -> str:
        """An object of any kind by its canonical string, or the form to find one."""
        return self._to("/objects", name=name)

    def view(self, locator: ViewLocator) -> str:
        """A view."""
        return self._to(f"/views/{_quote_segment(str(locator))}")

    def source(self, name: str, kind: str | None) -> str | None:
        """What a view reads, by its name; None if that does not exist."""
        if kind is None:
            return None
        return self.view(parse_view_name(name)) if kind == Kind.VIEW.word else self.table(parse_table_target(name))

    def view_rows(self, locator: ViewLocator, *, offset: int | None = None) -> str:
        """A page of the rows of a view."""
        return self._to(f"/views/{_quote_segment(str(locator))}/rows", offset=offset)

    def sql(self, text: str | None = None) -> str:
        """The SQL editor, with a text to start with."""
        return self._to("/sql", text=text)

    def query(self, name: TableTarget | ViewLocator) -> str:
        """The SQL editor, with a query of a table, a table version or a view."""
        return self.sql(f"SELECT * FROM {name} LIMIT 100")  # noqa: S608 - names are quoted

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

    def parameters(self, target: TableLocator | TableTarget) -> dict[str, str | int | None]:
        """The query parameters of all pages about a part of a table at this version."""
        target = _as_target(target)
        return {
            "table_version": target.version,
            "stream": target.stream_id,
            "partition": target.partition_id,
            "position": target.position,
            "version": self.at,
        }

    def _to_table(self, target: TableLocator | TableTarget, page: str, **parameters: str | int | None) -> str:
        path = f"/tables/{_quote_segment(str(_as_target(target).locator))}{page}"
        return _build_url(path, {**parameters, **self.parameters(target)})

    def _to(self, path: str, **parameters: str | int | None) -> str:
        return _build_url(path, {**parameters, "version": self.at})


def _as_target(target: TableLocator | TableTarget) -> TableTarget:
    return TableTarget(target) if isinstance(target, TableLocator) else target


def _build_url(path: str, parameters: Mapping[str, str | int | None]) -> str:
    query = {name: str(value) for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(query)}" if query else path


def _quote_segment(text: str) -> str:
    return quote(text, safe="")
