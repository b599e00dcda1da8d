"""Rows as a text table whose lines are printed as they are read."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from operator import gt
from typing import Any, Final, TypeAlias

from rich.cells import cell_len, chop_cells

from mangrove.cli.terminal import create_console
from mangrove.local.row_formats import format_cell

__all__ = ["RowTable", "TextRow", "print_rows", "render_rows"]

TextRow: TypeAlias = Sequence[str | None]
"""The cells of a row as text; None is null."""

_GAP: Final = "   "
_NULL: Final = "null"
_WIDTH_MIN: Final = 4
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(slots=True)
class RowTable:
    """Formats rows in aligned columns, which become wider if later rows need it.

    Cells are folded if a line would be wider than `width_max`.
    """

    names: Sequence[str]
    is_number: Sequence[bool]
    width_max: int
    is_styled: bool = False

    def format_lines(self, chunks: Iterable[Sequence[TextRow]]) -> Iterator[str]:
        """Yield the lines of the header and of the rows."""
        header = [[name] for name in _escape_cells(self.names)]
        needed = list(map(_measure_cells, header))
        is_first = True
        for chunk in chain(chunks, [()]):
            columns = list(map(_escape_cells, zip(*chunk, strict=True))) or [[] for _ in header]
            needed = list(map(max, needed, map(_measure_cells, columns)))
            widths = _fit_widths(needed, self.width_max)
            if is_first:
                for line in self._format_rows(header, widths):
                    yield f"\x1b[1m{line}\x1b[0m" if self.is_styled else line
                yield "─" * (sum(widths) + len(_GAP) * (len(widths) - 1))
                is_first = False
            yield from self._format_rows(columns, widths)

    def _format_rows(self, columns: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
        if any(map(gt, map(_measure_cells, columns), widths)):
            columns = _fold_cells(columns, widths)
        padded = map(_pad_cells, columns, widths, self.is_number)
        return (_GAP.join(cells).rstrip() for cells in zip(*padded, strict=True))


def print_rows(names: Sequence[str], is_number: Sequence[bool], chunks: Iterable[Sequence[TextRow]]) -> None:
    """Print rows to stdout as a table."""
    for line in _create_table(names, is_number).format_lines(chunks):
        sys.stdout.write(f"{line}\n")


def render_rows(names: Sequence[str], rows: Sequence[Sequence[Any]], footer: str) -> str:
    """Return Python values as a table for stdout."""
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    is_number = [
        all(value is None or isinstance(value, int | float | Decimal) for value in column) for column in columns
    ]
    texts = [[None if value is None else format_cell(value) for value in row] for row in rows]
    return "\n".join([*_create_table(names, is_number).format_lines([texts] if texts else []), footer])


def _create_table(names: Sequence[str], is_number: Sequence[bool]) -> RowTable:
    console = create_console(sys.stdout)
    return RowTable(names, is_number, console.width, console.color_system is not None)


def _escape_cells(cells: TextRow) -> list[str]:
    r"""Return cells without control characters, which could end the line or change the terminal.

    >>> _escape_cells(["two\nlines", None])
    ['two\\nlines', 'null']
    """
    texts = [_NULL if cell is None else cell for cell in cells]
    if "".join(texts).isprintable():
        return texts
    return [_CONTROL.sub(lambda one: ascii(one[0])[1:-1], text) for text in texts]


def _measure_cells(cells: Sequence[str]) -> int:
    """Return the width of the widest cell on a terminal."""
    return max(map(len if "".join(cells).isascii() else cell_len, cells), default=0)


def _pad_cells(cells: Sequence[str], width: int, is_number: bool) -> list[str]:
    if not "".join(cells).isascii():
        # Some characters are two columns wide, others none.
        spaces = [" " * (width - cell_len(cell)) for cell in cells]
        return [blank + cell if is_number else cell + blank for cell, blank in zip(cells, spaces, strict=True)]
    return [cell.rjust(width) if is_number else cell.ljust(width) for cell in cells]


def _fold_cells(columns: Sequence[Sequence[str]], widths: Sequence[int]) -> list[list[str]]:
    """Split each row into as many lines as its widest cell needs."""
    folded: list[list[str]] = [[] for _ in columns]
    for row in zip(*columns, strict=True):
        pieces = [chop_cells(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
        line_count = max(map(len, pieces))
        for column, lines in zip(folded, pieces, strict=True):
            column += [*lines, *[""] * (line_count - len(lines))]
    return folded


def _fit_widths(widths: list[int], width_max: int) -> list[int]:
    """Return widths that fit on a line: the widest columns become narrower.

    >>> _fit_widths([2, 30, 10], 30)
    [2, 12, 10]
    """
    left = width_max - len(_GAP) * (len(widths) - 1)
    for place, width in enumerate(sorted(widths)):
        share = left // (len(widths) - place)
        if width > share:
            return [min(one, max(share, _WIDTH_MIN)) for one in widths]
        left -= width
    return widths
