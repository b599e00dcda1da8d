"""Column profile page with its histograms."""

from mangrove.inspect.formatting import compute_share, format_count, format_value
from mangrove.inspect.table_profile import TableProfileInfo
from mangrove.maintenance.progress import format_quantity
from mangrove.tables.column_profile import ColumnProfile
from mangrove.web.pages.bars import BarChart, build_bar_chart
from mangrove.web.rendering import render_page

__all__ = ["render_profile_page"]


def render_profile_page(info: TableProfileInfo, api_address: str) -> bytes:
    """Return the HTML of the profile page."""
    profiles = [(one, *_format_counts(one), _build_chart(one)) for one in info.columns]
    return render_page("profile.html", info, api_address, profiles=profiles)


def _format_counts(profile: ColumnProfile) -> tuple[str, str]:
    """Return the share of nulls and the number of distinct values."""
    distinct = "" if profile.distinct is None else format_count(profile.distinct)
    about = "" if profile.is_distinct_exact else "about "
    return f"{compute_share(profile.nulls, profile.count):.1%}", f"{about}{distinct}"


def _build_chart(profile: ColumnProfile) -> BarChart | None:
    if profile.histogram is None:
        return None
    values = [
        (f"from {format_value(edge)}: {format_quantity(count, 'row')}", count)
        for edge, count in zip(profile.histogram.bins, profile.histogram.counts, strict=False)
    ]
    return build_bar_chart(f"Histogram of {profile.name}", values, bar_width=6)
