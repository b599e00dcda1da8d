"""What our SQL adds to the planning of TPC-H's queries, and that they answer as over plain Parquet.

    python benchmarks/tpch.py [SCALE]

Each query is planned (analysed, not run) by Spark over views of plain Parquet
files, and by a `SqlSession` over the same rows in tables, in turns, several
times, after once for warming up. The difference of the medians is what finding
names, reading the catalog, skipping files and splicing costs in a session that
has met the tables before: the goal is at most 50 ms a query. Then both are run
once and their rows compared.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import mangrove
from mangrove.spark.session import local_session
from mangrove.sql.mentions import mentions, parsed_query
from mangrove.sql.session import SqlSession
from mangrove.sql.splitting import split_script
from mangrove.sql.tokens import tokenize

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
QUERIES = [part.text for part in split_script((Path(__file__).parent / "tpch_queries.sql").read_text("utf-8"))]
ROUNDS = 5


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
        lake.create_table(f"tpch.{name}", rows.schema).append(rows)
    return lake


def seconds(work: Callable[[str], Any], query: str) -> float:
    """Return how long it takes."""
    began = time.perf_counter()
    work(query)
    return time.perf_counter() - began


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
        print(f"TPC-H at scale {scale}: milliseconds to plan a query, medians of {ROUNDS}")
        print("query   Spark alone   with Mangrove   added   same answer")
        added = []
        for number, query in enumerate(QUERIES, start=1):
            over_files = over_views(query)
            spark.sql(over_files)
            session.run(query)
            pairs = [(seconds(spark.sql, over_files), seconds(session.run, query)) for _ in range(ROUNDS)]
            alone, ours = (statistics.median(column) * 1000 for column in zip(*pairs, strict=True))
            same = [tuple(row) for row in spark.sql(over_files).collect()] == session.run(query).rows()
            added.append(ours - alone)
            print(
                f"{number:5}   {alone:11.0f}   {ours:13.0f}   {ours - alone:5.0f}   {'yes' if same else 'NO'}",
                flush=True,
            )
        print(f"added: median {statistics.median(added):.0f} ms, most {max(added):.0f} ms")


def over_views(query: str) -> str:
    """Return the query over the views of plain files."""
    tokens = tokenize(query)
    text, done = "", 0
    for mention in mentions(parsed_query(query, tokens), tokens):
        text += f"{query[done : mention.start]}plain_{mention.parts[-1]}"
        text += f" as {mention.parts[-1]}" if mention.alias_place is not None else ""
        done = mention.end
    return text + query[done:]


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.1)
