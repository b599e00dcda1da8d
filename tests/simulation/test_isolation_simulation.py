"""Concurrent writers with faults show no anomaly at serializable, and write skew only at snapshot."""

import multiprocessing
import random
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from tests.simulation.isolation_checker import AnomalyName, ObservedTransaction, find_anomalies
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

import mangrove
from mangrove.errors import ConflictError
from mangrove.lakehouse.layouts import LAYOUTS

_PROCESSES = 3
_TRANSACTIONS = 15


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_no_history_shows_an_anomaly_that_its_isolation_level_excludes(layout: str, isolation: str) -> None:
    for seed in range(len(FAULT_PROFILES)):
        check_isolation(Simulation(seed, layout, deeds=4, isolation=isolation))


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_group_commit_across_processes_shows_no_anomaly(layout: str) -> None:
    for seed in range(len(FAULT_PROFILES)):
        check_isolation(Simulation(seed, layout, writers=4, deeds=4, intents=True))


def test_histories_at_snapshot_show_write_skew() -> None:
    seeds = (Simulation(seed, "tree", writers=5, deeds=5, isolation="snapshot") for seed in range(0, 100, 5))
    assert any(AnomalyName.G2_ITEM in {one.name for one in find_isolation_anomalies(seed)} for seed in seeds)


@pytest.mark.slow
def test_processes_on_local_disk_show_no_anomaly_that_their_isolation_level_excludes(tmp_path: Path) -> None:
    with ProcessPoolExecutor(_PROCESSES, multiprocessing.get_context("spawn")) as pool:
        for isolation in ("snapshot", "serializable"):
            uri = str(tmp_path / isolation)
            lake = mangrove.create(uri)
            create_tables(lake)
            histories = pool.map(partial(observe_process, uri, isolation), range(_PROCESSES))
            history = [one for found in histories for one in found]
            end = time.monotonic_ns()
            assert sum(one.is_committed for one in history) > 10
            final = ObservedTransaction("final read", read_all(lake), end, end + 1)
            check_anomalies(find_anomalies([*history, final]), isolation)


def observe_process(uri: str, isolation: str, number: int) -> list[ObservedTransaction]:
    """Run transactions of the isolation workload in this process, and return what they observed."""
    lake, chance = mangrove.open(uri), random.Random(number)
    workload = IsolationWorkload(isolation, last_value=number * 10**6)
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
        steps = tuple(workload.observed[message])
        history.append(ObservedTransaction(message, steps, began, time.monotonic_ns(), is_committed))
    return history
