"""Execution of MERGE on Spark.

The source is checkpointed before the join, and the result of the join before its use:
both may return other rows when they are computed again.

An unqualified name refers to the rows that a clause sees: both rows of a matched pair,
only the source row, or only the target row. So each kind of clause is resolved against
its own frame over the join.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Final, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from mangrove.errors import InvalidInputError
from mangrove.expressions.predicates import ConstantPredicate
from mangrove.local.keys import filter_keys_not_in
from mangrove.local.python_rows import to_python_rows
from mangrove.local.row_changes import check_new_keys as check_new_keys_here
from mangrove.local.row_numbers import build_row_numbers
from mangrove.model.types import Column as TableColumn
from mangrove.spark.delete_update import build_assignments
from mangrove.spark.deletion_vectors import FILE, ROW
from mangrove.spark.merge_pruning import (
    ValueRange,
    filter_matching_rows,
    find_equated_columns,
    is_comparison_exact,
    measure_values,
)
from mangrove.spark.row_changes import (
    RowIds,
    RowLevelChange,
    SparkFileContext,
    can_collect,
    check_new_keys,
    collect_row_ids,
    conform_keys,
    key_column_of,
    materialize_frame,
    plan_row_changes,
    plan_upsert_of_changes,
)
from mangrove.spark.scan import column_of, quote_name, read_target_rows
from mangrove.spark.types import to_spark_type
from mangrove.tables.constraints import check_stored_expression
from mangrove.tables.merge import (
    Assignable,
    MergeClause,
    MergeKind,
    MergePlan,
    find_matched_keys,
    find_source_column,
    parenthesize,
    resolve_clause_values,
    to_spark_sql,
)
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import (
    DeleteMode,
    PlannedWrite,
    ReadRows,
    RowCounts,
    delete_mode_of,
    estimate_row_bytes,
    plan_write,
    read_matches,
)

__all__ = ["plan_merge"]

_ACTION: Final = "mangrove action"
_SOURCE: Final = "mangrove source"
_TARGET: Final = "mangrove target"
_EXAMPLES_MAX: Final = 3
_BROADCAST_BYTES_MAX: Final = 64 * 1024 * 1024
"""Maximum size of the target rows that are broadcast; they must be found within Spark's time limit."""
_PAIRED: Final = (MergeKind.MATCHED_UPDATE, MergeKind.MATCHED_DELETE)
_ALONE: Final = (MergeKind.UNMATCHED_UPDATE, MergeKind.UNMATCHED_DELETE)
_UPDATES: Final = (MergeKind.MATCHED_UPDATE, MergeKind.UNMATCHED_UPDATE)
_DELETES: Final = (MergeKind.MATCHED_DELETE, MergeKind.UNMATCHED_DELETE)
_GROUPS: Final[tuple[tuple[MergeKind, ...], ...]] = (_PAIRED, (MergeKind.INSERT,), _ALONE)
"""Clauses of one kind: matched, not matched, or not matched by source."""


def plan_merge(files: SparkFileContext, state: TableState, source: DataFrame, plan: MergePlan) -> PlannedWrite:
    """Plan the changes of a MERGE; raise InvalidInputError before anything is committed."""
    plan.check()
    theirs = materialize_frame(source.withColumn(_SOURCE, f.monotonically_increasing_id()))
    equated = find_equated_columns(state, theirs, plan)
    by_keys = bool(state.key_columns) and {*state.key_columns} <= {one for one, _ in equated}
    # NOT MATCHED BY SOURCE clauses need all target rows.
    reads_all = bool(plan.of_kinds(*_ALONE))
    matching = ValueRange(ConstantPredicate(holds=True)) if reads_all else measure_values(theirs, equated)
    near = matching.predicate
    target = plan_scan(state, near)
    ours = read_target_rows(files.lists, files.root_uri, state, target)
    if not reads_all:
        ours = filter_matching_rows(ours, theirs, equated, matching, state.schema)
        source_bytes = (matching.row_count or 0) * estimate_row_bytes(state.schema)
        if by_keys and can_collect(target.row_count) and source_bytes <= _BROADCAST_BYTES_MAX:
            ours = f.broadcast(ours)
    pairs = ours.alias(plan.target_name).join(theirs.alias(plan.source_name), f.expr(parenthesize(plan.on)), _how(plan))
    values = [_values(state, clause, source, plan) for clause in plan.clauses]
    changes = _apply_clauses(state, pairs, plan, values)
    moving = _find_moving_clauses(state, theirs, plan, values, equated)
    read = read_matches(state, near)
    if can_collect(target.row_count) and _is_upsert(state, plan, moving):
        rows = changes.selectExpr(*map(quote_name, state.schema.names))
        write = plan_upsert_of_changes(files, state, target, rows, read)
        if write is not None:
            return write
    merged = materialize_frame(changes)
    # A source row that is compared by the keys matches about one row.
    count_max = target.row_count + matching.row_count if by_keys and matching.row_count is not None else sys.maxsize
    return _plan_changes(files, state, merged, plan, moving, count_max, read)


