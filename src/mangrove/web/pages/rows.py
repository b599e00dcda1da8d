"""Row pages: cells with folded nested values, and changed rows side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final

from mangrove.inspect.formatting import format_value, shorten_text
from mangrove.inspect.rows import RowOrder, RowsInfo
from mangrove.inspect.table_history import ChangedRow, RowChangesInfo
from mangrove.inspect.view_rows import ViewRowsInfo
from mangrove.tables.change_feed import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from mangrove.web.links import Links
from mangrove.web.rendering import render_page

__all__ = ["Cell", "build_cell", "build_cells", "render_row_changes_page", "render_rows_page"]

_CHARACTERS_MAX: Final = 80
_BADGES: Final = {INSERT: "added", DELETE: "removed", UPDATE_BEFORE: "changed", UPDATE_AFTER: "changed"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A value as text, with its inner values if it is nested."""

    kind: str
    """One of null, number, time, text, long (a text that is folded) and nested."""
    text: str
    entries: tuple[tuple[str, "Cell"], ...] = ()
    """The inner values of a struct, list or map with their names, indexes or keys."""
    long_text: str = ""


def render_rows_page(info: RowsInfo | ViewRowsInfo, api_address: str, *, template: str = "rows.html") -> bytes:
    """Return the page with rows of a table or view."""
    order_urls = list(_build_order_urls(info)) if isinstance(info, RowsInfo) else []
    return render_page(template, info, api_address, rows=build_cells(info.page.rows), order_urls=order_urls)


def _build_order_urls(info: RowsInfo) -> Iterator[str | None]:
    """Yield for each column the page that is sorted by it, largest first if it is sorted by it already."""
    for column in info.columns:
        order = RowOrder(column.name, is_descending=info.order == RowOrder(column.name))
        links = Links(info.seen.requested)
        yield links.rows(info.target, where=info.where, order=order) if column.is_sortable else None


def render_row_changes_page(info: RowChangesInfo, api_address: str) -> bytes:
    """Return the page with the rows that differ between two versions."""
    return render_page(
        "row_changes.html",
        info,
        api_address,
        heads=["Change", *(column.name for column in info.columns)],
        types=["", *(column.type for column in info.columns)],
        rows=list(_mark_differences(info.rows)),
        badges=_BADGES,
    )


def _mark_differences(rows: Sequence[ChangedRow]) -> Iterator[tuple[str, list[tuple[Cell, bool]]]]:
    """Yield each change with its cells, and whether a cell differs from the other state of an updated row."""
    for place, row in enumerate(rows):
        other = {UPDATE_BEFORE: place + 1, UPDATE_AFTER: place - 1}.get(row.change, -1)
        others = rows[other].values if 0 <= other < len(rows) else row.values
        yield row.change, [(build_cell(one), one != two) for one, two in zip(row.values, others, strict=True)]


def build_cells(rows: Sequence[Sequence[Any]]) -> list[list[Cell]]:
    """Return the cells of rows."""
    return [[build_cell(value) for value in row] for row in rows]


def build_cell(value: Any) -> Cell:
    """Return the cell of a value; structs are mappings, and maps are lists of pairs.

    >>> build_cell([1, None]).text, [cell.text for _, cell in build_cell([1, None]).entries]
    ('2 entries', ['1', 'null'])
    """
    match value:
        case None:
            return Cell("null", "null")
        case Mapping() | list():
            return _build_nested(value)
        case str() if len(value) > _CHARACTERS_MAX:
            return Cell("long", shorten_text(value, _CHARACTERS_MAX), long_text=value)
        case str() | bool() | bytes():
            return Cell("text", format_value(value))
        case int() | float() | Decimal():
            return Cell("number", str(value))
        case date():
            return Cell("time", str(value))
        case _:
            return Cell("text", str(value))


def _build_nested(value: Any) -> Cell:
    if isinstance(value, Mapping):
        entries = [(str(name), inner) for name, inner in value.items()]
        return _nested(shorten_text(", ".join(name for name, _ in entries), _CHARACTERS_MAX), entries)
    is_map = all(isinstance(entry, tuple) for entry in value)
    entries = [(format_value(entry[0]), entry[1]) if is_map else (str(at), entry) for at, entry in enumerate(value)]
    return _nested("1 entry" if len(entries) == 1 else f"{len(entries)} entries", entries)


def _nested(text: str, entries: list[tuple[str, Any]]) -> Cell:
    return Cell("nested", text or "empty", tuple((name, build_cell(inner)) for name, inner in entries))
