"""Mangrove and comparable systems in one benchmark: the same work, interleaved, with equal answers.

    python -m benchmarks.peers [PART ...] [--systems mangrove,delta] [--rounds 3] [--out FOLDER]

Each system runs in its own process and environment under `.build/peers`, which is installed
on first use. Results go to the output folder as JSON, Markdown and SVG. A system that cannot
be installed is listed with the reason.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.peers import markdown, svg
from benchmarks.peers.environments import ROOT
from benchmarks.peers.parts import (
    cold_start,
    concurrent_writers,
    growth_curves,
    local_tables,
    s3_cost,
    s3_latency,
    small_commits,
    spark_dml,
    tpch_queries,
)
from benchmarks.peers.registry import SYSTEMS
from benchmarks.peers.results import PartResult, Report, describe_machine, encode_report
from benchmarks.peers.setting import Budget, Setting, Sizes

PARTS: Mapping[str, Callable[[Setting], PartResult]] = {
    "local": local_tables.run,
    "small": small_commits.run,
    "concurrency": concurrent_writers.run,
    "cold": cold_start.run,
    "s3": s3_latency.run,
    "cost": s3_cost.run,
    "growth": growth_curves.run,
    "spark": spark_dml.run,
    "tpch": tpch_queries.run,
}
WEIGHTS: Mapping[str, int] = {"spark": 2, "tpch": 3}
"""The shares of the time that parts get; all others get one. Time that a part does not need is left for later ones."""
OPTIONS = {
    "rounds": "interleaved rounds",
    "rows": "rows of a large table",
    "commits": "small commits per system and round",
    "writers": "concurrent writers",
    "objects_max": "largest number of tables of the growth curves (up to 10,000,000)",
    "commits_max": "largest number of commits of the growth curves (up to 100,000)",
    "latency_millis": "added latency of each S3 request in milliseconds",
    "scale": "scale factor of TPC-H",
    "seconds_max": "time limit of one operation in seconds",
    "total_seconds_max": "time limit of all parts together in seconds",
}


def main(arguments: Sequence[str] | None = None) -> int:
    given = parse_arguments(arguments)
    sizes = Sizes(**{option: getattr(given, option) for option in OPTIONS})
    setting = Setting(sizes, given.systems, given.folder, installed=given.installed)
    now = datetime.now(UTC)
    report = Report(now.strftime("%Y-%m-%d %H:%M UTC"), describe_machine(), setting.versions, asdict(sizes))
    given.out.mkdir(parents=True, exist_ok=True)
    names = given.parts or [*PARTS]
    budget = Budget.of(sizes.seconds_max, sizes.total_seconds_max)
    for number, name in enumerate(names):
        weights = [WEIGHTS.get(one, 1) for one in names[number:]]
        setting.budget = budget.share(sum(weights) / weights[0])
        start = time.perf_counter()
        print(f"── {name}; remaining parts: {', '.join(names[number + 1 :]) or 'none'}", flush=True)
        part = PARTS[name](setting)
        part.seconds = round(time.perf_counter() - start, 1)
        report.parts.append(part)
        # After each part, so that an interrupted run leaves what it measured.
        write_report(report, given.out)
        print("\n".join(markdown.render_part(part)), flush=True)
    print(f"\nresults: {given.out}")
    return 1 if any(part.differences for part in report.parts) else 0


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"parts to run (default: all): {', '.join(PARTS)}")
    parser.add_argument("--systems", type=split_systems, default=[*SYSTEMS], help=f"some of {', '.join(SYSTEMS)}")
    parser.add_argument("--folder", type=Path, help="where temporary data is written (default: the system's place)")
    parser.add_argument("--out", type=Path, default=ROOT / ".build" / "bench" / "peers", help="default: %(default)s")
    parser.add_argument(
        "--installed", action="store_true", help="use the libraries of this environment instead of installing any"
    )
    for field in fields(Sizes):
        kind = type(field.default)
        text = f"{OPTIONS[field.name]} (default: %(default)s)"
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=field.default, help=text)
    given = parser.parse_args(arguments)
    if unknown := [part for part in given.parts if part not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; expected some of {', '.join(PARTS)}")
    if given.rounds < 1:
        parser.error("--rounds must be at least 1")
    return given


def split_systems(text: str) -> list[str]:
    """Return the systems of a list separated by commas."""
    names = text.split(",")
    if unknown := [name for name in names if name not in SYSTEMS]:
        raise argparse.ArgumentTypeError(f"unknown system {unknown[0]!r}; expected some of {', '.join(SYSTEMS)}")
    return names


def write_report(report: Report, folder: Path) -> None:
    """Write a report as JSON and Markdown, and its plots as SVG."""
    (folder / "report.json").write_text(encode_report(report), "utf-8")
    (folder / "report.md").write_text(markdown.render_report(report), "utf-8")
    for part in report.parts:
        for name, picture in svg.render_part(part).items():
            (folder / name).write_text(picture, "utf-8")


if __name__ == "__main__":
    # Servers and workers are ended by `finally` clauses.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    sys.exit(main())
