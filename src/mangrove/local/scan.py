"""Execution of scan plans with Arrow: predicate masks, equality deletes and position deletes.

The two columns have the names and ids that Iceberg gives them, so that its readers
understand the files as they are.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.expressions.predicates import (
    AllOf,
    AnyOf,
    ColumnComparison,
    ConstantPredicate,
    IsIn,
    IsNull,
    Operator,
    Predicate,
    StartsWith,
    collect_column_ids,
)
from mangrove.local.keys import filter_visible_rows, find_newest_deletes
from mangrove.local.parallel import map_parallel
from mangrove.local.parquet import read_columns
from mangrove.local.row_numbers import build_row_numbers
from mangrove.model.arrow_schema import schema_to_arrow, type_to_arrow
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Decimal, Float32, Float64, Int16, Int32, Int64, Varchar
from mangrove.model.values import Value
from mangrove.storage.port import Store
from mangrove.tables.scan_plan import EqualityDelete, FileScan, ScanPlan, plan_scan
from mangrove.tables.table_state import TableState

__all__ = [
    "FILE_PATH",
    "POSITION",
    "ROW",
    "build_position_delete_rows",
    "build_predicate_mask",
    "coalesce_to_false",
    "count_visible_rows",
    "get_column",
    "read_deleted_positions",
    "run_scan",
    "run_scan_by_file",
    "select_columns",
]

FILE_PATH: Final = Column(2_147_483_546, "file_path", Varchar())
POSITION: Final = Column(2_147_483_545, "pos", Int64())


def build_position_delete_rows(location: str, positions: Any) -> pa.Table:
    """Return the rows of a file that hides rows of the file at `location`."""
    ordered = pc.take(positions, pc.sort_indices(positions))
    arrow = schema_to_arrow(Schema((FILE_PATH, POSITION)))
    return pa.table([pa.repeat(pa.scalar(location), len(ordered)), ordered.cast(pa.int64())], schema=arrow)


def read_deleted_positions(store: Store, scan: FileScan) -> Any:
    """Return the numbers of the rows of a file that are hidden, as one array."""
    found = []
    for file in scan.position_deletes:
        rows = read_columns(store, file, (FILE_PATH, POSITION))
        found.append(rows.filter(pc.equal(rows.column("file_path"), pa.scalar(scan.file.location))).column("pos"))
    return pa.chunked_array([chunk for column in found for chunk in column.chunks], pa.int64()).combine_chunks()


_COMPARE: Final[dict[Operator, str]] = {
    Operator.EQUAL: "equal",
    Operator.UNEQUAL: "not_equal",
    Operator.LESS: "less",
    Operator.LESS_OR_EQUAL: "less_equal",
    Operator.GREATER: "greater",
    Operator.GREATER_OR_EQUAL: "greater_equal",
}
"""Arrow's functions by name: naming them loads none of them."""
_WITH_NAN: Final = {Operator.UNEQUAL, Operator.GREATER, Operator.GREATER_OR_EQUAL}


def build_predicate_mask(rows: pa.Table, predicate: Predicate, schema: Schema) -> Any:
    """Return true for each row that is meant, else false or null; `rows` has the columns that are asked about."""
    match predicate:
        case ConstantPredicate(holds):
            return pa.chunked_array([pa.repeat(pa.scalar(holds), rows.num_rows)])
        case AllOf(parts):
            return functools.reduce(pc.and_kleene, [build_predicate_mask(rows, part, schema) for part in parts])
        case AnyOf(parts):
            return functools.reduce(pc.or_kleene, [build_predicate_mask(rows, part, schema) for part in parts])
        case ColumnComparison() | IsNull() | IsIn() | StartsWith():
            return _leaf_mask(rows, predicate, schema)
        case _:
            assert_never(predicate)


def coalesce_to_false(mask: Any) -> Any:
    """Return the mask with false where it is not known to be true, as SQL leaves such rows out."""
    no: Any = pa.scalar(value=False)
    return pc.fill_null(mask, no)


