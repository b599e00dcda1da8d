"""Plots as SVG: bars for the rows of a part and lines for its growth curves, readable on dark and light pages."""

import math
from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.peers.markdown import format_figure
from benchmarks.peers.results import Curve, PartResult, Row, summarize

PANEL_WIDTH = 440
PANELS_PER_LINE = 2
LABEL_WIDTH = 165
FIGURE_WIDTH = 70
BAR_HEIGHT = 18
TITLE_HEIGHT = 30
CURVE_WIDTH, CURVE_HEIGHT = 880, 420
MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 70, 190, 40, 50
LABEL_HEIGHT = 15

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328; }
  .title { font-weight: 600; font-size: 13px; }
  .note { fill: #59636e; }
  .bar { fill: #9aa4af; }
  .own { fill: #0f8a5f; }
  .spread, .grid { stroke: #59636e; stroke-width: 1; }
  .grid { opacity: 0.25; }
  .line { fill: none; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .note { fill: #9198a1; }
    .bar { fill: #6e7681; }
    .own { fill: #3fb68b; }
    .spread, .grid { stroke: #9198a1; }
  }
"""
OWN = "mangrove"
COLORS = ("#0f8a5f", "#8b6fd6", "#c9780a", "#2f7fd1", "#c4504f", "#b05fa5", "#5f8f2e", "#8a8175")
"""Colors of lines with enough contrast on white and on black."""


def render_part(part: PartResult) -> dict[str, str]:
    """Return the plots of a part by their file names."""
    plots = {f"{part.name}.svg": render_bars(part)} if part.rows else {}
    for number, curve in enumerate(part.curves, start=1):
        if curve.points:
            plots[f"{part.name}-{number}.svg"] = render_curve(curve, part.systems)
    return plots


def render_bars(part: PartResult) -> str:
    """Return one panel per row, each with a bar per system, the spread as a thin line."""
    names = [name for name in part.systems if name not in part.unavailable]
    height = TITLE_HEIGHT + BAR_HEIGHT * len(names) + 16
    lines = -(-len(part.rows) // PANELS_PER_LINE)
    body = []
    for number, row in enumerate(part.rows):
        left, top = number % PANELS_PER_LINE * PANEL_WIDTH, number // PANELS_PER_LINE * height
        panel = "\n".join(_render_panel(row, part, names))
        body.append(f'<g transform="translate({left} {top})">\n{panel}\n</g>')
    return _wrap(PANEL_WIDTH * PANELS_PER_LINE, max(lines, 1) * height, part.title, body)


def _render_panel(row: Row, part: PartResult, names: Sequence[str]) -> Iterator[str]:
    yield f'<text class="title" x="8" y="20">{escape(f"{row.what}, {row.unit}")}</text>'
    largest = max((max(cell.wall) for cell in row.cells.values() if cell.wall), default=1.0) or 1.0
    scale = (PANEL_WIDTH - LABEL_WIDTH - FIGURE_WIDTH) / largest
    for number, name in enumerate(names):
        top = TITLE_HEIGHT + number * BAR_HEIGHT
        yield f'<text x="{LABEL_WIDTH - 6}" y="{top + 12}" text-anchor="end">{escape(part.systems[name])}</text>'
        figures = row.cells[name].wall
        if not figures:
            yield f'<text class="note" x="{LABEL_WIDTH}" y="{top + 12}">–</text>'
            continue
        median, least, most = summarize(figures)
        kind = "own" if OWN in name else "bar"
        yield (
            f'<rect class="{kind}" x="{LABEL_WIDTH}" y="{top + 2}" width="{max(median * scale, 1):.1f}" height="13"/>'
            f'<line class="spread" x1="{LABEL_WIDTH + least * scale:.1f}" x2="{LABEL_WIDTH + most * scale:.1f}" '
            f'y1="{top + 8.5}" y2="{top + 8.5}"/>'
            f'<text x="{LABEL_WIDTH + most * scale + 6:.1f}" y="{top + 12}">{format_figure(median)}</text>'
        )


def render_curve(curve: Curve, titles: dict[str, str]) -> str:
    """Return the lines of all systems on two logarithmic axes, each with its name at its end."""
    points = [(x, y) for line in curve.points.values() for x, y in line]
    (x_low, x_high), (y_low, y_high) = (_find_decades([point[axis] for point in points]) for axis in (0, 1))
    plot_width = CURVE_WIDTH - MARGIN_LEFT - MARGIN_RIGHT
    plot_height = CURVE_HEIGHT - MARGIN_TOP - MARGIN_BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        along = (math.log10(x) - x_low) / (x_high - x_low)
        up = (math.log10(max(y, 10**y_low)) - y_low) / (y_high - y_low)
        return MARGIN_LEFT + along * plot_width, MARGIN_TOP + (1 - up) * plot_height

    body = [f'<text class="title" x="{MARGIN_LEFT}" y="22">{escape(f"{curve.what}, {curve.unit}")}</text>']
    for power in range(x_low, x_high + 1):
        x, _ = place(10**power, 10**y_low)
        bottom = CURVE_HEIGHT - MARGIN_BOTTOM
        body.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{MARGIN_TOP}" y2="{bottom}"/>')
        body.append(f'<text class="note" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{10**power:,}</text>')
    for power in range(y_low, y_high + 1):
        _, y = place(10**x_low, 10**power)
        body.append(
            f'<line class="grid" x1="{MARGIN_LEFT}" x2="{MARGIN_LEFT + plot_width}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        label = format(10.0**power, ",g")
        body.append(f'<text class="note" x="{MARGIN_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    body.append(f'<text class="note" x="{MARGIN_LEFT}" y="{CURVE_HEIGHT - 10}">{escape(curve.sizes)}</text>')
    ends: list[tuple[float, float, str, str]] = []
    for name, color in zip(titles, COLORS * len(titles), strict=False):
        line = [place(x, y) for x, y in curve.points.get(name, [])]
        if line:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
            body.append(f'<polyline class="line" stroke="{color}" points="{path}"/>')
            body += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in line]
            ends.append((line[-1][1], line[-1][0], titles[name], color))
    for (_, x, title, color), y in zip(sorted(ends), _spread_labels([end[0] for end in sorted(ends)]), strict=True):
        body.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" style="fill: {color}">{escape(title)}</text>')
    return _wrap(CURVE_WIDTH, CURVE_HEIGHT, curve.what, body)


def _find_decades(figures: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten around positive figures, at least one decade apart."""
    positive = [figure for figure in figures if figure > 0] or [1.0]
    low = math.floor(math.log10(min(positive)))
    return low, max(math.ceil(math.log10(max(positive))), low + 1)


def _spread_labels(heights: Sequence[float]) -> list[float]:
    """Return sorted heights moved down so far that labels do not overlap.

    >>> _spread_labels([10.0, 12.0, 100.0])
    [10.0, 25.0, 100.0]
    """
    moved: list[float] = []
    for height in heights:
        moved.append(max(height, moved[-1] + LABEL_HEIGHT) if moved else height)
    return moved


def _wrap(width: float, height: float, title: str, body: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-labelledby="name">\n<title id="name">{escape(title)}</title>\n<style>{STYLE}</style>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )
