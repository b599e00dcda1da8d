"""Commits per second of many writers of one lakehouse, with and without group commit across processes.

Writers of one machine use its queue; with intents they commit as writers of different machines do.

    python -m benchmarks.many_writers simulated [--writers 1 4 8 16] [--threads-each 1 8] [--seconds 6]
    python -m benchmarks.many_writers local [--writers 1 4 16] [--commits 50] [--folder FOLDER]
    python -m benchmarks.many_writers s3 [--writers 1 8] [--threads-each 1 8] [--threads 64] [--commits 50]

Each commit appends three rows, to one table or to a table of each writer. `simulated` runs the writers in
simulated time, where a request and a pause take time and the work of a commit takes 3 ms, so the figures
depend on no machine. `local` starts processes on a disk. `s3` starts processes, and threads of one process,
on SeaweedFS behind a proxy that delays each request. Ratios are those to one writer in the same run.
"""

import argparse
import heapq
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from benchmarks.peers.s3_proxy import S3Proxy
from tests.support.commit_queue import MemoryQueue
from tests.support.servers import run_seaweedfs

import mangrove
from mangrove.effects import Effects
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.model.settings import INTENTS_PROPERTY, LakehouseSettings
from mangrove.storage.counting import CountingStore, StoreRequests
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.wiring import LocalEngines

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
WORK_SECONDS = 0.003
"""The time that a simulated writer needs for the work of a commit."""
HINT_SECONDS = 0.1
POLL_SECONDS = 0.0005
WORKER = (sys.executable, "-m", "benchmarks.many_writers", "worker")
INLINE_BYTES = {"data files": "0", "inline rows": "4096"}
GroupKind = Literal["alone", "queue", "intents"]
GROUP_KINDS: Sequence[GroupKind] = ("alone", "queue", "intents")
"""How processes commit as a group: not at all, as those of one machine, or as those of several."""
REAL_KINDS: Sequence[GroupKind] = ("queue", "intents")
"""Real processes of one machine always have its queue."""


@dataclass(frozen=True)
class Measurement:
    """The commits of one run."""

    seconds: float
    latencies: Sequence[float]
    requests: int = 0
    cpu_seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Commits per second of all writers together."""
        return len(self.latencies) / self.seconds

    def describe(self, one: "Measurement") -> str:
        """Return a line of the result, with the ratio to one writer."""
        commits = len(self.latencies)
        counted = f"{self.requests / commits:>6.2f} requests" if self.requests else ""
        cpu = f"{self.cpu_seconds / commits * 1000:>7.2f} ms of CPU" if self.cpu_seconds else ""
        return (
            f"{self.rate:>8.1f} /s {self.rate / one.rate:>6.2f} × {counted}{cpu}, "
            f"median {statistics.median(self.latencies) * 1000:>5.0f} ms, "
            f"p99 {find_percentile(self.latencies, 99) * 1000:>5.0f} ms"
        )


def find_percentile(figures: Sequence[float], percent: int) -> float:
    """Return the figure below which that share of the figures is.

    >>> find_percentile([3.0, 1.0, 2.0], 99)
    3.0
    """
    return sorted(figures)[min(len(figures) - 1, len(figures) * percent // 100)]


class SimulatedTime:
    """Runs threads one at a time, always the one whose clock is earliest."""

    def __init__(self) -> None:
        self.now = 0.0
        self._waiting: list[tuple[float, int]] = []
        self._turns: list[threading.Event] = []

    def run(self, work: Callable[[int], None], count: int) -> None:
        """Run the function on so many threads, each with its number, until all have returned."""
        self._turns = [threading.Event() for _ in range(count)]
        self._waiting = [(self.now, number) for number in range(count)]
        self._give_turn()

        def run_one(number: int) -> None:
            self._wait_for_turn(number)
            try:
                work(number)
            finally:
                self._give_turn()

        with ThreadPoolExecutor(count) as pool:
            for _ in pool.map(run_one, range(count)):
                pass

    def sleep(self, number: int, seconds: float) -> None:
        """Let the others go first until the clock of this thread has advanced."""
        heapq.heappush(self._waiting, (self.now + seconds, number))
        self._give_turn()
        self._wait_for_turn(number)

    def _give_turn(self) -> None:
        if self._waiting:
            self.now, number = heapq.heappop(self._waiting)
            self._turns[number].set()

    def _wait_for_turn(self, number: int) -> None:
        self._turns[number].wait()
        self._turns[number].clear()


class SimulatedCondition:
    """A condition of the threads of one simulated process, of which one runs at a time; a waiting thread polls."""

    def __init__(self, lock: threading.Lock, sleep: Callable[[float], None]) -> None:
        self._lock = lock
        self._sleep = sleep

    def notify(self) -> None:
        """Do nothing: waiting threads poll."""

    notify_all = notify

    def wait_for(self, is_met: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until the condition is met, or for so many seconds."""
        left = seconds
        while not is_met():
            if left is not None and left <= 0:
                return False
            self._lock.release()
            self._sleep(POLL_SECONDS)
            self._lock.acquire()
            left = None if left is None else left - POLL_SECONDS
        return True


class SimulatedProcess:
    """A process with its own handle of the lakehouse, whose requests, pauses and work take simulated time.

    The work of its threads takes turns, as that of Python code does.
    """

    def __init__(
        self,
        clock: SimulatedTime,
        store: MemoryStore,
        number: int,
        threads: int,
        latency: float,
        queue: MemoryQueue | None,
    ) -> None:
        self._clock = clock
        self._number = number
        self._threads = threads
        self._latency_seconds = latency
        self._queue = queue
        self._chance = random.Random(number)
        self._current = threading.local()
        self._is_in_background = False
        self._hint_after = 0.0
        self._busy_until = 0.0
        self._store = CountingStore(store, self._wait_for_response)
        self._before = StoreRequests()
        self._lake: Lakehouse | None = None
        self.latencies: list[float] = []

    @property
    def requests(self) -> StoreRequests:
        """The requests of the measured commits."""
        return self._store.requests - self._before

    def append(self, thread: int, table: str, seconds: float) -> None:
        """Open the lakehouse and append to the table for some time, the first time unmeasured."""
        self._current.number = self._number * self._threads + thread
        if thread == 0:
            lake = open_on_store(self._build_effects(), engines=LocalEngines)
            lake.table(table).append(ROWS)
            committer: Any = lake._commits
            committer.new_condition = lambda lock: SimulatedCondition(lock, self._sleep)
            committer.__post_init__()
            self._before, self._lake = self._store.requests, lake
        while self._lake is None:
            self._sleep(POLL_SECONDS)
        handle = self._lake.table(table)
        while self._clock.now < seconds:
            began = self._clock.now
            self._busy_until = max(began, self._busy_until) + WORK_SECONDS * self._chance.uniform(0.5, 1.5)
            self._sleep(self._busy_until - began)
            handle.append(ROWS)
            self.latencies.append(self._clock.now - began)

    def _build_effects(self) -> Effects:
        return Effects(
            self._store,
            lambda: 1_800_000_000_000 + int(self._clock.now * 1000),
            build_deterministic_effects(self._store, first_id=10**9 * (self._number + 1)).new_id,
            lambda seconds: self._sleep(seconds * self._chance.uniform(0.5, 1.5)),
            self._write_hint,
            self._queue,
        )

    def _sleep(self, seconds: float) -> None:
        # Helper threads of the library, which flush inline rows, take no simulated time.
        if (number := getattr(self._current, "number", None)) is not None:
            self._clock.sleep(number, seconds)

    def _wait_for_response(self, made: StoreRequests) -> None:
        if made.total and not self._is_in_background:
            self._sleep(self._latency_seconds * self._chance.uniform(0.9, 1.1))

    def _write_hint(self, task: Callable[[], None]) -> None:
        if self._clock.now < self._hint_after:
            return
        self._hint_after = self._clock.now + HINT_SECONDS
        self._is_in_background = True
        task()
        self._is_in_background = False


def create_tables(lake: Lakehouse, writers: int, inline_bytes: str, *, is_shared: bool) -> list[str]:
    """Create the tables, and return that of each writer."""
    lake.create_namespace("bench")
    names = ["bench.shared"] if is_shared else [f"bench.own{number}" for number in range(writers)]
    for name in names:
        lake.create_table(name, "id bigint, name string", properties={"write.inline-rows-max-bytes": inline_bytes})
    return names * writers if is_shared else names