def get_column(rows: pa.Table, path: tuple[str, ...]) -> Any:
    """Return a column, or one inside of structs."""
    array: Any = rows.column(path[0])
    for name in path[1:]:
        array = pc.struct_field(array, name)
    return array


def _leaf_mask(rows: pa.Table, leaf: ColumnComparison | IsNull | IsIn | StartsWith, schema: Schema) -> Any:
    column = schema.column_with_id(leaf.column_id)
    array = get_column(rows, schema.path_of(leaf.column_id))
    match leaf:
        case IsNull(_, negated):
            return pc.is_valid(array) if negated else pc.is_null(array)
        case ColumnComparison(_, operator, value):
            return _compare_column(array, column, operator, value)
        case IsIn(_, values, negated):
            equal = [_compare_column(array, column, Operator.EQUAL, value) for value in values]
            found = functools.reduce(pc.or_kleene, equal)
            return pc.invert(found) if negated else found
        case StartsWith(_, prefix, negated):
            found = pc.starts_with(array, prefix)
            return pc.invert(found) if negated else found
        case _:
            assert_never(leaf)


def _compare_column(array: Any, column: Column, operator: Operator, value: Value) -> Any:
    match column.type:
        case Int16() | Int32() | Int64():
            # The value may lie beyond what a narrow column can hold.
            return pc.call_function(_COMPARE[operator], [array.cast(pa.int64()), pa.scalar(value, pa.int64())])
        case Decimal(_, scale):
            wide = pa.decimal128(38, scale)
            return pc.call_function(_COMPARE[operator], [array.cast(wide), pa.scalar(value, wide)])
        case Float32() | Float64():
            wide_array = array.cast(pa.float64())
            found = pc.call_function(_COMPARE[operator], [wide_array, pa.scalar(value, pa.float64())])
            is_nan = pc.is_nan(wide_array)
            if operator in _WITH_NAN:
                return pc.or_kleene(found, is_nan)
            return pc.and_kleene(found, pc.invert(is_nan))
        case _:
            return pc.call_function(_COMPARE[operator], [array, pa.scalar(value, type_to_arrow(column.type))])


T = TypeVar("T")

ROW: Final = "mangrove row"
"""The column that numbers the rows of a file from 0; with a space, so that no column of ours meets it by accident."""


def select_columns(state: TableState, names: Sequence[str] | None) -> tuple[Column, ...]:
    """Return the columns of a table with these names in the order asked, or all."""
    if names is None:
        return state.schema.columns
    are_texts = not isinstance(names, str) and all(isinstance(name, str) for name in names)
    if not are_texts or len({name.casefold() for name in names}) != len(names):
        raise InvalidInputError(f"columns are asked for as {names!r}: give a list of names, each once")
    return tuple(state.schema.column(name) for name in names)


def run_scan(
    store: Store, state: TableState, plan: ScanPlan, columns: Sequence[Column], predicate: Predicate | None = None
) -> pa.Table:
    """Return the rows that a plan means, with these columns."""
    names = [column.name for column in columns]
    parts = [part.select(names) for _, part in run_scan_by_file(store, state, plan, columns, predicate)]
    if not columns:
        return pa.table({"rows": pa.nulls(sum(part.num_rows for part in parts))}).select([])
    arrow = schema_to_arrow(Schema(tuple(columns)))
    return pa.concat_tables([arrow.empty_table(), *parts])


def count_visible_rows(store: Store, state: TableState) -> int:
    """Return how many rows a table has; only keys are read, and only where they can hide rows."""
    plan = plan_scan(state)
    touched = replace(plan, scans=tuple(scan for scan in plan.scans if not scan.is_whole))
    free = sum(scan.file.row_count for scan in plan.scans if scan.is_whole)
    return free + sum(part.num_rows for _, part in run_scan_by_file(store, state, touched, ()))


