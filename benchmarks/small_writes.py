"""What small writes and reads cost without a JVM, beside the least that anybody could do on the same disk.

    python -m benchmarks.small_writes [--folder FOLDER] [--turns 101] [--commits 1000] [--clock cpu] [--inline BYTES]
    python -m benchmarks.small_writes --writers     also many writers, on a disk and on SeaweedFS with 20 ms

A write is compared with a bare Parquet file and a second file, each written
durably under its name: data and a commit. A read is compared with pyarrow on one
file with the same rows, or on the files of a table without inline rows. Both take
turns in one process, so a busy machine slows both; on one that others use too,
`--clock cpu` counts only the work of this process. `--inline` sets the maximum
size of inline rows.
"""

import argparse
import itertools
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

import mangrove
from benchmarks import many_writers
from mangrove.lakehouse.opening import create_on_store
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.wiring import LakehouseEngines

INLINE = "write.inline-rows-max-bytes"
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
KEYS = pa.table({"id": [2]})


class Bench:
    """One folder with a lakehouse in it, and a way to compare two ways."""

    def __init__(self, folder: Path, turns: int, clock: Callable[[], float], inline: int | None = None) -> None:
        self.folder = folder
        self.turns = turns
        self.clock = clock
        self.inline = inline
        self.numbers = itertools.count()
        self.lake = mangrove.create(folder / "lake")
        self.lake.create_namespace("bench")
        self.bare = folder / "bare"
        self.bare.mkdir()

    def table(self, name: str, inline: int | None = None) -> Any:
        chosen = self.inline if inline is None else inline
        properties = {} if chosen is None else {INLINE: str(chosen)}
        return self.lake.create_table(f"bench.{name}", "id bigint, name string", keys=["id"], properties=properties)

    def compare(self, what: str, ours: Callable[[], object], bare: Callable[[], object], goal: float) -> None:
        """Run both in turns, the first turns unmeasured, and print the medians."""
        taken: list[tuple[float, float]] = []
        for turn in range(self.turns + 3):
            first, second = (ours, bare) if turn % 2 else (bare, ours)
            times = {first: self._seconds(first)}
            times[second] = self._seconds(second)
            if turn >= 3:
                taken.append((times[ours], times[bare]))
        mine, least = (statistics.median(column) * 1000 for column in zip(*taken, strict=True))
        verdict = "reached" if mine / least <= goal else "missed"
        print(f"{what:<52} {mine:>9.2f} {least:>9.2f} {mine / least:>7.2f} × {goal:>6.2f} ×  {verdict}", flush=True)

    def write_by_hand(self, rows: pa.Table) -> None:
        """Write rows and a second file, each whole and named before the call returns."""
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="zstd")
        for data in (sink.getvalue(), b"x"):
            durably(self.bare, str(next(self.numbers)), data)

    def _seconds(self, work: Callable[[], object]) -> float:
        began = self.clock()
        work()
        return self.clock() - began


def durably(folder: Path, name: str, data: Any) -> None:
    with (folder / f"{name}.new").open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.link(folder / f"{name}.new", folder / name)
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def writes(bench: Bench) -> None:
    table = bench.table("written")
    bench.compare("append of 3 rows", lambda: table.append(ROWS), lambda: bench.write_by_hand(ROWS), 2.5)
    bench.compare("upsert of 3 rows", lambda: table.upsert(ROWS), lambda: bench.write_by_hand(ROWS), 3.0)
    bench.compare("delete of 1 key", lambda: table.delete_keys(KEYS), lambda: bench.write_by_hand(KEYS), 3.0)


def small_read(bench: Bench) -> None:
    table = bench.table("small")
    table.append(ROWS)
    path = bench.bare / "small.parquet"
    pq.write_table(ROWS, path)
    bench.compare("read of a table of 3 rows", table.to_arrow, lambda: pq.read_table(path), 3.0)


def long_history(bench: Bench, commits: int) -> None:
    """Append after more and more commits, count what they leave on the disk, and read all of it back."""
    table = bench.table("grown")
    done = 0
    for target in (10, 1_000, 10_000):
        if target > commits:
            break
        before = sum_bytes(bench.folder / "lake")
        for number in range(done, target):
            append_numbered(table, number)
        written = sum_bytes(bench.folder / "lake") - before
        report(f"bytes per commit, of {target - done:,} commits", written / (target - done))
        done = target + bench.turns + 3
        what = f"append of 3 rows after {target:,} commits"
        bench.compare(what, lambda: table.append(ROWS), lambda: bench.write_by_hand(ROWS), 1.0)
    # The bare read takes about 1 ms.
    path = bench.bare / "all.parquet"
    pq.write_table(table.to_arrow(), path)
    bench.compare(f"read of {done:,} appends", table.to_arrow, lambda: pq.read_table(path), 6.0)

    def read_cold() -> None:
        mangrove.open(bench.folder / "lake").table("bench.grown").to_arrow()

    bench.compare(f"read of {done:,} appends, lakehouse just opened", read_cold, lambda: pq.read_table(path), 60.0)


