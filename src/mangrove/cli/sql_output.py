"""How the results of SQL statements are given: as tables, as a JSON object on each line, or as CSV."""

import csv
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import RenderableType

from mangrove.cli.row_views import cell_text, plain, rows_view
from mangrove.cli.screen import counted, draw, speaks_unicode

if TYPE_CHECKING:
    from mangrove.sql.results import Result

__all__ = ["ROWS_SHOWN", "show_result", "stats_line", "write_csv", "write_json"]

ROWS_SHOWN = 100
"""So many rows of a query are shown to a person who did not say how many."""


def show_result(result: "Result", limit: int | None = ROWS_SHOWN, draw: Callable[[RenderableType], None] = draw) -> int:
    """Draw the rows of a result, or say what was done; return how many rows there are to see."""
    if result.frame is None and (result.answer is None or result.kind == "change"):
        draw(_said(result))
        return 0
    # One more than is shown, to know whether there are more.
    rows = list(result.each_row(None if limit is None else limit + 1))
    shown = rows if limit is None else rows[:limit]
    plural = "" if len(shown) == 1 else "s"
    more = ", and there are more: --limit shows them" if len(rows) > len(shown) else ""
    draw(rows_view(result.columns, shown, f"{len(shown):,} row{plural}{more}"))
    return len(shown)


def write_json(result: "Result", limit: int | None = None) -> int:
    """Write a result as one line of JSON; return how many rows it has."""
    names = result.columns
    rows = [dict(zip(names, map(plain, row), strict=True)) for row in result.each_row(limit)]
    told = {
        "line": result.line, "kind": result.kind, "message": result.message, "version": result.version,
        "columns": list(names), "rows": rows,
    }  # fmt: skip
    sys.stdout.write(json.dumps(told, ensure_ascii=not speaks_unicode(sys.stdout)) + "\n")
    return len(rows)


def write_csv(result: "Result", limit: int | None = None) -> int:
    """Write the rows of a result as CSV with a heading; what has no rows is said on the error stream."""
    if result.frame is None and (result.answer is None or result.kind == "change"):
        sys.stderr.write(_said(result) + "\n")
        return 0
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    count = 0
    for row in result.each_row(limit):
        writer.writerow(["" if value is None else cell_text(value) for value in row])
        count += 1
    return count


def stats_line(result: "Result", rows: int, seconds: float) -> str:
    """Return in one line what a statement took, and which files a query reads."""
    files = [f"{name}: {counted(read, 'file')} read, {skipped:,} skipped" for name, read, skipped in result.files()]
    return "; ".join([f"line {result.line}: {counted(rows, 'row')} in {seconds:.1f} s", *files])


def _said(result: "Result") -> str:
    committed = "" if result.version is None else f" (version {result.version})"
    is_said = str(result.version) in result.message
    return result.message + ("" if is_said else committed) if result.message else f"done{committed}"
