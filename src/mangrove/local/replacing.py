"""Writes that read first: deleting the rows that a condition means, or putting others in their place."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError
from mangrove.local.casting import assigned
from mangrove.local.changing import changed, check_new_keys, hidden_columns, near_keys
from mangrove.local.conforming import by_name, conformed
from mangrove.local.evaluating import evaluated
from mangrove.local.files import FileWriter
from mangrove.local.python_rows import python_rows
from mangrove.local.row_keys import keys_mask
from mangrove.local.targets import meant, named_in, needed_columns, target_rows
from mangrove.model.arrow_form import schema_to_arrow, type_to_arrow
from mangrove.model.schema import Schema
from mangrove.tables.conditions import Condition
from mangrove.tables.expressions import Expression
from mangrove.tables.predicates import AnyOf
from mangrove.tables.row_counts import RowCounts
from mangrove.tables.table_state import TableState
from mangrove.tables.writing import PlannedWrite

__all__ = ["replaced", "updated", "with_values"]

_EXAMPLES_MAX = 3


def replaced(files: FileWriter, state: TableState, condition: Condition, rows: pa.Table | None) -> PlannedWrite:
    """Return how to put `rows` in the place of those that are meant, as they are seen now.

    In a table with keys a row that is written also takes the place of the one with
    its keys, whether or not that one is meant.
    """
    keys = state.key_columns if rows is not None else ()
    wanted = {column.id: column for column in (*hidden_columns(state), *needed_columns(state.schema, condition), *keys)}
    pruning = condition.predicate
    if rows is not None:
        _check_inside(state, condition, rows)
        pruning = AnyOf((pruning, near_keys(rows, keys))) if keys and pruning is not None else pruning
    columns = [column for column in state.schema.columns if column.id in wanted]
    target = target_rows(files.store, state, columns, pruning)
    mask = meant(target.rows, condition, state.schema)
    if rows is not None and keys:
        mask = pc.or_(mask, keys_mask(target.rows, rows, keys))
    new = schema_to_arrow(state.schema).empty_table() if rows is None else rows
    counts = RowCounts(inserted=new.num_rows, deleted=_count(mask))
    return changed(files, state, target, mask, new, counts)


def _check_inside(state: TableState, condition: Condition, rows: pa.Table) -> None:
    outside = rows.filter(pc.invert(meant(rows, condition, state.schema)))
    if outside.num_rows:
        raise InvalidInputError(
            f"{outside.num_rows} row(s) for {state.name} are not what `where` means, and an overwrite would add them "
            f"beside it, for example {python_rows(outside.slice(0, _EXAMPLES_MAX))}: leave them out or widen `where`"
        )


def updated(files: FileWriter, state: TableState, values: dict[str, Expression], condition: Condition) -> PlannedWrite:
    """Return how to set columns of the rows that are meant."""
    target = target_rows(files.store, state, state.schema.columns, condition.predicate)
    mask = meant(target.rows, condition, state.schema)
    hidden = target.rows.filter(mask)
    arrays = {name: evaluated(value, hidden, named_in(state.schema)) for name, value in values.items()}
    new = with_values(state.schema, hidden, arrays)
    if any(column.name in values for column in state.key_columns):
        check_new_keys(files, state, hidden, new)
    return changed(files, state, target, mask, new, RowCounts(updated=hidden.num_rows))


def with_values(schema: Schema, rows: pa.Table, values: dict[str, Any]) -> pa.Table:
    """Return the rows of a table with some columns set to what was evaluated."""
    arrays = [
        assigned(values[column.name], type_to_arrow(column.type), column.name)
        if column.name in values
        else rows.column(column.name)
        for column in schema.columns
    ]
    made = pa.table(arrays, names=list(schema.names))
    return conformed(made, schema, by_name, is_checked=True)


def _count(mask: Any) -> int:
    return int(pc.sum(mask).as_py() or 0)
