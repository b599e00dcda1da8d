"""Part `local`: appends, scans, filters, upserts and compaction of one table on the local disk."""

from pathlib import Path

from benchmarks.peers.comparison import Comparison
from benchmarks.peers.results import PartResult
from benchmarks.peers.rows import make_rows, make_updates, write_rows
from benchmarks.peers.setting import Setting

SYSTEMS = ("parquet", "mangrove", "lance", "delta", "ducklake", "ducklake-postgres", "pyiceberg", "icechunk")
UPSERTED_SHARE = 50
"""An upsert replaces one row of this many."""
UPSERTS = 20
WARM_UP_ROWS = 1_000


def run(setting: Setting) -> PartResult:
    """Measure one new table per round and system."""
    rows = setting.sizes.rows
    result = setting.begin(
        "local",
        "Tables on the local disk",
        f"One table of {rows:,} rows (`id bigint, name string, v double`), sorted by `id`. An upsert replaces "
        f"{rows // UPSERTED_SHARE:,} rows spread over the whole table. Each round begins with new tables and new "
        "processes, which were warmed up with a small table. delta-rs rewrites files at each upsert, so that it has "
        "nothing left to compact.",
        SYSTEMS,
    )
    with setting.folder() as folder:
        files = write_inputs(folder, rows)
        for turn in setting.list_turns():
            with setting.folder() as round_folder, setting.workers(result, round_folder) as workers:
                comparison = Comparison(result, workers, turn, setting.budget)
                warm_up(comparison, folder)
                run_round(comparison, files, rows)
    return result


def write_inputs(folder: Path, count: int) -> dict[str, list[str]]:
    """Write the rows of appends and upserts; return their files."""
    rows, small = make_rows(count), make_rows(WARM_UP_ROWS)
    write_rows(small, folder / "small.arrow")
    updates = [make_updates(rows, number, count // UPSERTED_SHARE) for number in range(UPSERTS)]
    return {
        "rows": [write_rows(rows, folder / "rows.arrow")],
        "updates": [write_rows(update, folder / f"update{number}.arrow") for number, update in enumerate(updates)],
    }


def warm_up(comparison: Comparison, folder: Path) -> None:
    """Run each operation on a small table, so that libraries are loaded."""
    small = str(folder / "small.arrow")
    comparison.prepare("create", table="warm")
    comparison.prepare("append", table="warm", rows=small)
    comparison.prepare("upsert", table="warm", rows=small)
    comparison.prepare("scan", table="warm")
    comparison.prepare("filter", table="warm", column="id", low=1, high=2)
    comparison.prepare("compact", table="warm")


def run_round(comparison: Comparison, files: dict[str, list[str]], count: int) -> None:
    """Measure every row of the part once."""
    upsert, updates = f"upsert of {count // UPSERTED_SHARE:,} rows", files["updates"]
    low, high = count // 2, count // 2 + count // 100
    comparison.prepare("create", table="t")
    comparison.measure("append", "append", table="t", rows=files["rows"])
    comparison.measure("full scan", "scan", table="t")
    comparison.measure("range filter on a sorted column", "filter", table="t", column="id", low=low, high=high)
    comparison.measure("filter on an unsorted column", "filter", table="t", column="v", low=0, high=0.01)
    comparison.measure(upsert, "upsert", table="t", rows=updates[:1])
    comparison.measure("first scan after it", "scan", upsert, table="t")
    comparison.measure("second scan after it", "scan", upsert, table="t")
    more = f"{len(updates) - 1} more upserts, each"
    comparison.measure(more, "upsert", upsert, table="t", rows=updates[1:], times=len(updates) - 1)
    comparison.measure(f"scan after {len(updates)} upserts", "scan", more, table="t")
    comparison.measure("compaction", "compact", more, table="t")
    comparison.measure("scan after compaction", "scan", "compaction", table="t")
