"""Merging a source into a table in this process: pairs of rows are found once, and each row meets its first clause."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.local.changing import changed, check_new_keys
from mangrove.local.constraining import default_of
from mangrove.local.evaluating import Naming, evaluated, is_met
from mangrove.local.files import FileWriter
from mangrove.local.pairing import Pairs, near_source, paired
from mangrove.local.python_rows import python_rows
from mangrove.local.replacing import with_values
from mangrove.local.row_keys import with_keys_in
from mangrove.local.scanning import ROW
from mangrove.local.targets import FILE, TargetRows, target_rows
from mangrove.model.arrow_form import schema_to_arrow
from mangrove.tables.assigning import as_expression
from mangrove.tables.expression_text import parse_expression
from mangrove.tables.merging import MergeClause, MergeKind, MergePlan, clause_values
from mangrove.tables.row_counts import NO_ROWS, RowCounts
from mangrove.tables.table_state import TableState
from mangrove.tables.writing import PlannedWrite

__all__ = ["merged"]

_EXAMPLES_MAX: Final = 3
_UPDATES: Final = (MergeKind.MATCHED_UPDATE, MergeKind.UNMATCHED_UPDATE)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What clauses did: which rows of the table go, and which come in what place."""

    gone: Any
    updated: pa.Table
    inserted: pa.Table
    counts: RowCounts
    moves_keys: bool = False


def merged(files: FileWriter, state: TableState, source: pa.Table, plan: MergePlan) -> PlannedWrite:
    """Return how to do what the clauses say, or refuse it before anything is written."""
    plan.check()
    on = parse_expression(plan.on)
    reads_all = bool(plan.of_kinds(MergeKind.UNMATCHED_UPDATE, MergeKind.UNMATCHED_DELETE))
    pruning = None if reads_all else near_source(state, source, on, plan)
    target = target_rows(files.store, state, state.schema.columns, pruning)
    pairs = paired(target.rows, source, on, plan)
    matched = _by_pairs(state, target, source, pairs, plan)
    left = _by_table_alone(state, target, source, pairs, plan)
    inserted = _by_source_alone(state, source, pairs, plan)
    mask = pc.or_(matched.gone, left.gone)
    new = pa.concat_tables([matched.updated, left.updated, inserted])
    counts = matched.counts + left.counts + RowCounts(inserted=inserted.num_rows)
    if state.version.keys and (inserted.num_rows or matched.moves_keys or left.moves_keys):
        _check_keys(files, state, target.rows.filter(mask), [matched, left], inserted)
    return changed(files, state, target, mask, new, counts)


def _check_keys(
    files: FileWriter, state: TableState, hidden: pa.Table, outcomes: Sequence[_Outcome], inserted: pa.Table
) -> None:
    """Refuse new rows with the keys of others; rows that keep their keys have them by right."""
    moving = [outcome.updated for outcome in outcomes if outcome.moves_keys]
    staying = [outcome.updated for outcome in outcomes if not outcome.moves_keys]
    new = pa.concat_tables([*moving, inserted])
    check_new_keys(files, state, hidden, new)
    for rows in staying:
        taken = with_keys_in(new, rows, state.key_columns)
        if taken.num_rows:
            raise InvalidInputError(
                f"the merge gives {taken.num_rows} row(s) of {state.name} keys that other rows have, for example "
                f"{python_rows(taken.slice(0, _EXAMPLES_MAX))}: give each row keys of its own"
            )


def _by_pairs(state: TableState, target: TargetRows, source: pa.Table, pairs: Pairs, plan: MergePlan) -> _Outcome:
    clauses = plan.of_kinds(MergeKind.MATCHED_UPDATE, MergeKind.MATCHED_DELETE)
    chosen = _first_clause(clauses, pairs.rows, pairs.naming)
    acted = pairs.numbers.filter(pc.greater_equal(chosen, pa.scalar(0, pa.int64())))
    _check_once(state, target, acted)
    return _outcome(state, target, source, plan, clauses, chosen, pairs.rows, pairs.numbers.column("t"), pairs.naming)