def _is_upsert(state: TableState, plan: MergePlan, moving: set[int]) -> bool:
    """Return whether the merge updates rows, which keep their keys, and inserts only keys that the table lacks."""
    if not state.version.keys or delete_mode_of(state) is not DeleteMode.KEYS or plan.of_kinds(*_DELETES) or moving:
        return False
    return not plan.of_kinds(MergeKind.INSERT) or find_matched_keys(plan, state.key_columns) is not None


def _plan_changes(
    files: SparkFileContext,
    state: TableState,
    merged: DataFrame,
    plan: MergePlan,
    moving: set[int],
    count_max: int,
    read: ReadRows,
) -> PlannedWrite:
    keys = [key_column_of(place) for place in range(len(state.key_columns))]
    columns = [_ACTION, FILE, ROW, *keys, *(key.name for key in state.key_columns)]
    ids = collect_row_ids(merged.select(*map(column_of, columns)), count_max)
    numbers = _count_actions(ids)
    if not numbers:
        return plan_write({}, read=read)
    kinds = {number: plan.clauses[number].kind for number in numbers}
    _check_once(state, ids, [number for number, kind in kinds.items() if kind in _PAIRED])
    changed = [number for number, kind in kinds.items() if kind is not MergeKind.INSERT]
    comes = [number for number, kind in kinds.items() if kind in (*_UPDATES, MergeKind.INSERT)]
    updates_keys = any(kinds[number] is not MergeKind.INSERT for number in moving & kinds.keys())
    new = [number for number in comes if kinds[number] is MergeKind.INSERT or number in moving]
    if state.version.keys and new:
        _check_keys(files, state, ids, changed, [number for number in comes if number not in new], new)
    coming = merged.where(column_of(_ACTION).isin(comes))
    added = files.write(state, coming.select(*map(column_of, state.schema.names)))
    deletes = any(kind in _DELETES for kind in kinds.values())
    counts = RowCounts(
        inserted=sum(count for number, count in numbers.items() if kinds[number] is MergeKind.INSERT),
        updated=sum(count for number, count in numbers.items() if kinds[number] in _UPDATES),
        deleted=sum(count for number, count in numbers.items() if kinds[number] in _DELETES),
    )
    comes_back = bool(state.version.keys) and not deletes and not updates_keys
    return plan_row_changes(
        files, state, RowLevelChange(_filter_actions(ids, changed), added, comes_back), counts, read
    )


def _count_actions(ids: RowIds) -> dict[int, int]:
    """Return the number of rows on which each clause acts."""
    if isinstance(ids, pa.Table):
        numbers, counts = np.unique(ids.column(_ACTION).to_numpy(), return_counts=True)
        return dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    return {row[_ACTION]: row["count"] for row in ids.groupBy(column_of(_ACTION)).count().collect()}


@overload
def _filter_actions(ids: pa.Table, actions: Sequence[int]) -> pa.Table: ...
@overload
def _filter_actions(ids: DataFrame, actions: Sequence[int]) -> DataFrame: ...
def _filter_actions(ids: RowIds, actions: Sequence[int]) -> RowIds:
    """Return the rows on which one of these clauses acts."""
    if isinstance(ids, pa.Table):
        return ids.filter(pc.is_in(ids.column(_ACTION), value_set=pa.array(actions, ids.schema.field(_ACTION).type)))
    return ids.where(column_of(_ACTION).isin(list(actions)))


def _how(plan: MergePlan) -> str:
    """Return the narrowest join type for the clauses."""
    keeps_target, keeps_source = bool(plan.of_kinds(*_ALONE)), bool(plan.of_kinds(MergeKind.INSERT))
    return {(True, True): "full", (True, False): "left", (False, True): "right", (False, False): "inner"}[
        keeps_target, keeps_source
    ]


def _values(state: TableState, clause: MergeClause, source: DataFrame, plan: MergePlan) -> dict[str, Assignable]:
    if clause.kind in _DELETES:
        return {}
    return resolve_clause_values(clause, state.schema, source.columns, plan)


