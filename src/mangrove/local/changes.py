"""What happened to a table's rows between two states: which came, which changed, which went."""

from collections import Counter
from typing import Any

import pyarrow as pa

from mangrove.local.scanning import scanned
from mangrove.model.arrow_form import schema_to_arrow
from mangrove.storage.port import Store
from mangrove.tables.changes import CHANGE_TYPE, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, differing
from mangrove.tables.table_state import TableState

__all__ = ["CHANGE_TYPE", "changed_rows"]


def changed_rows(store: Store, before: TableState, after: TableState) -> pa.Table:
    """Return the rows that differ, as of the later state, with a word beside each.

    `insert` and `delete` are rows that came and went; `update_before` and, right behind
    it, `update_after` are a row with the same keys that changed. Files that both states
    read in the same way are not opened, and a compaction changes no row.
    """
    was, plan_before, plan_after = differing(before, after)
    old = scanned(store, was, plan_before, after.schema.columns).to_pylist()
    new = scanned(store, after, plan_after, after.schema.columns).to_pylist()
    gone, came = _surplus(old, new), _surplus(new, old)
    found = _paired(gone, came, [column.name for column in after.key_columns])
    arrow = schema_to_arrow(after.schema)
    rows = pa.Table.from_pylist([row for _, row in found], schema=arrow)
    return rows.append_column(CHANGE_TYPE, pa.array([word for word, _ in found], pa.string()))


def _paired(
    gone: list[dict[str, Any]], came: list[dict[str, Any]], keys: list[str]
) -> list[tuple[str, dict[str, Any]]]:
    """Return each row with its word; where one with the same keys went and another came, it was updated."""
    waiting: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in gone:
        waiting.setdefault(tuple(row[key] for key in keys), []).append(row)
    found = []
    for row in came:
        old = waiting.get(tuple(row[key] for key in keys)) if keys else None
        if old:
            found += [(UPDATE_BEFORE, old.pop()), (UPDATE_AFTER, row)]
        else:
            found.append((INSERT, row))
    return [*((DELETE, row) for rows in waiting.values() for row in rows), *found]


def _surplus(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that occur more often than among the others."""
    left = Counter(map(repr, others))
    found = []
    for row in rows:
        text = repr(row)
        if left[text]:
            left[text] -= 1
        else:
            found.append(row)
    return found
