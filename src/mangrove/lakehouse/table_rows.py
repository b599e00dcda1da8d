"""A table's rows in the hands of a user: what to write and read, planned by an engine and staged in a transaction."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.row_engines import Dated, Engine, Engines
from mangrove.lakehouse.table_staging import stage_write, table_state
from mangrove.model.locators import TableLocator
from mangrove.model.names import split_name
from mangrove.model.objects import TableVersion
from mangrove.tables.evolution import (
    with_column_added,
    with_column_dropped,
    with_column_renamed,
    with_column_widened,
)
from mangrove.tables.predicate_text import bound_predicate
from mangrove.tables.predicates import Predicate
from mangrove.tables.row_counts import RowCounts
from mangrove.tables.scan_plan import ScanPlan, plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.writing import PlannedWrite
from mangrove.transaction.deltas import open_table, put_table_version
from mangrove.transaction.transaction import Transaction

if TYPE_CHECKING:
    # The catalog makes the handles of tables and these call it back.
    from mangrove.lakehouse.catalog import Catalog

__all__ = ["TableRows"]


class TableRows:
    """What can be done with the rows of a table; the rows are as they are now, or as of the version or transaction."""

    catalog: "Catalog"
    locator: TableLocator

    def append(self, rows: object) -> RowCounts:
        """Add rows: a Spark, pyarrow, pandas or polars frame, or a list of dicts."""
        return self._write("append to", lambda state: self._engine_for(rows).append(state, rows), with_logs=False)

    def upsert(self, rows: object) -> RowCounts:
        """Add rows in the place of those with the same keys."""
        return self._write("upsert into", lambda state: self._engine_for(rows).upsert(state, rows), with_logs=False)

    def delete(self, what: object) -> RowCounts:
        """Delete the rows that a predicate such as "amount < 0" means, or those with the keys of a frame."""
        reads = isinstance(what, str | Predicate)
        return self._write("delete from", lambda state: self._engine_for(what).delete(state, what), with_logs=reads)

    def overwrite(self, rows: object, where: str | Predicate | None = None) -> RowCounts:
        """Put rows in the place of all, or of those that `where` means."""
        return self._write("overwrite", lambda state: self._engine_for(rows).overwrite(state, rows, where))

    def compact(self) -> None:
        """Merge what was written into files that need no merging; others may write meanwhile."""
        self._write("compact", lambda state: self._engines().local().compact(state))

    def to_arrow(self, columns: Sequence[str] | None = None, where: str | Predicate | None = None) -> Any:
        """Return the rows as a pyarrow Table, without a JVM."""
        return self._engines().local().read(self.state(), columns, where)

    def to_pandas(self, columns: Sequence[str] | None = None, where: str | Predicate | None = None) -> Any:
        """Return the rows as a pandas DataFrame."""
        return self.to_arrow(columns, where).to_pandas()

    def to_spark(self, columns: Sequence[str] | None = None, where: str | Predicate | None = None) -> Any:
        """Return the rows as a Spark DataFrame that Spark's own reader scans."""
        return self._engines().spark().read(self.state(), columns, where)

    def changes(self, from_version: int | str | datetime) -> Any:
        """Return the rows that differ from those of an earlier moment, as a pyarrow Table.

        The column `_change_type` says what happened: `insert`, `update` (the new row)
        or `delete` (the old row).
        """
        if not isinstance(self.catalog, Dated):
            raise InvalidInputError(
                f"changes of {self.locator} are asked of the lakehouse itself: lake.table(…).changes"
            )
        before = table_state(self.catalog.at(from_version).reading(), self.locator)
        return self._engines().local().changes(before, self.state())

    def scan(self, where: str | Predicate | None = None) -> ScanPlan:
        """Return what would be read, and why the rest is skipped."""
        state = self.state()
        return plan_scan(state, bound_predicate(where, state.schema))

    def state(self) -> TableState:
        """Return the table as engines take it."""
        return table_state(self.catalog.reading(), self.locator)

    def add_column(self, name: str, type_words: str) -> None:
        """Add a column, null in all rows that are there; `address.city` adds one to a struct."""
        self._evolve(f"add column {name} to", lambda version: with_column_added(version, split_name(name), type_words))

    def rename_column(self, name: str, to: str) -> None:
        """Give a column another name; no file is touched."""
        self._evolve(f"rename column {name} of", lambda version: with_column_renamed(version, split_name(name), to))

    def drop_column(self, name: str) -> None:
        """Drop a column; earlier versions still have it."""
        self._evolve(f"drop column {name} of", lambda version: with_column_dropped(version, split_name(name)))

    def widen(self, name: str, type_words: str) -> None:
        """Give a column a type that holds more; no file is touched."""
        self._evolve(f"widen {name} of", lambda version: with_column_widened(version, split_name(name), type_words))

    def _evolve(self, verb: str, change: Callable[[TableVersion], TableVersion]) -> None:
        def statement(transaction: Transaction) -> None:
            workspace = transaction.workspace
            version = open_table(workspace, self.locator).version
            # Files that others write by the old columns meanwhile still fit, because ids stay.
            put_table_version(workspace, self.locator, change(version), stops_writers=False)

        self.catalog.change(statement, f"{verb} {self.locator}")

    def _write(
        self,
        verb: str,
        plan: Callable[[TableState], PlannedWrite],
        *,
        with_logs: bool = True,
    ) -> RowCounts:
        def statement(transaction: Transaction) -> RowCounts:
            workspace = transaction.workspace
            write = plan(table_state(workspace, self.locator, with_logs=with_logs))
            stage_write(workspace, self.locator, write, transaction.id)
            return write.counts

        return self.catalog.change(statement, f"{verb} {self.locator}")

    def _engine_for(self, rows: object) -> Engine:
        is_spark = type(rows).__module__.partition(".")[0] == "pyspark"
        return self._engines().spark() if is_spark else self._engines().local()

    def _engines(self) -> Engines:
        engines = self.catalog.engines
        if engines is None:
            raise InvalidInputError(
                f"the rows of {self.locator} need an engine: open the lakehouse with mangrove.open or mangrove.create"
            )
        return engines
