"""Concurrent writers with faults show no anomaly at serializable, and write skew only at snapshot."""

import multiprocessing
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest
from tests.iceberg.iceberg_client import Client
from tests.simulation.isolation_checker import (
    AnomalyName,
    Append,
    ObservedTransaction,
    ReadList,
    Step,
    find_anomalies,
)
from tests.simulation.isolation_workload import (
    IsolationWorkload,
    check_anomalies,
    check_isolation,
    create_tables,
    find_isolation_anomalies,
    read_all,
)
from tests.simulation.runner import FAULT_PROFILES, Simulation
from tests.simulation.writers import Attempt
from tests.soak.roles import Configuration, open_lake
from tests.support.servers import RealServer, run_seaweedfs

import mangrove
from mangrove.errors import ConflictError, StorageError
from mangrove.iceberg.commit.commit_request import parse_commit_request
from mangrove.iceberg.commit.transaction import TableCommit, commit_tables
from mangrove.lakehouse.arguments import parse_table_argument
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.lakehouse.transaction import Transaction
from mangrove.metastore import Changes

_PROCESSES = 3
_TRANSACTIONS = 15
_ICEBERG_LISTS = ("iceberg.list_a", "iceberg.list_b")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_no_history_shows_an_anomaly_that_its_isolation_level_excludes(layout: str, isolation: str) -> None:
    for seed in range(len(FAULT_PROFILES)):
        check_isolation(Simulation(seed, layout, deeds=4, isolation=isolation))


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
@pytest.mark.parametrize("kind", ["intents", "queue"])
def test_group_commit_across_processes_shows_no_anomaly(layout: str, kind: str) -> None:
    for seed in range(len(FAULT_PROFILES)):
        check_isolation(Simulation(seed, layout, writers=4, deeds=4, intents=kind == "intents", queue=kind == "queue"))


def test_histories_at_snapshot_show_write_skew() -> None:
    seeds = (Simulation(seed, "tree", writers=5, deeds=5, isolation="snapshot") for seed in range(0, 100, 5))
    assert any(AnomalyName.G2_ITEM in {one.name for one in find_isolation_anomalies(seed)} for seed in seeds)


def commit_each_statement(patch: pytest.MonkeyPatch) -> None:
    """Let each statement of a transaction commit by itself, with the message of the transaction."""
    messages: dict[str, str] = {}
    change, begin_together = Lakehouse._change, Lakehouse.transaction

    def begin(lake: Lakehouse, *isolation: str, message: str = "", **options: Any) -> AbstractContextManager[Any]:
        if options:
            return begin_together(lake, *isolation, message=message, **options)
        messages[threading.current_thread().name] = message
        return nullcontext(lake)

    def change_alone(lake: Lakehouse, statement: Any, message: str = "", **options: Any) -> Any:
        return change(lake, statement, messages.get(threading.current_thread().name, message), **options)

    patch.setattr(Lakehouse, "transaction", begin)
    patch.setattr(Lakehouse, "_change", change_alone)


def validate_no_rows(patch: pytest.MonkeyPatch) -> None:
    """Let transactions commit though the rows have changed that they read."""
    patch.setattr(Changes, "rows_to_validate", lambda *_: frozenset())


