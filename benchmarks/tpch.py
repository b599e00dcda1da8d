"""What our SQL adds to the planning of TPC-H's queries, and that they answer as over plain Parquet.

    python benchmarks/tpch.py [SCALE]

Each query is planned (analysed, not run) by Spark over views of plain Parquet
files, and by a `SqlSession` over the same rows in tables, in turns, several
times, after all queries were planned twice for warming up. The difference of the
medians is what finding names, reading the catalog, skipping files and splicing
costs where the query was met before: the goal is at most 50 ms a query. A third
turn has a new comment behind the query, so that its text is taken apart again. The CPU
time of this process and of the JVM is the quieter clock on a busy machine, though
the JVM tells its own in steps of 10 ms, so means are shown. Then both are run once
and their rows compared.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import mangrove
from mangrove.spark.session import local_session
from mangrove.sql.parse.table_refs import find_table_refs, parse_query_tables
from mangrove.sql.parse.tokens import split_script, tokenize
from mangrove.sql.session import SqlSession

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
QUERIES = [part.text for part in split_script((Path(__file__).parent / "tpch_queries.sql").read_text("utf-8"))]
ROUNDS = 7


def generate(folder: Path, scale: float) -> None:
    """Write the tables of TPC-H as Parquet files."""
    program = Path(sys.executable).parent / "tpchgen-cli"
    command = [str(program), "parquet", "-s", str(scale), f"--output-dir={folder}"]
    subprocess.run(command, check=True, capture_output=True)


def loaded(folder: Path, place: Path) -> mangrove.Lakehouse:
    """Return a lakehouse with the same rows."""
    lake = mangrove.create(place)
    lake.create_namespace("tpch")
    for name in TABLES:
        rows = pq.read_table(folder / f"{name}.parquet")
        # Small tables are compared as files, too.
        lake.create_table(f"tpch.{name}", rows.schema, properties={"write.inline-rows-max-bytes": "0"}).append(rows)
    return lake


@dataclass(frozen=True)
class Clocks:
    """What a piece of work took of two clocks, in milliseconds."""

    wall: float
    cpu: float


def clocked(spark: SparkSession, work: Callable[[str], Any], query: str) -> Clocks:
    """Return how long it takes, and how much both processes work for it."""
    cpu, wall = _cpu_millis(spark), time.perf_counter()
    work(query)
    wall = time.perf_counter() - wall
    return Clocks(wall * 1000, _cpu_millis(spark) - cpu)


def _cpu_millis(spark: SparkSession) -> float:
    handle = spark._jvm.java.lang.ProcessHandle.current()  # type: ignore[union-attr]
    return time.process_time() * 1000 + float(handle.info().totalCpuDuration().get().toMillis())


def main(scale: float) -> None:
    """Print a table of all queries."""
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "files"
        generate(files, scale)
        spark = local_session()
        lake = loaded(files, Path(folder) / "lake")
        for name in TABLES:
            spark.read.parquet(str(files / f"{name}.parquet")).createOrReplaceTempView(f"plain_{name}")
        session = SqlSession(lake)
        session.run("use tpch")
        plain = [over_views(query) for query in QUERIES]
        for query, over_files in [*zip(QUERIES, plain, strict=True)] * 2:
            spark.sql(over_files)
            session.run(query)
        print(f"TPC-H at scale {scale}: milliseconds to plan a query, medians of {ROUNDS} turns")
        print("query   Spark alone   with Mangrove   added   added CPU   added to a new text   same answer")
        added, added_cpu, added_new = [], [], []
        for number, (query, over_files) in enumerate(zip(QUERIES, plain, strict=True), start=1):
            turns = [
                (
                    clocked(spark, spark.sql, over_files),
                    clocked(spark, session.run, query),
                    clocked(spark, session.run, f"{query} -- {turn}"),
                )
                for turn in range(ROUNDS)
            ]
            alone, ours, new = (
                statistics.median(clocks.wall for clocks in column) for column in zip(*turns, strict=True)
            )
            added.append(ours - alone)
            added_new.append(new - alone)
            added_cpu.append(statistics.mean(ours.cpu - alone.cpu for alone, ours, _ in turns))
            same = [tuple(row) for row in spark.sql(over_files).collect()] == session.run(query).rows()
            print(
                f"{number:5}   {alone:11.0f}   {ours:13.0f}   {added[-1]:5.0f}   {added_cpu[-1]:9.0f}   "
                f"{added_new[-1]:19.0f}   {'yes' if same else 'NO'}",
                flush=True,
            )
        for what, column in {"added": added, "added CPU": added_cpu, "added to a new text": added_new}.items():
            print(f"{what}: median {statistics.median(column):.0f} ms, most {max(column):.0f} ms")


def over_views(query: str) -> str:
    """Return the query over the views of plain files."""
    tokens = tokenize(query)
    text, done = "", 0
    for table_ref in find_table_refs(parse_query_tables(query, tokens), tokens):
        text += f"{query[done : table_ref.start]}plain_{table_ref.parts[-1]}"
        text += f" as {table_ref.parts[-1]}" if table_ref.alias_place is not None else ""
        done = table_ref.end
    return text + query[done:]


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.1)
