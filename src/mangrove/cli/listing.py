"""Truncation of long lists."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, TypeVar

from rich.console import Group, RenderableType
from rich.text import Text

__all__ = ["LINES_MAX", "TruncatedList", "build_more_line", "resolve_line_limit", "shorten_lines", "truncate_list"]

LINES_MAX: Final = 200
"""More than this would push the beginning off any screen."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TruncatedList(Generic[T]):
    """The beginning of a list, and whether that is not all of it."""

    shown: list[T]
    has_more: bool

    def with_more(self, drawn: RenderableType, remedy: str) -> RenderableType:
        """Return what was drawn of the list, with a line below it where there is more."""
        if not self.has_more:
            return drawn
        return Group(drawn, Text(f"the first {len(self.shown):,}, and there are more: {remedy}", style="dim"))


def resolve_line_limit(limit: int | None, *, as_json: bool) -> int | None:
    """Return how many are shown: as many as asked for, else a few screens on a terminal, and all to a program."""
    if limit is not None or as_json or not sys.stdout.isatty():
        return limit
    return LINES_MAX


def truncate_list(found: Iterable[T], most: int | None) -> TruncatedList[T]:
    """Return the first of what was found; of the rest no more is asked for than whether there is any.

    >>> truncate_list("abc", 2)
    Cut(shown=['a', 'b'], has_more=True)
    """
    if most is None:
        return TruncatedList([*found], has_more=False)
    taken = [*islice(found, most + 1)]
    return TruncatedList(taken[:most], has_more=len(taken) > most)


def shorten_lines(lines: Sequence[str]) -> str:
    """Return lines of which the last says what they come to; on a terminal not all of those before it."""
    *before, last = lines
    most = resolve_line_limit(None, as_json=False)
    more = [] if most is None else [line.plain for line in build_more_line(len(before) - most)]
    return "\n".join([*before[:most], *more, last])


def build_more_line(count: int) -> list[Text]:
    """Return the line that says how many are left out, none where nothing is.

    >>> build_more_line(0), build_more_line(1_200)[0].plain
    ([], '… and 1,200 more: --json has them all')
    """
    return [Text(f"… and {count:,} more: --json has them all", style="dim")] if count > 0 else []
