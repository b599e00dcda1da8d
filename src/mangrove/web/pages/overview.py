"""Overview page."""

import re
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Final

from mangrove.inspect.formatting import format_count, format_size, format_timestamp
from mangrove.inspect.growth import COUNTED_MAX, GrowthPoint
from mangrove.inspect.overview import OverviewInfo
from mangrove.inspect.page import VersionInfo
from mangrove.maintenance.progress import format_quantity
from mangrove.web.links import Links
from mangrove.web.pages.bars import BarChart, build_bar_chart
from mangrove.web.pages.plot import Plot, PlotPoint, build_plot
from mangrove.web.rendering import render_page

__all__ = ["group_commits", "render_overview_page"]

_HOUR_MILLIS: Final = 3_600_000
_GROUPS_MAX: Final = 12
_BARS_MAX: Final = 24
_PERIODS: Final = (
    ("second", 1_000),
    ("minute", 60_000),
    ("10 minutes", 600_000),
    ("hour", _HOUR_MILLIS),
    ("6 hours", 6 * _HOUR_MILLIS),
    ("day", 24 * _HOUR_MILLIS),
    ("week", 168 * _HOUR_MILLIS),
    ("quarter", 2184 * _HOUR_MILLIS),
)
_DIGITS: Final = re.compile(r"\d+")


def render_overview_page(info: OverviewInfo, api_address: str) -> bytes:
    """Return the HTML of the overview page."""
    return render_page(
        "overview.html",
        info,
        api_address,
        tiles=_build_tiles(info, Links(info.seen.requested)),
        groups=group_commits(info.commits)[:_GROUPS_MAX],
        ingest=_build_ingest_chart(info.growth),
        plot=_build_growth_plot(info, Links(info.seen.requested)),
        settings=[_format_setting(name, value) for name, value in info.settings],
        counted_max=COUNTED_MAX,
    )


def _build_tiles(info: OverviewInfo, links: Links) -> list[tuple[str, str, str | None]]:
    """Return the name, the value and the URL of each tile."""
    version = info.seen.version.version
    tiles: list[tuple[str, str, str | None]] = [("version", format_count(version), links.version(version))]
    tally, rows = info.tally, info.live_rows
    if tally is None:
        return tiles
    counts = (
        (tally.namespaces, "namespace", links.namespaces()),
        (tally.tables, "table", links.namespaces()),
        (tally.views, "view", links.namespaces()),
        (tally.deltas, "delta", None),
    )
    plus = "" if tally.is_complete else "+"
    return [
        *tiles,
        *((noun if count == 1 else f"{noun}s", format_count(count) + plus, url) for count, noun, url in counts),
        *(() if rows is None else (("rows", f"{'' if rows.is_exact else '≤ '}{format_count(rows.rows)}{plus}", None),)),
        ("data in files", format_size(tally.size_bytes) + plus, links.storage()),
    ]


def group_commits(commits: Sequence[VersionInfo]) -> list[list[VersionInfo]]:
    """Return the commits in groups of consecutive ones by the same author whose messages differ in numbers only.

    Fewer than three similar commits stay single.
    """
    groups = (list(group) for _, group in groupby(commits, lambda one: (one.author, _DIGITS.sub("0", one.message))))
    return [part for group in groups for part in ([group] if len(group) > 2 else [[one] for one in group])]


def _build_ingest_chart(growth: Sequence[GrowthPoint]) -> BarChart | None:
    """Return the rows written in each period; periods are as short as the number of bars allows."""
    if len(growth) < 2 or growth[0].created_at_millis <= 0:
        return None
    first, last = growth[0].created_at_millis, growth[-1].created_at_millis
    name, period = next(
        ((name, millis) for name, millis in _PERIODS if (last - first) // millis < _BARS_MAX), _PERIODS[-1]
    )
    written: dict[int, int] = {}
    for before, after in pairwise(growth):
        place = max(0, after.created_at_millis - first) // period
        written[place] = written.get(place, 0) + max(0, after.rows - before.rows)
    values = [
        (f"{format_timestamp(first + place * period)}: {format_quantity(rows, 'row')}", rows)
        for place in range(min(_BARS_MAX, max(written) + 1))
        for rows in (written.get(place, 0),)
    ]
    return build_bar_chart(f"Rows written per {name}", values)


def _build_growth_plot(info: OverviewInfo, links: Links) -> Plot | None:
    points = [PlotPoint(point.version, point.size_bytes) for point in info.growth]
    return build_plot("Data in files", points, format_size, links) if len(points) > 1 else None


def _format_setting(name: str, value: int) -> tuple[str, str]:
    label = name.replace("_", " ").capitalize()
    if name.endswith("_millis"):
        return label.removesuffix(" millis"), f"{format_count(value // _HOUR_MILLIS)} hours"
    if name.endswith("_size_bytes"):
        return label.removesuffix(" size bytes"), format_size(value)
    return label, format_count(value)
