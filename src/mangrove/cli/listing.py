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
"""Maximum number of lines printed to a terminal."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TruncatedList(Generic[T]):
    """The first entries of a list, and whether there are more."""

    shown: list[T]
    has_more: bool

    def with_more(self, drawn: RenderableType, remedy: str) -> RenderableType:
        """Return the drawn list, followed by a note if there are more entries."""
        if not self.has_more:
            return drawn
        return Group(drawn, Text(f"the first {len(self.shown):,}; there are more: {remedy}", style="dim"))


def resolve_line_limit(limit: int | None, *, as_json: bool) -> int | None:
    """Return the maximum number of entries: `limit`, else LINES_MAX on a terminal, else None."""
    if limit is not None or as_json or not sys.stdout.isatty():
        return limit
    return LINES_MAX


def truncate_list(entries: Iterable[T], count_max: int | None) -> TruncatedList[T]:
    """Return the first `count_max` entries; reads at most one more.

    >>> truncate_list("abc", 2)
    TruncatedList(shown=['a', 'b'], has_more=True)
    """
    if count_max is None:
        return TruncatedList([*entries], has_more=False)
    taken = [*islice(entries, count_max + 1)]
    return TruncatedList(taken[:count_max], has_more=len(taken) > count_max)


def shorten_lines(lines: Sequence[str]) -> str:
    """Return lines that end with a summary line, truncated before it on a terminal."""
    *before, last = lines
    lines_max = resolve_line_limit(None, as_json=False)
    more = [] if lines_max is None else [line.plain for line in build_more_line(len(before) - lines_max)]
    return "\n".join([*before[:lines_max], *more, last])


def build_more_line(count: int) -> list[Text]:
    """Return a line with the number of omitted entries, or nothing if there are none.

    >>> build_more_line(0), build_more_line(1_200)[0].plain
    ([], '… and 1,200 more; --json lists all')
    """
    return [Text(f"… and {count:,} more; --json lists all", style="dim")] if count > 0 else []
