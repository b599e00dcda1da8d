"""Part `cold`: a new process that opens a lakehouse and reads a small table."""

import resource
import time
from collections.abc import Mapping

from benchmarks.peers.client import Failed, Worker
from benchmarks.peers.parts.small_commits import ROWS, write_commits
from benchmarks.peers.results import PartResult
from benchmarks.peers.setting import Setting

SYSTEMS = ("parquet", "mangrove", "lance", "delta", "ducklake", "ducklake-postgres", "pyiceberg", "icechunk")
COMMITS = 10
START = "start, open and scan"


def run(setting: Setting) -> PartResult:
    """Measure new processes, one system after the other in each round."""
    result = setting.begin(
        "cold",
        "Cold start",
        f"A new Python process imports the library, opens the lakehouse on the local disk and reads {COMMITS * ROWS} "
        f"rows that {COMMITS} commits wrote. Bare Parquet shows what Python and pyarrow take. The server of PostgreSQL "
        "is started too.",
        SYSTEMS,
    )
    with setting.folder() as folder:
        files = write_commits(folder, COMMITS)
        with setting.workers(result, folder) as workers:
            for name, worker in workers.items():
                try:
                    worker.call("create", setting.budget.limit_next(), table="t")
                    worker.call("append", setting.budget.limit_next(), table="t", rows=files, times=COMMITS)
                except Failed as failure:
                    result.row(START).cells[name].reason = str(failure)
                worker.stop()
            measure_starts(result, workers, setting)
    return result


def measure_starts(result: PartResult, workers: Mapping[str, Worker], setting: Setting, table: str = "t") -> None:
    """Add the times from the start of a process to the answer of its first scan."""
    row = result.row(START)
    for _ in setting.list_turns():
        for name, worker in workers.items():
            cell = row.cells[name]
            if cell.reason:
                continue
            start, cpu_start = time.perf_counter(), read_children_cpu_seconds()
            try:
                worker.call("scan", setting.budget.limit_next(), table=table)
            except Failed as failure:
                cell.reason = str(failure)
                continue
            cell.wall.append((time.perf_counter() - start) * 1000)
            worker.stop()
            cell.cpu.append((read_children_cpu_seconds() - cpu_start) * 1000)


def read_children_cpu_seconds() -> float:
    """Return the CPU time of the child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
