"""Which files two states of a table do not read in the same way, and the words for what became of rows between them."""

from dataclasses import replace
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.tables.scan_plan import FileScan, ScanPlan, plan_scan
from mangrove.tables.table_state import TableState

__all__ = ["CHANGE_TYPE", "DELETE", "INSERT", "UPDATE_AFTER", "UPDATE_BEFORE", "differing"]

CHANGE_TYPE: Final = "_change_type"
"""The column that says what became of a row."""
INSERT: Final = "insert"
DELETE: Final = "delete"
UPDATE_BEFORE: Final = "update_before"
UPDATE_AFTER: Final = "update_after"


def differing(before: TableState, after: TableState) -> tuple[TableState, ScanPlan, ScanPlan]:
    """Return the earlier state with the columns of the later one, and what must be read of each to tell them apart."""
    if before.table_id != after.table_id:
        raise InvalidInputError(f"{after.name} was another table then: there is no way from its rows to these")
    # Old rows are shown with the columns of today, which ids lead to.
    was = replace(before, version=after.version)
    old, new = plan_scan(was), plan_scan(after)
    common = {_identity(scan) for scan in old.scans} & {_identity(scan) for scan in new.scans}
    return was, _without(old, common), _without(new, common)


def _identity(scan: FileScan) -> tuple[str, tuple[str, ...]]:
    hiding = [key_file.file.location for key_file in scan.hidden_by]
    return scan.file.location, (*hiding, *(file.location for file in scan.position_deletes))


def _without(plan: ScanPlan, common: set[tuple[str, tuple[str, ...]]]) -> ScanPlan:
    return replace(plan, scans=tuple(scan for scan in plan.scans if _identity(scan) not in common))
