"""What Spark on a lakehouse costs beside bare Spark on the same files, as ratios measured in turns in one run.

    python benchmarks/spark [--rows 5000000] [--files 10] [--repetitions 5] [--only scan,append] [--clock cpu]
    python benchmarks/spark --all-sizes

Several numbers of rows or files, divided by commas, are measured one after the
other; `--all-sizes` means 5 and 50 million rows in 10, 1,000 and 10,000 files. That
takes hours and 40 gigabytes of disk; one size of 5 million rows takes 10 minutes.

The goals are those of the project. Everything lies in temporary folders, which go
away at the end. The last lines are a table in Markdown.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from cases import CASES, WITHOUT_SIZE
from measuring import CLOCK, HEADER, Comparison
from pyspark.sql import SparkSession
from report import Counted, Size, markdown
from setting import Setting

from mangrove.effects import wait_for_pending
from mangrove.spark.session import local_session

ALL_ROWS = (5_000_000, 50_000_000)
ALL_FILES = (10, 1_000, 10_000)


def main() -> None:
    given = arguments(sys.argv[1:])
    session = local_session({"spark.driver.memory": "4g", "spark.log.level": "ERROR"})
    try:
        run(session, given)
    finally:
        session.stop()


def run(session: SparkSession, given: argparse.Namespace) -> None:
    """Measure every size, printing each outcome as soon as it is known, and all of them at the end."""
    rows, files = (ALL_ROWS, ALL_FILES) if given.all_sizes else (given.rows, given.files)
    if given.clock == "cpu":
        CLOCK.processes = [os.getpid(), session.sparkContext._gateway.proc.pid]
    began = time.monotonic()
    found: dict[Size, list[Comparison | Counted]] = {}
    for size in [Size(*pair) for pair in product(rows, files)]:
        names = [name for name in given.only if not found or name not in WITHOUT_SIZE]
        print(f"\n{size}; medians of {given.repetitions} turns\n{HEADER}", flush=True)
        found[size] = []
        for outcome in _measured(session, size, names, given):
            print(f"{outcome.line():<110} {time.monotonic() - began:>7,.0f} s so far", flush=True)
            found[size].append(outcome)
    print(f"\n{markdown(found)}", flush=True)


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=_numbers, default=[5_000_000])
    parser.add_argument("--files", type=_numbers, default=[10])
    parser.add_argument("--all-sizes", action="store_true")
    parser.add_argument("--planned", type=int, default=10_000, help="files of the table whose scan is planned")
    parser.add_argument("--upserted", type=int, default=100_000, help="rows of one upsert")
    parser.add_argument("--upserts", type=int, default=20, help="upserts after which a scan is measured")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", type=_cases, default=list(CASES), help=f"some of {', '.join(CASES)}")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu on a machine that others use too")
    parser.add_argument("--folder", type=Path, default=None)
    return parser.parse_args(words)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _cases(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no case {unknown[0]!r}, but {', '.join(CASES)}")
    return names


def _measured(
    session: SparkSession, size: Size, names: list[str], given: argparse.Namespace
) -> Iterator[Comparison | Counted]:
    folder = Path(tempfile.mkdtemp(prefix="mangrove-spark-", dir=given.folder))
    try:
        setting = Setting(
            session, folder, size.rows, size.files, given.planned, given.upserted, given.upserts, given.repetitions
        )
        for name in names:
            yield from CASES[name](setting)
        # The hint to the newest version is written in the background, and would bring the folder back.
        wait_for_pending(setting.lake.effects, 60.0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
