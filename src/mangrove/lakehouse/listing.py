"""Lists that are read from storage only as far as they are used, and their HTML form for notebooks."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any, Final, TypeVar, overload

__all__ = ["SHOWN_MAX", "Listing", "render_html"]

T_co = TypeVar("T_co", covariant=True)
SHOWN_MAX: Final = 20
"""Maximum number of entries that `repr` and the HTML form show."""


class Listing(Sequence[T_co]):
    """A list whose entries are read when they are first used; `len` and an index from the end read all of them.

    >>> numbers = Listing(iter([1, 2, 3]))
    >>> numbers[0], len(numbers), numbers == [1, 2, 3], numbers
    (1, 3, True, [1, 2, 3])
    """

    def __init__(self, entries: Iterable[T_co], columns: Mapping[str, Callable[[Any], object]] | None = None) -> None:
        """`columns` are the columns of the HTML form, each with what computes the value of an entry."""
        self._rest = iter(entries)
        self._loaded: list[T_co] = []
        self._columns = columns or {"": str}

    def _load(self, count: int | None) -> list[T_co]:
        """Return the loaded entries, at least `count` of them, or all."""
        self._loaded.extend(islice(self._rest, None if count is None else max(0, count - len(self._loaded))))
        return self._loaded

    def __iter__(self) -> Iterator[T_co]:
        loaded, rest = self._loaded, self._rest
        for place in count():
            if place == len(loaded):
                try:
                    loaded.append(next(rest))
                except StopIteration:
                    return
            yield loaded[place]

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | list[T_co]:
        stop = index.stop if isinstance(index, slice) else index + 1 if index >= 0 else None
        return self._load(stop if stop is not None and stop >= 0 else None)[index]

    def __len__(self) -> int:
        return len(self._load(None))

    def __bool__(self) -> bool:
        return bool(self._load(1))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, list | Listing) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = self._load(SHOWN_MAX + 1)
        more = ", …" if len(shown) > SHOWN_MAX else ""
        return f"[{', '.join(map(repr, shown[:SHOWN_MAX]))}{more}]"

    def _repr_html_(self) -> str:
        shown = self._load(SHOWN_MAX + 1)
        rows = [[value_of(entry) for value_of in self._columns.values()] for entry in shown[:SHOWN_MAX]]
        return render_html("", tuple(self._columns), rows, note="…" if len(shown) > SHOWN_MAX else "")


def render_html(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], *, note: str = "") -> str:
    """Return a table as HTML in which all text is escaped; None is empty.

    >>> render_html("a & b", ["x"], [["<b>"]])
    '<p><b>a &amp; b</b></p><table><thead><tr><th>x</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """

    def render_row(cells: Sequence[object], tag: str) -> str:
        texts = ("" if cell is None else html.escape(str(cell)) for cell in cells)
        return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in texts)}</tr>"

    body = "".join(render_row(row, "td") for row in rows)
    table = f"<table><thead>{render_row(headings, 'th')}</thead><tbody>{body}</tbody></table>" if headings else ""
    above, below = (
        f"<p><b>{html.escape(title)}</b></p>" if title else "",
        f"<p>{html.escape(note)}</p>" if note else "",
    )
    return f"{above}{table}{below}"
