"""The builder of MERGE clauses for a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mangrove.expressions.sql_expression import Expr, to_condition
from mangrove.tables.merge import MergeClause, MergeKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mangrove.tables.merge import Assignable, MergeKind, MergePlan
    from mangrove.tables.write_plan import RowCounts

__all__ = ["TableMerge"]


@dataclass(frozen=True, slots=True)
class TableMerge:
    """A merge of source rows into a table; each call returns a merge with one more clause.

    The first clause that applies to a row decides. Python values, including text, are set
    as literals; an SQL expression is `expr("t.amount + s.amount")`, where `t` is the table
    and `s` the source. An unqualified name resolves to the only side that has it, or
    that the clause can access: the source in `when_not_matched_insert`, the table in
    `when_not_matched_by_source_…`.
    """

    plan: MergePlan
    run: Callable[[MergePlan], RowCounts]

    def when_matched_update(
        self,
        values: Mapping[str, Assignable] | None = None,
        where: str | Expr | None = None,
    ) -> TableMerge:
        """Update columns of matched rows; without `values`, all columns of the source."""
        return self._with(MergeKind.MATCHED_UPDATE, where, values)

    def when_matched_delete(self, where: str | Expr | None = None) -> TableMerge:
        """Delete matched rows."""
        return self._with(MergeKind.MATCHED_DELETE, where)

    def when_not_matched_insert(
        self, values: Mapping[str, Assignable] | None = None, where: str | Expr | None = None
    ) -> TableMerge:
        """Insert source rows without a match; without `values`, with all columns that the table also has."""
        return self._with(MergeKind.INSERT, where, values)

    def when_not_matched_by_source_update(
        self,
        values: Mapping[str, Assignable],
        where: str | Expr | None = None,
    ) -> TableMerge:
        """Update columns of table rows without a matching source row."""
        return self._with(MergeKind.UNMATCHED_UPDATE, where, values)

    def when_not_matched_by_source_delete(self, where: str | Expr | None = None) -> TableMerge:
        """Delete table rows without a matching source row."""
        return self._with(MergeKind.UNMATCHED_DELETE, where)

    def execute(self) -> RowCounts:
        """Execute the merge, and return the numbers of inserted, updated and deleted rows."""
        self.plan.check()
        return self.run(self.plan)

    def _with(
        self, kind: MergeKind, where: str | Expr | None, values: Mapping[str, Assignable] | None = None
    ) -> TableMerge:
        clause = MergeClause(kind, to_condition(where), None if values is None else dict(values))
        return replace(self, plan=replace(self.plan, clauses=(*self.plan.clauses, clause)))
