"""Storage usage page."""

from mangrove.inspect.formatting import compute_share, format_compact, format_size
from mangrove.inspect.storage import FileKindLine, StorageInfo
from mangrove.web.links import Links
from mangrove.web.pages.plot import Plot, PlotPoint, build_plot
from mangrove.web.rendering import render_page

__all__ = ["render_storage_page"]


def render_storage_page(info: StorageInfo, api_address: str) -> bytes:
    """Return the HTML of the storage page."""
    return render_page(
        "storage.html", info, api_address, kinds=_build_bars(info), plots=_build_plots(info, Links(info.seen.requested))
    )


def _build_bars(info: StorageInfo) -> list[tuple[FileKindLine, str, float]]:
    """Return each kind of file with the label and the width of its bar, in percent of all bytes."""
    total = sum(line.size_bytes for line in info.kinds)
    shares = [(line, compute_share(line.size_bytes, total)) for line in info.kinds]
    return [(line, f"{share:.0%} of all bytes", round(max(share, 0.01) * 100, 2)) for line, share in shares]


def _build_plots(info: StorageInfo, links: Links) -> list[Plot]:
    if len(info.growth) < 2:
        return []
    data = [PlotPoint(point.version, point.size_bytes) for point in info.growth]
    rows = [PlotPoint(point.version, point.rows) for point in info.growth]
    deltas = [PlotPoint(point.version, point.deltas) for point in info.growth]
    return [
        build_plot("Data named by each version", data, format_size, links),
        build_plot("Rows written", rows, format_compact, links),
        build_plot("Deltas", deltas, format_compact, links),
    ]
