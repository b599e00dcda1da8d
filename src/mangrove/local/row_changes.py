"""Deletes, updates and overwrites with Arrow, with defaults and check constraints."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.expressions.expr import Expression, RequiresSparkError, collect_column_paths
from mangrove.expressions.parse import Condition, parse_condition, parse_expression
from mangrove.expressions.predicates import (
    AllOf,
    AnyOf,
    ColumnComparison,
    ConstantPredicate,
    IsIn,
    Operator,
    Predicate,
    collect_column_ids,
)
from mangrove.local.casts import cast_for_assignment
from mangrove.local.data_files import FileWriter
from mangrove.local.evaluation import ColumnLookup, evaluate_condition, evaluate_expression
from mangrove.local.keys import build_key_mask, check_keys_unique, deduplicate_keys, filter_keys_in, filter_keys_not_in
from mangrove.local.python_rows import to_plain_value, to_python_rows
from mangrove.local.row_numbers import build_row_numbers
from mangrove.local.scan import ROW, build_predicate_mask, coalesce_to_false, get_column, run_scan, run_scan_by_file
from mangrove.local.schema_projection import conform_rows, match_by_name
from mangrove.model.arrow_schema import schema_to_arrow, type_to_arrow
from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Struct
from mangrove.model.values import Value
from mangrove.tables.constraints import build_check_violation_error, check_constraints_of
from mangrove.tables.scan_plan import FileScan, plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import (
    DeleteMode,
    PlannedWrite,
    ReadRows,
    RowCounts,
    build_append_delta,
    build_delete_delta,
    build_position_delete_delta,
    build_rewrite_delta,
    build_upsert_delta,
    delete_mode_of,
    group_files_by_log,
    plan_write,
    read_condition,
)

__all__ = [
    "FILE",
    "TargetRows",
    "build_key_range_predicate",
    "check_constraints",
    "check_new_keys",
    "column_lookup_of",
    "evaluate_default",
    "evaluate_where",
    "fill_defaults",
    "find_violations",
    "plan_overwrite",
    "plan_row_changes",
    "plan_update",
    "read_target_rows",
    "select_condition_columns",
    "select_delete_columns",
    "set_column_values",
]

FILE: Final = "mangrove file"


@dataclass(frozen=True, slots=True)
class TargetRows:
    """All visible rows of some files, one file after the other, with the columns `FILE` and `ROW`."""

    scans: tuple[FileScan, ...]
    counts: tuple[int, ...]
    """Number of rows from each of the files."""
    rows: pa.Table

    def parts(self, mask: Any) -> Iterable[tuple[FileScan, pa.Table, Any]]:
        """Yield each file with its rows and its part of a mask."""
        start = 0
        for scan, count in zip(self.scans, self.counts, strict=True):
            yield scan, self.rows.slice(start, count), mask.slice(start, count)
            start += count


def read_target_rows(
    files: FileWriter, state: TableState, columns: Sequence[Column], pruning: Predicate | None = None
) -> TargetRows:
    """Return the visible rows of all files that can contain matching rows, including rows that do not match."""
    found = run_scan_by_file(files.store, state, plan_scan(state, pruning), columns, vectors=files.vectors)
    names = [*(column.name for column in columns), ROW]
    empty = schema_to_arrow(Schema(tuple(columns))).empty_table() if columns else pa.table({})
    empty = empty.append_column(ROW, pa.array([], pa.int64())).append_column(FILE, _repeat_text("", 0))
    parts = [
        part.select(names).append_column(FILE, _repeat_text(scan.file.location, part.num_rows)) for scan, part in found
    ]
    scans = tuple(scan for scan, _ in found)
    return TargetRows(scans, tuple(part.num_rows for part in parts), pa.concat_tables([empty, *parts]))


def _repeat_text(text: str, count: int) -> Any:
    """Return a dictionary-encoded array, because a location is longer than most rows."""
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([text]))


def evaluate_where(rows: pa.Table, condition: Condition, schema: Schema) -> Any:
    """Return for each row whether it matches the condition."""
    if condition.expression is not None:
        return evaluate_condition(condition.expression, rows, column_lookup_of(schema))
    assert condition.predicate is not None
    found = coalesce_to_false(build_predicate_mask(rows, condition.predicate, schema))
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def column_lookup_of(schema: Schema) -> ColumnLookup:
    """Return a lookup of the table's columns by the names in an expression."""

    def column_of(rows: pa.Table, names: tuple[str, ...]) -> Any:
        path: tuple[str, ...] = ()
        for name in names:
            if path and not isinstance(schema.column(*path).type, Struct):
                raise InvalidInputError(f"{'.'.join(names)!r} is inside a list or map, which only Spark can change")
            path = (*path, schema.column(*path, name).name)
        return get_column(rows, path)

    return column_of