def run_scan_by_file(
    store: Store, state: TableState, plan: ScanPlan, columns: Sequence[Column], predicate: Predicate | None = None
) -> list[tuple[FileScan, pa.Table]]:
    """Return the rows of each file that are visible and meant, with at least these columns, and numbered.

    A predicate is applied before keys are compared: both only leave rows out, and
    the fewer there are the less is compared.
    """
    reading = _ScanReader(store, state, _with_predicate_columns(state, columns, predicate), predicate)
    key_files = {key_file.file.location: key_file for key_file in plan.key_files}
    keys_of: dict[str, pa.Table] = {}

    def opened(scan: FileScan) -> pa.Table:
        key_file = key_files.get(scan.file.location)
        rows, keys = reading.rows(scan, key_file)
        if key_file is not None:
            keys_of[scan.file.location] = keys
        return rows

    parts = map_parallel(opened, plan.scans)
    # What was read for its rows had its keys read along with them.
    unread = [key_file for location, key_file in key_files.items() if location not in keys_of]
    keys_of |= dict(zip((one.file.location for one in unread), map_parallel(reading.keys, unread), strict=True))
    for (log_values, key_ids), delete_files in _group_equality_deletes(plan).items():
        keys = reading.key_columns(key_ids)
        newest = find_newest_deletes([(keys_of[one.file.location], one.position) for one in delete_files], keys)
        compared = [
            place
            for place, scan in enumerate(plan.scans)
            if scan.log_values == log_values and any(one.key_ids == key_ids for one in scan.equality_deletes)
        ]
        visible = filter_visible_rows([(parts[place], plan.scans[place].position) for place in compared], newest, keys)
        for place, part in zip(compared, visible, strict=True):
            parts[place] = part
    return list(zip(plan.scans, parts, strict=True))


@dataclass(frozen=True, slots=True)
class _ScanReader:
    """Opens the files of one scan, each of them once."""

    store: Store
    state: TableState
    requested: Sequence[Column]
    predicate: Predicate | None

    def rows(self, scan: FileScan, key_file: EqualityDelete | None) -> tuple[pa.Table, pa.Table]:
        """Return the numbered rows of a file that are meant, and its keys where they hide rows of others."""
        delete_files = self.key_columns(() if key_file is None else key_file.key_ids)
        met = dict.fromkeys(key_id for one in scan.equality_deletes for key_id in one.key_ids)
        needed = dict.fromkeys([*self.requested, *self.key_columns(met), *delete_files])
        found = read_columns(self.store, scan.file, tuple(needed))
        rows = _number_rows(found)
        if scan.position_deletes:
            rows = rows.filter(pc.invert(pc.is_in(rows.column(ROW), read_deleted_positions(self.store, scan))))
        if self.predicate is not None:
            rows = rows.filter(build_predicate_mask(rows, self.predicate, self.state.schema))
        return rows, found.select([column.name for column in delete_files])

    def keys(self, key_file: EqualityDelete) -> pa.Table:
        """Return the keys of a file whose rows are not asked for."""
        return read_columns(self.store, key_file.file, self.key_columns(key_file.key_ids))

    def key_columns(self, key_ids: Iterable[int]) -> list[Column]:
        return [self.state.schema.column_with_id(key_id) for key_id in key_ids]


def _group_equality_deletes(
    plan: ScanPlan,
) -> dict[tuple[tuple[Value | None, ...], tuple[int, ...]], list[EqualityDelete]]:
    """Return the files of keys that can be compared at once: those of one log with the same columns."""
    groups: dict[tuple[tuple[Value | None, ...], tuple[int, ...]], dict[str, EqualityDelete]] = {}
    for scan in plan.scans:
        for one in scan.equality_deletes:
            groups.setdefault((scan.log_values, one.key_ids), {})[one.file.location] = one
    return {which: list(found.values()) for which, found in groups.items()}


def _number_rows(rows: pa.Table) -> pa.Table:
    return rows.append_column(ROW, build_row_numbers(rows.num_rows))


def _with_predicate_columns(state: TableState, columns: Sequence[Column], predicate: Predicate | None) -> list[Column]:
    """Return the columns with those in which the predicate looks."""
    roots = {state.schema.path_of(column_id)[0] for column_id in (collect_column_ids(predicate) if predicate else ())}
    return list(dict.fromkeys([*columns, *(column for column in state.schema.columns if column.name in roots)]))
