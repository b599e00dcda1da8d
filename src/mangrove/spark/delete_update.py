"""Planning of deletes, updates and overwrites on Spark, with defaults and check constraints."""

import re
from collections.abc import Mapping
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType as SparkType

from mangrove.errors import InvalidInputError
from mangrove.expressions.parse import SparkCondition, parse_pruning_predicate
from mangrove.expressions.predicates import AnyOf, Predicate, render_predicate_sql
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
from mangrove.spark.deletion_vectors import FILE, ROW
from mangrove.spark.driver_changes import DriverChanges, compute_changes_in_driver
from mangrove.spark.row_changes import (
    FilesByLog,
    RowIds,
    RowLevelChange,
    SparkFileContext,
    build_key_range_predicate,
    can_collect,
    check_new_keys,
    check_rows_match,
    collect_row_ids,
    count_row_ids,
    key_column_of,
    load_key_index_meanwhile,
    materialize_frame,
    plan_position_deletes,
    plan_row_changes,
    plan_upsert_of_changes,
    write_delete_keys,
)
from mangrove.spark.scan import column_of, read_target_rows, to_listed_files
from mangrove.spark.types import from_spark_type, reorder_struct_fields, to_spark_schema, to_spark_type
from mangrove.spark.write_checks import cast_without_overflow, check_distinct_keys
from mangrove.tables.constraints import build_check_violation_error, check_constraints_of, check_stored_expression
from mangrove.tables.merge import Assignable, parenthesize, resolve_assignments, to_spark_sql
from mangrove.tables.scan_plan import ScanPlan, plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.type_compatibility import can_assign_type, check_columns
from mangrove.tables.write_plan import (
    DeleteMode,
    PlannedWrite,
    ReadRows,
    RowCounts,
    build_delete_delta,
    build_partition_predicate,
    check_dynamic_overwrite,
    delete_mode_of,
    plan_write,
    read_condition,
)

__all__ = [
    "apply_defaults_and_checks",
    "build_assignments",
    "plan_delete_keys",
    "plan_delete_where",
    "plan_dynamic_overwrite",
    "plan_overwrite_where",
    "plan_update",
    "render_condition_sql",
    "select_delete_keys",
    "translate_check_violation",
]


def render_condition_sql(where: str | Predicate | SparkCondition | None, schema: Schema) -> str:
    """Return a Spark condition; predicates are translated and SQL text is passed unchanged."""
    if isinstance(where, SparkCondition):
        return f"{render_predicate_sql(where.predicate, schema)} and ({where.text})"
    predicate = parse_pruning_predicate(where, schema)
    if predicate is not None:
        return render_predicate_sql(predicate, schema)
    return "true" if where is None else parenthesize(str(where))


def select_delete_keys(state: TableState) -> list[Column]:
    """Return the keys of a deleted row under their column aliases."""
    return [column_of(key.name).alias(key_column_of(place)) for place, key in enumerate(state.key_columns)]


def plan_delete_where(
    files: SparkFileContext, state: TableState, where: str | Predicate | SparkCondition
) -> PlannedWrite:
    """Plan the deletion of the rows that match a condition."""
    pruning = _at_most(where, state.schema)
    plan = plan_scan(state, pruning)
    read = read_condition(pruning)
    changes = compute_changes_in_driver(files, state, plan, where)
    if changes is not None:
        return _plan_driver_changes(files, state, changes, RowCounts(deleted=changes.deleted_rows.num_rows), read)
    with load_key_index_meanwhile(files, state, plan):
        matched = _read_targets(files, state, plan).where(render_condition_sql(where, state.schema))
        ids = matched.select(column_of(FILE), column_of(ROW), *select_delete_keys(state))
        if delete_mode_of(state) is DeleteMode.POSITIONS and not can_collect(plan.row_count):
            return plan_position_deletes(files, state, ids, read)
        deleted_rows = _evaluate_once(ids, plan)
    count = count_row_ids(deleted_rows)
    if not count:
        return plan_write({}, read=read)
    return plan_row_changes(files, state, RowLevelChange(deleted_rows), RowCounts(deleted=count), read)


