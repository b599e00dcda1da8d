"""Execution of MERGE with Arrow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.expressions.expr import Expression, split_conjuncts
from mangrove.expressions.parse import parse_expression
from mangrove.expressions.predicates import AllOf, ConstantPredicate, IsIn, Predicate
from mangrove.local.casts import build_requires_spark_error, cast_array, find_common_type
from mangrove.local.data_files import FileWriter
from mangrove.local.evaluation import ColumnLookup, evaluate_condition, evaluate_expression
from mangrove.local.keys import filter_keys_in
from mangrove.local.python_rows import to_plain_value, to_python_rows
from mangrove.local.row_changes import (
    FILE,
    TargetRows,
    build_key_range_predicate,
    check_new_keys,
    evaluate_default,
    plan_row_changes,
    read_target_rows,
    set_column_values,
)
from mangrove.local.row_numbers import build_row_numbers
from mangrove.local.scan import ROW
from mangrove.model.arrow_schema import schema_to_arrow, type_to_arrow
from mangrove.model.names import suggest_name
from mangrove.model.types import Column, is_nested
from mangrove.tables.merge import (
    MergeClause,
    MergeKind,
    MergePlan,
    match_equality,
    resolve_clause_values,
    to_expression,
)
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import NO_ROWS, PlannedWrite, RowCounts, read_matches

__all__ = ["MergePairs", "build_source_range_predicate", "find_pairs", "plan_merge"]

_PAIRS_MAX: Final = 10_000_000
"""The maximum number of pairs compared without an equality condition."""
_VALUES_MAX: Final = 1_000
"""The maximum number of source rows whose values are part of the read set; above it their bounds are."""
_PA: Final[Any] = pa


@dataclass(frozen=True, slots=True)
class MergePairs:
    """Matching rows by their row numbers `t` and `s`, joined to one table."""

    numbers: pa.Table
    rows: pa.Table
    naming: ColumnLookup
    plan: MergePlan

    def unmatched_target(self, target: pa.Table) -> tuple[pa.Table, Any, ColumnLookup]:
        """Return the rows of the table without a match, with their row numbers."""
        numbers = _list_unpaired(target.num_rows, self.numbers.column("t"))
        return (
            _prefix_columns(target.take(numbers), "t"),
            numbers,
            _build_column_lookup({self.plan.target_name: "t"}, [target], ["t"]),
        )

    def unmatched_source(self, source: pa.Table) -> tuple[pa.Table, ColumnLookup]:
        """Return the rows of the source without a match."""
        numbers = _list_unpaired(source.num_rows, self.numbers.column("s"))
        return _prefix_columns(source.take(numbers), "s"), _build_column_lookup(
            {self.plan.source_name: "s"}, [source], ["s"]
        )


def find_pairs(target: pa.Table, source: pa.Table, on: Expression, plan: MergePlan) -> MergePairs:
    """Return the pairs that satisfy `on`: a join on equal columns, then a filter."""
    naming = _build_column_lookup({plan.target_name: "t", plan.source_name: "s"}, [target, source], ["t", "s"])
    equal, others = _split_equalities(target, source, on, plan)
    numbers = _join_on_equalities(target, source, equal) if equal else _cross_join(target, source)
    rows = _combine_pairs(target, source, numbers)
    for condition in others:
        holds = evaluate_condition(condition, rows, naming)
        numbers, rows = numbers.filter(holds), rows.filter(holds)
    return MergePairs(numbers, rows, naming, plan)


def build_source_range_predicate(
    state: TableState, source: pa.Table, on: Expression, plan: MergePlan
) -> Predicate | None:
    """Return a predicate for the table rows that can match, from the bounds of the equality columns."""
    values = _find_equality_values(state, source, on, plan)
    if not values:
        return None
    columns = list(values)
    return build_key_range_predicate(pa.table([*values.values()], names=[one.name for one in columns]), columns)


def _build_source_values_predicate(
    state: TableState, source: pa.Table, on: Expression, plan: MergePlan
) -> Predicate | None:
    """Return a narrower predicate for the table rows that can match: the values of a small source.

    Conflict detection compares it with few files. Pruning compares bounds with all files.
    """
    if source.num_rows > _VALUES_MAX:
        return build_source_range_predicate(state, source, on, plan)
    parts: list[Predicate] = []
    for column, array in _find_equality_values(state, source, on, plan).items():
        values = [to_plain_value(one) for one in pc.unique(array.drop_null())]
        present = tuple(value for value in values if value is not None)
        if len(present) == len(values):
            parts.append(IsIn(column.id, present) if present else ConstantPredicate(holds=False))
    return AllOf(tuple(parts)) if parts else None


def _find_equality_values(state: TableState, source: pa.Table, on: Expression, plan: MergePlan) -> dict[Column, Any]:
    """Return the source values of the table columns that `on` equates with the source."""
    target = pa.schema([(column.name, type_to_arrow(column.type)) for column in state.schema.columns]).empty_table()
    equal, _ = _split_equalities(target, source, on, plan)
    found: dict[Column, Any] = {}
    for ours, theirs in equal:
        column = state.schema.column(ours)
        try:
            array = cast_array(_flatten(source.column(theirs)), type_to_arrow(column.type))
        except MangroveError:
            # A value outside the column type matches nothing and is ignored.
            continue
        if not is_nested(column.type):
            found.setdefault(column, array)
    return found


def _split_equalities(
    target: pa.Table, source: pa.Table, on: Expression, plan: MergePlan
) -> tuple[list[tuple[str, str]], list[Expression]]:
    """Return the equality columns and the remaining conditions."""
    equal: list[tuple[str, str]] = []
    others: list[Expression] = []
    for condition in split_conjuncts(on):
        pair = _find_equal_columns(condition, target, source, plan)
        (others.append(condition) if pair is None else equal.append(pair))
    return equal, others


def _find_equal_columns(
    condition: Expression, target: pa.Table, source: pa.Table, plan: MergePlan
) -> tuple[str, str] | None:
    pair = match_equality(condition, plan)
    if pair is None:
        return None
    ours, theirs = _resolve_column_name(target, pair[0]), _resolve_column_name(source, pair[1])
    common_type = find_common_type(target.schema.field(ours).type, source.schema.field(theirs).type)
    return None if pa.types.is_floating(common_type) or pa.types.is_nested(common_type) else (ours, theirs)


def _join_on_equalities(target: pa.Table, source: pa.Table, equal: list[tuple[str, str]]) -> pa.Table:
    left, right = {}, {}
    for place, (ours, theirs) in enumerate(equal):
        common_type = find_common_type(target.schema.field(ours).type, source.schema.field(theirs).type)
        left[f"key{place}"] = cast_array(_flatten(target.column(ours)), common_type)
        right[f"key{place}"] = cast_array(_flatten(source.column(theirs)), common_type)
    ours_table = pa.table({**left, "t": build_row_numbers(target.num_rows)})
    theirs_table = pa.table({**right, "s": build_row_numbers(source.num_rows)})
    return (
        ours_table.join(theirs_table, list(left), join_type="inner")
        .select(["t", "s"])
        .sort_by([("t", "ascending"), ("s", "ascending")])
    )


def _cross_join(target: pa.Table, source: pa.Table) -> pa.Table:
    if target.num_rows * source.num_rows > _PAIRS_MAX:
        raise build_requires_spark_error(
            f"`on` compares {target.num_rows} rows with {source.num_rows} without any equal column"
        )
    ours = [number for number in range(target.num_rows) for _ in range(source.num_rows)]
    theirs = list(range(source.num_rows)) * target.num_rows
    return pa.table({"t": pa.array(ours, pa.int64()), "s": pa.array(theirs, pa.int64())})


def _combine_pairs(target: pa.Table, source: pa.Table, numbers: pa.Table) -> pa.Table:
    ours = _prefix_columns(target.take(numbers.column("t")), "t")
    theirs = _prefix_columns(source.take(numbers.column("s")), "s")
    joined: pa.Table = _PA.table([*ours.columns, *theirs.columns], names=[*ours.column_names, *theirs.column_names])
    return joined


def _prefix_columns(rows: pa.Table, side: str) -> pa.Table:
    return rows.rename_columns([f"{side}.{name}" for name in rows.column_names])


def _list_unpaired(count: int, numbers: Any) -> Any:
    every = build_row_numbers(count)
    return every.filter(pc.invert(pc.is_in(every, _flatten(numbers))))


def _flatten(array: Any) -> Any:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _resolve_column_name(rows: pa.Table, name: str) -> str:
    found = [one for one in rows.column_names if one.casefold() == name.casefold()]
    if len(found) != 1:
        theirs = [one for one in rows.column_names if one not in (FILE, ROW)]
        raise InvalidInputError(f"there is no column {name!r} for the merge{suggest_name(name, theirs)}")
    return found[0]


def _build_column_lookup(aliases: dict[str, str], tables: list[pa.Table], sides: list[str]) -> ColumnLookup:
    """Return a lookup of columns in joined rows: `t.amount`, or `amount` if only one side has it."""
    by_alias = {alias.casefold(): side for alias, side in aliases.items()}
    by_side = dict(zip(sides, tables, strict=True))

    def find_column(rows: pa.Table, names: tuple[str, ...]) -> Any:
        side = by_alias.get(names[0].casefold()) if len(names) > 1 else None
        path = names[1:] if side is not None else names
        if side is None:
            having = [
                one
                for one, table in by_side.items()
                if any(name.casefold() == names[0].casefold() for name in table.column_names)
            ]
            if len(having) > 1:
                raise InvalidInputError(f"column {names[0]!r} is in the table and in the source: write t.{names[0]}")
            side = having[0] if having else next(iter(by_side))
        array: Any = rows.column(f"{side}.{_resolve_column_name(by_side[side], path[0])}")
        for name in path[1:]:
            array = _get_field(array, name)
        return array

    return find_column


def _get_field(array: Any, name: str) -> Any:
    if not pa.types.is_struct(array.type):
        raise build_requires_spark_error(f"{name!r} is asked of {array.type}")
    fields = [array.type.field(place).name for place in range(array.type.num_fields)]
    own = next((one for one in fields if one.casefold() == name.casefold()), None)
    if own is None:
        raise InvalidInputError(f"there is no column {name!r} in the struct{suggest_name(name, fields)}")
    pick: Callable[..., Any] = pc.struct_field
    return pick(array, own)


_EXAMPLES_MAX: Final = 3
_UPDATES: Final = (MergeKind.MATCHED_UPDATE, MergeKind.UNMATCHED_UPDATE)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Result of clauses: the removed rows of the table, and the updated and inserted rows."""

    gone: Any
    updated: pa.Table
    inserted: pa.Table
    counts: RowCounts
    moves_keys: bool = False