def select_condition_columns(schema: Schema, condition: Condition) -> list[Column]:
    """Return the columns of a table that a condition refers to."""
    roots: set[str] = set()
    if condition.expression is not None:
        roots |= {names[0].casefold() for names in collect_column_paths(condition.expression)}
    if condition.predicate is not None:
        roots |= {schema.path_of(column_id)[0].casefold() for column_id in collect_column_ids(condition.predicate)}
    return [column for column in schema.columns if column.name.casefold() in roots]


_EXAMPLES_MAX: Final = 3
_VALUES_MAX: Final = 100
"""Maximum number of keys that are compared with the bounds of every file."""
_PC: Final[Any] = pc


def fill_defaults(rows: pa.Table, state: TableState) -> pa.Table:
    """Return the rows with the defaults of missing columns; given nulls are not replaced."""
    for column in state.schema.columns:
        if column.default is not None and not any(match_by_name(field, column) for field in rows.schema):
            rows = rows.append_column(column.name, evaluate_default(column, rows))
    return rows


def evaluate_default(column: Column, rows: pa.Table) -> Any:
    """Return the default of a column for each row."""
    if column.default is None:
        return pa.nulls(rows.num_rows)
    counted = pa.table({"row": pa.nulls(rows.num_rows)})
    value = evaluate_expression(parse_expression(column.default), counted, _no_column)
    return cast_for_assignment(value, type_to_arrow(column.type), column.name)


def _no_column(_: pa.Table, names: tuple[str, ...]) -> Any:
    raise RequiresSparkError(f"{'.'.join(names)} in a default is known to Spark at most")


def check_constraints(state: TableState, rows: pa.Table) -> None:
    """Raise an error for rows that violate a check constraint; a condition that is null is not violated."""
    for name, text in check_constraints_of(state.version).items():
        broken = find_violations(state, rows, text)
        if broken.num_rows:
            raise build_check_violation_error(state.name, name, text, to_python_rows(broken.slice(0, _EXAMPLES_MAX)))


def find_violations(state: TableState, rows: pa.Table, text: str) -> pa.Table:
    """Return the rows for which a condition is false."""
    condition = parse_condition(text, state.schema)
    if condition.expression is not None:
        holds = evaluate_expression(condition.expression, rows, column_lookup_of(state.schema))
    else:
        assert condition.predicate is not None
        holds = build_predicate_mask(rows, condition.predicate, state.schema)
    return rows.filter(_PC.fill_null(_PC.invert(holds), pa.scalar(value=False)))


def select_delete_columns(state: TableState) -> tuple[Column, ...]:
    """Return the columns to read of the rows that a write deletes."""
    return {DeleteMode.KEYS: state.key_columns, DeleteMode.POSITIONS: (), DeleteMode.COPIES: state.schema.columns}[
        delete_mode_of(state)
    ]


def plan_row_changes(
    files: FileWriter,
    state: TableState,
    target: TargetRows,
    mask: Any,
    new: pa.Table,
    counts: RowCounts,
    read: ReadRows,
) -> PlannedWrite:
    """Plan to delete the target's rows under the mask and to add new rows.

    The target has the `select_delete_columns`, and all visible rows of each of its files.
    """
    check_constraints(state, new)
    added = group_files_by_log(state, files.write(state, new))
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
            deltas[values] = build_append_delta(coming)
            continue
        match delete_mode_of(state):
            case DeleteMode.KEYS:
                deleted_rows = pa.concat_tables([rows.filter(part) for _, rows, part in here])
                alone = replace(state, logs=(logs[values],))
                deltas[values] = _by_keys(files, alone, deleted_rows, new, coming)
            case DeleteMode.POSITIONS:
                numbers = [(scan.file.location, rows.filter(part).column(ROW)) for scan, rows, part in here]
                gone = [files.write_positions(state, location, found) for location, found in numbers]
                deltas[values] = build_position_delete_delta(gone, coming)
            case DeleteMode.COPIES:
                kept = pa.concat_tables([rows.filter(pc.invert(part)) for _, rows, part in here])
                deltas[values] = build_rewrite_delta(
                    [scan.file.location for scan, _, _ in here], [*_write_retained_rows(files, state, kept), *coming]
                )
    return plan_write(deltas, counts, read)


