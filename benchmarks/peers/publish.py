"""Copy chosen results into the documentation.

    python -m benchmarks.peers.publish .build/bench/peers/report.json [REPORT.json …]

The section between the two markers of `docs/benchmarks.md` is replaced, and the plots go to
`docs/pictures`. Parts that several reports have come from the last one.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.peers import markdown, svg
from benchmarks.peers.environments import ROOT
from benchmarks.peers.results import PartResult, Report, decode_report

PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "pictures"
BEGIN = "<!-- results of make bench-peers: begin; written by benchmarks/peers/publish.py -->"
END = "<!-- results of make bench-peers: end -->"


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
    PAGE.write_text(replace_section(page, "\n".join(render_section(chosen))), "utf-8")


def select_parts(reports: Sequence[Report]) -> list[tuple[Report, PartResult]]:
    """Return each part with its report; of parts with the same name the last one."""
    return [*{part.name: (report, part) for report in reports for part in report.parts}.values()]


def render_section(chosen: Sequence[tuple[Report, PartResult]]) -> Iterator[str]:
    """Yield the lines of the section; the provenance precedes the parts that were measured together."""
    previous = None
    for report, part in chosen:
        yield from ["", f"### {part.title}", ""]
        if report is not previous:
            yield from [*markdown.render_provenance(report), ""]
        previous = report
        for name in svg.render_part(part):
            yield from [f"![{part.title}](pictures/peers-{name})", ""]
        yield from markdown.render_part(part)
    yield ""


def replace_section(page: str, section: str, first: str = BEGIN, last: str = END) -> str:
    """Return the page with a new text between the markers."""
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise SystemExit(f"the page has no section between {first!r} and {last!r}")
    return f"{before}{first}\n{section}\n{last}{after}"


if __name__ == "__main__":
    main()
