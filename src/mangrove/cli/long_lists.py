"""How much of a long list is shown, and the line that says how to see the rest."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, TypeVar

from rich.console import Group, RenderableType
from rich.text import Text

__all__ = ["LINES_SHOWN", "Cut", "cut", "more_line", "most_lines", "shortened"]

LINES_SHOWN: Final = 200
"""More than this would push the beginning off any screen."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cut(Generic[T]):
    """The beginning of a list, and whether that is not all of it."""

    shown: list[T]
    has_more: bool

    def with_more(self, drawn: RenderableType, remedy: str) -> RenderableType:
        """Return what was drawn of the list, with a line below it where there is more."""
        if not self.has_more:
            return drawn
        return Group(drawn, Text(f"the first {len(self.shown):,}, and there are more: {remedy}", style="dim"))


def most_lines(limit: int | None, *, as_json: bool) -> int | None:
    """Return how many are shown: as many as asked for, else a few screens on a terminal, and all to a program."""
    if limit is not None or as_json or not sys.stdout.isatty():
        return limit
    return LINES_SHOWN


def cut(found: Iterable[T], most: int | None) -> Cut[T]:
    """Return the first of what was found; of the rest no more is asked for than whether there is any.

    >>> cut("abc", 2)
    Cut(shown=['a', 'b'], has_more=True)
    """
    if most is None:
        return Cut([*found], has_more=False)
    taken = [*islice(found, most + 1)]
    return Cut(taken[:most], has_more=len(taken) > most)


def shortened(lines: Sequence[str]) -> str:
    """Return lines of which the last says what they come to; on a terminal not all of those before it."""
    *before, last = lines
    most = most_lines(None, as_json=False)
    more = [] if most is None else [line.plain for line in more_line(len(before) - most)]
    return "\n".join([*before[:most], *more, last])


def more_line(count: int) -> list[Text]:
    """Return the line that says how many are left out, none where nothing is.

    >>> more_line(0), more_line(1_200)[0].plain
    ([], '… and 1,200 more: --json has them all')
    """
    return [Text(f"… and {count:,} more: --json has them all", style="dim")] if count > 0 else []