def _apply_clauses(
    state: TableState, pairs: DataFrame, plan: MergePlan, values: list[dict[str, Assignable]]
) -> DataFrame:
    """Return for each affected row the clause, the file and position of the old row, its keys and the new row."""
    target = quote_name(plan.target_name)
    keys = {key_column_of(place): key.name for place, key in enumerate(state.key_columns)}
    whole = ", ".join(f"{target}.{quote_name(name)}" for name in state.schema.names)
    carried = [FILE, ROW, _TARGET, *keys]
    # Text takes far fewer calls of the JVM than columns.
    old_keys = [f"{target}.{quote_name(name)} as {quote_name(alias)}" for alias, name in keys.items()]
    rows = pairs.selectExpr("*", f"struct({whole}) as {quote_name(_TARGET)}", *old_keys)
    groups = [group for group in _GROUPS if plan.of_kinds(*group)]
    for group in groups:
        seen = _select_visible_columns(rows, group, plan, carried).withColumn(
            _name(group, _ACTION), _choose_clause(plan, group)
        )
        # All values of a clause are analyzed at once: each analysis of a plan takes as long as a small job.
        assigned = {
            number: build_assignments(
                state, seen, {name: f.expr(to_spark_sql(value)) for name, value in values[number].items()}
            )
            for number, clause in enumerate(plan.clauses)
            if clause.kind in group
        }
        new = [_new_column(one, plan, assigned, group) for one in state.schema.columns]
        carried += [_name(group, _ACTION), *(_name(group, name) for name in state.schema.names)]
        rows = seen.select(f.col("*"), *new)
    actions = ", ".join(quote_name(_name(group, _ACTION)) for group in groups)
    found = [_render_new_value(groups, name) for name in state.schema.names]
    acted = rows.selectExpr(
        *map(quote_name, [*keys, FILE, ROW]), f"coalesce({actions}) as {quote_name(_ACTION)}", *found
    )
    return acted.where(f"{quote_name(_ACTION)} is not null")


def _select_visible_columns(
    rows: DataFrame, group: tuple[MergeKind, ...], plan: MergePlan, carried: list[str]
) -> DataFrame:
    """Return the rows with the columns that unqualified names in a clause can refer to."""
    if group == _PAIRED:
        return rows
    if group == _ALONE:
        visible = rows.selectExpr(f"{quote_name(_TARGET)}.*", *map(quote_name, [_SOURCE, *carried]))
        return visible.alias(plan.target_name)
    return rows.selectExpr(f"{quote_name(plan.source_name)}.*", *map(quote_name, carried))


def _name(group: tuple[MergeKind, ...], name: str) -> str:
    """Return the column aliases of a group's frame."""
    return f"mangrove {group[0].value} {name}"


def _render_new_value(groups: list[tuple[MergeKind, ...]], name: str) -> str:
    """Return the new value of a column by the selected clause as SQL."""
    *others, last = groups
    found = quote_name(_name(last, name))
    for group in others:
        action, value = quote_name(_name(group, _ACTION)), quote_name(_name(group, name))
        found = f"if({action} is not null, {value}, {found})"
    return f"{found} as {quote_name(name)}"


def _choose_clause(plan: MergePlan, group: tuple[MergeKind, ...]) -> Column:
    """Return the number of the first matching clause of a joined row, or null."""
    has_target, has_source = column_of(ROW).isNotNull(), column_of(_SOURCE).isNotNull()
    is_theirs = {
        _PAIRED: has_target & has_source,
        _ALONE: has_target & ~has_source,
        (MergeKind.INSERT,): ~has_target & has_source,
    }[group]
    found: Column | None = None
    for number, clause in enumerate(plan.clauses):
        if clause.kind in group:
            applies = is_theirs if clause.where is None else is_theirs & _holds(clause.where)
            found = f.when(applies, number) if found is None else found.when(applies, number)
    assert found is not None
    return found


def _holds(where: str) -> Column:
    """Return a boolean condition; CASE WHEN in Spark rejects other types."""
    return f.when(f.expr(parenthesize(where)), f.lit(True)).otherwise(f.lit(False))  # noqa: FBT003 - Spark's own form


