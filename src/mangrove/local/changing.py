"""Hiding exactly some rows of a table and adding others: what deletes, updates, merges and overwrites come down to."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.local.constraining import check_rows
from mangrove.local.files import FileWriter
from mangrove.local.python_rows import python_rows
from mangrove.local.row_keys import check_distinct, distinct, with_keys_in, without_keys_in
from mangrove.local.scanning import ROW, scanned
from mangrove.local.statistics import plain_value
from mangrove.local.targets import FILE, TargetRows, target_rows
from mangrove.model.arrow_form import schema_to_arrow
from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta
from mangrove.model.types import Column
from mangrove.model.values import Value
from mangrove.tables.hiding import Hiding, hiding_of
from mangrove.tables.predicates import AllOf, Comparison, Constant, Operator, Predicate
from mangrove.tables.row_counts import RowCounts
from mangrove.tables.scan_plan import FileScan, plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.writing import (
    PlannedWrite,
    appended,
    deleted,
    placed,
    planned,
    position_deleted,
    rewritten,
    upserted,
)

__all__ = ["changed", "check_new_keys", "hidden_columns", "near_keys"]

_EXAMPLES_MAX: Final = 3


def hidden_columns(state: TableState) -> tuple[Column, ...]:
    """Return the columns that must be read of the rows that a write hides."""
    return {Hiding.KEYS: state.key_columns, Hiding.POSITIONS: (), Hiding.COPIES: state.schema.columns}[hiding_of(state)]


def changed(
    files: FileWriter, state: TableState, target: TargetRows, mask: Any, new: pa.Table, counts: RowCounts
) -> PlannedWrite:
    """Return how to hide the target's rows under the mask and to add new ones.

    The target has the `hidden_columns`, and all visible rows of each of its files.
    """
    check_rows(state, new)
    added = placed(state, files.write(state, new))
    logs = {log.values: log for log in state.logs}
    touched: dict[tuple[Value | None, ...], list[tuple[FileScan, pa.Table, Any]]] = {}
    for scan, rows, part in target.parts(mask):
        if pc.any(part).as_py():
            touched.setdefault(scan.log_values, []).append((scan, rows, part))
    deltas: dict[tuple[Value | None, ...], Delta] = {}
    for values in dict.fromkeys([*touched, *added]):
        here = touched.get(values, [])
        coming = added.get(values, [])
        if not here:
            deltas[values] = appended(coming)
            continue
        match hiding_of(state):
            case Hiding.KEYS:
                hidden = pa.concat_tables([rows.filter(part) for _, rows, part in here])
                alone = replace(state, logs=(logs[values],))
                deltas[values] = _by_keys(files, alone, hidden, new, coming)
            case Hiding.POSITIONS:
                numbers = [(scan.file.location, rows.filter(part).column(ROW)) for scan, rows, part in here]
                gone = [files.write_positions(state, location, found) for location, found in numbers]
                deltas[values] = position_deleted(gone, coming)
            case Hiding.COPIES:
                kept = pa.concat_tables([rows.filter(pc.invert(part)) for _, rows, part in here])
                deltas[values] = rewritten(
                    [scan.file.location for scan, _, _ in here], [*_written(files, state, kept), *coming]
                )
    return planned(deltas, state, counts)


def _by_keys(
    files: FileWriter, state: TableState, hidden: pa.Table, new: pa.Table, coming: Sequence[DataFile]
) -> Delta:
    """Return the delta that hides rows by their keys.

    Rows that share a key with a hidden one without being hidden are written again.
    Where each hidden key comes back, the new rows hide the old ones by themselves.
    """
    keys = state.checked_keys("a change of rows")
    wanted = distinct(hidden, keys)
    staying = _staying(files, state, hidden, wanted, keys)
    kept = _written(files, state, staying)
    names = [column.name for column in keys]
    back = pa.concat_tables([new.select(names).cast(wanted.schema), staying.select(names).cast(wanted.schema)])
    if not without_keys_in(wanted, back, keys).num_rows:
        return upserted([*kept, *coming], state.version.keys)
    key_files = [file for _, file in files.write_keys(state, wanted)]
    return deleted(key_files, state.version.keys, [*kept, *coming])


def _staying(
    files: FileWriter, state: TableState, hidden: pa.Table, wanted: pa.Table, keys: Sequence[Column]
) -> pa.Table:
    """Return the rows with hidden keys that are not hidden; usually there are none, and only keys are read."""
    near = near_keys(wanted, keys)
    beside = with_keys_in(target_rows(files.store, state, keys, near).rows, wanted, keys)
    if beside.num_rows == hidden.num_rows:
        return schema_to_arrow(state.schema).empty_table()
    rows = with_keys_in(target_rows(files.store, state, state.schema.columns, near).rows, wanted, keys)
    numbered = rows.select([FILE, ROW]).append_column("place", pa.array(range(rows.num_rows), pa.int64()))
    places = numbered.join(hidden.select([FILE, ROW]), [FILE, ROW], join_type="left anti").column("place")
    return rows.take(pc.take(places, pc.sort_indices(places)))


def near_keys(wanted: pa.Table, keys: Sequence[Column]) -> Predicate:
    """Return what every row with one of these keys fulfils, so that other files need not be opened."""
    if not wanted.num_rows:
        return Constant(holds=False)
    bounds: list[Predicate] = []
    for column in keys:
        ends = pc.min_max(wanted.column(column.name))
        for operator, end in ((Operator.GREATER_OR_EQUAL, ends["min"]), (Operator.LESS_OR_EQUAL, ends["max"])):
            value = plain_value(end)
            if value is not None:
                bounds.append(Comparison(column.id, operator, value))
    return AllOf(tuple(bounds))


def check_new_keys(files: FileWriter, state: TableState, hidden: pa.Table, new: pa.Table) -> None:
    """Refuse rows whose keys another row has, among the new ones or among those that stay."""
    keys = state.checked_keys("a change of rows")
    check_distinct(state.name, new, keys)
    names = [column.name for column in keys]
    coming = new.select(names)
    fresh = without_keys_in(coming, hidden.select(names).cast(coming.schema), keys)
    near = near_keys(fresh, keys)
    there = scanned(files.store, state, plan_scan(state, near), keys, near)
    taken = with_keys_in(there, fresh, keys)
    if taken.num_rows:
        raise InvalidInputError(
            f"{taken.num_rows} row(s) of {state.name} already have keys that other rows would get, for example "
            f"{python_rows(taken.slice(0, _EXAMPLES_MAX))}: give each row keys of its own"
        )


def _written(files: FileWriter, state: TableState, rows: pa.Table) -> list[DataFile]:
    """Write rows that stay; they stay in their log."""
    names = list(state.schema.names)
    return [file for there in placed(state, files.write(state, rows.select(names))).values() for file in there]
