"""Overview page."""

from typing import Final

from mangrove.inspect.formatting import format_count, format_size
from mangrove.inspect.overview import COUNTED_MAX, OverviewInfo
from mangrove.web.links import Links
from mangrove.web.rendering import render_page

__all__ = ["render_overview_page"]

_HOUR_MILLIS: Final = 3_600_000


def render_overview_page(info: OverviewInfo, api_address: str) -> bytes:
    """Return the page."""
    return render_page(
        "overview.html",
        info,
        api_address,
        tiles=_build_tiles(info, Links(info.seen.requested)),
        settings=[_format_setting(name, value) for name, value in info.settings],
        counted_max=COUNTED_MAX,
    )


def _build_tiles(info: OverviewInfo, links: Links) -> list[tuple[str, str, str | None]]:
    """Return the name, the value and the URL of each tile."""
    version = info.seen.version.version
    tiles: list[tuple[str, str, str | None]] = [("version", format_count(version), links.version(version))]
    tally = info.tally
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
        ("rows written", format_count(tally.rows) + plus, None),
        ("data in files", format_size(tally.size_bytes) + plus, links.storage()),
    ]


def _format_setting(name: str, value: int) -> tuple[str, str]:
    label = name.replace("_", " ").capitalize()
    if name.endswith("_millis"):
        return label.removesuffix(" millis"), f"{format_count(value // _HOUR_MILLIS)} hours"
    if name.endswith("_size_bytes"):
        return label.removesuffix(" size bytes"), format_size(value)
    return label, format_count(value)