def _new_column(
    one: TableColumn, plan: MergePlan, assigned: Mapping[int, Mapping[str, Column]], group: tuple[MergeKind, ...]
) -> Column:
    """Return the value of a column per clause; a branch is evaluated only for its own rows."""
    alias = _name(group, one.name)
    if group != (MergeKind.INSERT,) and not any(one.name in given for given in assigned.values()):
        # Text takes far fewer calls of the JVM than columns.
        return f.expr(f"{quote_name(plan.target_name)}.{quote_name(one.name)} as {quote_name(alias)}")
    found: Column | None = None
    for number, given in assigned.items():
        applies_here = f.expr(f"{quote_name(_name(group, _ACTION))} = {number}")
        if one.name in given:
            value = given[one.name]
        elif plan.clauses[number].kind is MergeKind.INSERT:
            if one.default is not None:
                check_stored_expression(one.default, f"the default of column {one.name!r}")
            value = f.lit(None) if one.default is None else f.expr(one.default).cast(to_spark_type(one.type))
        else:
            continue
        found = f.when(applies_here, value) if found is None else found.when(applies_here, value)
    old = f.lit(None) if group == (MergeKind.INSERT,) else column_of(one.name, plan.target_name)
    return (old if found is None else found.otherwise(old)).alias(alias)


def _check_once(state: TableState, ids: RowIds, paired: Sequence[int]) -> None:
    """Raise InvalidInputError if several source rows change the same target row."""
    changed = _filter_actions(ids, paired)
    places = range(len(state.key_columns))
    if isinstance(changed, pa.Table):
        numbered = changed.append_column("place", build_row_numbers(changed.num_rows))
        counted = numbered.group_by([FILE, ROW]).aggregate([("place", "count"), ("place", "min")])
        several = counted.filter(pc.greater(counted.column("place_count"), pa.scalar(1, pa.int64())))
        repeated = to_python_rows(changed.take(several.column("place_min").slice(0, _EXAMPLES_MAX)))
    else:
        keys = [f.first(column_of(key_column_of(place))).alias(key_column_of(place)) for place in places]
        frame = changed.groupBy(column_of(FILE), column_of(ROW)).agg(f.count(f.lit(1)).alias("rows"), *keys)
        repeated = to_python_rows(frame.where("rows > 1").limit(_EXAMPLES_MAX).toArrow())
    if repeated:
        examples = [
            {key.name: row[key_column_of(place)] for place, key in enumerate(state.key_columns)} or {"row": row[ROW]}
            for row in repeated
        ]
        raise InvalidInputError(
            f"some rows of {state.name} are matched by several source rows, "
            f"for example {examples}; deduplicate the source"
        )


def _check_keys(
    files: SparkFileContext,
    state: TableState,
    ids: RowIds,
    changed: Sequence[int],
    retained: Sequence[int],
    new: Sequence[int],
) -> None:
    """Raise InvalidInputError if rows of the clauses `new` have the keys of other rows.

    Rows of `changed` clauses leave their keys, but those of `retained` clauses keep them.
    """
    old_names = [key_column_of(place) for place in range(len(state.key_columns))]
    names = [key.name for key in state.key_columns]
    if isinstance(ids, pa.Table):
        old = conform_keys(state, _filter_actions(ids, changed), old_names)
        same, given = (conform_keys(state, _filter_actions(ids, some), names) for some in (retained, new))
        check_new_keys_here(files.create_writer(), state, filter_keys_not_in(old, same, state.key_columns), given)
    else:
        pairs = zip(names, old_names, strict=True)
        keys = [column_of(name).alias(alias) for name, alias in pairs]
        left = _filter_actions(ids, changed).select(*map(column_of, old_names))
        freed = left.join(_filter_actions(ids, retained).select(*keys), old_names, "left_anti")
        check_new_keys(files, state, freed, _filter_actions(ids, new).select(*keys))


def _find_moving_clauses(
    state: TableState,
    source: DataFrame,
    plan: MergePlan,
    values: Sequence[Mapping[str, Assignable]],
    equated: Sequence[tuple[TableColumn, str]],
) -> set[int]:
    """Return the clauses that may set a key to another value than `on` compares it with; a new row needs a value."""
    same = {
        (one.name, name.casefold())
        for one, name in equated
        if is_comparison_exact(to_spark_type(one.type), source.schema[name].dataType)
    }

    def is_moved(key: str, clause: MergeClause, given: Mapping[str, Assignable]) -> bool:
        if key not in given:
            return clause.kind is MergeKind.INSERT
        return (key, find_source_column(given[key], plan)) not in same

    return {
        number
        for number, (clause, given) in enumerate(zip(plan.clauses, values, strict=True))
        if clause.kind not in _DELETES and any(is_moved(key.name, clause, given) for key in state.key_columns)
    }