def plan_merge(files: FileWriter, state: TableState, source: pa.Table, plan: MergePlan) -> PlannedWrite:
    """Plan a merge; raise an error before anything is written if the clauses cannot be applied."""
    plan.check()
    on = parse_expression(plan.on)
    reads_all = bool(plan.of_kinds(MergeKind.UNMATCHED_UPDATE, MergeKind.UNMATCHED_DELETE))
    pruning = None if reads_all else build_source_range_predicate(state, source, on, plan)
    target = read_target_rows(files, state, state.schema.columns, pruning)
    pairs = find_pairs(target.rows, source, on, plan)
    matched = _merge_pairs(state, target, source, pairs, plan)
    left = _merge_unmatched_target(state, target, source, pairs, plan)
    inserted = _merge_unmatched_source(state, source, pairs, plan)
    mask = pc.or_(matched.gone, left.gone)
    new = pa.concat_tables([matched.updated, left.updated, inserted])
    counts = matched.counts + left.counts + RowCounts(inserted=inserted.num_rows)
    if state.version.keys and (inserted.num_rows or matched.moves_keys or left.moves_keys):
        _check_keys(files, state, target.rows.filter(mask), [matched, left], inserted)
    read = None if reads_all else _build_source_values_predicate(state, source, on, plan)
    return plan_row_changes(files, state, target, mask, new, counts, read_matches(state, read))


