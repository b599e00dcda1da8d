"""How files by kind and the growth of a lakehouse look."""

from mangrove.web.facts.storage import StorageFacts
from mangrove.web.html import Element, element
from mangrove.web.links import Links
from mangrove.web.pages.frame import frame
from mangrove.web.pages.pieces import filled_bar, grid, note, section
from mangrove.web.pages.plot import PlotPoint, plot
from mangrove.web.words import compact_text, count_text, share, size_text

__all__ = ["storage_page"]


def storage_page(facts: StorageFacts, api_address: str) -> Element:
    """Return the page."""
    links = Links(facts.seen.asked)
    return frame(
        facts.seen,
        "Storage",
        (("Overview", links.overview()), ("Storage", None)),
        "Storage",
        api_address,
        section("Files by kind", _kinds(facts)),
        section("Growth", _growth(facts, links)),
    )


def _kinds(facts: StorageFacts) -> list[Element]:
    whole = sum(line.size_bytes for line in facts.kinds)
    rows = (
        (
            line.kind,
            count_text(line.files),
            size_text(line.size_bytes),
            filled_bar(share(line.size_bytes, whole), f"{share(line.size_bytes, whole):.0%} of all bytes"),
        )
        for line in facts.kinds
    )
    total = f"{count_text(facts.files_listed)} files, {size_text(whole)}, whichever versions need them."
    cut = f"There are more files: the listing stops at {count_text(facts.files_listed)}."
    return [
        grid("Files by kind", ("Kind", "Files", "Size", "Share"), rows, numbers=(1, 2)),
        note(total if facts.is_listing_complete else cut),
    ]


def _growth(facts: StorageFacts, links: Links) -> list[Element]:
    if len(facts.growth) < 2:
        return [note("There are too few versions to plot, or too many objects to count.")]
    first = facts.growth[0].version
    span = f"From version {first} to version {facts.growth[-1].version}."
    points = {
        "Data named by each version": [PlotPoint(one.version, one.size_bytes) for one in facts.growth],
        "Rows written": [PlotPoint(one.version, one.rows) for one in facts.growth],
        "Deltas": [PlotPoint(one.version, one.deltas) for one in facts.growth],
    }
    texts = {"Data named by each version": size_text}
    plots = [plot(title, series, texts.get(title, compact_text), links) for title, series in points.items()]
    return [
        element("div", plots, class_="plots"),
        note(span if first == 0 else f"{span} Older versions are not counted."),
    ]