def _by_table_alone(state: TableState, target: TargetRows, source: pa.Table, pairs: Pairs, plan: MergePlan) -> _Outcome:
    clauses = plan.of_kinds(MergeKind.UNMATCHED_UPDATE, MergeKind.UNMATCHED_DELETE)
    rows, numbers, naming = pairs.target_alone(target.rows)
    chosen = _first_clause(clauses, rows, naming)
    return _outcome(state, target, source, plan, clauses, chosen, rows, numbers, naming)


def _by_source_alone(state: TableState, source: pa.Table, pairs: Pairs, plan: MergePlan) -> pa.Table:
    clauses = plan.of_kinds(MergeKind.INSERT)
    rows, naming = pairs.source_alone(source)
    chosen = _first_clause(clauses, rows, naming)
    parts = [schema_to_arrow(state.schema).empty_table()]
    for number, clause in enumerate(clauses):
        taken = rows.filter(pc.equal(chosen, pa.scalar(number, pa.int64())))
        values = clause_values(clause, state.schema, source.column_names, plan)
        given = {name: evaluated(as_expression(value), taken, naming) for name, value in values.items()}
        others = {one.name: default_of(one, taken) for one in state.schema.columns if one.name not in given}
        parts.append(with_values(state.schema, taken, {**others, **given}))
    return pa.concat_tables(parts)


def _outcome(
    state: TableState,
    target: TargetRows,
    source: pa.Table,
    plan: MergePlan,
    clauses: Sequence[MergeClause],
    chosen: Any,
    rows: pa.Table,
    numbers: Any,
    naming: Naming,
) -> _Outcome:
    """Return what the chosen clauses do to the rows of the table with these numbers."""
    counts, moves_keys = NO_ROWS, False
    parts = [schema_to_arrow(state.schema).empty_table()]
    keys = {column.name for column in state.key_columns}
    for number, clause in enumerate(clauses):
        takes = pc.equal(chosen, pa.scalar(number, pa.int64()))
        count = int(pc.sum(takes).as_py() or 0)
        if clause.kind not in _UPDATES:
            counts += RowCounts(deleted=count)
            continue
        values = clause_values(clause, state.schema, source.column_names, plan)
        taken = rows.filter(takes)
        given = {name: evaluated(as_expression(value), taken, naming) for name, value in values.items()}
        old = target.rows.take(numbers.filter(takes)).drop_columns([FILE, ROW])
        new = with_values(state.schema, old, given)
        parts.append(new)
        counts += RowCounts(updated=count)
        moves_keys |= any(not new.column(name).equals(old.column(name)) for name in keys & values.keys())
    acted = numbers.filter(pc.greater_equal(chosen, pa.scalar(0, pa.int64())))
    gone = pc.is_in(pa.array(range(target.rows.num_rows), pa.int64()), acted)
    return _Outcome(gone, pa.concat_tables(parts), parts[0], counts, moves_keys)


def _first_clause(clauses: Sequence[MergeClause], rows: pa.Table, naming: Naming) -> Any:
    """Return for each row the number of the first clause that applies, or -1; later ones are not evaluated for it."""
    chosen = pa.array([-1] * rows.num_rows, pa.int64())
    for number, clause in enumerate(clauses):
        is_open: Any = pc.equal(chosen, pa.scalar(-1, pa.int64()))
        if clause.where is not None:
            places = pa.array(range(rows.num_rows), pa.int64()).filter(is_open)
            met = is_met(parse_expression(clause.where), rows.take(places), naming)
            is_open = pc.is_in(pa.array(range(rows.num_rows), pa.int64()), places.filter(met))
        chosen = pc.if_else(is_open, pa.scalar(number, pa.int64()), chosen)
    return chosen


def _check_once(state: TableState, target: TargetRows, acted: pa.Table) -> None:
    """Refuse a merge in which several rows of the source would change one row of the table."""
    counts = acted.group_by("t").aggregate([([], "count_all")])
    repeated = counts.filter(pc.greater(counts.column("count_all"), pa.scalar(1, pa.int64())))
    if repeated.num_rows:
        names = [column.name for column in state.key_columns] or list(state.schema.names)
        examples = python_rows(target.rows.take(repeated.column("t").slice(0, _EXAMPLES_MAX)).select(names))
        raise InvalidInputError(
            f"{repeated.num_rows} row(s) of {state.name} are matched by several rows of the source, and nothing says "
            f"which of them counts, for example {examples}: leave one row of the source for each of them"
        )
