"""Storage usage page."""

from mangrove.inspect.formatting import compute_share, format_compact, format_count, format_size
from mangrove.inspect.storage import StorageInfo
from mangrove.web.html import Element, element
from mangrove.web.links import Links
from mangrove.web.pages.frame import render_frame
from mangrove.web.pages.pieces import grid, note, render_filled_bar, section
from mangrove.web.pages.plot import PlotPoint, plot

__all__ = ["render_storage_page"]


def render_storage_page(facts: StorageInfo, api_address: str) -> Element:
    """Return the page."""
    links = Links(facts.seen.requested)
    return render_frame(
        facts.seen,
        "Storage",
        (("Overview", links.overview()), ("Storage", None)),
        "Storage",
        api_address,
        section("Files by kind", _kinds(facts)),
        section("Growth", _growth(facts, links)),
    )


def _kinds(facts: StorageInfo) -> list[Element]:
    whole = sum(line.size_bytes for line in facts.kinds)
    rows = (
        (
            line.kind,
            format_count(line.files),
            format_size(line.size_bytes),
            render_filled_bar(
                compute_share(line.size_bytes, whole), f"{compute_share(line.size_bytes, whole):.0%} of all bytes"
            ),
        )
        for line in facts.kinds
    )
    total = f"{format_count(facts.files_listed)} files, {format_size(whole)}, whichever versions need them."
    cut = f"There are more files: the listing stops at {format_count(facts.files_listed)}."
    return [
        grid("Files by kind", ("Kind", "Files", "Size", "Share"), rows, numbers=(1, 2)),
        note(total if facts.is_listing_complete else cut),
    ]


def _growth(facts: StorageInfo, links: Links) -> list[Element]:
    if len(facts.growth) < 2:
        return [note("There are too few versions to plot, or too many objects to count.")]
    first = facts.growth[0].version
    span = f"From version {first} to version {facts.growth[-1].version}."
    points = {
        "Data named by each version": [PlotPoint(one.version, one.size_bytes) for one in facts.growth],
        "Rows written": [PlotPoint(one.version, one.rows) for one in facts.growth],
        "Deltas": [PlotPoint(one.version, one.deltas) for one in facts.growth],
    }
    texts = {"Data named by each version": format_size}
    plots = [plot(title, series, texts.get(title, format_compact), links) for title, series in points.items()]
    return [
        element("div", plots, class_="plots"),
        note(span if first == 0 else f"{span} Older versions are not counted."),
    ]
