"""Part `cost`: requests of small commits and reads on S3, and what they cost."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from benchmarks.peers.buckets import SYSTEMS, open_bucket_workers
from benchmarks.peers.client import Failed, Worker
from benchmarks.peers.parts.small_commits import write_commits, write_updates
from benchmarks.peers.results import PartResult
from benchmarks.peers.s3_proxy import S3Proxy
from benchmarks.peers.setting import Budget, Setting

PRICES_DATE = "2025"
DOLLARS_PER_REQUEST: Mapping[str, float] = {
    "PUT": 5e-6,
    "POST": 5e-6,
    "LIST": 5e-6,
    "GET": 4e-7,
    "HEAD": 4e-7,
    "DELETE": 0.0,
}
"""List prices of S3 Standard in us-east-1 in the year PRICES_DATE."""
WRITES = ("PUT", "POST", "LIST")
READS = ("GET", "HEAD")
SCANS = 5


def run(setting: Setting) -> PartResult:
    """Count the requests of each system, without latency."""
    commits = setting.sizes.commits
    result = setting.begin(
        "cost",
        "Requests and cost",
        f"A proxy before SeaweedFS counts the requests of {commits} commits of 3 rows and of {SCANS} scans of the "
        f"resulting table. Prices: S3 Standard, us-east-1, {PRICES_DATE}: 5 $ per million PUT, POST and LIST, 0.40 $ "
        "per million GET and HEAD; storage, transfer and the database servers of catalogs are not included. "
        "DuckLake stores small inserts in its catalog.",
        SYSTEMS,
    )
    with setting.folder() as folder:
        files, updates = write_commits(folder, commits), write_updates(folder, commits)
        with open_bucket_workers(setting, result, folder, latency_millis=0) as (workers, proxies):
            for place, (name, worker) in enumerate(workers.items()):
                within = setting.budget.share(len(workers) - place)
                measure_requests(result, worker, proxies[name], files, updates, within)
    return result


def measure_requests(
    result: PartResult, worker: Worker, proxy: S3Proxy, files: list[str], updates: list[str], budget: Budget
) -> None:
    """Add the requests of one system."""
    operations: list[tuple[str, str, dict[str, Any]]] = [
        ("append of 3 rows", "append", {"rows": files, "times": len(files)}),
        ("upsert of 3 rows", "upsert", {"rows": updates, "times": len(files)}),
        ("scan", "scan", {"times": SCANS}),
    ]
    try:
        for table in ("warm", "t"):
            worker.call("create", budget.limit_next(), table=table)
        worker.call("append", budget.limit_next(), table="warm", rows=files[0])
        failure = ""
    except Failed as error:
        failure = str(error)
    for what, operation, arguments in operations:
        writes, reads, dollars = (
            result.row(f"{what}: {kind}", unit).cells[worker.name]
            for kind, unit in (("PUT, POST, LIST", "requests"), ("GET, HEAD", "requests"), ("per million", "$"))
        )
        before = Counter(proxy.requests)
        try:
            if failure:
                raise Failed(failure)
            worker.call(operation, budget.limit_next(), table="t", **arguments)
        except Failed as error:
            writes.reason = reads.reason = dollars.reason = str(error)
            continue
        made = {kind: count / arguments["times"] for kind, count in (proxy.requests - before).items()}
        writes.wall.append(sum(made.get(kind, 0.0) for kind in WRITES))
        reads.wall.append(sum(made.get(kind, 0.0) for kind in READS))
        dollars.wall.append(compute_dollars(made) * 1_000_000)


def compute_dollars(requests: Mapping[str, float]) -> float:
    """Return the price of requests.

    >>> compute_dollars({"PUT": 2, "GET": 5, "DELETE": 1})
    1.2e-05
    """
    return round(sum(DOLLARS_PER_REQUEST[kind] * count for kind, count in requests.items()), 12)
