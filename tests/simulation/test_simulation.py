"""The simulation repeats itself, holds for seeds in every weather, and notices what it is there to notice."""

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import get_args

import pytest
from tests.simulation.__main__ import main
from tests.simulation.bank import (
    AddAlias,
    Bank,
    BankOperation,
    Create,
    Deposit,
    Drop,
    DropAlias,
    InvariantViolation,
    Stage,
    Transfer,
    apply_operation,
    draw_operation,
)
from tests.simulation.isolation_workload import check_isolation
from tests.simulation.runner import FAULT_PROFILES, Simulation, run_simulation, shrink_simulation

from mangrove.errors import MangroveError, StorageError
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.layouts.tree import commit
from mangrove.metastore import Changes, CommitResult, Isolation, RowRange, assume_rows_changed
from mangrove.transaction import process_group_commit
from mangrove.transaction.group_commit import (
    GroupCommitter,
    _PendingRequest,
    merge_changes,
    split_commit_result,
)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "seed", range(len(FAULT_PROFILES)), ids=[fault_profile.name for fault_profile in FAULT_PROFILES]
)
def test_every_version_results_from_its_transactions_and_the_previous_version(seed: int, layout: str) -> None:
    ran = run_simulation(Simulation(seed, layout, deeds=5))
    assert ran.outcomes["committed"] > 0


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_every_version_is_what_its_transactions_made_of_the_one_before_with_intents(layout: str) -> None:
    reports = [
        run_simulation(Simulation(seed, layout, writers=6, deeds=6, intents=True, threads=1 + seed % 2))
        for seed in range(len(FAULT_PROFILES))
    ]
    assert sum(ran.groups for ran in reports) > 0
    assert sum(ran.flushes for ran in reports) > 0


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_every_version_is_what_its_transactions_made_of_the_one_before_with_a_queue(layout: str) -> None:
    reports = [
        run_simulation(Simulation(seed, layout, writers=6, deeds=6, queue=True, threads=1 + seed % 2))
        for seed in range(len(FAULT_PROFILES))
    ]
    assert sum(ran.groups for ran in reports) > 0


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_the_same_seed_gives_the_same_turns_outcomes_and_bytes(layout: str) -> None:
    storm = Simulation(4, layout, deeds=6, threads=2, intents=True, clocks="within")
    assert storm.fault_profile.name == "storm"
    report = run_simulation(storm)
    assert run_simulation(storm) == report
    assert run_simulation(replace(storm, seed=9)).turns != report.turns
    # In another process texts have other hashes.
    program = "from tests.simulation.runner import *; print(run_simulation(" + repr(storm) + ").checksum)"
    known = {**os.environ, "PYTHONHASHSEED": "1"}
    root = Path(__file__).parents[2]
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, cwd=root, env=known)
    assert printed.stdout.decode().split()[-1] == report.checksum


@pytest.mark.slow
def test_every_operation_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    simulations = (Simulation.draw(5 * seed, "tree", 4, 25, frozenset()) for seed in count(1))
    wanted = {kind.__name__ for kind in get_args(BankOperation)}
    committed: set[str] = set()

    def prefer_missing(chance: random.Random) -> BankOperation:
        """Draw some operations, and return one that has not been committed yet, so that few simulations suffice."""
        drawn = [draw_operation(chance) for _ in range(20)]
        return next((one for one in drawn if type(one).__name__ not in committed), drawn[0])

    monkeypatch.setattr("tests.simulation.bank_workload.draw_operation", prefer_missing)
    for simulation in islice(simulations, 30):
        committed |= run_simulation(replace(simulation, clocks="close")).operations.keys()
        if committed >= wanted:
            break
    assert wanted - committed == set()


@pytest.mark.slow
def test_a_broken_build_fails_and_the_failing_seed_is_shrunk_to_few_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(*_: object) -> frozenset[RowRange]:
        return frozenset()

    monkeypatch.setattr(Changes, "rows_to_validate", forget)
    seeds = (Simulation(5 * seed, "tree", deeds=6) for seed in count())
    failing = (simulation for simulation in seeds if "it read" in simulation_error(simulation))
    shrunk = min((shrink_simulation(one) for one in islice(failing, 2)), key=lambda one: len(one.messages))
    assert len(shrunk.messages) <= 4
    assert simulation_error(shrunk)
    monkeypatch.undo()
    assert simulation_error(shrunk) == ""


def break_outcomes_of_groups(monkeypatch: pytest.MonkeyPatch, changed: Callable[[CommitResult], CommitResult]) -> None:
    """Let an error or interrupt after the commit of a group leave its members without an outcome."""

    def commit_merged(committer: GroupCommitter, group: list[_PendingRequest]) -> bool:
        members = [one.request for one in group]
        try:
            changes = merge_changes(members, committer.new_id())
            committed = committer.metastore.commit(members[0].base, changes, Isolation.SNAPSHOT, assume_rows_changed)
        except StorageError as error:
            for one in group:
                one.outcome = error
            return True
        except MangroveError:
            return False
        for one, outcome in zip(group, split_commit_result(members, changed(committed)), strict=True):
            one.outcome = outcome
        return True

    monkeypatch.setattr(GroupCommitter, "_commit_merged", commit_merged)
    # Threads that nobody commits wait for ever.
    monkeypatch.setattr("tests.simulation.turns._STUCK_SECONDS", 3.0)


