"""Deletes, overwrites and updates on Spark: whatever condition and expression it understands, on the executors."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from mangrove.errors import InvalidInputError
from mangrove.model.schema import Schema
from mangrove.model.sql_text import type_text
from mangrove.spark.changing import (
    Change,
    Placed,
    SparkFiles,
    change_rows,
    key_name,
    near_keys,
    written_keys,
)
from mangrove.spark.checking import check_inside, check_new_keys, settled
from mangrove.spark.distinct_keys import check_distinct_keys
from mangrove.spark.nesting import by_field_names
from mangrove.spark.overflow import cast_without_overflow
from mangrove.spark.scan import listed
from mangrove.spark.targets import FILE, ROW, column, file_numbers, target_rows
from mangrove.spark.types import column_type, spark_schema, spark_type
from mangrove.storage.opening import open_store
from mangrove.tables.assigning import Assignable, alone, as_sql, checked_assignments
from mangrove.tables.conditions import Narrowed, pruning_predicate
from mangrove.tables.conversion import assigns, check_columns
from mangrove.tables.predicate_sql import predicate_sql
from mangrove.tables.predicates import AnyOf, Constant, Predicate
from mangrove.tables.row_counts import RowCounts
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import TableState
from mangrove.tables.touched import check_touchable, touched_partitions
from mangrove.tables.writing import PlannedWrite, deleted, planned

__all__ = [
    "assigned",
    "condition_sql",
    "deleted_keys",
    "deleted_where",
    "hidden_keys",
    "overwritten_partitions",
    "overwritten_where",
    "updated",
]


def condition_sql(where: str | Predicate | Narrowed | None, schema: Schema) -> str:
    """Return the condition for Spark: our predicates in its words, and all other texts as they are."""
    if isinstance(where, Narrowed):
        return f"{predicate_sql(where.predicate, schema)} and ({where.text})"
    predicate = pruning_predicate(where, schema)
    if predicate is not None:
        return predicate_sql(predicate, schema)
    return "true" if where is None else alone(str(where))


def hidden_keys(state: TableState) -> list[Column]:
    """Return the keys of a row that is to be hidden, under the names that it has then."""
    return [column(key.name).alias(key_name(place)) for place, key in enumerate(state.key_columns)]


def deleted_where(files: SparkFiles, state: TableState, where: str | Predicate | Narrowed) -> PlannedWrite:
    """Return how to delete the rows that a condition means."""
    rows = _looked_at(files, state, _at_most(where, state.schema))
    meant = rows.where(condition_sql(where, state.schema))
    hidden = settled(meant.select(column(FILE), column(ROW), *hidden_keys(state)))
    count = hidden.count()
    if not count:
        return planned({}, state)
    return change_rows(files, state, Change(hidden), RowCounts(deleted=count))


def deleted_keys(files: SparkFiles, state: TableState, frame: DataFrame) -> PlannedWrite:
    """Return how to delete the rows with the keys of a frame, without looking at what is there."""
    keys = state.checked_keys("a delete by keys")
    given = {one.name: column_type(one.dataType, one.name) for one in frame.schema.fields}
    only_keys = Schema(keys, state.schema.schema_id, state.schema.last_column_id)
    check_columns(f"the keys of {state.name}", only_keys, given)
    own = {name.casefold(): name for name in frame.columns}
    cast = [column(own[key.name.casefold()]).cast(spark_type(key.type)).alias(key.name) for key in keys]
    found = written_keys(files, state, frame.select(*cast))
    deltas = {
        values: deleted([file for other, file in found if other == values], state.version.keys)
        for values in dict.fromkeys(values for values, _ in found)
    }
    return planned(deltas, counts=RowCounts(deleted=None))


def overwritten_where(files: SparkFiles, state: TableState, rows: DataFrame, where: str | Predicate) -> PlannedWrite:
    """Return how to put rows in the place of those that a condition means, and of those with the same keys."""
    return _overwritten(files, state, files.write(state, rows), where)


def overwritten_partitions(files: SparkFiles, state: TableState, rows: DataFrame) -> PlannedWrite:
    """Return how to put rows in the place of those in the partitions that they lie in.

    What was written says which these are, so the rows are computed once.
    """
    check_touchable(state)
    added = files.write(state, rows)
    touched = touched_partitions(state, (values for values, _ in added))
    return planned({}) if touched is None else _overwritten(files, state, added, touched)


def _overwritten(files: SparkFiles, state: TableState, added: Placed, where: str | Predicate) -> PlannedWrite:
    new = files.lists.read(listed([file for _, file in added], files.root_uri), spark_schema(state.schema))
    condition = condition_sql(where, state.schema)
    check_inside(state, new, condition)
    pruning = pruning_predicate(where, state.schema)
    numbers = [column(FILE), column(ROW), *hidden_keys(state)]
    if state.version.keys:
        state.checked_keys("an overwrite of some rows")
        store = open_store(files.store_uri, files.storage_options)
        check_distinct_keys(files.lists, store, files.root_uri, state, [file for _, file in added])
        coming = new.select(*hidden_keys(state))
        near = near_keys(state, coming)
        looked = _looked_at(files, state, None if pruning is None else AnyOf((pruning, near)))
        same = [column(key.name) == column(key_name(place)) for place, key in enumerate(state.key_columns)]
        alike = looked.join(coming, same, "left_semi")
        hidden = looked.where(condition).select(*numbers).union(alike.select(*numbers)).dropDuplicates([FILE, ROW])
    else:
        hidden = _looked_at(files, state, pruning).where(condition).select(*numbers)
    hidden = settled(hidden)
    counts = RowCounts(inserted=sum(file.row_count for _, file in added), deleted=hidden.count())
    return change_rows(files, state, Change(hidden, added), counts)


def updated(
    files: SparkFiles, state: TableState, values: Mapping[str, Assignable], where: str | Predicate | Narrowed | None
) -> PlannedWrite:
    """Return how to set columns of the rows that a condition means."""
    checked = checked_assignments(values, state.schema)
    rows = _looked_at(files, state, _at_most(where, state.schema))
    meant = rows.where(condition_sql(where, state.schema))
    new = assigned(state, meant, {name: f.expr(as_sql(value)) for name, value in checked.items()})
    others = [column(one.name) for one in state.schema.columns if one.name not in checked]
    made = settled(meant.select(column(FILE), column(ROW), *hidden_keys(state), *new.values(), *others))
    count = made.count()
    if not count:
        return planned({}, state)
    hidden = made.select(column(FILE), column(ROW), *(column(key_name(place)) for place in _places(state)))
    coming = made.select(*map(column, state.schema.names))
    moves_keys = any(key.name in checked for key in state.key_columns)
    if moves_keys:
        check_new_keys(files, state, hidden, coming.select(*hidden_keys(state)))
    change = Change(hidden, files.write(state, coming), keys_come_back=bool(state.version.keys) and not moves_keys)
    return change_rows(files, state, change, RowCounts(updated=count))


def assigned(state: TableState, rows: DataFrame, values: Mapping[str, Column]) -> dict[str, Column]:
    """Return values as the columns of the table take them; refuse those that only a cast would fit."""
    typed = rows.select(*(value.alias(f"value {place}") for place, value in enumerate(values.values())))
    found = {}
    for (name, value), one in zip(values.items(), typed.schema.fields, strict=True):
        wanted = state.schema.column(name)
        given = column_type(one.dataType, name)
        if given is not None and not assigns(wanted.type, given):
            raise InvalidInputError(
                f"column {name!r} is {type_text(wanted.type)} and is set to {type_text(given)}: "
                "write cast(… as …) if that is meant"
            )
        message = f"column {name!r} is {type_text(wanted.type)}, which cannot hold "
        ordered = by_field_names(value, one.dataType, spark_type(wanted.type))
        if ordered is value:
            ordered = cast_without_overflow(value, one.dataType, spark_type(wanted.type), message)
        found[name] = ordered.cast(spark_type(wanted.type)).alias(name)
    return found


def _at_most(where: str | Predicate | Narrowed | None, schema: Schema) -> Predicate | None:
    """Return a predicate that all rows fulfil that are meant, None where any row may be."""
    return where.predicate if isinstance(where, Narrowed) else pruning_predicate(where, schema)


def _looked_at(files: SparkFiles, state: TableState, pruning: Predicate | None) -> DataFrame:
    plan = plan_scan(state, pruning or Constant(holds=True))
    return target_rows(files.lists, files.root_uri, state, plan, file_numbers(state))


def _places(state: TableState) -> range:
    return range(len(state.key_columns))
