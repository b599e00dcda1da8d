"""Output of the demo: chapters with their purpose, small tables, bars and timings."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from decimal import Decimal
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

__all__ = ["Presenter", "format_bar"]

_BAR_CELLS = 28
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_INDENT = 3
_SHOWN_SECONDS_MIN = 1


def format_bar(value: float, largest: float, cells: int = _BAR_CELLS) -> str:
    """Return a bar whose length is proportional to the value, in steps of an eighth of a cell."""
    eighths = round(value * cells * 8 / largest) if largest else 0
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


class Presenter:
    """Prints the chapters for people, and collects the results of each for `--json`."""

    def __init__(self, *, is_silent: bool) -> None:
        # Lines that go to a file or a pipe are not wrapped.
        width = None if sys.stdout.isatty() else 200
        self._console = None if is_silent else Console(width=width, markup=False, highlight=False, emoji=False)
        self.chapters: list[dict[str, Any]] = []

    @contextmanager
    def chapter(self, title: str, why: str) -> Iterator[dict[str, Any]]:
        """Print the heading of a chapter, and collect the results that its body adds to the mapping."""
        results: dict[str, Any] = {"chapter": title}
        self._print(Text.assemble("\n", (f"{len(self.chapters) + 1:>2} ", "bold cyan"), (title, "bold")))
        self._print(_indented(Text(why, style="dim")))
        began = time.monotonic()
        yield results
        seconds = round(time.monotonic() - began, 1)
        self.chapters.append({**results, "seconds": seconds})
        if seconds >= _SHOWN_SECONDS_MIN:
            self._print(_indented(Text(f"({seconds} s)", style="dim")))

    def say(self, *lines: str, style: str = "") -> None:
        """Print sentences, each on its own line."""
        for line in lines:
            self._print(_indented(Text(line, style=style)))

    def code(self, *lines: str) -> None:
        """Print code."""
        for line in lines:
            self._print(_indented(Text(line, style="cyan"), _INDENT + 2))

    def rows(self, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a table with its numbers aligned right."""
        table = Table(*headings, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
        for place, column in enumerate(table.columns):
            if all(isinstance(row[place], int | Decimal) for row in rows):
                column.justify = "right"
        for row in rows:
            table.add_row(*(f"{cell:,}" if isinstance(cell, int | Decimal) else str(cell) for cell in row))
        self._print(_indented(table))

    def bars(self, values: Mapping[str, float], unit: str = "") -> None:
        """Print numbers as a bar chart."""
        largest = max(values.values(), default=0)
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True, overflow="crop")
        for name, value in values.items():
            table.add_row(name, f"{value:,.0f}{unit}", Text(format_bar(value, largest), style="green"))
        self._print(_indented(table))

    def waiting(self, what: str) -> AbstractContextManager[Any]:
        """Show a spinner on a terminal while something runs."""
        if self._console is None or not self._console.is_terminal:
            return nullcontext()
        return self._console.status(what)

    def _print(self, drawing: RenderableType) -> None:
        if self._console is not None:
            self._console.print(drawing)


def _indented(drawing: RenderableType, columns: int = _INDENT) -> Padding:
    return Padding(drawing, (0, 0, 0, columns), expand=False)
