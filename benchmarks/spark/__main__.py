"""What Spark on a lakehouse costs beside bare Spark on the same files, as ratios measured in turns in one run.

    python benchmarks/spark [--rows 5000000] [--files 10] [--planned 10000] [--repetitions 5] [--only scan,append]
                            [--clock cpu] [--folder FOLDER]

The goals are those of the project. Rows are made by Spark itself, so nothing is
downloaded. Everything lies in one temporary folder, which goes away at the end.
"""

import argparse
import os
import shutil
import tempfile
from pathlib import Path

from cases import CASES, Setting
from measuring import CLOCK, HEADER

from mangrove.spark.session import local_session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--planned", type=int, default=10_000, help="files of the table whose scan is planned")
    parser.add_argument("--upserted", type=int, default=100_000, help="rows of one upsert")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", default=",".join(CASES), help=f"some of {', '.join(CASES)}")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu on a machine that others use too")
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="mangrove-spark-", dir=given.folder))
    session = local_session({"spark.driver.memory": "4g", "spark.log.level": "ERROR"})
    if given.clock == "cpu":
        CLOCK.processes = [os.getpid(), session.sparkContext._gateway.proc.pid]
    try:
        setting = Setting(session, folder, given.rows, given.files, given.planned, given.upserted, given.repetitions)
        print(f"{given.rows:,} rows in {given.files} files; medians of {given.repetitions} turns\n{HEADER}", flush=True)
        for name in given.only.split(","):
            CASES[name](setting)
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
