"""Where the CPU time of the part `spark` goes: Spark's tasks, compilation of Java code, the driver and Python.

    python -m benchmarks.peers.spark_profile [--systems spark-mangrove,spark-iceberg] [--rows 1000000] [--calls]

Each system runs the operations of the part in its own process, one after the other. CPU
times hardly depend on other load of the machine, unlike wall-clock times. `--calls` adds
the calls of Python functions that take the longest.
"""

import argparse
import cProfile
import io
import os
import pstats
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import ROOT, prepare_python
from benchmarks.peers.parts.spark_dml import WARM_UP_ROWS, run_round
from benchmarks.peers.registry import SYSTEMS
from benchmarks.peers.systems.port import Place
from benchmarks.peers.worker import TICKS_PER_SECOND

GROUPS = {
    "C1 Compiler": "compilation",
    "C2 Compiler": "compilation",
    "Executor task": "tasks",
    "GC Thread": "garbage collection",
    "G1 ": "garbage collection",
}
"""The threads of Java by the start of their names; all others are the driver."""
CALLS_MAX = 30


class Profile:
    """Runs the operations of the part on one system, and prints what each of them costs."""

    def __init__(self, system: Any, *, has_calls: bool) -> None:
        self._system = system
        self._context = system._spark.sparkContext._jsc.sc()
        self._has_calls = has_calls

    def prepare(self, operation: str, **arguments: Any) -> None:
        """Run an operation."""
        getattr(self._system, operation)(**arguments)

    def measure(self, what: str, operation: str, _requires: str = "", **arguments: Any) -> None:
        """Run an operation and print its times in milliseconds."""
        profile = cProfile.Profile() if self._has_calls else None
        jobs, before, start = self._count_jobs(), self._read_cpu(), time.perf_counter()
        if profile is not None:
            profile.enable()
        getattr(self._system, operation)(**arguments)
        if profile is not None:
            profile.disable()
        wall = (time.perf_counter() - start) * 1000
        spent = {name: millis - before.get(name, 0.0) for name, millis in self._read_cpu().items()}
        shares = ", ".join(f"{name} {spent[name]:,.0f}" for name in sorted(spent, key=spent.__getitem__, reverse=True))
        print(
            f"{what:<28} wall {wall:7,.0f}, CPU {sum(spent.values()):7,.0f}: {shares}; jobs {self._count_jobs() - jobs}"
        )
        if profile is not None:
            text = io.StringIO()
            pstats.Stats(profile, stream=text).sort_stats("cumulative").print_stats("mangrove|pyspark", CALLS_MAX)
            print(text.getvalue().partition("ncalls")[2], flush=True)

    def _count_jobs(self) -> int:
        self._context.listenerBus().waitUntilEmpty()
        return int(self._context.statusStore().jobsList(None).size())

    def _read_cpu(self) -> dict[str, float]:
        """Return the CPU time of groups of threads in milliseconds."""
        spent = {"Python": time.process_time() * 1000}
        for process in self._system.list_processes():
            for path in list_threads(process):
                name, _, fields = path.read_text().partition("(")[2].rpartition(")")
                group = next((group for start, group in GROUPS.items() if name.startswith(start)), "driver")
                millis = sum(map(int, fields.split()[11:13])) * 1000 / TICKS_PER_SECOND
                spent[group] = spent.get(group, 0.0) + millis
        return spent


def list_threads(process: int) -> Iterator[Path]:
    """Yield the files with the times of the threads of a process and its children."""
    yield from Path(f"/proc/{process}/task").glob("*/stat")
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        yield from list_threads(int(child))


def profile_system(name: str, rows: int, *, has_calls: bool) -> None:
    """Profile one system in this process."""
    module, _, kind = SYSTEMS[name].adapter.partition(":")
    with tempfile.TemporaryDirectory(prefix="mangrove-profile-", ignore_cleanup_errors=True) as folder:
        system = getattr(import_module(module), kind)(Place(folder, f"{folder}/data"))
        try:
            for table, count in (("warm", WARM_UP_ROWS), ("t", rows)):
                print(f"── {SYSTEMS[name].title}, {count:,} rows", flush=True)
                run_round(Profile(system, has_calls=has_calls and table == "t"), table, count)  # type: ignore[arg-type]
        finally:
            system.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", default="spark-mangrove,spark-iceberg")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = re.split(r"\s*,\s*", given.systems)
    if given.here:
        profile_system(names[0], given.rows, has_calls=given.calls)
        return 0
    for name in names:
        command = [prepare_python(SYSTEMS[name]), "-m", __spec__.name, "--here", "--systems", name]
        options = ["--rows", str(given.rows), *(["--calls"] if given.calls else [])]
        subprocess.run([*command, *options], cwd=ROOT, env={**os.environ, "PYTHONUNBUFFERED": "1"}, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
