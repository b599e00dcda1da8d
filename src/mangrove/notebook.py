"""IPython magic `%%mangrove` for SQL in notebooks.

One session lasts as long as the notebook, so BEGIN in one cell and COMMIT in
another work. Parameters such as `:day` take the notebook's variables.
"""

import html
import itertools
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import open_lakehouse
from mangrove.sql.execute.show import ResultRow
from mangrove.sql.parse.tokens import tokenize
from mangrove.sql.results import Result
from mangrove.sql.session import SqlSession
from mangrove.wiring import LakehouseEngines, build_engines_factory

__all__ = ["NotebookResult", "NotebookSql", "load_ipython_extension"]

_PREVIEW_ROWS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class NotebookResult:
    """The output of a cell: the first rows of its last statement, or a message."""

    message: str
    columns: tuple[str, ...] = ()
    rows: tuple[ResultRow, ...] = ()
    has_more: bool = False

    def __repr__(self) -> str:
        lines = [" | ".join(self.columns), *(" | ".join(map(_cell, row)) for row in self.rows)] if self.columns else []
        return "\n".join([*lines, *([self.note] if self.note else [])])

    @property
    def note(self) -> str:
        """The text below the rows."""
        more = f"the first {len(self.rows)} rows are shown" if self.has_more else ""
        return "; ".join(text for text in (self.message, more) if text)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_cell(value))}</td>" for value in row) + "</tr>" for row in self.rows
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if self.columns else ""
        return f"{table}<p>{html.escape(self.note)}</p>" if self.note else table


class NotebookSql:
    """The state of the magic: the current lakehouse and its session."""

    def __init__(self, open_lake: Callable[[str], Lakehouse], variables: Mapping[str, Any]) -> None:
        self._open_lake = open_lake
        self._variables = variables
        self._session: SqlSession | None = None

    def magic(self, line: str, cell: str | None = None) -> NotebookResult | None:
        """Open the lakehouse that the line names, as a URI or as a variable, and run the cell."""
        where = line.strip()
        if where:
            self._use(where)
        if cell is None:
            return None
        if self._session is None:
            raise InvalidInputError("no lakehouse is open: write %mangrove with its URI or a variable first")
        engines = self._session.lake.engines
        with engines.cancellable() if isinstance(engines, LakehouseEngines) else nullcontext():
            last: Result | None = None
            for result in self._session.script(cell, self._arguments(cell)):
                last = result
            return None if last is None else _preview_result(last)

    def _use(self, where: str) -> None:
        found = self._variables.get(where)
        lake = found if isinstance(found, Lakehouse) else self._open_lake(where)
        if self._session is not None:
            self._session.close()
        self._session = SqlSession(lake)

    def _arguments(self, cell: str) -> dict[str, Any] | None:
        tokens = tokenize(cell)
        named = {
            following.name for token, following in itertools.pairwise(tokens) if token.text == ":" and following.is_name
        }
        return {name: self._variables[name] for name in named if name in self._variables} or None


def _preview_result(result: Result) -> NotebookResult:
    """Return the first rows of a result; only the displayed rows are computed."""
    rows = list(result.each_row(_PREVIEW_ROWS_MAX + 1))
    return NotebookResult(
        result.message, result.columns, tuple(rows[:_PREVIEW_ROWS_MAX]), len(rows) > _PREVIEW_ROWS_MAX
    )


def load_ipython_extension(ipython: Any) -> None:
    """Register `%%mangrove`; IPython calls this for `%load_ext mangrove`."""
    state = NotebookSql(_open_lake, ipython.user_ns)
    ipython.register_magic_function(state.magic, "line_cell", "mangrove")


def _open_lake(uri: str) -> Lakehouse:
    return open_lakehouse(uri, engines=build_engines_factory())


def _cell(value: object) -> str:
    return "null" if value is None else str(value)
