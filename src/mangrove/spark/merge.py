"""Execution of MERGE on Spark.

The source is checkpointed before the join, and the result of the join before its use:
both may return other rows when they are computed again.

An unqualified name refers to the rows that a clause sees: both rows of a matched pair,
only the source row, or only the target row. So each kind of clause is resolved against
its own frame over the join.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from mangrove.errors import InvalidInputError
from mangrove.expressions.predicates import ConstantPredicate
from mangrove.local.python_rows import to_python_rows
from mangrove.model.types import Column as TableColumn
from mangrove.spark.delete_update import build_assignments
from mangrove.spark.merge_pruning import build_source_range_predicate
from mangrove.spark.row_changes import (
    RowLevelChange,
    SparkFileContext,
    check_new_keys,
    key_column_of,
    materialize_frame,
    plan_row_changes,
)
from mangrove.spark.targets import FILE, ROW, column_of, number_files, read_target_rows
from mangrove.spark.types import to_spark_type
from mangrove.tables.constraints import check_stored_expression
from mangrove.tables.merge import (
    Assignable,
    MergeClause,
    MergeKind,
    MergePlan,
    parenthesize,
    resolve_clause_values,
    to_spark_sql,
)
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import PlannedWrite, ReadRows, RowCounts, plan_write, read_matches

__all__ = ["plan_merge"]

_ACTION: Final = "mangrove action"
_SOURCE: Final = "mangrove source"
_TARGET: Final = "mangrove target"
_EXAMPLES_MAX: Final = 3
_PAIRED: Final = (MergeKind.MATCHED_UPDATE, MergeKind.MATCHED_DELETE)
_ALONE: Final = (MergeKind.UNMATCHED_UPDATE, MergeKind.UNMATCHED_DELETE)
_UPDATES: Final = (MergeKind.MATCHED_UPDATE, MergeKind.UNMATCHED_UPDATE)
_GROUPS: Final[tuple[tuple[MergeKind, ...], ...]] = (_PAIRED, (MergeKind.INSERT,), _ALONE)
"""Clauses of one kind: matched, not matched, or not matched by source."""


def plan_merge(files: SparkFileContext, state: TableState, source: DataFrame, plan: MergePlan) -> PlannedWrite:
    """Plan the changes of a MERGE; raise InvalidInputError before anything is committed."""
    plan.check()
    theirs = materialize_frame(source.withColumn(_SOURCE, f.monotonically_increasing_id()))
    # NOT MATCHED BY SOURCE clauses need all target rows.
    near = (
        ConstantPredicate(holds=True) if plan.of_kinds(*_ALONE) else build_source_range_predicate(state, theirs, plan)
    )
    ours = read_target_rows(files.lists, files.root_uri, state, plan_scan(state, near), number_files(state))
    pairs = ours.alias(plan.target_name).join(theirs.alias(plan.source_name), f.expr(parenthesize(plan.on)), _how(plan))
    values = [_values(state, clause, source, plan) for clause in plan.clauses]
    merged = materialize_frame(_apply_clauses(state, pairs, plan, values))
    _check_once(state, merged, plan)
    numbers = {row[_ACTION]: row["count"] for row in merged.groupBy(column_of(_ACTION)).count().collect()}
    read = read_matches(state, near)
    if not numbers:
        return plan_write({}, read=read)
    return _plan_changes(files, state, merged, plan, values, numbers, read)


def _plan_changes(
    files: SparkFileContext,
    state: TableState,
    merged: DataFrame,
    plan: MergePlan,
    values: list[dict[str, Assignable]],
    numbers: dict[int, int],
    read: ReadRows,
) -> PlannedWrite:
    places = range(len(state.key_columns))
    kinds = {number: clause.kind for number, clause in enumerate(plan.clauses)}
    old = column_of(_ACTION).isin([number for number, kind in kinds.items() if kind is not MergeKind.INSERT])
    deleted_rows = merged.where(old).select(
        column_of(FILE), column_of(ROW), *(column_of(key_column_of(place)) for place in places)
    )
    comes = [number for number, kind in kinds.items() if kind in (*_UPDATES, MergeKind.INSERT)]
    coming = merged.where(column_of(_ACTION).isin(comes))
    if state.version.keys:
        _check_keys(files, state, deleted_rows, coming, kinds, values)
    added = files.write(state, coming.select(*map(column_of, state.schema.names)))
    deletes = any(kinds[number] in (MergeKind.MATCHED_DELETE, MergeKind.UNMATCHED_DELETE) for number in numbers)
    moves = any(_moves_keys(state, values[number]) for number in numbers if kinds[number] in _UPDATES)
    counts = RowCounts(
        inserted=sum(count for number, count in numbers.items() if kinds[number] is MergeKind.INSERT),
        updated=sum(count for number, count in numbers.items() if kinds[number] in _UPDATES),
        deleted=sum(count for number, count in numbers.items() if kinds[number] not in (*_UPDATES, MergeKind.INSERT)),
    )
    comes_back = bool(state.version.keys) and not deletes and not moves
    return plan_row_changes(files, state, RowLevelChange(deleted_rows, added, comes_back), counts, read)


def _how(plan: MergePlan) -> str:
    """Return the narrowest join type for the clauses."""
    keeps_target, keeps_source = bool(plan.of_kinds(*_ALONE)), bool(plan.of_kinds(MergeKind.INSERT))
    return {(True, True): "full", (True, False): "left", (False, True): "right", (False, False): "inner"}[
        keeps_target, keeps_source
    ]


def _values(state: TableState, clause: MergeClause, source: DataFrame, plan: MergePlan) -> dict[str, Assignable]:
    if clause.kind in (MergeKind.MATCHED_DELETE, MergeKind.UNMATCHED_DELETE):
        return {}
    return resolve_clause_values(clause, state.schema, source.columns, plan)


def _apply_clauses(
    state: TableState, pairs: DataFrame, plan: MergePlan, values: list[dict[str, Assignable]]
) -> DataFrame:
    """Return for each affected row the clause, the file and position of the old row, its keys and the new row."""
    keys = [
        column_of(key.name, plan.target_name).alias(key_column_of(place)) for place, key in enumerate(state.key_columns)
    ]
    whole = f.struct(*(column_of(name, plan.target_name) for name in state.schema.names)).alias(_TARGET)
    carried = [FILE, ROW, _TARGET, *(key_column_of(place) for place in range(len(keys)))]
    rows = pairs.select(f.col("*"), whole, *keys)
    groups = [group for group in _GROUPS if plan.of_kinds(*group)]
    for group in groups:
        seen = _select_visible_columns(rows, group, plan, carried).withColumn(
            _name(group, _ACTION), _choose_clause(plan, group)
        )
        new = [_new_column(state, seen, one, plan, values, group) for one in state.schema.columns]
        carried += [_name(group, _ACTION), *(_name(group, name) for name in state.schema.names)]
        rows = seen.select(f.col("*"), *new)
    actions = [column_of(_name(group, _ACTION)) for group in groups]
    names = [*(key_column_of(place) for place in range(len(keys))), FILE, ROW]
    found = [_of_its_group(groups, name).alias(name) for name in state.schema.names]
    acted = rows.select(*map(column_of, names), f.coalesce(*actions).alias(_ACTION), *found)
    return acted.where(column_of(_ACTION).isNotNull())


def _select_visible_columns(
    rows: DataFrame, group: tuple[MergeKind, ...], plan: MergePlan, carried: list[str]
) -> DataFrame:
    """Return the rows with the columns that unqualified names in a clause can refer to."""
    if group == _PAIRED:
        return rows
    if group == _ALONE:
        return rows.select(f.col(f"`{_TARGET}`.*"), column_of(_SOURCE), *map(column_of, carried)).alias(
            plan.target_name
        )
    return rows.select(f.col(f"`{plan.source_name}`.*"), *map(column_of, carried))


def _name(group: tuple[MergeKind, ...], name: str) -> str:
    """Return the column aliases of a group's frame."""
    return f"mangrove {group[0].value} {name}"