@pytest.mark.slow
def test_a_build_that_commits_a_group_of_threads_again_after_an_error_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # Another process may have committed them, and their positions are read from its version.
    break_outcomes_of_groups(monkeypatch, lambda committed: replace(committed, staged=committed.changes, locate=None))
    seeds = (Simulation(seed, "tree", writers=6, deeds=8, queue=True, threads=3) for seed in range(200))
    assert any(simulation_error(simulation).startswith("version ") for simulation in seeds)


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
@pytest.mark.parametrize("threads", [1, 3])
def test_every_version_is_what_its_transactions_made_of_the_one_before_with_interrupts(
    layout: str, threads: int
) -> None:
    reports = [
        run_simulation(
            Simulation(seed, layout, writers=6, deeds=5, interrupts=True, threads=threads, queue=seed % 2 == 0)
        )
        for seed in range(4)
    ]
    assert sum(ran.outcomes["committed"] for ran in reports) > 0


@pytest.mark.slow
def test_a_build_that_commits_a_group_of_threads_again_after_an_interrupt_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    break_outcomes_of_groups(monkeypatch, lambda committed: committed)
    seeds = [Simulation(seed, "tree", writers=6, deeds=8, queue=True, threads=3) for seed in range(60)]
    found = (one for one in seeds if simulation_error(replace(one, interrupts=True)))
    assert simulation_error(next(found)) == ""


def test_the_limits_that_a_seed_decides_are_those_of_the_build_afterwards() -> None:
    before = commit._SHOWN_NODES_BYTES_MAX, process_group_commit._DIRECT_ATTEMPTS_MAX
    run_simulation(Simulation(4, "tree", deeds=1))
    check_isolation(Simulation(4, "tree", deeds=1))
    assert before == (commit._SHOWN_NODES_BYTES_MAX, process_group_commit._DIRECT_ATTEMPTS_MAX)


def test_the_threads_of_a_simulation_are_those_that_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    started: set[str] = set()
    start = threading.Thread.start

    def record_start(thread: threading.Thread) -> None:
        started.add(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", record_start)
    simulation = Simulation(0, "tree", deeds=8)
    assert simulation_error(simulation) == ""
    check_isolation(simulation)
    assert started == set(simulation.names)


def simulation_error(simulation: Simulation) -> str:
    try:
        run_simulation(simulation)
    except InvariantViolation as broken:
        return str(broken)
    return ""


def test_the_simulation_detects_write_skew_at_snapshot_isolation() -> None:
    # Which seeds meet write skew changes with every request that is saved; among so many some do.
    seeds = (Simulation(seed, "tree", deeds=5, isolation="snapshot") for seed in range(200))
    skewed = next(simulation for simulation in seeds if "it read" in simulation_error(simulation))
    assert simulation_error(replace(skewed, isolation="serializable")) == ""


def test_a_failing_seed_is_printed_with_the_command_to_repeat_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(simulation: Simulation) -> None:
        raise InvariantViolation("version 7 holds too much")

    monkeypatch.setattr("tests.simulation.__main__.run_simulation", broken)
    assert main(["--seeds", "1", "--first", "17", "--layout", "tree", "--writers", "3"]) == 1
    told = capsys.readouterr().out
    assert "seed 17 does not hold on the tree layout" in told
    assert "version 7 holds too much" in told
    assert "--first 17 --seeds 1 --layout tree --writers 3 --deeds 10" in told


def test_a_failing_seed_is_shrunk_to_the_operations_that_make_it_fail() -> None:
    culprits = {"writer-0.7", "writer-2.1"}
    runs: list[Simulation] = []

    def fail_with_culprits(simulation: Simulation) -> None:
        runs.append(simulation)
        if culprits.issubset(simulation.messages):
            raise InvariantViolation("both are there")

    shrunk = shrink_simulation(Simulation(17, "tree"), fail_with_culprits)
    assert set(shrunk.messages) == culprits
    assert len(runs) < 40


def test_a_skipped_operation_does_not_change_the_draws_of_the_others() -> None:
    skipped = frozenset({"writer-0.0", "writer-1.1"})
    ran = run_simulation(Simulation(0, "tree", writers=2, deeds=3, skipped=skipped))
    assert sum(ran.outcomes.values()) == 4


def test_passing_seeds_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "1", "--layout", "deltacat", "--writers", "2", "--deeds", "2"]) == 0
    assert "1 seed held" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("deed", "met", "read", "told"),
    [
        (Transfer("bank.giro", "bank.savings", 1), {"bank.giro": "1"}, {"bank.giro": {1: 5}}, "it read"),
        (Deposit({"bank.giro": {1: 1}}), {"bank.giro": "9"}, {}, "which was not there"),
        (Create("bank.giro"), {"bank.giro": "9"}, {}, "which was there already"),
        (Drop("bank.giro"), {"bank.giro": "2"}, {}, "and not 2"),
        (AddAlias("bank.spare", "bank.cash"), {"bank.spare": "9"}, {}, "which was not there"),
        (AddAlias("bank.giro", "bank.vault"), {"bank.giro": "1"}, {}, "where the aliases were"),
        (DropAlias("bank.cash"), {}, {}, "where the aliases were"),
        (Stage("bank.giro", {}), {"bank.giro": "1", "table version": "2"}, {}, "where 2 was the last number"),
    ],
)
def test_the_model_rejects_an_operation_that_cannot_have_been_committed(
    deed: BankOperation, met: dict[str, str], read: dict[str, dict[int, int]], told: str
) -> None:
    bank = Bank({"bank.giro": "1"}, {"1": {}}, last_numbers={"1": 2}, aliases={"bank.vault": "1"})
    with pytest.raises(InvariantViolation, match=told):
        apply_operation(deed, bank, met, read, None)