def plan_delete_keys(files: SparkFileContext, state: TableState, frame: DataFrame) -> PlannedWrite:
    """Plan a blind deletion of the rows with the keys of a frame."""
    keys = state.checked_keys("a delete by keys")
    given = {one.name: from_spark_type(one.dataType, one.name) for one in frame.schema.fields}
    only_keys = Schema(keys, state.schema.schema_id, state.schema.last_column_id)
    check_columns(f"the keys of {state.name}", only_keys, given)
    own = {name.casefold(): name for name in frame.columns}
    cast = [column_of(own[key.name.casefold()]).cast(to_spark_type(key.type)).alias(key.name) for key in keys]
    found = write_delete_keys(files, state, frame.select(*cast))
    deltas = {
        values: build_delete_delta([file for other, file in found if other == values], state.version.keys)
        for values in dict.fromkeys(values for values, _ in found)
    }
    return plan_write(deltas, counts=RowCounts(deleted=None))


def plan_overwrite_where(
    files: SparkFileContext, state: TableState, rows: DataFrame, where: str | Predicate | SparkCondition
) -> PlannedWrite:
    """Plan the replacement of the rows that match a condition or have the same keys."""
    return _plan_overwrite(files, state, files.write(state, rows), where)


def plan_dynamic_overwrite(files: SparkFileContext, state: TableState, rows: DataFrame) -> PlannedWrite:
    """Plan a dynamic partition overwrite.

    The written files determine the partitions, so the rows are computed once.
    """
    check_dynamic_overwrite(state)
    added = files.write(state, rows)
    touched = build_partition_predicate(state, (values for values, _ in added))
    return plan_write({}) if touched is None else _plan_overwrite(files, state, added, touched)


def _plan_overwrite(
    files: SparkFileContext, state: TableState, added: FilesByLog, where: str | Predicate | SparkCondition
) -> PlannedWrite:
    new = files.lists.read(to_listed_files([file for _, file in added], files.root_uri), to_spark_schema(state.schema))
    condition = render_condition_sql(where, state.schema)
    check_rows_match(state, new, condition)
    pruning = _at_most(where, state.schema)
    numbers = [column_of(FILE), column_of(ROW), *select_delete_keys(state)]
    if state.version.keys:
        state.checked_keys("an overwrite of some rows")
        check_distinct_keys(files.lists, files.store, files.root_uri, state, [file for _, file in added])
        coming = new.select(*select_delete_keys(state))
        near = build_key_range_predicate(state, coming)
        plan = plan_scan(state, None if pruning is None else AnyOf((pruning, near)))
        looked = _read_targets(files, state, plan)
        same = [column_of(key.name) == column_of(key_column_of(place)) for place, key in enumerate(state.key_columns)]
        alike = looked.join(coming, same, "left_semi")
        frame = looked.where(condition).select(*numbers).union(alike.select(*numbers)).dropDuplicates([FILE, ROW])
    else:
        plan = plan_scan(state, pruning)
        frame = _read_targets(files, state, plan).where(condition).select(*numbers)
    deleted_rows = _evaluate_once(frame, plan)
    counts = RowCounts(inserted=sum(file.row_count for _, file in added), deleted=count_row_ids(deleted_rows))
    return plan_row_changes(files, state, RowLevelChange(deleted_rows, added), counts, read_condition(pruning))


def plan_update(
    files: SparkFileContext,
    state: TableState,
    values: Mapping[str, Assignable],
    where: str | Predicate | SparkCondition | None,
) -> PlannedWrite:
    """Plan an update of the rows that match a condition."""
    checked = resolve_assignments(values, state.schema)
    pruning = _at_most(where, state.schema)
    read = read_condition(pruning)
    plan = plan_scan(state, pruning)
    moves_keys = any(key.name in checked for key in state.key_columns)
    if not moves_keys:
        changes = compute_changes_in_driver(files, state, plan, where, checked)
        if changes is not None:
            counts = RowCounts(updated=changes.deleted_rows.num_rows)
            return _plan_driver_changes(files, state, changes, counts, read)
    matched = _read_targets(files, state, plan).where(render_condition_sql(where, state.schema))
    new = build_assignments(state, matched, {name: f.expr(to_spark_sql(value)) for name, value in checked.items()})
    columns = [new.get(one.name, column_of(one.name)) for one in state.schema.columns]
    if can_collect(plan.row_count) and not moves_keys and delete_mode_of(state) is DeleteMode.KEYS:
        write = plan_upsert_of_changes(files, state, plan, matched.select(*columns), read)
        if write is not None:
            return write
    rows = matched.select(column_of(FILE), column_of(ROW), *select_delete_keys(state), *columns)
    updated = materialize_frame(rows)
    ids = updated.select(
        column_of(FILE), column_of(ROW), *(column_of(key_column_of(place)) for place in _places(state))
    )
    deleted_rows = collect_row_ids(ids, plan.row_count)
    count = count_row_ids(deleted_rows)
    if not count:
        return plan_write({}, read=read)
    coming = updated.select(*map(column_of, state.schema.names))
    if moves_keys:
        check_new_keys(files, state, ids, coming.select(*select_delete_keys(state)))
    change = RowLevelChange(
        deleted_rows, files.write(state, coming), keys_reinserted=bool(state.version.keys) and not moves_keys
    )
    return plan_row_changes(files, state, change, RowCounts(updated=count), read)