def _of_its_group(groups: list[tuple[MergeKind, ...]], name: str) -> Column:
    """Return the new value of a column by the selected clause."""
    *others, last = groups
    found = column_of(_name(last, name))
    for group in others:
        found = f.when(column_of(_name(group, _ACTION)).isNotNull(), column_of(_name(group, name))).otherwise(found)
    return found


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
    state: TableState,
    rows: DataFrame,
    one: TableColumn,
    plan: MergePlan,
    values: list[dict[str, Assignable]],
    group: tuple[MergeKind, ...],
) -> Column:
    """Return the value of a column per clause; a branch is evaluated only for its own rows."""
    found: Column | None = None
    for number, (clause, given) in enumerate(zip(plan.clauses, values, strict=True)):
        if clause.kind not in group:
            continue
        applies_here = column_of(_name(group, _ACTION)) == number
        if one.name in given:
            value = build_assignments(state, rows, {one.name: f.expr(to_spark_sql(given[one.name]))})[one.name]
        elif clause.kind is MergeKind.INSERT:
            if one.default is not None:
                check_stored_expression(one.default, f"the default of column {one.name!r}")
            value = f.lit(None) if one.default is None else f.expr(one.default).cast(to_spark_type(one.type))
        else:
            continue
        found = f.when(applies_here, value) if found is None else found.when(applies_here, value)
    old = f.lit(None) if group == (MergeKind.INSERT,) else column_of(one.name, plan.target_name)
    return (old if found is None else found.otherwise(old)).alias(_name(group, one.name))


def _check_once(state: TableState, merged: DataFrame, plan: MergePlan) -> None:
    """Raise InvalidInputError if several source rows change the same target row."""
    paired = [number for number, clause in enumerate(plan.clauses) if clause.kind in _PAIRED]
    if not paired:
        return
    places = range(len(state.key_columns))
    keys = [f.first(column_of(key_column_of(place))).alias(key_column_of(place)) for place in places]
    counted = merged.where(column_of(_ACTION).isin(paired)).groupBy(column_of(FILE), column_of(ROW))
    found = counted.agg(f.count(f.lit(1)).alias("rows"), *keys).where("rows > 1").limit(_EXAMPLES_MAX)
    repeated = to_python_rows(found.toArrow())
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
    deleted_rows: DataFrame,
    coming: DataFrame,
    kinds: dict[int, MergeKind],
    values: list[dict[str, Assignable]],
) -> None:
    """Raise InvalidInputError if a new row has the keys of another row; updated rows keep theirs."""
    keeps = [number for number, kind in kinds.items() if kind in _UPDATES and not _moves_keys(state, values[number])]
    is_retained = column_of(_ACTION).isin(keeps)
    # An updated row keeps the keys of the deleted row, so they are not free for others.
    names = [key_column_of(place) for place in range(len(state.key_columns))]
    keys = [column_of(key.name).alias(name) for key, name in zip(state.key_columns, names, strict=True)]
    new = coming.where(~is_retained).select(*keys)
    if not new.limit(1).count():
        return
    retained = coming.where(is_retained).select(*keys)
    freed = deleted_rows.join(retained, names, "left_anti")
    check_new_keys(files, state, freed, new)


def _moves_keys(state: TableState, given: dict[str, Assignable]) -> bool:
    return any(key.name in given for key in state.key_columns)
