"""How the demo is told: chapters with a reason each, small tables, bars, and what every chapter took."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from decimal import Decimal
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mangrove.cli.catalog import build_list_table
from mangrove.cli.terminal import create_console
from mangrove.model.json_codec import Json

__all__ = ["Stage", "bar_text"]

_BAR_CELLS = 28
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_INDENT = 3
_SECONDS_WORTH_SAYING = 1


def bar_text(value: float, largest: float, cells: int = _BAR_CELLS) -> str:
    """Return a bar as long as the value is large beside the largest, in steps of an eighth of a cell.

    >>> bar_text(3, 4, 4), bar_text(1, 8, 4), bar_text(0, 8, 4)
    ('███', '▌', '')
    """
    eighths = round(value * cells * 8 / largest) if largest else 0
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


class Stage:
    """Tells the demo to a person, and keeps what came of each chapter for a program."""

    def __init__(self, *, is_silent: bool) -> None:
        self._console = None if is_silent else create_console(sys.stdout)
        self.chapters: list[dict[str, Json]] = []

    @contextmanager
    def chapter(self, title: str, why: str) -> Iterator[dict[str, Json]]:
        """Tell a chapter; what it found out goes into the mapping that is given."""
        facts: dict[str, Json] = {"chapter": title}
        self._print(Text.assemble("\n", (f"{len(self.chapters) + 1:>2} ", "bold cyan"), (title, "bold")))
        self._print(_indented(Text(why, style="dim")))
        began = time.monotonic()
        yield facts
        seconds = round(time.monotonic() - began, 1)
        self.chapters.append({**facts, "seconds": seconds})
        if seconds >= _SECONDS_WORTH_SAYING:
            self._print(_indented(Text(f"({seconds} s)", style="dim")))

    def say(self, *lines: str, style: str = "") -> None:
        """Say sentences, each on a line of its own."""
        for line in lines:
            self._print(_indented(Text(line, style=style)))

    def code(self, *lines: str) -> None:
        """Show the code that does it."""
        for line in lines:
            self._print(_indented(Text(line, style="cyan"), _INDENT + 2))

    def rows(self, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Show a table; numbers stand at the right."""
        table = build_list_table(*headings)
        for place, column in enumerate(table.columns):
            if all(isinstance(row[place], int | Decimal) for row in rows):
                column.justify = "right"
        for row in rows:
            table.add_row(*(f"{cell:,}" if isinstance(cell, int | Decimal) else str(cell) for cell in row))
        self._print(_indented(table))

    def bars(self, values: Mapping[str, float], unit: str = "") -> None:
        """Show numbers as bars below each other."""
        largest = max(values.values(), default=0)
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True, overflow="crop")
        for name, value in values.items():
            table.add_row(name, f"{value:,.0f}{unit}", Text(bar_text(value, largest), style="green"))
        self._print(_indented(table))

    def waiting(self, what: str) -> AbstractContextManager[Any]:
        """Show that something takes a while, where a person is looking."""
        if self._console is None or not self._console.is_terminal:
            return nullcontext()
        return self._console.status(what)

    def _print(self, drawing: RenderableType) -> None:
        if self._console is not None:
            self._console.print(drawing)


def _indented(drawing: RenderableType, columns: int = _INDENT) -> Padding:
    return Padding(drawing, (0, 0, 0, columns), expand=False)
