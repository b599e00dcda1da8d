"""Column profiles of a table, from its first rows."""

from dataclasses import dataclass, replace
from typing import Final

from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse
from mangrove.inspect.rows import COLUMNS_MAX, bound_value, limit_scans
from mangrove.inspect.table import find_requested_table
from mangrove.local.column_profile import profile_columns
from mangrove.local.scan import stream_scan
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.model.schema import Schema
from mangrove.tables.column_profile import ColumnProfile
from mangrove.tables.scan_plan import plan_scan
from mangrove.transaction.deltas import TableTarget

__all__ = ["TableProfileInfo", "load_table_profile_info"]

_ROWS_MAX: Final = 200_000
"""How many rows of data files are profiled; the first file is profiled as a whole."""


@dataclass(frozen=True, slots=True)
class TableProfileInfo:
    """The profiles of the columns of a table."""

    seen: PageVersion
    namespace: str
    name: str
    target: TableTarget
    rows: int
    """The number of rows that were profiled."""
    rows_unread: int
    """How many rows of data files were not read because of the bound."""
    columns: tuple[ColumnProfile, ...]
    columns_left_out: int


def load_table_profile_info(pinned: PinnedLakehouse, requested: PageRequest) -> TableProfileInfo:
    """Return the profiles of the columns of a table."""
    table = find_requested_table(pinned, requested)
    state = table.state()
    plan = plan_scan(state)
    chosen, rows_unread = limit_scans(plan.scans, _ROWS_MAX)
    columns = state.schema.columns[:COLUMNS_MAX]
    rows = stream_scan(pinned.lake.effects.store, state, replace(plan, scans=chosen), columns)
    batches = (batch for part in rows for batch in part.to_batches())
    profiles = tuple(
        replace(
            one,
            minimum=bound_value(one.minimum),
            maximum=bound_value(one.maximum),
            frequent=tuple((bound_value(value), count) for value, count in one.frequent),
        )
        for one in profile_columns(batches, schema_to_arrow(Schema(columns)))
    )
    return TableProfileInfo(
        pinned.seen,
        table.locator.namespace,
        table.name,
        table.target,
        profiles[0].count if profiles else 0,
        rows_unread,
        profiles,
        len(state.schema.columns) - len(columns),
    )
