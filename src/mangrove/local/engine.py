"""Reading and writing a table in this process: from rows to deltas and back.

Writes return what is to be added to the table's logs. Whoever holds the
transaction adds it; what was written for one that is never committed is left to
vacuum.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from mangrove.local.changes import changed_rows
from mangrove.local.compacting import merged_files
from mangrove.local.conforming import by_name, check_fit, conformed, given_types
from mangrove.local.constraining import check_rows, with_defaults
from mangrove.local.files import FileWriter
from mangrove.local.frames import arrow_table
from mangrove.local.grouping import partitioned
from mangrove.local.merging import merged
from mangrove.local.other_frames import duckdb_relation, polars_frame
from mangrove.local.python_rows import python_rows
from mangrove.local.reading import LocalReader
from mangrove.local.replacing import replaced, updated
from mangrove.local.row_keys import check_distinct, distinct
from mangrove.local.scanning import count_visible
from mangrove.local.targets import meant, target_rows
from mangrove.maintenance.compacting import compacted_table
from mangrove.maintenance.progress import Watch, unwatched
from mangrove.model.manifests import DataFile
from mangrove.model.objects import DeltaType
from mangrove.model.schema import Schema
from mangrove.model.types import DataType
from mangrove.model.values import Value
from mangrove.storage.port import Store
from mangrove.tables.assigning import Assignable, as_expression, checked_assignments
from mangrove.tables.compaction import UNBOUNDED, CompactionBounds, PlannedCompaction, plan_table_compaction
from mangrove.tables.conditions import Narrowed, condition_of
from mangrove.tables.merging import MergePlan
from mangrove.tables.predicates import Predicate
from mangrove.tables.row_counts import RowCounts
from mangrove.tables.table_state import TableState
from mangrove.tables.touched import touched_partitions
from mangrove.tables.writing import (
    FILE_SIZE_BYTES,
    PlannedWrite,
    all_replaced,
    appended,
    deleted,
    placed,
    planned,
    upserted,
)

__all__ = ["LocalEngine"]

_EXAMPLES_MAX: Final = 3


class LocalEngine(LocalReader):
    """Arrow in this process, on the files of one lakehouse."""

    def __init__(self, store: Store, new_id: Callable[[], str], file_size_bytes: int = FILE_SIZE_BYTES) -> None:
        super().__init__(store)
        self._files = FileWriter(store, new_id, file_size_bytes)

    def changes(self, before: TableState, after: TableState) -> pa.Table:
        """Return the rows that differ, with what became of each beside it."""
        return changed_rows(self._store, before, after)

    def polars_frame(self, rows: pa.Table) -> Any:
        """Return rows that were read as a polars DataFrame."""
        return polars_frame(rows)

    def duckdb_relation(self, rows: pa.Table, connection: Any | None = None) -> Any:
        """Return rows that were read as a relation of DuckDB."""
        return duckdb_relation(rows, connection)

    def append(self, state: TableState, rows: object) -> PlannedWrite:
        """Add rows."""
        checked = _checked(state, rows)
        by_log = placed(state, self._files.write(state, checked))
        counts = RowCounts(inserted=checked.num_rows)
        return planned({values: appended(files) for values, files in by_log.items()}, counts=counts)

    def add(self, state: TableState, rows: object) -> PlannedWrite:
        """Add rows whose order does not matter."""
        write = self.append(state, rows)
        unordered = tuple(replace(one, delta=replace(one.delta, type=DeltaType.ADD)) for one in write.deltas)
        return replace(write, deltas=unordered)

    def upsert(self, state: TableState, rows: object) -> PlannedWrite:
        """Add rows in the place of those with the same keys."""
        keys = state.checked_keys("an upsert")
        checked = _checked(state, rows)
        check_distinct(state.name, checked, keys)
        by_log = placed(state, self._files.write(state, checked))
        deltas = {values: upserted(files, state.version.keys) for values, files in by_log.items()}
        return planned(deltas, counts=RowCounts(None, None, 0, checked.num_rows))

    def delete(self, state: TableState, what: object) -> PlannedWrite:
        """Delete the rows that a predicate means, or those with the keys of a frame."""
        if isinstance(what, str | Predicate):
            return replaced(self._files, state, condition_of(what, state.schema), None)
        keys = state.checked_keys("a delete by keys")
        only_keys = Schema(keys, state.schema.schema_id, state.schema.last_column_id)
        found = arrow_table(what, only_keys)
        check_fit(f"the keys of {state.name}", only_keys, found)
        wanted = distinct(conformed(found, only_keys, by_name, is_checked=True), keys)
        by_log: dict[tuple[Value | None, ...], list[DataFile]] = {}
        for values, file in self._files.write_keys(state, wanted):
            by_log.setdefault(values, []).append(file)
        deltas = {values: deleted(files, state.version.keys) for values, files in by_log.items()}
        return planned(deltas, counts=RowCounts(deleted=None))

    def overwrite(self, state: TableState, rows: object, where: str | Predicate | None = None) -> PlannedWrite:
        """Put rows in the place of all, or of those that `where` means."""
        checked = _checked(state, rows)
        if where is not None:
            return self._overwritten(state, checked, where)
        by_log = placed(state, self._files.write(state, checked))
        counts = RowCounts(inserted=checked.num_rows, deleted=count_visible(self._store, state))
        return all_replaced(state, by_log, counts)

    def overwrite_partitions(self, state: TableState, rows: object) -> PlannedWrite:
        """Put rows in the place of those in the partitions that they lie in."""
        checked = _checked(state, rows)
        parts = partitioned(checked, state.version.partition_scheme, state.schema)
        touched = touched_partitions(state, (values for values, _ in parts))
        return planned({}) if touched is None else self._overwritten(state, checked, touched)

    def _overwritten(self, state: TableState, rows: pa.Table, where: str | Predicate) -> PlannedWrite:
        condition = condition_of(where, state.schema)
        if state.version.keys:
            check_distinct(state.name, rows, state.checked_keys("an overwrite of some rows"))
        return replaced(self._files, state, condition, rows)

    def update(
        self, state: TableState, values: Mapping[str, Assignable], where: str | Predicate | Narrowed | None = None
    ) -> PlannedWrite:
        """Set columns of the rows that `where` means; a text is an expression."""
        checked = checked_assignments(values, state.schema)
        expressions = {name: as_expression(value) for name, value in checked.items()}
        return updated(self._files, state, expressions, condition_of(where, state.schema))

    def merge(self, state: TableState, source: object, plan: MergePlan) -> PlannedWrite:
        """Do with each row of the source and of the table what the first clause says that applies."""
        return merged(self._files, state, arrow_table(source, state.schema), plan)

    def examples(self, state: TableState, where: str) -> Sequence[Mapping[str, Any]]:
        """Return a few of the rows that a condition means."""
        condition = condition_of(where, state.schema)
        rows = target_rows(self._store, state, state.schema.columns, condition.predicate).rows
        found = rows.filter(meant(rows, condition, state.schema)).select(list(state.schema.names))
        return python_rows(found.slice(0, _EXAMPLES_MAX))

    def given_columns(self, state: TableState | None, rows: object) -> Mapping[str, DataType | None]:
        """Return the columns that rows have, with None for the type of one that holds nulls alone."""
        return given_types(arrow_table(rows, None if state is None else state.schema))

    def compact(
        self, state: TableState, bounds: CompactionBounds = UNBOUNDED, watch: Watch = unwatched
    ) -> PlannedCompaction:
        """Merge the deltas of each log into files that need no merging; logs that are so already stay."""
        plan = plan_table_compaction(state, self._files.file_size_bytes, bounds)
        return compacted_table(plan, state.name, partial(merged_files, self._files), watch)


def _checked(state: TableState, rows: object) -> pa.Table:
    found = with_defaults(arrow_table(rows, state.schema), state)
    check_fit(state.name, state.schema, found)
    checked = conformed(found, state.schema, by_name, is_checked=True)
    check_rows(state, checked)
    return checked
