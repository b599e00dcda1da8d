"""An upsert of some columns: the others keep their values where a row is there."""

from collections.abc import Sequence

from mangrove.errors import InvalidInputError
from mangrove.model.schema import Schema
from mangrove.tables.merging import MergeClause, MergeKind, MergePlan
from mangrove.tables.suggesting import did_you_mean
from mangrove.tables.table_state import TableState

__all__ = ["missing_columns", "partial_upsert"]


def missing_columns(schema: Schema, given: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a table that are not among those given."""
    folded = {name.casefold() for name in given}
    return tuple(column.name for column in schema.columns if column.name.casefold() not in folded)


def partial_upsert(state: TableState, given: Sequence[str]) -> MergePlan:
    """Return the merge that sets the given columns of rows with the same keys, and adds the other rows."""
    known = {column.name.casefold(): column.name for column in state.schema.columns}
    for name in given:
        if name.casefold() not in known:
            raise InvalidInputError(f"{state.name} has no column {name!r}{did_you_mean(name, state.schema.names)}")
    folded = {name.casefold(): name for name in given}
    for key in state.key_columns:
        if key.name.casefold() not in folded:
            raise InvalidInputError(f"the rows for {state.name} lack the key {key.name!r}: an upsert finds rows by it")
    values = {known[name]: f"s.{_quoted(written)}" for name, written in folded.items()}
    keys = [column.name for column in state.key_columns]
    changes = {name: value for name, value in values.items() if name not in keys}
    on = " and ".join(f"t.{_quoted(name)} = s.{_quoted(folded[name.casefold()])}" for name in keys)
    clauses = [MergeClause(MergeKind.INSERT, None, values)]
    if changes:
        clauses.insert(0, MergeClause(MergeKind.MATCHED_UPDATE, None, changes))
    return MergePlan(on, tuple(clauses))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
