"""Copy chosen results into the documentation.

    python -m benchmarks.peers.publish .build/bench/peers/report.json [REPORT.json …]

The parts of the reports are replaced between the two markers of `docs/benchmarks.md`, where others stay as they
are, and their plots go to `docs/pictures`. Parts that several reports have come from the last one.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.peers import markdown, svg
from benchmarks.peers.environments import ROOT
from benchmarks.peers.results import PartResult, Report, decode_report

PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "pictures"
BEGIN = "<!-- results of make bench-peers: begin; written by benchmarks/peers/publish.py -->"
END = "<!-- results of make bench-peers: end -->"
HEADING = "### "


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.publish",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT.json")
    reports = [decode_report(path.read_text("utf-8")) for path in parser.parse_args(arguments).reports]
    chosen = select_parts(reports)
    for _, part in chosen:
        for name, picture in svg.render_part(part).items():
            (PICTURES / f"peers-{name}").write_text(picture, "utf-8")
    page = PAGE.read_text("utf-8")
    PAGE.write_text(
        replace_parts(page, {part.title: render_published(report, part) for report, part in chosen}), "utf-8"
    )


def select_parts(reports: Sequence[Report]) -> list[tuple[Report, PartResult]]:
    """Return each part with its report; of parts with the same name the last one."""
    return [*{part.name: (report, part) for report in reports for part in report.parts}.values()]


def render_published(report: Report, part: PartResult) -> str:
    """Return the text of one part, with its provenance."""
    pictures = [line for name in svg.render_part(part) for line in (f"![{part.title}](pictures/peers-{name})", "")]
    return "\n".join(
        [f"{HEADING}{part.title}", "", *markdown.render_provenance(report), "", *pictures, *markdown.render_part(part)]
    )


def replace_parts(page: str, parts: Mapping[str, str]) -> str:
    """Return the page with the texts of some parts, by title, between the markers; other parts there stay."""
    _, *present = re.split(f"^(?={HEADING})", page.partition(BEGIN)[2].partition(END)[0], flags=re.MULTILINE)
    texts = {text.partition("\n")[0].removeprefix(HEADING): text for text in present} | {**parts}
    body = "\n\n".join(text.strip() for text in texts.values())
    return replace_section(page, f"\n{body}\n")


def replace_section(page: str, section: str, first: str = BEGIN, last: str = END) -> str:
    """Return the page with a new text between the markers."""
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise SystemExit(f"the page has no section between {first!r} and {last!r}")
    return f"{before}{first}\n{section}\n{last}{after}"


if __name__ == "__main__":
    main()
