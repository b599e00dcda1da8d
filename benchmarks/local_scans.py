"""Reads and writes of the local engine, compared with the same work on one bare Parquet file.

    python benchmarks/local_scans.py [FOLDER] [--rows 5000000] [--rounds 7] [--json]

Each round runs the bare and the Mangrove side of every row one after the other, in changing order,
so that both see the same load of the machine. The ratio is that of the medians. With the package `deltalake`
installed, appends and scans of delta-rs run in the same rounds.
"""

import argparse
import importlib
import importlib.util
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import mangrove

SCHEMA = "id bigint not null, name string, v double"
UPSERTED_SHARE = 50
"""An upsert replaces one row of this many."""
UPSERTS = 20
ROWS_MAX = 100_000_000


@dataclass(slots=True)
class Comparison:
    """The times in milliseconds of one row of the table; CPU times are those of all threads."""

    what: str
    bare: list[float] = field(default_factory=list)
    mangrove: list[float] = field(default_factory=list)
    delta: list[float] = field(default_factory=list)
    bare_cpu: list[float] = field(default_factory=list)
    mangrove_cpu: list[float] = field(default_factory=list)
    delta_cpu: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """The median of Mangrove divided by the median of bare Parquet."""
        return statistics.median(self.mangrove) / statistics.median(self.bare) if self.bare else None

    @property
    def cpu_ratio(self) -> float | None:
        """The same for CPU times, which other programs on the machine hardly change."""
        return statistics.median(self.mangrove_cpu) / statistics.median(self.bare_cpu) if self.bare_cpu else None


class Bench:
    """The tables and files of one run, and the times of each comparison."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder = folder
        self.rows = make_rows(rows)
        self.bare_file = folder / "bare.parquet"
        write_bare(self.rows, self.bare_file)
        self.lake = mangrove.create(str(folder / "lake"))
        self.lake.create_namespace("bench")
        self.names = iter(range(1_000_000))
        self.table = self.load()
        self.upserted_once = self.load()
        self.upserted_often = self.load()
        for number in range(UPSERTS):
            self.upserted_often.upsert(self.pick_upserted(number))
            if number == 0:
                self.upserted_once.upsert(self.pick_upserted(number))
        self.comparisons: dict[str, Comparison] = {}
        self.delta: Any = load_deltalake()
        if self.delta is not None:
            self.delta.write_deltalake(str(folder / "delta"), self.rows)

    def load(self) -> Any:
        """Return a new table with all rows."""
        table = self.create()
        table.append(self.rows)
        return table

    def create(self) -> Any:
        """Return a new empty table."""
        return self.lake.create_table(f"bench.rows{next(self.names)}", SCHEMA, keys=["id"])

    def pick_upserted(self, seed: int) -> pa.Table:
        """Return new values for some rows spread over the whole table."""
        count = self.rows.num_rows
        numbers = pa.array([(seed * 7 + place * UPSERTED_SHARE) % count for place in range(count // UPSERTED_SHARE)])
        picked = self.rows.take(numbers)
        return picked.set_column(2, "v", pc.add(picked["v"], float(seed + 1)))

    def compare(
        self,
        what: str,
        bare: Callable[[], Any] | None,
        ours: Callable[[], Any],
        delta: Callable[[], Any] | None = None,
        *,
        repeats: int = 2,
    ) -> None:
        """Time all sides; a read is repeated, because its first call gets memory from the operating system."""
        measured = self.comparisons.setdefault(what, Comparison(what))
        sides = [(ours, measured.mangrove, measured.mangrove_cpu)]
        if bare is not None:
            sides.append((bare, measured.bare, measured.bare_cpu))
        if delta is not None and self.delta is not None:
            sides.append((delta, measured.delta, measured.delta_cpu))
        # The first side allocates memory that later ones reuse, so the order changes from round to round.
        shift = len(measured.mangrove) % len(sides)
        for work, times, cpu_times in sides[shift:] + sides[:shift]:
            measure(work, times, cpu_times, repeats)

    def run_round(self) -> None:
        """Time every row of the table once."""
        count = self.rows.num_rows
        low, high = count // 2, count // 2 + count // 100
        new, upserted, unread = self.create(), self.load(), self.load()
        rows = self.pick_upserted(3)
        unread.upsert(rows)
        between = f"id >= {low} and id < {high}"
        bare = self.bare_file

        def read_delta() -> Any:
            return self.delta.DeltaTable(str(self.folder / "delta")).to_pyarrow_table()

        def append_delta() -> None:
            self.delta.write_deltalake(str(self.folder / f"delta{next(self.names)}"), self.rows)

        self.compare(
            "append",
            lambda: write_bare(self.rows, self.folder / "new.parquet"),
            lambda: new.append(self.rows),
            append_delta,
            repeats=1,
        )
        self.compare("full scan", lambda: pq.read_table(bare), self.table.to_arrow, read_delta)
        self.compare("full scan in batches", lambda: pq.read_table(bare), lambda: drain(self.table.scan()))
        self.compare("one column", lambda: pq.read_table(bare, columns=["v"]), lambda: self.table.to_arrow(["v"]))
        self.compare(
            "range filter on a sorted column",
            lambda: pq.read_table(bare, filters=[("id", ">=", low), ("id", "<", high)]),
            lambda: self.table.to_arrow(where=between),
        )
        self.compare(
            "filter on an unsorted column",
            lambda: pq.read_table(bare, filters=[("v", "<", 0.01)]),
            lambda: self.table.to_arrow(where="v < 0.01"),
        )
        self.compare("count of all rows", lambda: pq.read_metadata(bare).num_rows, self.table.scan().count)
        self.compare(
            "count with a filter",
            lambda: pq.read_table(bare, columns=["id"], filters=[("v", "<", 0.01)]).num_rows,
            self.table.scan("v < 0.01").count,
        )
        self.compare("upsert of 2 %", None, lambda: upserted.upsert(rows), repeats=1)
        self.compare("first scan after an upsert of 2 %", lambda: pq.read_table(bare), unread.to_arrow, repeats=1)
        self.compare("scan after an upsert of 2 %", lambda: pq.read_table(bare), self.upserted_once.to_arrow)
        self.compare("scan after 20 upserts of 2 %", lambda: pq.read_table(bare), self.upserted_often.to_arrow)
        self.compare(
            "compaction after an upsert of 2 %",
            lambda: write_bare(pq.read_table(bare), self.folder / "new.parquet"),
            lambda: unread.compact(engine="local"),
            repeats=1,
        )
        for table in (new, upserted, unread):
            self.lake.drop_table(f"bench.{table.name}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python benchmarks/local_scans.py", description=__doc__)
    parser.add_argument("folder", nargs="?", help="where the files are written (default: a temporary folder)")
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of the table (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default: %(default)s)")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON, with the times of all rounds")
    given = parser.parse_args(arguments)
    if not UPSERTED_SHARE <= given.rows <= ROWS_MAX:
        parser.error(f"--rows must be between {UPSERTED_SHARE} and {ROWS_MAX:,}")
    if given.rounds < 1:
        parser.error("--rounds must be at least 1")
    folder = Path(tempfile.mkdtemp(prefix="local-scans-", dir=given.folder))
    try:
        bench = Bench(folder, given.rows)
        for _ in range(given.rounds):
            bench.run_round()
    finally:
        # The hint to the newest version may still be written in the background.
        shutil.rmtree(folder, ignore_errors=True)
    measured = list(bench.comparisons.values())
    if given.as_json:
        listed = [{**asdict(one), "ratio": one.ratio, "cpu_ratio": one.cpu_ratio} for one in measured]
        print(json.dumps({"rows": given.rows, "rounds": given.rounds, "measured": listed}, indent=2))
    else:
        print_table(measured)


def make_rows(count: int) -> pa.Table:
    """Return rows ordered by id, whose other columns are in no order."""
    names = pa.array([f"name {number * 7919 % 1_000_003}" for number in range(count)])
    values = pa.array([number * 2_654_435_761 % 4_294_967_296 / 4_294_967_296 for number in range(count)])
    return pa.table({"id": pa.array(range(count), pa.int64()), "name": names, "v": values})


def write_bare(rows: pa.Table, path: Path) -> None:
    """Write one Parquet file with the compression of Mangrove's files, durably."""
    pq.write_table(rows, path, compression="zstd")
    with path.open("rb") as written:
        os.fsync(written.fileno())


