"""SQL on DuckDB over tables, against DuckDB over bare Parquet files: a filtered scan and the queries of TPC-H.

    python benchmarks/duckdb_queries.py [SCALE [ROWS]]

Both sides read the same files, and run in turns in this process; TPC-H is also run over the files of
its generator, from which the tables were loaded. The least CPU time of several turns is shown, which
depends least on other work of the machine, and the ratio of both sides.
"""

import runpy
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa

import mangrove
from mangrove.sql.session import SqlSession

ROUNDS = 5
TPCH = runpy.run_path(str(Path(__file__).with_name("tpch.py")))


def measure(*works: Callable[[], object]) -> list[float]:
    """Return the least CPU time of each work in milliseconds."""
    least = [float("inf")] * len(works)
    for _ in range(ROUNDS):
        for place, work in enumerate(works):
            began = time.process_time()
            work()
            least[place] = min(least[place], (time.process_time() - began) * 1000)
    return least


def list_files(root: Path, table: mangrove.Table) -> list[str]:
    """Return the paths of the data files of a table."""
    return [str(root / scan.file.path) for scan in table.scan().plan.scans]


def compare_scan(folder: Path, rows: int) -> None:
    """Print the cost of a query that selects a tenth of a table."""
    lake = mangrove.create(folder / "scan")
    lake.create_namespace("s")
    numbers = pa.array(range(rows), pa.int64())
    table = lake.create_table("s.t", "id bigint, n int, name string")
    names = pa.array([f"name {number % 1000}" for number in range(rows)])
    table.append(pa.table({"id": numbers, "n": pa.array([n % 1000 for n in range(rows)], pa.int32()), "name": names}))
    files = list_files(folder / "scan", table)
    query = "select count(*), sum(id), max(name) from {} where n < 100"
    bare = duckdb.connect()
    ours, theirs = measure(
        lambda: lake.sql(query.format("s.t"), engine="duckdb").collect(),
        lambda: bare.execute(query.format("read_parquet($files)"), {"files": files}).fetchall(),
    )
    print(f"filtered scan of {rows:,} rows: {ours:.0f} ms, bare {theirs:.0f} ms, ratio {ours / theirs:.2f}")


def _fetch_rows(session: SqlSession, query: str) -> object:
    return session.run(query).rows()


def _fetch_bare_rows(bare: duckdb.DuckDBPyConnection, query: str) -> object:
    return bare.sql(query).fetchall()


def compare_tpch(folder: Path, scale: float) -> None:
    """Print the cost of each query of TPC-H."""
    files = folder / "files"
    TPCH["generate"](files, scale)
    lake = TPCH["loaded"](files, folder / "lake")
    session = SqlSession(lake, engine="duckdb")
    session.run("use tpch")
    same = _connect_views({name: list_files(folder / "lake", lake.table(f"tpch.{name}")) for name in TPCH["TABLES"]})
    generated = _connect_views({name: [str(files / f"{name}.parquet")] for name in TPCH["TABLES"]})
    totals = [0.0, 0.0, 0.0]
    for number, query in enumerate(TPCH["QUERIES"], start=1):
        plain = TPCH["over_views"](query)
        over_files = [partial(_fetch_bare_rows, bare, plain) for bare in (same, generated)]
        times = measure(partial(_fetch_rows, session, query), *over_files)
        totals = [total + one for total, one in zip(totals, times, strict=True)]
        print(f"query {number:2}: {_format_times(times)}", flush=True)
    print(f"TPC-H at scale {scale}: {_format_times(totals)}")


def _connect_views(files: dict[str, list[str]]) -> duckdb.DuckDBPyConnection:
    bare = duckdb.connect()
    for name, paths in files.items():
        bare.execute(f"create view plain_{name} as select * from read_parquet({paths})")
    return bare


def _format_times(times: Sequence[float]) -> str:
    ours, same, generated = times
    ratios = f"ratios {ours / same:.2f} and {ours / generated:.2f}"
    return f"{ours:.0f} ms, same files {same:.0f} ms, generated files {generated:.0f} ms, {ratios}"


def main(scale: float, rows: int) -> None:
    """Print both comparisons."""
    with tempfile.TemporaryDirectory() as folder:
        compare_scan(Path(folder), rows)
        compare_tpch(Path(folder), scale)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0, int(sys.argv[2]) if len(sys.argv) > 2 else 5_000_000)
