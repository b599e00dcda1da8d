"""Part `small`: commits of three rows, and reads of a table that many of them wrote."""

from pathlib import Path

from benchmarks.peers.comparison import Comparison
from benchmarks.peers.results import PartResult
from benchmarks.peers.rows import make_rows, make_updates, write_rows
from benchmarks.peers.setting import Setting

SYSTEMS = ("parquet", "mangrove", "lance", "delta", "ducklake", "ducklake-postgres", "pyiceberg", "icechunk")
ROWS = 3
READS = 5


def run(setting: Setting) -> PartResult:
    """Measure small commits one after the other in one process per system."""
    commits = setting.sizes.commits
    result = setting.begin(
        "small",
        "Small commits",
        f"One process commits {ROWS} rows at a time to a table on the local disk, {commits:,} times in each round. "
        "Figures are medians of one commit or read. Bare Parquet and Mangrove flush each file to the disk "
        "before they return, the databases of DuckLake and PyIceberg flush their logs; delta-rs, Lance and Icechunk "
        "leave that to the operating system.",
        SYSTEMS,
    )
    with setting.folder() as folder:
        files, updates = write_commits(folder, commits), write_updates(folder, commits)
        for turn in setting.list_turns():
            with setting.folder() as round_folder, setting.workers(result, round_folder) as workers:
                run_round(Comparison(result, workers, turn, setting.budget), files, updates)
    return result


def write_commits(folder: Path, count: int) -> list[str]:
    """Write the rows of each commit; return their files."""
    return [
        write_rows(make_rows(ROWS, first=ROWS * number), folder / f"commit{number}.arrow") for number in range(count)
    ]


def write_updates(folder: Path, count: int) -> list[str]:
    """Write new values of the rows of the first commit, others each time; return their files."""
    rows = make_rows(ROWS)
    return [write_rows(make_updates(rows, number, ROWS), folder / f"update{number}.arrow") for number in range(count)]


def run_round(comparison: Comparison, files: list[str], updates: list[str]) -> None:
    """Measure every row of the part once."""
    count, key = len(files), ROWS * (len(files) // 2)
    comparison.prepare("create", table="one")
    comparison.prepare("create", table="many")
    comparison.prepare("append", table="one", rows=files[0])
    comparison.prepare("upsert", table="one", rows=files[0])
    comparison.measure("create a table", "create", table="next")
    comparison.measure("append of 3 rows", "append", table="many", rows=files, times=count)
    comparison.measure("upsert of 3 rows", "upsert", table="one", rows=updates, times=count)
    comparison.measure("read of 3 rows", "scan", "upsert of 3 rows", table="one", times=READS)
    comparison.measure(f"scan after {count:,} appends", "scan", table="many", times=READS)
    what = f"one key after {count:,} appends"
    comparison.measure(what, "filter", table="many", column="id", low=key, high=key + 1, times=READS)
