"""Part `concurrency`: several processes that commit at the same time."""

import time
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.peers.client import Failed, Worker
from benchmarks.peers.comparison import find_differences
from benchmarks.peers.parts.small_commits import ROWS, write_commits
from benchmarks.peers.results import PartResult
from benchmarks.peers.setting import Budget, Setting

SYSTEMS = ("mangrove", "lance", "delta", "ducklake", "ducklake-postgres", "pyiceberg", "icechunk")
ATTEMPTS_MAX = 1_000


def run(setting: Setting) -> PartResult:
    """Measure the commits per second of all writers together."""
    writers, commits = setting.sizes.writers, setting.sizes.commits
    result = setting.begin(
        "concurrency",
        "Concurrent writers",
        f"{writers} processes append {ROWS} rows {commits:,} times each on the local disk. A commit that lost against "
        "another one is repeated at once; repetitions inside a library are not counted.",
        SYSTEMS,
    )
    with setting.folder() as folder:
        files = write_commits(folder, commits)
        for _ in setting.list_turns():
            with setting.folder() as round_folder, setting.workers(result, round_folder) as first_workers:
                for place, (name, first) in enumerate(first_workers.items()):
                    within = setting.budget.share(len(first_workers) - place)
                    with ExitStack() as stack:
                        others = [setting.prepare_worker(name, first.place) for _ in range(writers - 1)]
                        for other in others:
                            stack.callback(other.stop)
                        run_writers(result, [first, *others], files, within)
    return result


def run_writers(result: PartResult, workers: Sequence[Worker], files: Sequence[str], budget: Budget) -> None:
    """Let all workers of a system append to one table, then each to its own."""
    name = workers[0].name
    shared = ["shared"] * len(workers)
    own = [f"own{number}" for number in range(len(workers))]
    for what, tables in (("to one table", shared), ("to a table each", own)):
        rate = result.row(f"appends {what}", "commits/s", higher_is_better=True).cells[name]
        retries = result.row(f"repeated commits {what}", "per commit").cells[name]
        if rate.reason:
            continue
        try:
            for table in dict.fromkeys(tables):
                workers[0].call("create", budget.limit_next(), table=table)
            for worker, table in zip(workers, tables, strict=True):
                worker.call("append", budget.limit_next(), table=table, rows=files[0])
            start = time.perf_counter()
            for worker, table in zip(workers, tables, strict=True):
                worker.send("append", table=table, rows=[*files], times=len(files), attempts=ATTEMPTS_MAX)
            answers = [worker.receive("append", budget.limit_next()) for worker in workers]
            seconds = time.perf_counter() - start
            stored = sum(workers[0].call("scan", budget.limit_next(), table=table).value["rows"] for table in {*tables})
        except Failed as failure:
            rate.reason = retries.reason = "" if rate.wall else str(failure)
            for worker in workers:
                # It may still append; the next call starts it again.
                worker.stop(0)
            continue
        commits = len(workers) * len(files)
        appended = ROWS * (commits + len(workers))
        if stored != appended and name != "mangrove":
            # Icechunk documents that concurrent commits to a local folder are not safe.
            rate.reason = retries.reason = f"{appended - stored} of {appended} rows are lost"
            continue
        rate.wall.append(commits / seconds)
        retries.wall.append(sum(answer.retries for answer in answers) / commits)
        result.differences += find_differences(f"rows after appends {what}", {"the commits": appended, name: stored})