def build_properties(group: GroupKind) -> dict[str, str]:
    """Return the properties of the lakehouse."""
    return {INTENTS_PROPERTY: "true" if group == "intents" else "false"}


def check_rows(lake: Lakehouse, tables: Sequence[str], commits: Sequence[int]) -> None:
    """Raise an error unless each append is in its table once; `commits` are those of each writer."""
    for table in dict.fromkeys(tables):
        appended = sum(count for name, count in zip(tables, commits, strict=True) if name == table)
        if (found := lake.table(table).count()) != appended * ROWS.num_rows:
            raise AssertionError(f"{table} has {found} rows after {appended} appends")


def simulate(
    writers: int,
    seconds: float,
    *,
    threads: int = 1,
    group: GroupKind,
    is_shared: bool,
    inline_bytes: str,
    latency_seconds: float,
) -> Measurement:
    """Let threads of simulated processes append at the same time, for so many simulated seconds."""
    store = MemoryStore("memory://many-writers/")
    settings = LakehouseSettings(properties=build_properties(group))
    lake = create_on_store(build_deterministic_effects(store), settings=settings, engines=LocalEngines)
    tables = create_tables(lake, writers, inline_bytes, is_shared=is_shared)
    clock = SimulatedTime()
    queue = MemoryQueue() if group == "queue" else None
    processes = [SimulatedProcess(clock, store, number, threads, latency_seconds, queue) for number in range(writers)]

    def append(number: int) -> None:
        process, thread = divmod(number, threads)
        processes[process].append(thread, tables[process], seconds)

    clock.run(append, writers * threads)
    check_rows(lake, tables, [1 + len(one.latencies) for one in processes])
    requests = sum((one.requests for one in processes), StoreRequests())
    latencies = [latency for one in processes for latency in one.latencies]
    return Measurement(clock.now, latencies, requests.total)


def run_processes(
    uri: str, options: Mapping[str, str], tables: Sequence[str], commits: int, threads: int = 1
) -> Measurement:
    """Let one process for each table append at the same time, with so many threads each."""
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                subprocess.Popen(
                    [*WORKER, json.dumps([uri, dict(options), table, commits, threads])],
                    cwd=Path(__file__).parents[1],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for table in tables
        ]
        pipes = [(worker.stdin, worker.stdout) for worker in workers if worker.stdin and worker.stdout]
        for _, output in pipes:
            if output.readline() != "ready\n":
                raise AssertionError("a worker failed; its error is above")
        began = time.perf_counter()
        for start, _ in pipes:
            start.write("begin\n")
            start.flush()
        answers = [json.loads(output.readline()) for _, output in pipes]
        seconds = time.perf_counter() - began
    latencies = [latency for answer in answers for latency in answer["latencies"]]
    return Measurement(seconds, latencies, cpu_seconds=sum(answer["cpu_seconds"] for answer in answers))


def run_worker(uri: str, options: Mapping[str, str], table: str, commits: int, threads: int) -> None:
    """Append with threads of this process when a line arrives, the first time unmeasured, and print the times."""
    handle = mangrove.open(uri, storage_options=options or None).table(table)
    handle.append(ROWS)
    print("ready", flush=True)
    sys.stdin.readline()
    cpu_began = time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        found = [*pool.map(lambda _: append_repeatedly(handle.append, commits), range(threads))]
    latencies = [latency for one in found for latency in one]
    print(json.dumps({"latencies": latencies, "cpu_seconds": time.process_time() - cpu_began}), flush=True)


def append_repeatedly(append: Callable[[pa.Table], object], commits: int) -> list[float]:
    """Append so many times, and return the seconds of each."""
    latencies = []
    for _ in range(commits):
        began = time.perf_counter()
        append(ROWS)
        latencies.append(time.perf_counter() - began)
    return latencies


def run_threads(lake: Lakehouse, tables: Sequence[str], commits: int) -> Measurement:
    """Let one thread for each table append through one handle of the lakehouse."""
    began, cpu_began = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(len(tables)) as pool:
        found = [*pool.map(lambda table: append_repeatedly(lake.table(table).append, commits), tables)]
    latencies = [latency for one in found for latency in one]
    return Measurement(time.perf_counter() - began, latencies, cpu_seconds=time.process_time() - cpu_began)


