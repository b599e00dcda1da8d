"""Many ranges of keys as one, so that whether a key lies in any of them takes one search."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Spans", "spans_of"]


@dataclass(frozen=True, slots=True)
class Spans:
    """Ranges from `firsts[i]` on and before `ends[i]`, in order and apart."""

    firsts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()

    def hold(self, key: str) -> bool:
        """Return whether a key lies in one of the ranges."""
        place = bisect_right(self.firsts, key)
        return place > 0 and key < self.ends[place - 1]


def spans_of(ranges: Iterable[tuple[str, str]]) -> Spans:
    """Return the ranges in order, without empty ones, joined where they meet or overlap.

    >>> spans_of([("p", "q"), ("a", "c"), ("b", "d"), ("d", "e")])
    Spans(firsts=('a', 'p'), ends=('e', 'q'))
    """
    firsts: list[str] = []
    ends: list[str] = []
    for first, end in sorted(pair for pair in ranges if pair[0] < pair[1]):
        if ends and first <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            firsts.append(first)
            ends.append(end)
    return Spans(tuple(firsts), tuple(ends))
