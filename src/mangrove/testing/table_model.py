"""An in-memory reference model of a table."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, assert_never

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
)
from mangrove.model.schema import Schema
from mangrove.tables.table_state import PartitionLog, TableState
from mangrove.tables.write_plan import PlannedWrite

__all__ = ["TableModel", "apply_write", "evaluate_predicate"]

_OPERATORS: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    Operator.EQUAL: lambda left, right: left == right,
    Operator.UNEQUAL: lambda left, right: left != right,
    Operator.LESS: lambda left, right: left < right,
    Operator.LESS_OR_EQUAL: lambda left, right: left <= right,
    Operator.GREATER: lambda left, right: left > right,
    Operator.GREATER_OR_EQUAL: lambda left, right: left >= right,
}


def evaluate_predicate(predicate: Predicate, row: Mapping[str, Any], schema: Schema) -> bool | None:
    """Return whether the predicate holds for a row; None if it is null in SQL."""
    match predicate:
        case ConstantPredicate(holds):
            return holds
        case AllOf(parts):
            answers = [evaluate_predicate(part, row, schema) for part in parts]
            return False if False in answers else None if None in answers else True
        case AnyOf(parts):
            answers = [evaluate_predicate(part, row, schema) for part in parts]
            return True if True in answers else None if None in answers else False
        case ColumnComparison() | IsNull() | IsIn() | StartsWith():
            return _evaluate_leaf(predicate, _value_in(row, schema.path_of(predicate.column_id)))
        case _:
            assert_never(predicate)


def _evaluate_leaf(leaf: ColumnComparison | IsNull | IsIn | StartsWith, value: Any) -> bool | None:
    if isinstance(leaf, IsNull):
        return (value is None) != leaf.negated
    if value is None:
        return None
    match leaf:
        case ColumnComparison(_, operator, beside):
            return _OPERATORS[operator](*_comparable(value, beside))
        case IsIn(_, values, negated):
            return (value in values) != negated
        case StartsWith(_, prefix, negated):
            return bool(value.startswith(prefix)) != negated
        case _:
            assert_never(leaf)


def _comparable(value: Any, beside: Any) -> tuple[Any, Any]:
    """Return values that compare like the two, with NaN greater than everything."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value), (False, beside)
    return value, beside


def _value_in(row: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = row
    for name in path:
        value = None if value is None else value.get(name)
    return value


def apply_write(state: TableState, write: PlannedWrite) -> TableState:
    """Return the table state after a write is committed: its deltas follow the existing ones."""
    logs = {log.values: log for log in state.logs}
    for planned in write.deltas:
        log = logs.get(planned.log_values, PartitionLog(planned.log_values))
        delta = replace(planned.delta, position=log.last_position + 1)
        logs[planned.log_values] = replace(log, deltas=(*log.deltas, delta))
    return replace(state, logs=tuple(logs.values()))


class TableModel:
    """Rows of a table; every write has the simplest correct implementation."""

    def __init__(self, schema: Schema, keys: Sequence[str] = ()) -> None:
        self.schema = schema
        self.keys = tuple(keys)
        self.rows: list[dict[str, Any]] = []

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows."""
        self.rows += [dict(row) for row in rows]

    def upsert(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows, and replace those with the same keys."""
        self.delete_keys(rows)
        self.append(rows)

    def delete_keys(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Delete the rows with the same keys."""
        gone = {self._key(row) for row in rows}
        self.rows = [row for row in self.rows if self._key(row) not in gone]

    def delete(self, predicate: Predicate) -> None:
        """Delete the matching rows."""
        self.rows = [row for row in self.rows if evaluate_predicate(predicate, row, self.schema) is not True]

    def overwrite(self, rows: Sequence[Mapping[str, Any]], predicate: Predicate | None = None) -> None:
        """Replace all rows or the matching ones, and those with the same keys."""
        self.delete(ConstantPredicate(holds=True) if predicate is None else predicate)
        if self.keys:
            self.delete_keys(rows)
        self.append(rows)

    def update(self, change: Callable[[dict[str, Any]], Mapping[str, Any]], predicate: Predicate) -> int:
        """Change the matching rows, and return their number."""
        meant = [row for row in self.rows if evaluate_predicate(predicate, row, self.schema) is True]
        for row in meant:
            row.update(change(dict(row)))
        return len(meant)

    def upsert_some(self, rows: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
        """Set the given columns of the rows with the same keys, and add the others; return both numbers."""
        inserted = updated = 0
        for row in rows:
            alike = [old for old in self.rows if self._key(old) == self._key(row)]
            for old in alike:
                old.update(row)
            if not alike:
                self.rows.append({**dict.fromkeys(self.schema.names), **row})
            inserted, updated = inserted + (not alike), updated + len(alike)
        return inserted, updated

    def merge(
        self,
        source: Sequence[Mapping[str, Any]],
        matches: Callable[[Mapping[str, Any], Mapping[str, Any]], bool],
        change: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any] | None],
    ) -> tuple[int, int, int]:
        """Change each row that a source row matches, or delete it if the change is None; insert the other source rows.

        Return the numbers of inserted, updated and deleted rows.
        """
        left, updated, deleted = [], 0, 0
        met: list[Mapping[str, Any]] = []
        for row in self.rows:
            beside = next((one for one in source if matches(row, one)), None)
            if beside is None:
                left.append(row)
                continue
            met.append(beside)
            new = change(row, beside)
            deleted, updated = deleted + (new is None), updated + (new is not None)
            left += [] if new is None else [{**row, **new}]
        came = [dict(one) for one in source if one not in met]
        self.rows = [*left, *came]
        return len(came), updated, deleted

    def read(self, predicate: Predicate | None = None) -> list[dict[str, Any]]:
        """Return the matching rows, with null for columns without a value."""
        meant = [
            row for row in self.rows if predicate is None or evaluate_predicate(predicate, row, self.schema) is True
        ]
        return [{name: row.get(name) for name in self.schema.names} for row in meant]

    def _key(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.keys)