def _check_keys(
    files: FileWriter, state: TableState, deleted_rows: pa.Table, outcomes: Sequence[_Outcome], inserted: pa.Table
) -> None:
    """Raise an error for new rows with existing keys; updated rows may keep their own keys."""
    moving = [outcome.updated for outcome in outcomes if outcome.moves_keys]
    retained = [outcome.updated for outcome in outcomes if not outcome.moves_keys]
    new = pa.concat_tables([*moving, inserted])
    check_new_keys(files, state, deleted_rows, new)
    for rows in retained:
        taken = filter_keys_in(new, rows, state.key_columns)
        if taken.num_rows:
            raise InvalidInputError(
                f"the merge would create duplicate keys in {taken.num_rows} row(s) of {state.name}, for example "
                f"{to_python_rows(taken.slice(0, _EXAMPLES_MAX))}: give each row keys of its own"
            )


def _merge_pairs(
    state: TableState, target: TargetRows, source: pa.Table, pairs: MergePairs, plan: MergePlan
) -> _Outcome:
    clauses = plan.of_kinds(MergeKind.MATCHED_UPDATE, MergeKind.MATCHED_DELETE)
    chosen = _choose_clause(clauses, pairs.rows, pairs.naming)
    acted = pairs.numbers.filter(pc.greater_equal(chosen, pa.scalar(0, pa.int64())))
    _check_once(state, target, acted)
    return _apply_clauses(
        state, target, source, plan, clauses, chosen, pairs.rows, pairs.numbers.column("t"), pairs.naming
    )