def measure_simulated(given: argparse.Namespace) -> None:
    latency_seconds = given.latency_millis / 1000
    for rows, inline_bytes in INLINE_BYTES.items():
        one = None
        kinds = itertools.product(GROUP_KINDS, (True, False), given.threads_each, given.writers)
        for group, is_shared, threads, writers in kinds:
            measured = simulate(
                writers,
                given.seconds,
                threads=threads,
                group=group,
                is_shared=is_shared,
                inline_bytes=inline_bytes,
                latency_seconds=latency_seconds,
            )
            one = one or measured
            label = f"{describe_writers(writers, threads)}, {rows}"
            print_measurement(label, measured, one, group=group, is_shared=is_shared)


def measure_local(given: argparse.Namespace) -> None:
    one = None
    for group, is_shared, writers in itertools.product(REAL_KINDS, (True, False), given.writers):
        with tempfile.TemporaryDirectory(prefix="mangrove-writers-", dir=given.folder) as folder:
            lake = mangrove.create(Path(folder) / "lake", properties=build_properties(group))
            tables = create_tables(lake, writers, given.inline_bytes, is_shared=is_shared)
            measured = run_processes(str(Path(folder) / "lake"), {}, tables, given.commits)
            check_rows(lake, tables, [given.commits + 1] * writers)
        one = one or measured
        print_measurement(f"{writers} processes, local disk", measured, one, group=group, is_shared=is_shared)


def measure_s3(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(dir=given.folder) as folder, run_seaweedfs(Path(folder)) as server:
        one = None
        kinds = itertools.product(REAL_KINDS, (True, False), given.threads_each, given.writers)
        for group, is_shared, threads, writers in kinds:
            with S3Proxy(server.options["endpoint"], given.latency_millis) as proxy:
                options = {**server.options, "endpoint": proxy.endpoint}
                uri = f"{server.uri}lake-{group}-{is_shared}-{threads}-{writers}"
                properties = build_properties(group)
                lake = mangrove.create(uri, storage_options=options, properties=properties)
                tables = create_tables(lake, writers, given.inline_bytes, is_shared=is_shared)
                proxy.requests.clear()
                measured = run_processes(uri, options, tables, given.commits, threads)
                measured = replace(measured, requests=proxy.requests.total())
                check_rows(lake, tables, [given.commits * threads + 1] * writers)
            one = one or measured
            label = f"{describe_writers(writers, threads)}, S3"
            print_measurement(label, measured, one, group=group, is_shared=is_shared)
        with S3Proxy(server.options["endpoint"], given.latency_millis) as proxy:
            options = {**server.options, "endpoint": proxy.endpoint}
            lake = mangrove.create(f"{server.uri}lake-threads", storage_options=options)
            tables = create_tables(lake, given.threads, given.inline_bytes, is_shared=True)
            measured = run_threads(lake, tables, given.commits)
            check_rows(lake, tables, [given.commits] * given.threads)
            print_measurement(f"{given.threads} threads, S3", measured, one or measured, group="queue", is_shared=True)


def describe_writers(processes: int, threads: int) -> str:
    """Return the text of a number of processes with a number of threads each."""
    return f"{processes} processes" + (f" of {threads} threads" if threads > 1 else "")


def print_measurement(
    label: str, measured: Measurement, one: Measurement, *, group: GroupKind, is_shared: bool
) -> None:
    """Print a line of the result."""
    what = ", ".join([label, "one table" if is_shared else "a table each", *([group] if group != "alone" else [])])
    print(f"{what:<58} {measured.describe(one)}", flush=True)


def main(arguments: Sequence[str] = ()) -> None:
    if [*arguments[:1]] == ["worker"]:
        run_worker(*json.loads(arguments[1]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=[*PARTS], default="simulated")
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 4, 8, 16])
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--threads-each", type=int, nargs="+", default=[1], help="of each process")
    parser.add_argument("--commits", type=int, default=50, help="of each process or thread")
    parser.add_argument("--seconds", type=float, default=6.0, help="simulated seconds")
    parser.add_argument("--latency-millis", type=float, default=20.0)
    parser.add_argument("--inline-bytes", default="0", help="the property write.inline-rows-max-bytes")
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args(arguments)
    PARTS[given.part](given)


PARTS = {"simulated": measure_simulated, "local": measure_local, "s3": measure_s3}

if __name__ == "__main__":
    main(sys.argv[1:])
