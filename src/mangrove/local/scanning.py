"""Running a scan plan in this process: open the files, leave out what is hidden or not meant."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.local.at_once import at_once
from mangrove.local.masks import meant_rows
from mangrove.local.parquet import read_columns
from mangrove.local.positions import deleted_positions
from mangrove.local.row_keys import newest_hiding, visible_rows
from mangrove.model.arrow_form import schema_to_arrow
from mangrove.model.schema import Schema
from mangrove.model.types import Column
from mangrove.model.values import Value
from mangrove.storage.port import Store
from mangrove.tables.predicates import Predicate, column_ids
from mangrove.tables.scan_plan import FileScan, KeyFile, ScanPlan, plan_scan
from mangrove.tables.table_state import TableState

__all__ = ["ROW", "chosen_columns", "count_visible", "scanned", "scanned_parts"]

T = TypeVar("T")

ROW: Final = "mangrove row"
"""The column that numbers the rows of a file from 0; with a space, so that no column of ours meets it by accident."""


def chosen_columns(state: TableState, names: Sequence[str] | None) -> tuple[Column, ...]:
    """Return the columns of a table with these names in the order asked, or all."""
    if names is None:
        return state.schema.columns
    are_texts = not isinstance(names, str) and all(isinstance(name, str) for name in names)
    if not are_texts or len({name.casefold() for name in names}) != len(names):
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
    reading = _Reading(store, state, _with_asked(state, columns, predicate), predicate)
    key_files = {key_file.file.location: key_file for key_file in plan.key_files}
    keys_of: dict[str, pa.Table] = {}

    def opened(scan: FileScan) -> pa.Table:
        key_file = key_files.get(scan.file.location)
        rows, keys = reading.rows(scan, key_file)
        if key_file is not None:
            keys_of[scan.file.location] = keys
        return rows

    parts = at_once(opened, plan.scans)
    # What was read for its rows had its keys read along with them.
    unread = [key_file for location, key_file in key_files.items() if location not in keys_of]
    keys_of |= dict(zip((one.file.location for one in unread), at_once(reading.keys, unread), strict=True))
    for (log_values, key_ids), hiding in _hiding_groups(plan).items():
        keys = reading.key_columns(key_ids)
        newest = newest_hiding([(keys_of[one.file.location], one.position) for one in hiding], keys)
        compared = [
            place
            for place, scan in enumerate(plan.scans)
            if scan.log_values == log_values and any(one.key_ids == key_ids for one in scan.hidden_by)
        ]
        visible = visible_rows([(parts[place], plan.scans[place].position) for place in compared], newest, keys)
        for place, part in zip(compared, visible, strict=True):
            parts[place] = part
    return list(zip(plan.scans, parts, strict=True))


@dataclass(frozen=True, slots=True)
class _Reading:
    """Opens the files of one scan, each of them once."""

    store: Store
    state: TableState
    asked: Sequence[Column]
    predicate: Predicate | None

    def rows(self, scan: FileScan, key_file: KeyFile | None) -> tuple[pa.Table, pa.Table]:
        """Return the numbered rows of a file that are meant, and its keys where they hide rows of others."""
        hiding = self.key_columns(() if key_file is None else key_file.key_ids)
        met = dict.fromkeys(key_id for one in scan.hidden_by for key_id in one.key_ids)
        needed = dict.fromkeys([*self.asked, *self.key_columns(met), *hiding])
        found = read_columns(self.store, scan.file, tuple(needed))
        rows = _numbered(found)
        if scan.position_deletes:
            rows = rows.filter(pc.invert(pc.is_in(rows.column(ROW), deleted_positions(self.store, scan))))
        if self.predicate is not None:
            rows = rows.filter(meant_rows(rows, self.predicate, self.state.schema))
        return rows, found.select([column.name for column in hiding])

    def keys(self, key_file: KeyFile) -> pa.Table:
        """Return the keys of a file whose rows are not asked for."""
        return read_columns(self.store, key_file.file, self.key_columns(key_file.key_ids))

    def key_columns(self, key_ids: Iterable[int]) -> list[Column]:
        return [self.state.schema.column_with_id(key_id) for key_id in key_ids]


def _hiding_groups(plan: ScanPlan) -> dict[tuple[tuple[Value | None, ...], tuple[int, ...]], list[KeyFile]]:
    """Return the files of keys that can be compared at once: those of one log with the same columns."""
    groups: dict[tuple[tuple[Value | None, ...], tuple[int, ...]], dict[str, KeyFile]] = {}
    for scan in plan.scans:
        for one in scan.hidden_by:
            groups.setdefault((scan.log_values, one.key_ids), {})[one.file.location] = one
    return {which: list(found.values()) for which, found in groups.items()}


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column(ROW, pa.array(range(rows.num_rows), pa.int64()))


def _with_asked(state: TableState, columns: Sequence[Column], predicate: Predicate | None) -> list[Column]:
    """Return the columns with those in which the predicate looks."""
    roots = {state.schema.path_of(column_id)[0] for column_id in (column_ids(predicate) if predicate else ())}
    return list(dict.fromkeys([*columns, *(column for column in state.schema.columns if column.name in roots)]))
