"""Pages of rows of a table, read with bounded work."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

from mangrove.errors import FormatError, InvalidInputError
from mangrove.expressions.parse import bind_predicate
from mangrove.expressions.predicates import Predicate
from mangrove.inspect.formatting import shorten_text
from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse
from mangrove.inspect.table import find_requested_table
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.local.python_rows import to_python_rows
from mangrove.local.scan import stream_scan, take_first_rows
from mangrove.local.schemaless_files import read_stored_files
from mangrove.maintenance.progress import format_quantity
from mangrove.model.arrow_schema import schema_from_arrow
from mangrove.model.schema_text import format_type
from mangrove.model.types import Column, is_nested
from mangrove.storage.port import Store
from mangrove.tables.scan_plan import FileScan, plan_scan
from mangrove.tables.table_state import TableState
from mangrove.transaction.deltas import TableTarget

__all__ = [
    "COLUMNS_MAX",
    "ROWS_READ_MAX",
    "RowColumn",
    "RowOrder",
    "RowPage",
    "RowsInfo",
    "bound_value",
    "limit_scans",
    "load_rows_info",
    "read_row_page",
    "read_stored_rows",
]

ROWS_READ_MAX: Final = 1_000_000
"""How many rows of data files are read for one page."""
COLUMNS_MAX: Final = 100
_PAGE_ROWS: Final = 50
_SORTED_OFFSET_MAX: Final = 10_000
_TEXT_CHARACTERS_MAX: Final = 2_000
_BYTES_MAX: Final = 500
_STORED_BYTES_MAX: Final = 50_000_000
"""How many bytes of files of a table without a schema are read for one page."""
_ENTRIES_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class RowColumn:
    """The name and the type of a column of rows."""

    name: str
    type: str
    is_sortable: bool = False


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The column by which rows are sorted."""

    column: str
    is_descending: bool = False


@dataclass(frozen=True, slots=True)
class RowPage:
    """Some consecutive rows as Python values."""

    rows: tuple[tuple[Any, ...], ...]
    next_offset: int | None
    """The offset of the next page; None if there are no more rows within the bound."""
    rows_unread: int
    """How many rows of data files were not read because of the bound."""


@dataclass(frozen=True, slots=True)
class RowsInfo:
    """A page of the rows of a table."""

    seen: PageVersion
    namespace: str
    name: str
    target: TableTarget
    where: str | None
    order: RowOrder | None
    offset: int
    columns: tuple[RowColumn, ...]
    columns_left_out: int
    page: RowPage
    rows_read_max: int = ROWS_READ_MAX
    note: str | None = None
    """Why rows of a table without a schema are missing, if they are."""


def load_rows_info(pinned: PinnedLakehouse, requested: PageRequest) -> RowsInfo:
    """Return the rows of a table from the query's `offset`, or those of them that match its `where`.

    The query's `sort` names a column; with the `order` "desc" its largest values are first.
    """
    table = find_requested_table(pinned, requested)
    if table.opened().version.schema is None:
        return _load_stored_rows(pinned, requested, table)
    state = table.state()
    where, offset = requested.text("where"), requested.number("offset") or 0
    columns = state.schema.columns[:COLUMNS_MAX]
    listed = _list_columns(columns)
    order = _find_order(requested, listed, offset)
    predicate = bind_predicate(where, state.schema)
    return RowsInfo(
        pinned.seen,
        table.locator.namespace,
        table.name,
        table.target,
        where,
        order,
        offset,
        listed,
        len(state.schema.columns) - len(columns),
        read_row_page(pinned.lake.effects.store, state, columns, predicate, offset, order),
    )


def _load_stored_rows(pinned: PinnedLakehouse, requested: PageRequest, table: TableSnapshot) -> RowsInfo:
    """Return a page of the rows of a table without a schema."""
    if requested.text("where") is not None:
        raise InvalidInputError(f"{table} has no schema for a condition: leave it out, or query the table with SQL")
    rows, columns, note = read_stored_rows(pinned, table)
    listed = _list_columns(columns[:COLUMNS_MAX])
    offset = requested.number("offset") or 0
    order = _find_order(requested, listed, offset)
    shown = [rows.select([one.name for one in listed])] if listed else []
    return RowsInfo(
        pinned.seen, table.locator.namespace, table.name, table.target, None, order, offset, listed,
        len(columns) - len(listed), _take_page(iter(shown), 0, offset, order, 0), note=note,
    )  # fmt: skip