def _by_keys(
    files: FileWriter, state: TableState, deleted_rows: pa.Table, new: pa.Table, coming: Sequence[DataFile]
) -> Delta:
    """Return the delta that deletes rows by their keys.

    Retained rows that share a key with a deleted row are rewritten. If every deleted key is
    written again, an upsert is sufficient.
    """
    keys = state.checked_keys("a change of rows")
    deleted_keys = deduplicate_keys(deleted_rows, keys)
    retained = _read_retained_rows(files, state, deleted_rows, deleted_keys, keys)
    kept = _write_retained_rows(files, state, retained)
    names = [column.name for column in keys]
    back = pa.concat_tables(
        [new.select(names).cast(deleted_keys.schema), retained.select(names).cast(deleted_keys.schema)]
    )
    if not filter_keys_not_in(deleted_keys, back, keys).num_rows:
        return build_upsert_delta([*kept, *coming], state.version.keys)
    key_files = [file for _, file in files.write_keys(state, deleted_keys)]
    return build_delete_delta(key_files, state.version.keys, [*kept, *coming])


def _read_retained_rows(
    files: FileWriter, state: TableState, deleted_rows: pa.Table, deleted_keys: pa.Table, keys: Sequence[Column]
) -> pa.Table:
    """Return retained rows with deleted keys; usually there are none, and only keys are read."""
    near = build_key_range_predicate(deleted_keys, keys)
    beside = filter_keys_in(read_target_rows(files, state, keys, near).rows, deleted_keys, keys)
    if beside.num_rows == deleted_rows.num_rows:
        return schema_to_arrow(state.schema).empty_table()
    rows = filter_keys_in(read_target_rows(files, state, state.schema.columns, near).rows, deleted_keys, keys)
    numbered = _select_addresses(rows).append_column("place", build_row_numbers(rows.num_rows))
    places = numbered.join(_select_addresses(deleted_rows), [FILE, ROW], join_type="left anti").column("place")
    return rows.take(pc.take(places, pc.sort_indices(places)))


def _select_addresses(rows: pa.Table) -> pa.Table:
    """Return file and row number of each row, as columns that can be joined."""
    return pa.table({FILE: rows.column(FILE).cast(pa.string()), ROW: rows.column(ROW)})


def build_key_range_predicate(rows: pa.Table, keys: Sequence[Column]) -> Predicate:
    """Return a predicate that every row with one of these keys satisfies, for pruning files: few values, or bounds."""
    if not rows.num_rows:
        return ConstantPredicate(holds=False)
    bounds: list[Predicate] = []
    for column in keys:
        if rows.num_rows <= _VALUES_MAX:
            values = [to_plain_value(one) for one in rows.column(column.name).unique()]
            present = tuple(value for value in values if value is not None)
            if len(present) == len(values):
                bounds.append(IsIn(column.id, present))
                continue
        ends = pc.min_max(rows.column(column.name))
        for operator, end in ((Operator.GREATER_OR_EQUAL, ends["min"]), (Operator.LESS_OR_EQUAL, ends["max"])):
            value = to_plain_value(end)
            if value is not None:
                bounds.append(ColumnComparison(column.id, operator, value))
    return AllOf(tuple(bounds)) if bounds else ConstantPredicate(holds=True)


