"""A table's rows for other tools, and what became of them over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.row_engines import Dated, Engine
from mangrove.lakehouse.shown_tables import iceberg_address
from mangrove.lakehouse.table_constraints import TableConstraints
from mangrove.lakehouse.table_staging import table_state
from mangrove.metastore import Metastore
from mangrove.model.locators import Locator
from mangrove.model.objects import Table
from mangrove.transaction.comparing import differences_of
from mangrove.transaction.history import HistoryLine
from mangrove.transaction.names import found_table
from mangrove.transaction.workspace import Workspace

if TYPE_CHECKING:
    from mangrove.tables.predicates import Predicate

__all__ = ["TableOutputs"]


@runtime_checkable
class _Historic(Protocol):
    """A catalog that knows how it became what it is."""

    metastore: Metastore

    def history(self, *, before: int | None = None, limit: int | None = None) -> Iterator[HistoryLine]:
        """Yield the versions that are kept, newest first."""
        ...


class TableOutputs(TableConstraints):
    """Rows as other tools take them, and the table's past."""

    def to_polars(self, columns: Sequence[str] | None = None, where: str | Predicate | None = None) -> Any:
        """Return the rows as a polars DataFrame."""
        return self._engines().local().polars_frame(self.to_arrow(columns, where))

    def to_duckdb(
        self,
        connection: Any | None = None,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
    ) -> Any:
        """Return the rows as a relation of DuckDB, in a connection or in the one that DuckDB shares."""
        return self._engines().local().duckdb_relation(self.to_arrow(columns, where), connection)

    def iceberg(self) -> str:
        """Return the address of a metadata file by which engines that read Iceberg find the rows as they are now.

        What it leads to is written where it is missing, below the table's own folder; the
        rows stay where they are. Later writes do not change what it shows: ask again
        after them. Vacuum takes away what shows earlier states, a day later at the earliest.
        """
        return iceberg_address(self._engines(), self.catalog.reading(), self.locator)

    def changes(
        self,
        from_version: int | str | datetime,
        to_version: int | str | datetime | None = None,
        *,
        engine: str | None = None,
    ) -> Any:
        """Return the rows that differ between two moments, or since one, as a pyarrow Table.

        The column `_change_type` says what happened: `insert`, `delete`, or
        `update_before` and `update_after` for a row with the same keys. With
        engine="spark" it is a DataFrame, and rows are in no order.
        """
        if not isinstance(self.catalog, Dated):
            raise InvalidInputError(
                f"changes of {self.locator} are asked of the lakehouse itself: lake.table(…).changes"
            )
        if engine not in (None, "local", "spark"):
            raise InvalidInputError(f"{engine!r} is no engine: use local or spark")
        first = self.catalog.at(from_version).reading()
        last = self.catalog.reading() if to_version is None else self.catalog.at(to_version).reading()
        assert not isinstance(first, Workspace), "only what is committed has moments"
        assert not isinstance(last, Workspace), "only what is committed has moments"
        if first.version > last.version:
            raise InvalidInputError(
                f"changes of {self.locator} are asked from version {first.version} back to {last.version}: "
                "give the earlier one first"
            )
        before, after = table_state(first, self.locator), table_state(last, self.locator)
        chosen: Engine = self._engines().spark() if engine == "spark" else self._engines().local()
        return chosen.changes(before, after)

    def history(self, *, limit: int | None = None) -> Iterator[HistoryLine]:
        """Yield the versions that changed this table, its columns or its rows, newest first.

        Each version is compared with the one before it, of which only what differs is
        read, so asking for the newest few is cheap.
        """
        if not isinstance(self.catalog, _Historic):
            raise InvalidInputError(
                f"the history of {self.locator} is asked of the lakehouse itself: lake.table(…).history"
            )
        table = found_table(self.catalog.reading(), self.locator)
        return islice(self._changing(self.catalog, table), limit)

    def _changing(self, catalog: _Historic, table: Table) -> Iterator[HistoryLine]:
        for line in catalog.history():
            if line.version == 0:
                return
            after = catalog.metastore.at_version(line.version)
            try:
                before = catalog.metastore.at_version(line.version - 1)
            except NotFoundError:
                # What came before has expired, so nobody can say what this version changed.
                return
            found = differences_of(catalog.metastore, before, after)
            if any(_is_about(one.locator, value, table) for one in found for value in (one.before, one.after)):
                yield line


def _is_about(locator: Locator, value: object, table: Table) -> bool:
    if isinstance(value, Table):
        return value.id == table.id
    return getattr(locator, "table_id", None) == table.id
