"""Geometry of the SVG step plots of a value by version."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from mangrove.web.links import Links

__all__ = ["Plot", "PlotPoint", "build_plot", "compute_axis_steps"]

_WIDTH: Final = 560
_HEIGHT: Final = 170
_LEFT: Final = 78
_RIGHT: Final = 16
_TOP: Final = 12
_BOTTOM: Final = 28
_STEPS: Final = 4


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """The value of one version."""

    version: int
    value: int


@dataclass(frozen=True, slots=True)
class Plot:
    """The coordinates and labels of a plot."""

    title: str
    label: str
    rules: list[tuple[float, str]]
    """Horizontal lines: y and text."""
    versions: list[tuple[str, float, str]]
    """Labels of the version axis: text, x and anchor."""
    line: str
    """The SVG path of the steps."""
    area: str
    """The SVG path of the area below the steps."""
    dots: list[tuple[float, float, str, str]]
    """The points: x, y, label and URL of the version."""
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT
    right: int = _WIDTH - _RIGHT


def build_plot(title: str, points: Sequence[PlotPoint], format_number: Callable[[int], str], links: Links) -> Plot:
    """Return the plot of at least one point; each point links to its version."""
    steps = compute_axis_steps(max(point.value for point in points))
    first, last = points[0].version, points[-1].version

    def x_of(version: int) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * (version - first) / max(1, last - first), 1)

    def y_of(value: int) -> float:
        return round(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / steps[-1]), 1)

    places = [(x_of(point.version), y_of(point.value)) for point in points]
    line = _build_steps_path(places)
    labelled = sorted({first, last, points[len(points) // 2].version})
    ends = f"{format_number(points[0].value)} at version {first}, {format_number(points[-1].value)} at version {last}"
    return Plot(
        title,
        f"{title}: {ends}",
        rules=[(y_of(step), format_number(step)) for step in steps],
        versions=[
            (f"version {version}" if version == first else str(version), x_of(version), _anchor(version, first, last))
            for version in labelled
        ],
        line=line,
        area=f"{line} V{y_of(0)} H{places[0][0]} Z",
        dots=[
            (x, y, f"Version {point.version}: {format_number(point.value)}", links.version(point.version))
            for point, (x, y) in zip(points, places, strict=True)
        ],
    )


def compute_axis_steps(largest: int) -> tuple[int, ...]:
    """Return round numbers from 0 to at least `largest`, evenly apart.

    >>> compute_axis_steps(7), compute_axis_steps(230), compute_axis_steps(0)
    ((0, 2, 4, 6, 8), (0, 100, 200, 300), (0, 1))
    """
    if largest <= 0:
        return (0, 1)
    rough = largest / _STEPS
    magnitude = 10 ** math.floor(math.log10(rough)) if rough >= 1 else 1
    step = max(1, next(int(magnitude * factor) for factor in (1, 2, 5, 10) if magnitude * factor >= rough))
    return tuple(range(0, largest + step, step))


def _build_steps_path(places: Sequence[tuple[float, float]]) -> str:
    """Return an SVG path that keeps each value until the next version."""
    (x, y), *others = places
    return f"M{x} {y}" + "".join(f" H{next_x} V{next_y}" for next_x, next_y in others)


def _anchor(version: int, first: int, last: int) -> str:
    return "start" if version == first else "end" if version == last else "middle"
