"""Column profile page with its histograms."""

from mangrove.inspect.formatting import compute_share, format_count, format_quantity, format_value
from mangrove.inspect.profile import ProfileInfo, ProfileLine
from mangrove.web.pages.bars import BarChart, build_bar_chart
from mangrove.web.rendering import render_page

__all__ = ["render_profile_page"]


def render_profile_page(info: ProfileInfo, api_address: str) -> bytes:
    """Return the page."""
    return render_page(
        "profile.html",
        info,
        api_address,
        profiles=[(line, *_format_counts(line), _build_chart(line)) for line in info.columns],
    )


def _format_counts(line: ProfileLine) -> tuple[str, str]:
    """Return the share of nulls and the number of distinct values."""
    profile = line.profile
    distinct = "" if profile.distinct is None else format_count(profile.distinct)
    return f"{compute_share(profile.nulls, profile.rows):.1%}", distinct


def _build_chart(line: ProfileLine) -> BarChart:
    is_histogram = line.profile.is_histogram
    values = [
        (f"{'from ' if is_histogram else ''}{format_value(bar.start)}: {format_quantity(bar.rows, 'row')}", bar.rows)
        for bar in line.profile.bars
    ]
    return build_bar_chart(f"{'Histogram' if is_histogram else 'Most frequent values'} of {line.name}", values)
