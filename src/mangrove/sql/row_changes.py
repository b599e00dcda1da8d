"""Carrying out the statements that change rows, in a transaction that the caller ends."""

from collections.abc import Callable
from typing import TypeAlias

from mangrove.lakehouse.transactions import LakeTransaction
from mangrove.sql.changing import change
from mangrove.sql.expressions import Expressions
from mangrove.sql.inserting import insert, prepared, truncate
from mangrove.sql.places import placed
from mangrove.sql.queries import BoundQuery, QueryBinder
from mangrove.sql.row_statements import Delete, Insert, Merge, MultiInsert, Query, Truncate, Update
from mangrove.sql.sight import Source
from mangrove.tables.row_counts import NO_ROWS, RowCounts

__all__ = ["RowChange", "change_rows", "said"]

RowChange: TypeAlias = Insert | MultiInsert | Update | Delete | Merge | Truncate


def change_rows(
    statement: RowChange,
    transaction: LakeTransaction,
    binder: QueryBinder,
    source: Source,
    bound: Callable[[Query], BoundQuery],
) -> RowCounts:
    """Do what the statement says, and return how many rows came, changed and went."""
    if isinstance(statement, Truncate):
        return truncate(statement, transaction, binder.sight)
    common = None if isinstance(statement, Insert | MultiInsert) else statement.common
    expressions = Expressions(binder, source, common)
    try:
        match statement:
            case Insert():
                return insert(prepared(statement, transaction, binder.sight, bound, expressions), expressions)
            case MultiInsert(inserts):
                # All rows are bound first: no insert sees what another one adds.
                work = []
                for one in inserts:
                    with placed(source.text, one.table.start):
                        work.append(prepared(one, transaction, binder.sight, bound, expressions))
                counts = NO_ROWS
                for ready in work:
                    with placed(source.text, ready.statement.table.start):
                        counts += insert(ready, expressions)
                return counts
            case _:
                return change(statement, transaction, expressions)
    finally:
        expressions.close()


def said(counts: RowCounts) -> str:
    """Return for people what was changed."""
    words = {"inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted}
    found = [f"{number:,} {word}" for word, number in words.items() if number]
    return f"rows: {', '.join(found)}" if found else "no row was changed"