def _plan_driver_changes(
    files: SparkFileContext, state: TableState, changes: DriverChanges, counts: RowCounts, read: ReadRows
) -> PlannedWrite:
    if not changes.deleted_rows.num_rows:
        return plan_write({}, read=read)
    added = files.create_writer().write(state, changes.new_rows)
    change = RowLevelChange(changes.deleted_rows, added, keys_reinserted=bool(state.version.keys) and bool(added))
    return plan_row_changes(files, state, change, counts, read)


def build_assignments(state: TableState, rows: DataFrame, values: Mapping[str, Column]) -> dict[str, Column]:
    """Return the values in the types of the table's columns; an explicit cast is required to narrow a type."""
    typed = rows.select(*(value.alias(f"value {place}") for place, value in enumerate(values.values())))
    columns = {}
    for (name, value), one in zip(values.items(), typed.schema.fields, strict=True):
        target = state.schema.column(name)
        given = from_spark_type(one.dataType, name)
        if given is not None and not can_assign_type(target.type, given):
            raise InvalidInputError(
                f"column {name!r} is {format_type(target.type)} and is set to {format_type(given)}; use cast(… as …)"
            )
        message = f"column {name!r} is {format_type(target.type)}, which cannot hold "
        columns[name] = _cast_value(value, one.dataType, to_spark_type(target.type), message).alias(name)
    return columns


def _cast_value(value: Column, given: SparkType, target: SparkType, message: str) -> Column:
    """Return the value in another type; a value of the same type needs no calls of the JVM."""
    if given == target:
        return value
    ordered: Column = reorder_struct_fields(value, given, target)
    if ordered is value:
        ordered = cast_without_overflow(value, given, target, message)
    return ordered.cast(target)


def _at_most(where: str | Predicate | SparkCondition | None, schema: Schema) -> Predicate | None:
    """Return a predicate that all matching rows satisfy, or None if unknown."""
    return where.predicate if isinstance(where, SparkCondition) else parse_pruning_predicate(where, schema)


def _read_targets(files: SparkFileContext, state: TableState, plan: ScanPlan) -> DataFrame:
    return read_target_rows(files.lists, files.root_uri, state, plan)


def _evaluate_once(ids: DataFrame, plan: ScanPlan) -> RowIds:
    return collect_row_ids(ids if can_collect(plan.row_count) else materialize_frame(ids), plan.row_count)


def _places(state: TableState) -> range:
    return range(len(state.key_columns))


_BROKEN: Final = re.compile(r"mangrove check (\d+) is broken by (\{.*?\})(?: SQLSTATE|\n|$)", re.DOTALL)


def apply_defaults_and_checks(rows: DataFrame, state: TableState) -> DataFrame:
    """Return the rows with defaults for missing columns; a violated check constraint fails the job."""
    given = {name.casefold() for name in rows.columns}
    for one in state.schema.columns:
        if one.default is not None and one.name.casefold() not in given:
            check_stored_expression(one.default, f"the default of column {one.name!r}")
            rows = rows.withColumn(one.name, f.expr(one.default).cast(to_spark_type(one.type)))
    checks = list(check_constraints_of(state.version).values())
    if not checks:
        return rows
    given = {name.casefold() for name in rows.columns}
    # Constraints reference the table's columns; a missing column is null.
    for one in state.schema.columns:
        if one.name.casefold() not in given and one.nullable:
            rows = rows.withColumn(one.name, f.lit(None).cast(to_spark_type(one.type)))
    for number, text in enumerate(checks):
        violation = f.concat(f.lit(f"mangrove check {number} is broken by "), f.to_json(f.struct("*")))
        holds = f.expr(f"coalesce(({render_condition_sql(text, state.schema)}), true)")
        guard: Any = f.when(holds, f.expr("true")).otherwise(f.raise_error(violation).cast("boolean"))
        rows = rows.where(guard)
    return rows


def translate_check_violation(error: PySparkException, state: TableState) -> InvalidInputError | None:
    """Return the error for a violated check constraint, if that is why Spark failed."""
    found = _BROKEN.search(str(error))
    if found is None:
        return None
    name, text = list(check_constraints_of(state.version).items())[int(found[1])]
    return build_check_violation_error(state.name, name, text, found[2])
