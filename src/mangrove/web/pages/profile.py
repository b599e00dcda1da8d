"""Column profile page with its histograms."""

from dataclasses import dataclass
from typing import Final

from mangrove.inspect.formatting import compute_share, format_count, format_quantity, format_value
from mangrove.inspect.profile import ProfileInfo, ProfileLine
from mangrove.web.rendering import render_page

__all__ = ["render_profile_page"]

_BAR_WIDTH: Final = 22
_BAR_GAP: Final = 4
_HEIGHT: Final = 64


@dataclass(frozen=True, slots=True)
class _Bar:
    """A bar of a histogram: its place, its label and the share of rows for a screen reader."""

    left: int
    top: float
    height: float
    label: str


@dataclass(frozen=True, slots=True)
class _Profile:
    """The texts and the drawing of one column."""

    line: ProfileLine
    null_share: str
    distinct: str
    bars: list[_Bar]
    title: str
    width: int
    height: int = _HEIGHT
    bar_width: int = _BAR_WIDTH


def render_profile_page(info: ProfileInfo, api_address: str) -> bytes:
    """Return the page."""
    return render_page("profile.html", info, api_address, profiles=[_build_profile(line) for line in info.columns])


def _build_profile(line: ProfileLine) -> _Profile:
    profile = line.profile
    largest = max((bar.rows for bar in profile.bars), default=0)
    bars = []
    for place, bar in enumerate(profile.bars):
        height = round(compute_share(bar.rows, largest) * (_HEIGHT - 2), 1)
        label = (
            f"{'from ' if profile.is_histogram else ''}{format_value(bar.start)}: {format_quantity(bar.rows, 'row')}"
        )
        bars.append(_Bar(place * (_BAR_WIDTH + _BAR_GAP), _HEIGHT - height, height, label))
    kind = "Histogram" if profile.is_histogram else "Most frequent values"
    return _Profile(
        line,
        f"{compute_share(profile.nulls, profile.rows):.1%}",
        "" if profile.distinct is None else format_count(profile.distinct),
        bars,
        f"{kind} of {line.name}",
        max(1, len(bars) * (_BAR_WIDTH + _BAR_GAP) - _BAR_GAP),
    )
