"""Running a scan plan in this process: open the files, leave out what is hidden or not meant."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.local.masks import meant_rows
from mangrove.local.parquet import read_columns
from mangrove.local.positions import deleted_positions
from mangrove.local.row_keys import newest_hiding, visible_rows
from mangrove.model.arrow_form import schema_to_arrow
from mangrove.model.schema import Schema
from mangrove.model.types import Column
from mangrove.storage.port import Store
from mangrove.tables.predicates import Predicate, column_ids
from mangrove.tables.scan_plan import FileScan, KeyFile, ScanPlan, plan_scan
from mangrove.tables.table_state import TableState

__all__ = ["ROW", "chosen_columns", "count_visible", "scanned", "scanned_parts"]

ROW: Final = "mangrove row"
"""The column that numbers the rows of a file from 0; with a space, so that no column of ours meets it by accident."""

_READERS_MAX: Final = 8
"""How many files are read at once: enough to hide a store's latency, few enough to fit into memory."""


def chosen_columns(state: TableState, names: Sequence[str] | None) -> tuple[Column, ...]:
    """Return the columns of a table with these names in the order asked, or all."""
    if names is None:
        return state.schema.columns
    if isinstance(names, str) or len({name.casefold() for name in names}) != len(names):
        raise InvalidInputError(f"columns are asked for as {names!r}: give a list of names, each once")
    return tuple(state.schema.column(name) for name in names)


def scanned(
    store: Store, state: TableState, plan: ScanPlan, columns: Sequence[Column], predicate: Predicate | None = None
) -> pa.Table:
    """Return the rows that a plan means, with these columns."""
    names = [column.name for column in columns]
    parts = [part.select(names) for _, part in scanned_parts(store, state, plan, columns, predicate)]
    if not columns:
        return pa.table({"rows": pa.nulls(sum(part.num_rows for part in parts))}).select([])
    arrow = schema_to_arrow(Schema(tuple(columns)))
    return pa.concat_tables([arrow.empty_table(), *parts])


def count_visible(store: Store, state: TableState) -> int:
    """Return how many rows a table has; only keys are read, and only where they can hide rows."""
    plan = plan_scan(state)
    touched = replace(plan, scans=tuple(scan for scan in plan.scans if not scan.is_whole))
    free = sum(scan.file.row_count for scan in plan.scans if scan.is_whole)
    return free + sum(part.num_rows for _, part in scanned_parts(store, state, touched, ()))


def scanned_parts(
    store: Store, state: TableState, plan: ScanPlan, columns: Sequence[Column], predicate: Predicate | None = None
) -> list[tuple[FileScan, pa.Table]]:
    """Return the rows of each file that are visible and meant, with at least these columns, and numbered.

    A predicate is applied before keys are compared: both only leave rows out, and
    the fewer there are the less is compared.
    """
    asked = _with_asked(state, columns, predicate)
    hiding = _Hiding(store, state)

    def visible(scan: FileScan) -> tuple[FileScan, pa.Table]:
        key_ids = dict.fromkeys(key_id for key_file in scan.hidden_by for key_id in key_file.key_ids)
        needed = dict.fromkeys([*asked, *(state.schema.column_with_id(key_id) for key_id in key_ids)])
        rows = _numbered(read_columns(store, scan.file, tuple(needed)))
        if scan.position_deletes:
            rows = rows.filter(pc.invert(pc.is_in(rows.column(ROW), deleted_positions(store, scan))))
        if predicate is not None:
            rows = rows.filter(meant_rows(rows, predicate, state.schema))
        return scan, hiding.visible(scan, rows)

    with ThreadPoolExecutor(_READERS_MAX) as pool:
        return list(pool.map(visible, plan.scans))


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column(ROW, pa.array(range(rows.num_rows), pa.int64()))


class _Hiding:
    """The newer keys of one scan, read once for all files that they hide rows of."""

    def __init__(self, store: Store, state: TableState) -> None:
        self._store = store
        self._state = state
        self._newest: dict[tuple[KeyFile, ...], pa.Table] = {}
        self._lock = threading.Lock()

    def visible(self, scan: FileScan, rows: pa.Table) -> pa.Table:
        """Return the rows of a file that nothing hides."""
        for key_ids in dict.fromkeys(key_file.key_ids for key_file in scan.hidden_by):
            if rows.num_rows:
                keys = [self._state.schema.column_with_id(key_id) for key_id in key_ids]
                chosen = tuple(key_file for key_file in scan.hidden_by if key_file.key_ids == key_ids)
                rows = visible_rows(rows, scan.position, self._newest_of(chosen, keys), keys)
        return rows

    def _newest_of(self, key_files: tuple[KeyFile, ...], keys: Sequence[Column]) -> pa.Table:
        with self._lock:
            if key_files not in self._newest:
                found = [(read_columns(self._store, one.file, keys), one.position) for one in key_files]
                self._newest[key_files] = newest_hiding(found, keys)
            return self._newest[key_files]


def _with_asked(state: TableState, columns: Sequence[Column], predicate: Predicate | None) -> list[Column]:
    """Return the columns with those in which the predicate looks."""
    roots = {state.schema.path_of(column_id)[0] for column_id in (column_ids(predicate) if predicate else ())}
    return list(dict.fromkeys([*columns, *(column for column in state.schema.columns if column.name in roots)]))
