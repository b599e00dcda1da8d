"""SVG step plot of a value by version."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from mangrove.web.html import Element, element
from mangrove.web.links import Links

__all__ = ["PlotPoint", "compute_axis_steps", "plot"]

_WIDTH: Final = 560
_HEIGHT: Final = 170
_LEFT: Final = 78
_RIGHT: Final = 16
_TOP: Final = 12
_BOTTOM: Final = 28
_STEPS: Final = 4


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """What a version has."""

    version: int
    value: int


def plot(title: str, points: Sequence[PlotPoint], text_of: Callable[[int], str], links: Links) -> Element:
    """Return the plot; each point leads to its version."""
    steps = compute_axis_steps(max(point.value for point in points))
    first, last = points[0].version, points[-1].version

    def x_of(version: int) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * (version - first) / max(1, last - first), 1)

    def y_of(value: int) -> float:
        return round(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / steps[-1]), 1)

    places = [(x_of(point.version), y_of(point.value)) for point in points]
    outline = _stairs(places)
    ends = sorted({first, last, points[len(points) // 2].version})
    told = f"{text_of(points[0].value)} at version {first}, {text_of(points[-1].value)} at version {last}"
    drawn = element(
        "svg",
        (_rule(y_of(step), text_of(step)) for step in steps),
        (_end(end, x_of(end), _anchor(end, first, last)) for end in ends),
        element("path", d=f"{outline} V{y_of(0)} H{places[0][0]} Z", class_="area"),
        element("path", d=outline, class_="line"),
        (
            _dot(x, y, f"Version {point.version}: {text_of(point.value)}", links.version(point.version))
            for point, (x, y) in zip(points, places, strict=True)
        ),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="group",
        aria_label=f"{title}: {told}",
    )
    return element(
        "figure",
        element("figcaption", title),
        element("div", drawn, class_="scroll", tabindex=0, role="region", aria_label=title),
        class_="plot",
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


def _stairs(places: Sequence[tuple[float, float]]) -> str:
    """Return the outline: a version holds until the next one comes."""
    (x, y), *others = places
    return f"M{x} {y}" + "".join(f" H{next_x} V{next_y}" for next_x, next_y in others)


def _rule(y: float, text: str) -> tuple[Element, Element]:
    return (
        element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="rule"),
        element("text", text, x=_LEFT - 8, y=y + 4, class_="axis", text_anchor="end"),
    )


def _end(version: int, x: float, anchor: str) -> Element:
    text = f"version {version}" if anchor == "start" else str(version)
    return element("text", text, x=x, y=_HEIGHT - 8, class_="axis", text_anchor=anchor)


def _dot(x: float, y: float, label: str, address: str) -> Element:
    circle = element("circle", element("title", label), cx=x, cy=y, r=3.5, class_="dot")
    return element("a", circle, href=address, aria_label=label)


def _anchor(version: int, first: int, last: int) -> str:
    return "start" if version == first else "end" if version == last else "middle"