def refuse_after_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Let every third commit be reported as a conflict."""
    commit, numbers = Transaction.commit, count()

    def refuse(transaction: Transaction, message: str | None = None) -> int:
        version = commit(transaction, message)
        if threading.current_thread().name.startswith("writer") and next(numbers) % 3 == 0:
            raise ConflictError("it is committed nevertheless")
        return version

    patch.setattr(Transaction, "commit", refuse)
    patch.setattr("tests.simulation.isolation_workload._observe", observe_what_was_told)


def observe_what_was_told(attempt: Attempt[Any], steps: Any, _: set[str], end: int) -> ObservedTransaction:
    return ObservedTransaction(attempt.message, tuple(steps), attempt.began, end, attempt.is_committed is not False)


@pytest.mark.parametrize(
    ("break_build", "expected"),
    [
        (
            commit_each_statement,
            {
                AnomalyName.G1B,
                AnomalyName.G1C,
                AnomalyName.G_SINGLE,
                AnomalyName.FRACTURED_READ,
                AnomalyName.LOST_UPDATE,
            },
        ),
        (validate_no_rows, {AnomalyName.LOST_UPDATE, AnomalyName.G2_ITEM, AnomalyName.G2}),
        (refuse_after_the_commit, {AnomalyName.G1A}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_build_shows_its_anomalies(
    break_build: Callable[[pytest.MonkeyPatch], None], expected: set[AnomalyName], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_build(monkeypatch)
    found: set[AnomalyName] = set()
    for seed in range(0, 200, len(FAULT_PROFILES)):
        found |= {one.name for one in find_isolation_anomalies(Simulation(seed, "tree", writers=4, deeds=8))}
        if found >= expected:
            break
    assert expected - found == set()


@pytest.mark.slow
def test_processes_on_local_disk_show_no_anomaly_that_their_isolation_level_excludes(tmp_path: Path) -> None:
    check_processes(RealServer(f"{tmp_path.as_uri()}/", {}), by=("python", "sql"))


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.xdist_group("s3")
def test_processes_on_an_s3_server_with_faults_show_no_anomaly_that_their_isolation_level_excludes(
    tmp_path: Path,
) -> None:
    with run_seaweedfs(tmp_path) as server:
        check_processes(server, faults=0.05)


@pytest.mark.slow
def test_iceberg_clients_show_no_anomaly(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("iceberg")
    for table in _ICEBERG_LISTS:
        lake.create_table(table, "place bigint, value bigint")
    with ProcessPoolExecutor(_PROCESSES, multiprocessing.get_context("spawn")) as pool:
        histories = pool.map(partial(observe_iceberg_client, lake.uri), range(_PROCESSES))
        history = [one for found in histories for one in found]
    end = time.monotonic_ns()
    assert sum(one.is_committed for one in history) > 10
    final = tuple(read_published(Client(lake, table)) for table in _ICEBERG_LISTS)
    check_anomalies(find_anomalies([*history, ObservedTransaction("final read", final, end, end + 1)]), "serializable")


def read_published(client: Client) -> ReadList:
    """Read a list as an Iceberg client does; each row knows how many were there before it."""
    rows = [row for rows in client.contents().values() for row in rows.values()]
    return ReadList(
        client.table, tuple(row["value"] for row in sorted(rows, key=lambda row: (row["place"], row["value"])))
    )


def observe_iceberg_client(uri: str, number: int) -> list[ObservedTransaction]:
    """Read one or two tables as an Iceberg client, append to them in one commit, and return what was observed."""
    lake, chance = mangrove.open(uri), random.Random(number)
    history: list[ObservedTransaction] = []
    for place in range(_TRANSACTIONS):
        began, steps, commits = time.monotonic_ns(), list[Step](), []
        for table in chance.sample(_ICEBERG_LISTS, chance.randint(1, 2)):
            client = Client(lake, table)
            read, value = read_published(client), number * 10**6 + len(history) * 10 + len(steps)
            written = client.rows([{"place": len(read.values), "value": value}])
            request = parse_commit_request(client.request([written]))
            commits.append(TableCommit(parse_table_argument(table), request))
            steps += [read, Append(table, value)]
        try:
            commit_tables(lake, commits)
            is_committed = True
        except ConflictError:
            is_committed = False
        message = f"client-{number}.{place}"
        history.append(ObservedTransaction(message, tuple(steps), began, time.monotonic_ns(), is_committed))
    return history


def check_processes(place: RealServer, *, by: Sequence[str] = ("python",), faults: float = 0.0) -> None:
    """Let processes write one lakehouse for each interface and level, and check what they observed."""
    with ProcessPoolExecutor(_PROCESSES, multiprocessing.get_context("spawn")) as pool:
        for interface, isolation in product(by, ("snapshot", "serializable")):
            lake = mangrove.create(f"{place.uri}{interface}-{isolation}", storage_options=place.options)
            create_tables(lake)
            configuration = Configuration("writer", "", lake.uri, place.options, faults, isolation, "")
            histories = pool.map(partial(observe_process, configuration, interface == "sql"), range(_PROCESSES))
            found = [one for history in histories for one in history]
            committed = {record.message for line in lake.history() for record in line.transactions}
            end = time.monotonic_ns()
            history = [settle(one, committed, end) for one in found]
            assert sum(one.is_committed for one in history) > 10
            final = ObservedTransaction("final read", read_all(lake), end, end + 1)
            check_anomalies(find_anomalies([*history, final]), isolation)


def settle(one: ObservedTransaction, committed: set[str], end: int) -> ObservedTransaction:
    """Return a transaction with its fate; one without a response may have taken effect until the end."""
    if one.ended:
        return one
    return replace(one, is_committed=one.id in committed, ended=end)


def observe_process(configuration: Configuration, by_sql: bool, number: int) -> list[ObservedTransaction]:
    """Run transactions of the isolation workload in this process, and return what they observed."""
    lake, chance = open_lake(configuration, f"process {number}"), random.Random(number)
    workload = IsolationWorkload(configuration.isolation, last_value=number * 10**6, by_sql=by_sql)
    history = []
    for place in range(_TRANSACTIONS):
        message = f"process-{number}.{place}"
        attempt = Attempt(message, workload.draw(chance, message))
        began = time.monotonic_ns()
        try:
            workload.execute(lake, attempt)
            is_committed = True
        except ConflictError:
            is_committed = False
        except StorageError:
            # Nobody knows yet.
            history.append(ObservedTransaction(message, tuple(workload.observed[message]), began, is_committed=False))
            continue
        steps = tuple(workload.observed[message])
        history.append(ObservedTransaction(message, steps, began, time.monotonic_ns(), is_committed))
    return history
