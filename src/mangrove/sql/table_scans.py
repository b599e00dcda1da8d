"""Which files and columns of a table a query reads, and by which condition files are skipped."""

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
    columns: tuple[str, ...] | None = None
    """The columns that our own readers read; None for all, or where Spark reads, which leaves out others itself."""

    def plan(self) -> ScanPlan:
        """Return which files are read, and why others are skipped."""
        return plan_scan(self.state, self.predicate)

    def explained(self) -> str:
        """Return for people how many files are read, how many skipped, and which condition says so."""
        plan = self.plan()
        why = "" if self.predicate is None else f", by {predicate_sql(self.predicate, self.state.schema)}"
        which = "" if self.columns is None else f"; columns {', '.join(self.columns)}"
        return f"{self.name}: {len(plan.files())} read, {len(plan.skipped)} skipped{why}{which}"
