"""What happened to a table's rows between two states: which came, which changed, which went."""

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from mangrove.errors import InvalidInputError
from mangrove.local.scanning import scanned
from mangrove.model.arrow_form import schema_to_arrow
from mangrove.storage.port import Store
from mangrove.tables.scan_plan import FileScan, ScanPlan, plan_scan
from mangrove.tables.table_state import TableState

__all__ = ["CHANGE_TYPE", "changed_rows"]

CHANGE_TYPE: Final = "_change_type"


def changed_rows(store: Store, before: TableState, after: TableState) -> pa.Table:
    """Return the rows that differ, as of the later state, with `insert`, `update` or `delete` beside each.

    An update is the new row, a delete the old one. Files that both states read in
    the same way are not opened, and a compaction changes no row.
    """
    if before.table_id != after.table_id:
        raise InvalidInputError(f"{after.name} was another table then: there is no way from its rows to these")
    # Old rows are shown with the columns of today, which ids lead to.
    was = replace(before, version=after.version)
    plan_before, plan_after = plan_scan(was), plan_scan(after)
    common = {_identity(scan) for scan in plan_before.scans} & {_identity(scan) for scan in plan_after.scans}
    old = scanned(store, was, _without(plan_before, common), after.schema.columns).to_pylist()
    new = scanned(store, after, _without(plan_after, common), after.schema.columns).to_pylist()
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
        found.append(("update" if old else "insert", row))
        if old:
            old.pop()
    return [*(("delete", row) for rows in waiting.values() for row in rows), *found]


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


def _identity(scan: FileScan) -> tuple[str, tuple[str, ...]]:
    hiding = [key_file.file.location for key_file in scan.hidden_by]
    return scan.file.location, (*hiding, *(file.location for file in scan.position_deletes))


def _without(plan: ScanPlan, common: set[tuple[str, tuple[str, ...]]]) -> ScanPlan:
    return replace(plan, scans=tuple(scan for scan in plan.scans if _identity(scan) not in common))