def _merge_unmatched_target(
    state: TableState, target: TargetRows, source: pa.Table, pairs: MergePairs, plan: MergePlan
) -> _Outcome:
    clauses = plan.of_kinds(MergeKind.UNMATCHED_UPDATE, MergeKind.UNMATCHED_DELETE)
    rows, numbers, naming = pairs.unmatched_target(target.rows)
    chosen = _choose_clause(clauses, rows, naming)
    return _apply_clauses(state, target, source, plan, clauses, chosen, rows, numbers, naming)


def _merge_unmatched_source(state: TableState, source: pa.Table, pairs: MergePairs, plan: MergePlan) -> pa.Table:
    clauses = plan.of_kinds(MergeKind.INSERT)
    rows, naming = pairs.unmatched_source(source)
    chosen = _choose_clause(clauses, rows, naming)
    parts = [schema_to_arrow(state.schema).empty_table()]
    for number, clause in enumerate(clauses):
        taken = rows.filter(pc.equal(chosen, pa.scalar(number, pa.int64())))
        values = resolve_clause_values(clause, state.schema, source.column_names, plan)
        given = {name: evaluate_expression(to_expression(value), taken, naming) for name, value in values.items()}
        others = {one.name: evaluate_default(one, taken) for one in state.schema.columns if one.name not in given}
        parts.append(set_column_values(state.schema, taken, {**others, **given}))
    return pa.concat_tables(parts)


def _apply_clauses(
    state: TableState,
    target: TargetRows,
    source: pa.Table,
    plan: MergePlan,
    clauses: Sequence[MergeClause],
    chosen: Any,
    rows: pa.Table,
    numbers: Any,
    naming: ColumnLookup,
) -> _Outcome:
    """Return the result of the chosen clauses for the rows of the table with these numbers."""
    counts, moves_keys = NO_ROWS, False
    parts = [schema_to_arrow(state.schema).empty_table()]
    keys = {column.name for column in state.key_columns}
    for number, clause in enumerate(clauses):
        takes = pc.equal(chosen, pa.scalar(number, pa.int64()))
        count = int(pc.sum(takes).as_py() or 0)
        if clause.kind not in _UPDATES:
            counts += RowCounts(deleted=count)
            continue
        values = resolve_clause_values(clause, state.schema, source.column_names, plan)
        taken = rows.filter(takes)
        given = {name: evaluate_expression(to_expression(value), taken, naming) for name, value in values.items()}
        old = target.rows.take(numbers.filter(takes)).drop_columns([FILE, ROW])
        new = set_column_values(state.schema, old, given)
        parts.append(new)
        counts += RowCounts(updated=count)
        moves_keys |= any(not new.column(name).equals(old.column(name)) for name in keys & values.keys())
    acted = numbers.filter(pc.greater_equal(chosen, pa.scalar(0, pa.int64())))
    gone = pc.is_in(build_row_numbers(target.rows.num_rows), acted)
    return _Outcome(gone, pa.concat_tables(parts), parts[0], counts, moves_keys)


def _choose_clause(clauses: Sequence[MergeClause], rows: pa.Table, naming: ColumnLookup) -> Any:
    """Return for each row the number of the first clause that applies, or -1; later ones are not evaluated for it."""
    chosen = pa.array([-1] * rows.num_rows, pa.int64())
    for number, clause in enumerate(clauses):
        is_open: Any = pc.equal(chosen, pa.scalar(-1, pa.int64()))
        if clause.where is not None:
            places = build_row_numbers(rows.num_rows).filter(is_open)
            met = evaluate_condition(parse_expression(clause.where), rows.take(places), naming)
            is_open = pc.is_in(build_row_numbers(rows.num_rows), places.filter(met))
        chosen = pc.if_else(is_open, pa.scalar(number, pa.int64()), chosen)
    return chosen


def _check_once(state: TableState, target: TargetRows, acted: pa.Table) -> None:
    """Raise an error if several source rows would change the same row of the table."""
    counts = acted.group_by("t").aggregate([([], "count_all")])
    repeated = counts.filter(pc.greater(counts.column("count_all"), pa.scalar(1, pa.int64())))
    if repeated.num_rows:
        names = [column.name for column in state.key_columns] or list(state.schema.names)
        examples = to_python_rows(target.rows.take(repeated.column("t").slice(0, _EXAMPLES_MAX)).select(names))
        raise InvalidInputError(
            f"{repeated.num_rows} row(s) of {state.name} are matched by several rows of the source, and nothing says "
            f"which of them counts, for example {examples}: leave one row of the source for each of them"
        )
