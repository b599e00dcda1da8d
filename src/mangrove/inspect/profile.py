"""Column profiles of a table, from its first rows."""

from dataclasses import dataclass, replace
from typing import Final

from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse
from mangrove.inspect.rows import COLUMNS_MAX, bound_value, limit_scans
from mangrove.inspect.table import find_requested_table
from mangrove.local.column_profile import ColumnProfile, profile_column
from mangrove.local.scan import run_scan
from mangrove.model.schema_text import format_type
from mangrove.tables.scan_plan import plan_scan

__all__ = ["ProfileInfo", "ProfileLine", "load_profile_info"]

_ROWS_MAX: Final = 200_000
"""How many rows of data files are profiled."""


@dataclass(frozen=True, slots=True)
class ProfileLine:
    """The profile of one column."""

    name: str
    type: str
    profile: ColumnProfile


@dataclass(frozen=True, slots=True)
class ProfileInfo:
    """The profiles of the columns of a table."""

    seen: PageVersion
    namespace: str
    name: str
    table_version: int | None
    rows: int
    """The number of rows that were profiled."""
    rows_unread: int
    """How many rows of data files were not read because of the bound."""
    columns: tuple[ProfileLine, ...]
    columns_left_out: int


def load_profile_info(pinned: PinnedLakehouse, requested: PageRequest) -> ProfileInfo:
    """Return the profiles of the columns, computed one after the other to bound memory."""
    table = find_requested_table(pinned, requested)
    state = table.state()
    plan = plan_scan(state)
    chosen, rows_unread = limit_scans(plan.scans, _ROWS_MAX)
    columns = state.schema.columns[:COLUMNS_MAX]
    lines: list[ProfileLine] = []
    for column in columns:
        rows = run_scan(pinned.lake.effects.store, state, replace(plan, scans=chosen), (column,))
        profile = _bound_profile(profile_column(rows.column(0).slice(0, _ROWS_MAX)))
        lines.append(ProfileLine(column.name, format_type(column.type), profile))
    return ProfileInfo(
        pinned.seen,
        table.locator.namespace,
        table.name,
        table.target.version,
        lines[0].profile.rows if lines else 0,
        rows_unread,
        tuple(lines),
        len(state.schema.columns) - len(columns),
    )


def _bound_profile(profile: ColumnProfile) -> ColumnProfile:
    return replace(
        profile,
        minimum=bound_value(profile.minimum),
        maximum=bound_value(profile.maximum),
        bars=tuple(replace(bar, start=bound_value(bar.start)) for bar in profile.bars),
    )
