"""Reports as Markdown: one table of elapsed times and one of CPU times per part."""

import math
from collections.abc import Callable, Iterator, Sequence

from benchmarks.peers.results import Cell, Curve, PartResult, Report, Row, summarize


def render_report(report: Report) -> str:
    """Return a whole report."""
    lines = [*render_provenance(report), ""]
    for part in report.parts:
        lines += [f"## {part.title}", "", *render_part(part), ""]
    return "\n".join(lines)


def render_provenance(report: Report) -> list[str]:
    """Return when, where and with what a report was measured."""
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    versions = sorted(
        {f"{package} {number}" for found in report.versions.values() for package, number in found.items()}
    )
    options = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in report.options.items())
    return [
        f"Measured on {report.date}; {machine}.",
        f"Versions: {', '.join(versions)}.",
        f"Sizes: {options}.",
    ]


def render_part(part: PartResult) -> list[str]:
    """Return the description, tables and notes of one part."""
    lines = [f"{part.description} The part took {part.seconds:,.0f} s.", ""]
    if part.rows:
        lines += render_table("figure", part, lambda cell: cell.wall, part.rows)
    timed = [row for row in part.rows if any(cell.cpu for cell in row.cells.values())]
    if timed:
        lines += ["", *render_table("CPU time", part, lambda cell: cell.cpu, timed)]
    for curve in part.curves:
        lines += ["", *render_curve(curve, part.systems)]
    if notes := [*list_notes(part)]:
        lines += ["", *(f"* {note}" for note in notes)]
    return lines


def list_notes(part: PartResult) -> Iterator[str]:
    """Yield why figures are missing, and which answers differ."""
    for name, title in part.systems.items():
        if name in part.unavailable:
            yield f"{title}: not available: {part.unavailable[name]}"
        reasons = {row.cells[name].reason: "" for row in part.rows if row.cells[name].reason}
        for reason in reasons:
            rows = [row.what for row in part.rows if row.cells[name].reason == reason]
            yield f"{title}: {reason} ({', '.join(rows)})"
    for difference in part.differences:
        yield f"different answers: {difference}"


def render_table(
    measure: str, part: PartResult, select: Callable[[Cell], Sequence[float]], rows: Sequence[Row]
) -> list[str]:
    """Return a table of medians with the smallest and largest figures; the best of each row is bold."""
    names = [name for name in part.systems if name not in part.unavailable]
    lines = [
        f"| {measure}, median (least–most) | " + " | ".join(part.systems[name] for name in names) + " |",
        "|---|" + "---|" * len(names),
    ]
    for row in rows:
        figures = {name: [*select(row.cells[name])] for name in names}
        medians = [summarize(values)[0] for values in figures.values() if values]
        best = (max if row.higher_is_better else min)(medians, default=0.0)
        cells = [render_figures(figures[name], best) for name in names]
        lines.append(f"| {row.what}, {row.unit} | " + " | ".join(cells) + " |")
    return lines


def render_figures(figures: list[float], best: float) -> str:
    """Return the median and the spread of a cell.

    >>> render_figures([12.31, 10.0, 11.0], 11.0)
    '**11.0** (10.0–12.3)'
    >>> render_figures([], 1.0)
    '–'
    """
    if not figures:
        return "–"
    median, least, most = summarize(figures)
    text = f"**{format_figure(median)}**" if median == best else format_figure(median)
    return text if len(figures) == 1 else f"{text} ({format_figure(least)}–{format_figure(most)})"


def format_figure(figure: float) -> str:
    """Return a figure with three significant digits, or whole from 100 on.

    >>> [format_figure(figure) for figure in (1234.5, 123.4, 12.34, 1.234, 0.01234, 0.0)]
    ['1,234', '123', '12.3', '1.23', '0.0123', '0']
    """
    if figure == 0:
        return "0"
    if abs(figure) >= 100:
        return f"{figure:,.0f}"
    return f"{figure:#.3g}".rstrip(".")


def render_curve(curve: Curve, titles: dict[str, str]) -> list[str]:
    """Return a table with one line per size and one column per system."""
    names = [name for name in titles if curve.points.get(name)]
    sizes = sorted({size for points in curve.points.values() for size, _ in points})
    lines = [f"| {curve.what}, {curve.unit}: {curve.sizes} | " + " | ".join(titles[name] for name in names) + " |"]
    lines.append("|---|" + "---|" * len(names))
    for size in sizes:
        figures = [dict(curve.points[name]).get(size) for name in names]
        cells = ["–" if figure is None else format_figure(figure) for figure in figures]
        lines.append(f"| {size:,.0f} | " + " | ".join(cells) + " |")
    if sizes and sizes[-1] < curve.size_goal:
        figures = [extrapolate(curve.points[name], curve.size_goal) for name in names]
        cells = ["–" if figure is None else f"≈ {format_figure(figure)}" for figure in figures]
        lines.append(f"| {curve.size_goal:,.0f}, extrapolated | " + " | ".join(cells) + " |")
    return lines + [""] * bool(curve.ended) + [f"* {titles[name]}: {reason}" for name, reason in curve.ended.items()]


def extrapolate(points: Sequence[tuple[float, float]], size: float) -> float | None:
    """Return the figure at a larger size if it grows on as between the last two sizes; it never falls.

    >>> extrapolate([(1, 5.0), (10, 2.0), (100, 20.0)], 10_000), extrapolate([(1, 5.0)], 10)
    (2000.0, None)
    """
    if len(points) < 2:
        return None
    (start, before), (end, last) = points[-2:]
    slope = max(math.log(last / before) / math.log(end / start), 0.0)
    return round(last * math.pow(size / end, slope), 6)