def many_tables(bench: Bench) -> None:
    """Append to ten tables in one transaction."""
    names = [str(bench.table(f"one_of_ten_{number}").locator) for number in range(10)]

    def append_to_all() -> None:
        with bench.lake.transaction() as transaction:
            for name in names:
                transaction.table(name).append(ROWS)

    bench.compare("append of 3 rows to 10 tables", append_to_all, lambda: bench.write_by_hand(ROWS), 8.0)


def many_names(bench: Bench, tables: int) -> None:
    """List the names of many tables, and plan a scan of one of them, from a handle that was just opened."""
    bench.lake.create_namespace("many")
    folder = bench.bare / "many"
    folder.mkdir()
    with bench.lake.transaction() as transaction:
        for number in range(tables):
            transaction.create_table(f"many.t{number:05d}", "id bigint, name string")
            (folder / f"t{number:05d}").mkdir()
    # The root of so large a transaction has all of its messages, which the next commit flushes.
    bench.lake.table("bench.grown").append(ROWS)

    def list_names() -> None:
        assert len([table.name for table in mangrove.open(bench.folder / "lake").tables("many")]) == tables

    def plan() -> None:
        mangrove.open(bench.folder / "lake").table("bench.grown").scan().files()

    path = bench.bare / "all.parquet"
    turns, bench.turns = bench.turns, min(bench.turns, 21)
    bench.compare(f"names of {tables:,} tables, lakehouse just opened", list_names, lambda: [*folder.iterdir()], 10.0)
    bench.compare("open and plan of a grown table", plan, lambda: pq.read_metadata(path), 60.0)
    bench.turns = turns


def requests(inline: int | None) -> None:
    """Count the requests and the data files of 100 appends."""
    store = CountingStore(MemoryStore("memory://requests/"))
    lake = create_on_store(build_deterministic_effects(store), engines=LakehouseEngines)
    lake.create_namespace("bench")
    properties = {} if inline is None else {INLINE: str(inline)}
    table = lake.create_table("bench.counted", "id bigint, name string", keys=["id"], properties=properties)
    before = store.requests
    for number in range(100):
        append_numbered(table, number)
    report("requests per append, with hints and flushes", (store.requests - before).total / 100)
    report("data files of 100 appends", sum(1 for _ in store.list("data/")))


def append_numbered(table: Any, number: int) -> None:
    table.append(ROWS.set_column(0, "id", pa.array([3 * number, 3 * number + 1, 3 * number + 2])))


def sum_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def report(what: str, number: float) -> None:
    print(f"{what:<52} {number:>9,.1f}", flush=True)


def lookup(bench: Bench, commits: int) -> None:
    """Find one key among many small files, beside pyarrow on the same files, which has to open them all."""
    table = bench.table("long", 0)
    for number in range(commits):
        append_numbered(table, number)
    wanted = 3 * (commits // 2)
    files = [str(bench.folder / "lake" / file.location) for file in table.scan().files()]

    def by_hand() -> None:
        dataset = pyarrow.dataset.dataset(files, format="parquet")
        dataset.to_table(filter=pyarrow.dataset.field("id") == wanted)

    bench.turns = min(bench.turns, 11)
    what = f"one key in a table of {commits:,} files"
    bench.compare(what, lambda: table.to_arrow(where=f"id = {wanted}"), by_hand, 0.5)
    bench.compare(
        f"{what}, lakehouse just opened",
        lambda: mangrove.open(bench.folder / "lake").table("bench.long").to_arrow(where=f"id = {wanted}"),
        by_hand,
        1.0,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--turns", type=int, default=101)
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--inline", type=int, default=None)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--writers", action="store_true", help="measure many writers too, for some minutes")
    given = parser.parse_args()
    clock = time.perf_counter if given.clock == "wall" else time.process_time
    folder = Path(tempfile.mkdtemp(prefix="mangrove-small-", dir=given.folder))
    try:
        print(f"{'medians':<52} {'ours, ms':>9} {'bare, ms':>9} {'ratio':>9} {'goal':>8}")
        bench = Bench(folder, given.turns, clock, given.inline)
        long_history(bench, given.commits)
        writes(bench)
        small_read(bench)
        many_tables(bench)
        many_names(bench, given.tables)
        requests(given.inline)
        lookup(bench, given.commits)
        if given.writers:
            many_writers.main(["local", "--writers", "1", "4", "16", "--inline-bytes", "2000"])
            many_writers.main(["s3", "--writers", "1", "8", "--threads-each", "1", "8", "--inline-bytes", "2000"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