def load_deltalake() -> Any | None:
    """Return the module of delta-rs if it is installed."""
    return importlib.import_module("deltalake") if importlib.util.find_spec("deltalake") else None


def measure(work: Callable[[], Any], times: list[float], cpu_times: list[float], repeats: int) -> None:
    """Add the milliseconds that a call takes, and its CPU time: those of the fastest of some calls."""
    measured = []
    for _ in range(repeats):
        start, cpu_start = time.perf_counter(), time.process_time()
        work()
        measured.append((time.perf_counter() - start, time.process_time() - cpu_start))
    elapsed, cpu = min(measured)
    times.append(elapsed * 1000)
    cpu_times.append(cpu * 1000)


def drain(scan: Any) -> int:
    """Read all batches of a scan and return the number of rows."""
    return sum(batch.num_rows for batch in scan.to_batches())


def print_table(measured: Sequence[Comparison]) -> None:
    print(f"{'':36} {'bare, ms':>9} {'Mangrove':>9} {'ratio':>7} {'CPU':>7} {'delta-rs':>9}")
    for one in measured:
        bare = f"{statistics.median(one.bare):9.1f}" if one.bare else f"{'':9}"
        ratios = [f"{'':7}" if ratio is None else f"{ratio:5.2f} ×" for ratio in (one.ratio, one.cpu_ratio)]
        delta = f"{statistics.median(one.delta):9.1f}" if one.delta else ""
        print(f"{one.what:36} {bare} {statistics.median(one.mangrove):9.1f} {' '.join(ratios)} {delta}")


if __name__ == "__main__":
    main()
