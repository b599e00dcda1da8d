"""Writes on a standalone cluster of two workers, during which executors, tasks and drivers die.

    python -m tests.spark.scripts.cluster_write FOLDER        from the root of the repository

The task that kills or fails is the first that comes to a marked place, and it does so once
for each table: what decides is a file that only one can make. A task that is slow waits until
Spark has started a copy of it. A driver is killed at the create that commits, before or after it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from tests.support.ports import reserve_ports

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.spark.java import find_java_home

ROWS = 40_000
PARTITIONS = 6
COPY_SECONDS_MAX = 300


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
        address = f"spark://127.0.0.1:{port}"
        lake = mangrove.create(folder / "lake")
        lake.create_namespace("s")
        for moment in ("before", "after"):
            lose_driver(lake, address, moment)
        session = connect(address)
        try:
            write_and_look(lake, session, folder)
        finally:
            session.stop()


def connect(master: str) -> SparkSession:
    """Start a driver that lets Spark copy slow tasks as soon as others have ended."""
    return (
        SparkSession.builder.master(master)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.speculation", "true")
        .config("spark.speculation.multiplier", "1.1")
        .config("spark.speculation.quantile", "0.1")
        .config("spark.speculation.minTaskRuntime", "10ms")
        .getOrCreate()
    )


def lose_driver(lake: Lakehouse, master: str, moment: str) -> None:
    """Let a driver be killed before or after the create that commits its rows; they are all there or none of them."""
    table = lake.create_table(f"s.{moment}", "id bigint not null, v bigint", keys=["id"])
    command = [sys.executable, "-m", "tests.spark.scripts.dying_driver", lake.uri, master, moment]
    killed = subprocess.run(command, capture_output=True, check=False, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    assert table.count() == (ROWS if moment == "after" else 0)
    assert lake.maintenance.check().is_sound
    if moment == "before":
        unused = lake.maintenance.vacuum(alone=True).paths
        assert any(table.id in path for path in unused), unused
    print(f"driver lost {moment} the commit")


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


def failing(rows: DataFrame, mark: Path) -> DataFrame:
    """Return the same rows; the first task that reads them fails after it has passed on some."""

    def passed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            try:
                mark.touch(exist_ok=False)
            except FileExistsError:
                continue
            raise RuntimeError("the task fails once")

    return rows.mapInArrow(passed_on, rows.schema)


def slow(rows: DataFrame, mark: Path) -> DataFrame:
    """Return the same rows; the last task waits in the middle until Spark has started a copy of it."""

    def passed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        is_last = context.partitionId() == PARTITIONS - 1
        for batch in batches:
            yield batch
            if is_last and context.attemptNumber():
                mark.touch()
            end = time.monotonic() + COPY_SECONDS_MAX
            while is_last and not mark.exists() and time.monotonic() < end:
                time.sleep(0.05)

    return rows.mapInArrow(passed_on, rows.schema)


def executor() -> int:
    """Return the Java process above this Python worker."""
    process = os.getppid()
    while "java" not in Path(f"/proc/{process}/comm").read_text():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process


def write_and_look(lake: Lakehouse, session: SparkSession, folder: Path) -> None:
    plain = lake.create_table("s.plain", "id bigint not null, v bigint", keys=["id"])
    divided = lake.create_table("s.divided", "id bigint, v bigint", partition_by=["bucket(2, id)"])
    retried = lake.create_table("s.retried", "id bigint not null, v bigint", keys=["id"])
    copied = lake.create_table("s.copied", "id bigint not null, v bigint", keys=["id"])
    rows = session.range(0, ROWS, 1, PARTITIONS).selectExpr("id", "id % 7 as v")
    for table, disturb in ((plain, deadly), (divided, deadly), (retried, failing), (copied, slow)):
        mark = folder / f"{table.name}.disturbed"
        table.append(disturb(rows, mark))
        assert mark.exists(), table.name
        found = table.to_spark().selectExpr("count(*)", "count(distinct id)", "sum(v)").collect()[0]
        assert tuple(found) == (ROWS, ROWS, sum(number % 7 for number in range(ROWS))), found
        on_disk = {path.relative_to(folder / "lake").as_posix() for path in (folder / "lake/data").rglob("*.parquet")}
        assert {file.location for file in table.scan().files()} <= on_disk
    for table in (plain, retried, copied):
        there = {path.name for path in (folder / "lake/data" / table.id).iterdir()}
        live = {Path(file.location).name for file in table.scan().files()}
        # The copy of a task that is still being killed may not have removed its file yet.
        assert there >= live if table is copied else there == live, table.name
    plain.compact(engine="spark")
    assert plain.to_arrow().num_rows == ROWS
    print("every row once")
    print("every row once after a retry and a copy of a task")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
