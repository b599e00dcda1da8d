"""Writes on a standalone cluster of two workers, during each of which one executor is killed.

    python -m tests.spark.scripts.cluster_write FOLDER        from the root of the repository

The task that kills is the first that comes to a marked place, and it does so once
for each table: what decides is a file that only one can make.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
from tests.support.ports import reserve_ports

import mangrove
from mangrove.spark.java import find_java_home

ROWS = 40_000


def main(folder: Path) -> None:
    os.environ["JAVA_HOME"] = str(find_java_home(os.environ))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    (port,) = reserve_ports(1)
    with ExitStack() as running:
        master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        running.enter_context(started(master, folder))
        for number in (2, 3):
            place = folder / f"worker{number}"
            options = ["--host", f"127.0.0.{number}", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            worker = ["worker.Worker", *options, "--work-dir", str(place), f"spark://127.0.0.1:{port}"]
            running.enter_context(started(worker, folder))
        session = (
            SparkSession.builder.master(f"spark://127.0.0.1:{port}")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.executor.memory", "512m")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        try:
            write_and_look(session, folder)
        finally:
            session.stop()


@contextmanager
def started(arguments: list[str], folder: Path) -> Iterator[None]:
    home = Path(pyspark.__file__).parent
    log = folder / f"{arguments[0]}-{len(list(folder.iterdir()))}.log"
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, "SPARK_HOME": str(home)}, start_new_session=True
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def deadly(rows: DataFrame, mark: Path) -> DataFrame:
    """Return the same rows; whoever reads them first kills its executor halfway."""

    def passed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            try:
                mark.touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(executor(), signal.SIGKILL)

    return rows.mapInArrow(passed_on, rows.schema)


def executor() -> int:
    """Return the Java process above this Python worker."""
    process = os.getppid()
    while "java" not in Path(f"/proc/{process}/comm").read_text():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process


def write_and_look(session: SparkSession, folder: Path) -> None:
    lake = mangrove.create(folder / "lake")
    lake.create_namespace("s")
    plain = lake.create_table("s.plain", "id bigint not null, v bigint", keys=["id"])
    divided = lake.create_table("s.divided", "id bigint, v bigint", partition_by=["bucket(2, id)"])
    rows = session.range(0, ROWS, 1, 6).selectExpr("id", "id % 7 as v")
    for table in (plain, divided):
        mark = folder / f"{table.name}.killed"
        table.append(deadly(rows, mark))
        assert mark.exists()
        found = table.to_spark().selectExpr("count(*)", "count(distinct id)", "sum(v)").collect()[0]
        assert tuple(found) == (ROWS, ROWS, sum(number % 7 for number in range(ROWS))), found
        on_disk = {path.relative_to(folder / "lake").as_posix() for path in (folder / "lake/data").rglob("*.parquet")}
        assert {file.location for file in table.scan().files()} <= on_disk
    there = {path.name for path in (folder / "lake/data" / plain.id).iterdir()}
    assert there == {Path(file.location).name for file in plain.scan().files()}
    plain.compact(engine="spark")
    assert plain.to_arrow().num_rows == ROWS
    print("every row once")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
