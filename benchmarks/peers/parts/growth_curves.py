"""Part `growth`: how commits and lookups slow down with the history of a table and the number of tables."""

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.client import Failed, Worker
from benchmarks.peers.parts.small_commits import write_commits
from benchmarks.peers.results import Curve, PartResult
from benchmarks.peers.setting import Budget, Setting

SYSTEMS = ("mangrove", "lance", "delta", "ducklake", "ducklake-postgres", "pyiceberg", "icechunk")
CATALOGS = ("mangrove", "ducklake", "ducklake-postgres", "pyiceberg", "icechunk")
"""The systems that know their tables; the others have a folder per table."""
MEASURED = 5
CREATED_AT_ONCE = 1_000
COMMITS_GOAL, TABLES_GOAL = 100_000, 10_000_000
"""The sizes that shorter curves are extrapolated to."""
COMMITS_SHARE = 0.6
"""The share of the part's time for the curves over commits, of which there are more systems."""


def run(setting: Setting) -> PartResult:
    """Measure at powers of ten up to the largest sizes."""
    sizes = setting.sizes
    result = setting.begin(
        "growth",
        "Growth",
        f"Medians of {MEASURED} operations at each size, on the local disk: appends of 3 rows and lookups of one key "
        "after that many commits to one table, and creation and reading of an empty table among that many tables. A "
        f"curve ends where {CREATED_AT_ONCE:,} tables or the commits up to the next size take longer than "
        f"{sizes.seconds_max:g} s, or where the system has used its share of the time of the part. Larger sizes are "
        "extrapolated from the slope between the last two, which is too low for costs that are still small at those "
        "sizes.",
        SYSTEMS,
    )
    with setting.folder() as folder:
        files = write_commits(folder, 2)
        with setting.workers(result, folder / "commits") as workers:
            within = setting.budget.share(1 / COMMITS_SHARE)
            result.curves += grow_commits(workers, files, sizes.commits_max, within)
        with setting.workers(result, folder / "tables") as workers:
            catalogs = {name: worker for name, worker in workers.items() if name in CATALOGS}
            result.curves += grow_tables(catalogs, sizes.objects_max, setting.budget)
    return result


def grow_commits(workers: Mapping[str, Worker], files: list[str], commits_max: int, budget: Budget) -> list[Curve]:
    """Return the curves over the commits of one table; only the first commit has the key that is looked up."""

    def fill(worker: Worker, done: int, size: int, within: Budget) -> None:
        if not done:
            worker.call("create", within.limit_next(), table="t")
            worker.call("append", within.limit_next(), table="t", rows=files[0])
        if size > max(done, 1):
            worker.call("append", within.limit_next(), table="t", rows=files[1], times=size - max(done, 1))

    measured: dict[str, dict[str, Any]] = {
        "append of 3 rows": {"operation": "append", "table": "t", "rows": files[1]},
        "lookup of one key": {"operation": "filter", "table": "t", "column": "id", "low": 1, "high": 2},
    }
    axis = Axis("commits of the table", list_sizes(1, commits_max), COMMITS_GOAL)
    return grow(workers, axis, fill, measured, budget)


def grow_tables(workers: Mapping[str, Worker], tables_max: int, budget: Budget) -> list[Curve]:
    """Return the curves over the number of tables."""

    def fill(worker: Worker, done: int, size: int, within: Budget) -> None:
        for start in range(done, size, CREATED_AT_ONCE):
            worker.call("create_many", within.limit_next(), count=min(size - start, CREATED_AT_ONCE))

    measured: dict[str, dict[str, Any]] = {
        "creation of a table": {"operation": "create_many", "count": 1},
        "read of an empty table": {"operation": "scan", "table": "n0"},
    }
    axis = Axis("tables", list_sizes(10, tables_max), TABLES_GOAL)
    return grow(workers, axis, fill, measured, budget)


@dataclass(frozen=True, slots=True)
class Axis:
    """What grows, the sizes to measure, and the size to extrapolate to."""

    title: str
    sizes: Iterator[int]
    goal: int


def grow(
    workers: Mapping[str, Worker],
    axis: Axis,
    fill: Callable[[Worker, int, int, Budget], None],
    measured: Mapping[str, Mapping[str, Any]],
    budget: Budget,
) -> list[Curve]:
    """Return a curve per measured operation, each size filled and measured on all systems before the next one."""
    curves = [Curve(what, axis.title, size_goal=axis.goal) for what in measured]
    done = 0
    for size in axis.sizes:
        print(f"   {size:,} {axis.title}", flush=True)
        growing = [name for name in workers if any(name not in curve.ended for curve in curves)]
        for place, name in enumerate(growing):
            worker, within = workers[name], budget.share(len(growing) - place)
            open_curves = [curve for curve in curves if name not in curve.ended]
            try:
                fill(worker, done, size, within)
            except Failed as failure:
                for curve in open_curves:
                    curve.ended[name] = f"ends before {size:,}: {failure}"
                continue
            for curve in open_curves:
                try:
                    answer = worker.call(seconds_max=within.limit_next(), times=MEASURED, **measured[curve.what])
                except Failed as failure:
                    curve.ended[name] = f"ends before {size:,}: {failure}"
                else:
                    curve.points.setdefault(name, []).append((size, statistics.median(answer.wall)))
        done = size
    return curves


def list_sizes(first: int, last: int) -> Iterator[int]:
    """Yield the powers of ten times `first` up to `last`.

    >>> [*list_sizes(10, 5_000)]
    [10, 100, 1000]
    """
    while first <= last:
        yield first
        first *= 10