def check_new_keys(files: FileWriter, state: TableState, deleted_rows: pa.Table, new: pa.Table) -> None:
    """Raise an error for rows whose keys occur in other new rows or in retained rows."""
    keys = state.checked_keys("a change of rows")
    check_keys_unique(state.name, new, keys)
    names = [column.name for column in keys]
    coming = new.select(names)
    fresh = filter_keys_not_in(coming, deleted_rows.select(names).cast(coming.schema), keys)
    near = build_key_range_predicate(fresh, keys)
    there = run_scan(files.store, state, plan_scan(state, near), keys, near, files.vectors)
    taken = filter_keys_in(there, fresh, keys)
    if taken.num_rows:
        raise InvalidInputError(
            f"{taken.num_rows} row(s) of {state.name} already have keys that other rows would get, for example "
            f"{to_python_rows(taken.slice(0, _EXAMPLES_MAX))}: give each row keys of its own"
        )


def _write_retained_rows(files: FileWriter, state: TableState, rows: pa.Table) -> list[DataFile]:
    """Write retained rows, which stay in their log, and return their files."""
    names = list(state.schema.names)
    return [
        file for there in group_files_by_log(state, files.write(state, rows.select(names))).values() for file in there
    ]


_OVERWRITE_EXAMPLES_MAX = 3


def plan_overwrite(files: FileWriter, state: TableState, condition: Condition, rows: pa.Table | None) -> PlannedWrite:
    """Plan to replace the rows that currently match the condition by `rows`.

    In a table with keys, a written row also replaces the row with the same keys, whether or
    not that one matches.
    """
    keys = state.key_columns if rows is not None else ()
    read_columns = {
        column.id: column
        for column in (*select_delete_columns(state), *select_condition_columns(state.schema, condition), *keys)
    }
    pruning = condition.predicate
    if rows is not None:
        _check_inside(state, condition, rows)
        pruning = AnyOf((pruning, build_key_range_predicate(rows, keys))) if keys and pruning is not None else pruning
    columns = [column for column in state.schema.columns if column.id in read_columns]
    target = read_target_rows(files, state, columns, pruning)
    mask = evaluate_where(target.rows, condition, state.schema)
    if rows is not None and keys:
        mask = pc.or_(mask, build_key_mask(target.rows, rows, keys))
    new = schema_to_arrow(state.schema).empty_table() if rows is None else rows
    counts = RowCounts(inserted=new.num_rows, deleted=_count(mask))
    return plan_row_changes(files, state, target, mask, new, counts, read_condition(condition.predicate))


def _check_inside(state: TableState, condition: Condition, rows: pa.Table) -> None:
    outside = rows.filter(pc.invert(evaluate_where(rows, condition, state.schema)))
    if outside.num_rows:
        raise InvalidInputError(
            f"{outside.num_rows} row(s) for {state.name} do not match `where`, and an overwrite would add them to the "
            f"other rows, for example {to_python_rows(outside.slice(0, _OVERWRITE_EXAMPLES_MAX))}: "
            "leave them out or widen `where`"
        )


def plan_update(
    files: FileWriter, state: TableState, values: dict[str, Expression], condition: Condition
) -> PlannedWrite:
    """Plan an update of columns of the matching rows."""
    target = read_target_rows(files, state, state.schema.columns, condition.predicate)
    mask = evaluate_where(target.rows, condition, state.schema)
    deleted_rows = target.rows.filter(mask)
    arrays = {
        name: evaluate_expression(value, deleted_rows, column_lookup_of(state.schema)) for name, value in values.items()
    }
    new = set_column_values(state.schema, deleted_rows, arrays)
    if any(column.name in values for column in state.key_columns):
        check_new_keys(files, state, deleted_rows, new)
    counts = RowCounts(updated=deleted_rows.num_rows)
    return plan_row_changes(files, state, target, mask, new, counts, read_condition(condition.predicate))


def set_column_values(schema: Schema, rows: pa.Table, values: dict[str, Any]) -> pa.Table:
    """Return the rows of a table with some columns set to evaluated values."""
    arrays = [
        cast_for_assignment(values[column.name], type_to_arrow(column.type), column.name)
        if column.name in values
        else rows.column(column.name)
        for column in schema.columns
    ]
    made = pa.table(arrays, names=list(schema.names))
    return conform_rows(made, schema, match_by_name, is_checked=True)


def _count(mask: Any) -> int:
    return int(pc.sum(mask).as_py() or 0)
