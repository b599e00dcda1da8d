"""Column profiles of a table, from its first rows."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse
from mangrove.inspect.rows import COLUMNS_MAX, bound_value, limit_scans, read_stored_rows
from mangrove.inspect.table import find_requested_table
from mangrove.lakehouse.table_snapshot import TableSnapshot
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
    note: str | None = None
    """Why rows of a table without a schema are missing, if they are."""


def load_table_profile_info(pinned: PinnedLakehouse, requested: PageRequest) -> TableProfileInfo:
    """Return the profiles of the columns of a table."""
    table = find_requested_table(pinned, requested)
    if table.opened().version.schema is None:
        stored, found, note = read_stored_rows(pinned, table)
        shown = stored.select([one.name for one in found[:COLUMNS_MAX]])
        left_out = len(found) - shown.num_columns
        return _build_info(pinned, table, shown.to_batches(), shown.schema, 0, left_out, note)
    state = table.state()
    plan = plan_scan(state)
    chosen, rows_unread = limit_scans(plan.scans, _ROWS_MAX)
    columns = state.schema.columns[:COLUMNS_MAX]
    rows = stream_scan(pinned.lake.effects.store, state, replace(plan, scans=chosen), columns)
    batches = (batch for part in rows for batch in part.to_batches())
    left_out = len(state.schema.columns) - len(columns)
    return _build_info(pinned, table, batches, schema_to_arrow(Schema(columns)), rows_unread, left_out)


def _build_info(
    pinned: PinnedLakehouse,
    table: TableSnapshot,
    batches: Iterable[Any],
    schema: Any,
    rows_unread: int,
    columns_left_out: int,
    note: str | None = None,
) -> TableProfileInfo:
    profiles = tuple(
        replace(
            one,
            minimum=bound_value(one.minimum),
            maximum=bound_value(one.maximum),
            frequent=tuple((bound_value(value), count) for value, count in one.frequent),
        )
        for one in profile_columns(batches, schema)
    )
    return TableProfileInfo(
        pinned.seen,
        table.locator.namespace,
        table.name,
        table.target,
        profiles[0].count if profiles else 0,
        rows_unread,
        profiles,
        columns_left_out,
        note,
    )
