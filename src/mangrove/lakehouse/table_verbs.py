"""The verbs that change a table's rows: each plans on an engine, is staged in a transaction, and says what it touched.

Rows that are a Spark DataFrame are written by Spark, all others in this process,
unless `engine` says "spark" or "local". A text that only Spark understands goes to
Spark by itself where Spark can see the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mangrove import tables
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.row_engines import Engine
from mangrove.lakehouse.row_frames import columns_of, is_spark_frame, repeatable
from mangrove.lakehouse.table_merge import TableMerge
from mangrove.lakehouse.table_rows import TableRows
from mangrove.lakehouse.table_staging import stage_write, table_state
from mangrove.transaction.deltas import put_table_version
from mangrove.transaction.transaction import Transaction

if TYPE_CHECKING:
    from mangrove.tables.assigning import Assignable
    from mangrove.tables.conditions import Narrowed
    from mangrove.tables.merging import MergePlan
    from mangrove.tables.predicates import Predicate
    from mangrove.tables.row_counts import RowCounts
    from mangrove.tables.table_state import TableState
    from mangrove.tables.writing import PlannedWrite

__all__ = ["TableVerbs"]

T = TypeVar("T")
_ENGINES = (None, "local", "spark")


class TableVerbs(TableRows):
    """Everything that adds, changes and takes away rows."""

    def append(self, rows: object, *, evolve: bool = False, engine: str | None = None) -> RowCounts:
        """Add rows: a Spark, pyarrow, pandas or polars frame, or a list of dicts.

        Keys are not looked at: a row that is there stays, whatever its keys, and so
        does every row of the frame. With `evolve` the table gets the columns that it
        lacks, and wider types where the rows need them.
        """
        rows = repeatable(rows)
        plan = self._on(engine, rows, lambda one, state, given: one.append(state, given))
        if not evolve:
            return self._write("append to", plan, with_logs=False)
        given = self._on(engine, rows, lambda one, state, found: one.given_columns(state, found))

        def statement(transaction: Transaction) -> RowCounts:
            workspace = transaction.workspace
            state = table_state(workspace, self.locator, with_logs=False)
            version = tables.evolution.evolved(state.version, given(state))
            if version != state.version:
                put_table_version(workspace, self.locator, version, stops_writers=False)
            write = plan(table_state(workspace, self.locator, with_logs=False))
            stage_write(workspace, self.locator, write, transaction.id)
            return write.counts

        return self.catalog.change(statement, f"append to {self.locator}")

    def evolve(self, rows: object, *, engine: str | None = None) -> None:
        """Give the table the columns that it lacks, and wider types, so that such rows fit; none is written."""
        given = self._on(engine, rows, lambda one, state, found: one.given_columns(state, found))

        def statement(transaction: Transaction) -> None:
            workspace = transaction.workspace
            state = table_state(workspace, self.locator, with_logs=False)
            version = tables.evolution.evolved(state.version, given(state))
            if version != state.version:
                put_table_version(workspace, self.locator, version, stops_writers=False)

        self.catalog.change(statement, f"evolve {self.locator}")

    def fill(self, transaction: Transaction, rows: object) -> None:
        """Add the first rows of a table in the transaction that makes it."""
        plan = self._on(None, rows, lambda one, state, given: one.append(state, given))
        write = plan(table_state(transaction.workspace, self.locator, with_logs=False))
        stage_write(transaction.workspace, self.locator, write, transaction.id)

    def add(self, rows: object, *, engine: str | None = None) -> RowCounts:
        """Add rows whose order among others does not matter; readers by order skip none and may meet them anywhere."""
        return self._write(
            "add to", self._on(engine, rows, lambda one, state, given: one.add(state, given)), with_logs=False
        )

    def upsert(self, rows: object, columns: Sequence[str] | None = None, *, engine: str | None = None) -> RowCounts:
        """Add rows in the place of those with the same keys.

        Columns that the rows lack, or that are not among `columns`, keep their values
        where a row is there, and are null in new rows. Only then is the table read.
        """
        if isinstance(columns, str):
            raise InvalidInputError(f"the columns of an upsert are {columns!r}: give a list of names")
        given = columns_of(rows) if columns is None else tuple(columns)

        def is_partial(state: TableState) -> bool:
            return given is not None and bool(tables.partial.missing_columns(state.schema, given))

        def plan(one: Engine, state: TableState, frame: object) -> PlannedWrite:
            if given is None or not is_partial(state):
                return one.upsert(state, frame)
            state.checked_keys("an upsert")
            return one.merge(state, frame, tables.partial.partial_upsert(state, given))

        return self._write("upsert into", self._on(engine, rows, plan), with_logs=is_partial)

    def delete(self, what: object, *, engine: str | None = None) -> RowCounts:
        """Delete the rows that a condition such as "amount < 0" means, or those with the keys of a frame."""
        if what is None or isinstance(what, bool | int | float):
            raise InvalidInputError(f"a delete is given {what!r}: give a condition as text or a frame of keys")
        is_condition = isinstance(what, str | tables.predicates.Predicate | tables.conditions.Narrowed)
        plan = self._on(engine, what, lambda one, state, given: one.delete(state, given))
        return self._write("delete from", plan, with_logs=is_condition)

    def overwrite(self, rows: object, where: str | Predicate | None = None, *, engine: str | None = None) -> RowCounts:
        """Put rows in the place of all, or of those that `where` means; rows that it does not mean are refused."""
        return self._write(
            "overwrite", self._on(engine, rows, lambda one, state, given: one.overwrite(state, given, where))
        )

    def overwrite_partitions(self, rows: object, *, engine: str | None = None) -> RowCounts:
        """Put rows in the place of all in the partitions that they lie in; other partitions stay as they are.

        The table is partitioned by columns or by years, months, days or hours. No rows
        replace nothing.
        """
        return self._write(
            "overwrite partitions of",
            self._on(engine, rows, lambda one, state, given: one.overwrite_partitions(state, given)),
        )

    def update(
        self,
        values: Mapping[str, Assignable],
        where: str | Predicate | Narrowed | None = None,
        *,
        engine: str | None = None,
    ) -> RowCounts:
        """Set columns of all rows, or of those that `where` means.

        A value that is text is an SQL expression, such as "amount * 1.1" or "'text'";
        any other value is what it is: 5, None, a date.
        """
        return self._write("update", self._on(engine, None, lambda one, state, _: one.update(state, values, where)))

    def merge(
        self,
        source: object,
        on: str,
        *,
        target_name: str = "t",
        source_name: str = "s",
        engine: str | None = None,
    ) -> TableMerge:
        """Begin a merge of rows into the table, by a condition such as "t.id = s.id"; `execute` does it."""

        def run(plan: MergePlan) -> RowCounts:
            return self._write(
                "merge into", self._on(engine, source, lambda one, state, given: one.merge(state, given, plan))
            )

        return TableMerge(tables.merging.MergePlan(on, (), target_name, source_name), run)

    def _on(
        self, engine: str | None, rows: object, verb: Callable[[Engine, TableState, Any], T]
    ) -> Callable[[TableState], T]:
        """Return how to plan on the engine that is asked for, or on the one that fits."""
        if engine not in _ENGINES:
            raise InvalidInputError(f"{engine!r} is no engine: use local or spark")
        rows = repeatable(rows)
        frame: Any = rows

        def plan(state: TableState) -> T:
            engines = self._engines()
            if engine == "spark" or (engine is None and is_spark_frame(rows)):
                return verb(engines.spark(), state, rows)
            here = frame.toArrow() if is_spark_frame(rows) else rows
            if engine == "local":
                return verb(engines.local(), state, here)
            try:
                return verb(engines.local(), state, here)
            except tables.expressions.BeyondArrowError as reason:
                try:
                    spark = engines.spark()
                except InvalidInputError:
                    # Spark cannot see the store, so what stopped the other engine is all there is to say.
                    raise reason from None
                return verb(spark, state, rows)

        return plan
