"""Which files of a table a query reads, and by which condition others are skipped."""

from dataclasses import dataclass

from mangrove.tables.predicate_sql import predicate_sql
from mangrove.tables.predicates import Predicate
from mangrove.tables.scan_plan import ScanPlan, plan_scan
from mangrove.tables.table_state import TableState

__all__ = ["TableScan"]


@dataclass(frozen=True, slots=True)
class TableScan:
    """A table that a query reads, and what is certain about the rows that it needs."""

    name: str
    state: TableState
    predicate: Predicate | None

    def plan(self) -> ScanPlan:
        """Return which files are read, and why others are skipped."""
        return plan_scan(self.state, self.predicate)

    def explained(self) -> str:
        """Return for people how many files are read, how many skipped, and which condition says so."""
        plan = self.plan()
        why = "" if self.predicate is None else f", by {predicate_sql(self.predicate, self.state.schema)}"
        return f"{self.name}: {len(plan.files())} read, {len(plan.skipped)} skipped{why}"
