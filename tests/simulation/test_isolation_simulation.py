"""Concurrent writers with faults show no anomaly at serializable, and write skew only at snapshot."""

import pytest
from tests.simulation.isolation_checker import AnomalyName
from tests.simulation.isolation_workload import find_isolation_anomalies, find_violations
from tests.simulation.runner import FAULT_PROFILES, Simulation

from mangrove.lakehouse.layouts import LAYOUTS


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_no_history_shows_an_anomaly_that_its_isolation_level_excludes(layout: str, isolation: str) -> None:
    for seed in range(len(FAULT_PROFILES)):
        assert find_violations(Simulation(seed, layout, deeds=4, isolation=isolation)) == []


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_group_commit_across_processes_shows_no_anomaly(layout: str) -> None:
    for seed in range(len(FAULT_PROFILES)):
        assert find_violations(Simulation(seed, layout, writers=4, deeds=4, intents=True)) == []


def test_histories_at_snapshot_show_write_skew() -> None:
    seeds = (Simulation(seed, "tree", writers=5, deeds=5, isolation="snapshot") for seed in range(0, 100, 5))
    assert any(AnomalyName.G2_ITEM in {one.name for one in find_isolation_anomalies(seed)} for seed in seeds)
