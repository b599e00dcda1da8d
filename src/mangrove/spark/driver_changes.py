"""Updates and deletes of few rows that the driver finds and computes without a Spark job.

Most of the time of a first change on Spark is compilation of Java code. The driver makes a change if it evaluates
the expressions as Spark does (`local.exact_types`), reads a limited number of rows and
bytes, and changes few rows. Spark makes all others, and reports all errors in values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from mangrove.errors import InvalidInputError
from mangrove.expressions.expr import Expression
from mangrove.expressions.parse import Condition, SparkCondition, parse_condition
from mangrove.expressions.predicates import Predicate
from mangrove.expressions.sql_expression import Expr, LiteralExpr
from mangrove.local.evaluation import evaluate_condition, evaluate_expression
from mangrove.local.exact_types import find_exact_type, is_plain_text
from mangrove.local.row_changes import check_constraints, column_lookup_of, select_condition_columns, set_column_values
from mangrove.local.scan import ROW as POSITION
from mangrove.local.scan import RowTest, stream_numbered_rows
from mangrove.model.arrow_schema import schema_to_arrow, type_to_arrow
from mangrove.model.schema import Schema
from mangrove.model.types import (
    Char,
    Column,
    DataType,
    Decimal,
    Float64,
    Int16,
    Int32,
    Int64,
    has_nanoseconds,
    is_nested,
)
from mangrove.spark.deletion_vectors import FILE, ROW, count_delete_rows
from mangrove.spark.pyspark_versions import is_remote
from mangrove.spark.row_changes import SparkFileContext, can_collect, key_column_of
from mangrove.spark.scan import number_files
from mangrove.tables.constraints import check_constraints_of
from mangrove.tables.merge import Assignable, to_expression
from mangrove.tables.scan_plan import ScanPlan
from mangrove.tables.table_state import TableState

__all__ = ["DriverChanges", "compute_changes_in_driver"]

_FILES_MAX: Final = 100
"""Maximum number of files that the driver opens; in a bucket each takes one or two requests."""
_BYTES_MAX: Final = 256 * 1024 * 1024
"""Maximum number of bytes that a driver reads which is also the executor."""
_CLUSTER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Maximum number of bytes that the driver of a cluster reads, or a client of Spark Connect."""
_CHANGED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Maximum size in memory of the changed rows, which one thread writes."""
_INTEGERS: Final = (Int16, Int32, Int64)
_VALUE_BYTES_MAX: Final = 16
"""The size of a decimal, the largest value of fixed size."""


@dataclass(frozen=True, slots=True)
class DriverChanges:
    """The rows that a change deletes, as `FILE`, `ROW` and their keys, and those that it adds."""

    deleted_rows: pa.Table
    new_rows: pa.Table


def compute_changes_in_driver(
    files: SparkFileContext,
    state: TableState,
    plan: ScanPlan,
    where: str | Predicate | SparkCondition | None,
    values: Mapping[str, Assignable] | None = None,
) -> DriverChanges | None:
    """Return the changes of an update, or of a delete without values; None if Spark has to compute them."""
    file_count = sum(not file.is_inline for file in plan.files())
    if file_count > _FILES_MAX or not can_collect(max(plan.row_count, count_delete_rows(plan.scans))):
        return None
    if values is not None and any(has_nanoseconds(column.type) for column in state.schema.columns):
        return None  # Spark refuses such rows, however few they are.
    try:
        condition = parse_condition(where, state.schema)
        if not _is_exact_condition(condition, where, state.schema):
            return None
        assigned = None if values is None else _parse_assignments(values, state)
        read = state.schema.columns if assigned is not None else state.key_columns
        tested = select_condition_columns(state.schema, condition)
        if _estimate_bytes(plan, [*tested, *read]) > _find_bytes_max(files):
            return None
        found = _find_rows(files, state, plan, condition, read)
        return None if found is None else _apply(state, found, assigned)
    except (InvalidInputError, ValueError, RecursionError):
        # Arrow has no scalar for a number of more than 38 digits, and Python's stack ends after some hundred terms.
        return None


def _is_exact_condition(condition: Condition, where: str | Predicate | SparkCondition | None, schema: Schema) -> bool:
    """Return whether the driver and Spark evaluate a condition alike; predicates are the same on all engines."""
    if any(isinstance(column.type, Char) for column in select_condition_columns(schema, condition)):
        return False
    if condition.expression is None:
        return True
    text = where.text if isinstance(where, SparkCondition) else str(where)
    return is_plain_text(text) and find_exact_type(condition.expression, schema) == pa.bool_()


def _parse_assignments(values: Mapping[str, Assignable], state: TableState) -> dict[str, Expression]:
    """Return the expressions of an update; raise InvalidInputError if Spark has to evaluate one."""
    found = {}
    for name, value in values.items():
        expression = to_expression(value)
        is_plain = not isinstance(value, Expr) or isinstance(value, LiteralExpr) or is_plain_text(value.sql)
        if not is_plain or not _can_assign(state.schema.column(name).type, find_exact_type(expression, state.schema)):
            raise InvalidInputError(f"Spark has to evaluate the new value of column {name!r}")
        found[name] = expression
    for text in check_constraints_of(state.version).values():
        if not _is_exact_condition(parse_condition(text, state.schema), text, state.schema):
            raise InvalidInputError(f"Spark has to evaluate the check constraint {text}")
    return found


def _can_assign(target: DataType, given: Any) -> bool:
    """Return whether values of an Arrow type become the same values of a column in the driver and in Spark."""
    if given is None or is_nested(target) or isinstance(target, Char):
        return False
    if pa.types.is_null(given) or given == type_to_arrow(target):
        return True
    if pa.types.is_integer(given):
        return isinstance(target, (*_INTEGERS, Decimal, Float64))
    # A value that does not fit is an error here, but one with more digits after the point would be rounded.
    return isinstance(target, Decimal) and bool(pa.types.is_decimal(given)) and bool(given.scale <= target.scale)


def _estimate_bytes(plan: ScanPlan, columns: Sequence[Column]) -> int:
    """Return about how many bytes a scan reads of some columns at most."""
    size = sum(scan.file.size_bytes for scan in plan.scans)
    names = {column.name for column in columns}
    is_fixed = all(isinstance(column.type, (*_INTEGERS, Decimal, Float64)) for column in columns)
    return min(size, plan.row_count * len(names) * _VALUE_BYTES_MAX) if is_fixed else size


def _find_bytes_max(files: SparkFileContext) -> int:
    session = files.lists.session
    is_local = not is_remote(session) and str(session.conf.get("spark.master", "")).startswith("local")
    return _BYTES_MAX if is_local else _CLUSTER_BYTES_MAX


def _find_rows(
    files: SparkFileContext, state: TableState, plan: ScanPlan, condition: Condition, columns: Sequence[Column]
) -> pa.Table | None:
    """Return the matching rows with these columns, `FILE` and `ROW`, or None if they are many."""
    numbers = number_files(state)
    empty = pa.Table.from_batches([], schema_to_arrow(Schema(tuple(columns))) if columns else pa.schema([]))
    parts = [empty.append_column(FILE, pa.array([], pa.int64())).append_column(ROW, pa.array([], pa.int64()))]
    size = 0
    streamed = stream_numbered_rows(
        files.store, state, plan, columns, condition.predicate, _build_test(condition, state.schema), files.vectors
    )
    for scan, rows in streamed:
        if not rows.num_rows:
            continue
        size += rows.nbytes
        if size > _CHANGED_BYTES_MAX:
            return None
        number = pa.repeat(pa.scalar(numbers[scan.file.location], pa.int64()), rows.num_rows)
        positions = rows.column(POSITION)
        parts.append(rows.drop_columns([POSITION]).append_column(FILE, number).append_column(ROW, positions))
    return pa.concat_tables(parts)


def _build_test(condition: Condition, schema: Schema) -> RowTest | None:
    expression = condition.expression
    if expression is None:
        return None
    columns = select_condition_columns(schema, Condition(expression=expression))
    lookup = column_lookup_of(schema)
    return RowTest(tuple(columns), lambda rows: evaluate_condition(expression, rows, lookup))


def _apply(state: TableState, found: pa.Table, assigned: Mapping[str, Expression] | None) -> DriverChanges:
    """Return the changes of the found rows."""
    keys = [column.name for column in state.key_columns]
    named = [FILE, ROW, *(key_column_of(place) for place in range(len(keys)))]
    deleted_rows = found.select([FILE, ROW, *keys]).rename_columns(named)
    if assigned is None:
        return DriverChanges(deleted_rows, schema_to_arrow(state.schema).empty_table())
    lookup = column_lookup_of(state.schema)
    arrays = {name: evaluate_expression(value, found, lookup) for name, value in assigned.items()}
    new_rows = set_column_values(state.schema, found, arrays)
    check_constraints(state, new_rows)
    return DriverChanges(deleted_rows, new_rows)
