"""Pages of rows of a view, computed by DuckDB with the limits of the SQL editor."""

from dataclasses import dataclass
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse
from mangrove.inspect.query import QueryLimits, QueryRunner
from mangrove.inspect.rows import RowColumn, RowPage
from mangrove.model.locators import parse_view_name

__all__ = ["ViewRowsInfo", "load_view_rows_info"]

_PAGE_ROWS: Final = 50
_OFFSET_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class ViewRowsInfo:
    """A page of the rows of a view."""

    seen: PageVersion
    namespace: str
    name: str
    offset: int
    columns: tuple[RowColumn, ...]
    page: RowPage
    note: str | None = None
    """Why the rows cannot be computed, for example because a table was renamed."""


def load_view_rows_info(pinned: PinnedLakehouse, requested: PageRequest) -> ViewRowsInfo:
    """Return the rows of a view from the query's `offset`; a view without an order may order them differently."""
    locator = pinned.lake_snapshot.view(parse_view_name(requested.step("name"))).locator
    offset = requested.number("offset") or 0
    if offset > _OFFSET_MAX:
        raise InvalidInputError(
            f"the offset is {offset}; expected at most {_OFFSET_MAX}: query the view with SQL instead"
        )
    version = pinned.snapshot.version
    text = f"SELECT * FROM {locator} LIMIT {_PAGE_ROWS + 1} OFFSET {offset} AT LAKE VERSION {version}"  # noqa: S608 - names are quoted
    try:
        answer = QueryRunner(pinned.lake, QueryLimits(rows_max=_PAGE_ROWS)).run("view", text)
    except (InvalidInputError, NotFoundError) as error:
        none = RowPage((), None, 0)
        return ViewRowsInfo(pinned.seen, locator.namespace, locator.name, offset, (), none, str(error))
    page = RowPage(answer.rows, offset + _PAGE_ROWS if answer.has_more else None, 0)
    return ViewRowsInfo(pinned.seen, locator.namespace, locator.name, offset, answer.columns, page)
