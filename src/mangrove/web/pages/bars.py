"""Geometry of small SVG bar charts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mangrove.inspect.formatting import compute_share

__all__ = ["Bar", "BarChart", "build_bar_chart"]

_GAP: Final = 4
_HEIGHT: Final = 64


@dataclass(frozen=True, slots=True)
class Bar:
    """The coordinates and the label of one bar."""

    left: int
    top: float
    height: float
    label: str


@dataclass(frozen=True, slots=True)
class BarChart:
    """The coordinates and labels of a bar chart."""

    title: str
    bars: list[Bar]
    width: int
    bar_width: int
    height: int = _HEIGHT


def build_bar_chart(title: str, values: Sequence[tuple[str, int]], *, bar_width: int = 22) -> BarChart:
    """Return the chart of labels with their values; the largest value has the full height."""
    largest = max((value for _, value in values), default=0)
    heights = [round(compute_share(value, largest) * (_HEIGHT - 2), 1) for _, value in values]
    bars = [
        Bar(place * (bar_width + _GAP), _HEIGHT - height, height, label)
        for place, ((label, _), height) in enumerate(zip(values, heights, strict=True))
    ]
    return BarChart(title, bars, max(1, len(bars) * (bar_width + _GAP) - _GAP), bar_width)
