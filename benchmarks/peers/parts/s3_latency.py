"""Part `s3`: small commits, one larger table and cold starts on S3 with latency."""

from benchmarks.peers.buckets import SYSTEMS, open_bucket_workers
from benchmarks.peers.comparison import Comparison
from benchmarks.peers.parts.cold_start import measure_starts
from benchmarks.peers.parts.small_commits import write_commits, write_updates
from benchmarks.peers.results import PartResult
from benchmarks.peers.rows import make_rows, write_rows
from benchmarks.peers.setting import Setting

COMMITS = 10
TABLE_SHARE = 50
"""The larger table has one row for this many of the local part."""


def run(setting: Setting) -> PartResult:
    """Measure all operations in one bucket."""
    sizes = setting.sizes
    rows = max(sizes.rows // TABLE_SHARE, 1)
    result = setting.begin(
        "s3",
        "S3 with latency",
        f"The data is in a bucket of SeaweedFS on this machine; each request arrives {sizes.latency_millis:g} ms "
        "later. The catalogs of DuckLake and PyIceberg are databases on the local disk, without latency. Figures of "
        f"commits of 3 rows are medians of {COMMITS}.",
        SYSTEMS,
    )
    with setting.folder() as folder:
        files, updates = write_commits(folder, COMMITS), write_updates(folder, COMMITS)
        table = write_rows(make_rows(rows), folder / "table.arrow")
        with open_bucket_workers(setting, result, folder, sizes.latency_millis) as (workers, _):
            for turn in setting.list_turns():
                run_round(Comparison(result, workers, turn, setting.budget), files, updates, table, rows, turn)
            for worker in workers.values():
                worker.stop()
            measure_starts(result, workers, setting, table="small0")
    return result


def run_round(comparison: Comparison, files: list[str], updates: list[str], table: str, rows: int, turn: int) -> None:
    """Measure every row of the part once, with tables of this turn."""
    small, large = f"small{turn}", f"large{turn}"
    low, high = rows // 2, rows // 2 + max(rows // 100, 1)
    comparison.prepare("create", table=small)
    comparison.prepare("create", table=large)
    comparison.measure("append of 3 rows", "append", table=small, rows=files, times=len(files))
    comparison.measure(f"scan after {len(files)} appends", "scan", table=small)
    comparison.measure("upsert of 3 rows", "upsert", table=small, rows=updates, times=len(updates))
    comparison.measure(f"append of {rows:,} rows", "append", table=large, rows=table)
    comparison.measure(f"scan of {rows:,} rows", "scan", table=large)
    comparison.measure("range filter", "filter", table=large, column="id", low=low, high=high)