def read_stored_rows(pinned: PinnedLakehouse, table: TableSnapshot) -> tuple[Any, tuple[Column, ...], str | None]:
    """Return the rows of the first files of a table without a schema, their columns, and why others are missing."""
    files, store = table.files(), pinned.lake.effects.store
    sizes = accumulate(file.size_bytes for file in files)
    chosen = [file for file, size in zip(files, sizes, strict=True) if size <= _STORED_BYTES_MAX]
    unread = len(files) - len(chosen)
    note = f"Rows of {format_quantity(unread, 'more file')} not read; query the table with SQL." if unread else None
    try:
        rows = read_stored_files(store, chosen, str(table))
        return rows, schema_from_arrow(rows.schema).columns if rows.num_columns else (), note
    except (FormatError, InvalidInputError) as error:
        return read_stored_files(store, (), str(table)), (), str(error)


def _list_columns(columns: Iterable[Column]) -> tuple[RowColumn, ...]:
    return tuple(RowColumn(one.name, format_type(one.type), not is_nested(one.type)) for one in columns)


def _find_order(requested: PageRequest, columns: tuple[RowColumn, ...], offset: int) -> RowOrder | None:
    name, order = requested.text("sort"), requested.text("order")
    if name is None:
        return None
    if not any(column.name == name and column.is_sortable for column in columns):
        raise InvalidInputError(f"rows cannot be sorted by {name!r}; expected a column with plain values")
    if order not in (None, "asc", "desc"):
        raise InvalidInputError(f"unknown order {order!r}; expected asc or desc")
    if offset > _SORTED_OFFSET_MAX:
        raise InvalidInputError(
            f"the offset of sorted rows is {offset}; expected at most {_SORTED_OFFSET_MAX}: query the table with SQL"
        )
    return RowOrder(name, order == "desc")


def read_row_page(
    store: Store,
    state: TableState,
    columns: tuple[Column, ...],
    predicate: Predicate | None,
    offset: int,
    order: RowOrder | None = None,
) -> RowPage:
    """Read one page of rows; files before the offset are not opened if all their rows are live and match.

    For sorted rows all files are read, up to the same bound.
    """
    plan = plan_scan(state, predicate)
    scans, skipped = list(plan.scans), 0
    while (
        order is None
        and predicate is None
        and scans
        and scans[0].is_whole
        and skipped + scans[0].file.row_count <= offset
    ):
        skipped += scans.pop(0).file.row_count
    chosen, rows_unread = limit_scans(scans)
    batches = stream_scan(store, state, replace(plan, scans=chosen), columns, predicate)
    return _take_page(batches, skipped, offset, order, rows_unread)


def _take_page(batches: Iterator[Any], skipped: int, offset: int, order: RowOrder | None, rows_unread: int) -> RowPage:
    """Return the page at an offset of rows, of which the first were skipped already."""
    rows: list[tuple[Any, ...]] = []
    if order is not None:
        first = take_first_rows(batches, order.column, offset + _PAGE_ROWS + 1, is_descending=order.is_descending)
        batches = iter([] if first is None else [first])
    for batch in batches:
        start = min(max(0, offset - skipped), batch.num_rows)
        skipped += start
        taken = batch.slice(start, _PAGE_ROWS + 1 - len(rows))
        rows += (tuple(map(bound_value, row.values())) for row in to_python_rows(taken))
        if len(rows) > _PAGE_ROWS:
            break
    has_more = len(rows) > _PAGE_ROWS
    unread = 0 if has_more and order is None else rows_unread
    return RowPage(tuple(rows[:_PAGE_ROWS]), offset + _PAGE_ROWS if has_more else None, unread)


def limit_scans(scans: Iterable[FileScan], rows_max: int = ROWS_READ_MAX) -> tuple[tuple[FileScan, ...], int]:
    """Return the first files, at least one, with at most this many rows, and the number of rows of the others."""
    chosen: list[FileScan] = []
    rows = rows_unread = 0
    for scan in scans:
        rows += scan.file.row_count
        if rows_unread or (chosen and rows > rows_max):
            rows_unread += scan.file.row_count
        else:
            chosen.append(scan)
    return tuple(chosen), rows_unread


def bound_value(value: Any) -> Any:
    """Return a value whose texts, bytes and lists are cut to what a page shows.

    >>> bound_value({"name": "a" * 5000, "sizes": [1, 2]})["sizes"]
    [1, 2]
    """
    match value:
        case str():
            return shorten_text(value, _TEXT_CHARACTERS_MAX)
        case bytes():
            return value[:_BYTES_MAX]
        case Mapping():
            return {name: bound_value(inner) for name, inner in value.items()}
        case list():
            return [bound_value(inner) for inner in value[:_ENTRIES_MAX]]
        case tuple():
            return tuple(map(bound_value, value))
        case _:
            return value
