"""Processes that commit to one local lakehouse at the same time."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import mangrove

SCRIPT = Path(__file__).parent / "commit_process.py"


def run_processes(uri: str, processes: int, commits: int) -> dict[str, str]:
    """Let processes commit at once, and return the version of each acknowledged transaction."""
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, str(SCRIPT), uri, str(worker), str(commits)], stdout=subprocess.PIPE, text=True
                )
            )
            for worker in range(processes)
        ]
        outputs = [worker.communicate()[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * processes
    return dict(line.split() for output in outputs for line in output.splitlines())


@pytest.mark.parametrize("layout", ["tree", pytest.param("deltacat", marks=pytest.mark.slow)])
@pytest.mark.parametrize("intents", ["true", "false"])
@pytest.mark.parametrize(("processes", "commits"), [(3, 8), pytest.param(4, 50, marks=pytest.mark.slow)])
def test_concurrent_commits_of_processes_lose_nothing_and_commit_nothing_twice(
    tmp_path: Path, layout: str, processes: int, commits: int, intents: str
) -> None:
    uri = str(tmp_path / "lake")
    lake = mangrove.create(uri, layout=layout, properties={"transaction.intents": intents})
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id int")
    acknowledged = run_processes(uri, processes, commits)
    assert len(acknowledged) == processes * commits
    fresh = mangrove.open(uri)
    listed = [
        (one.message, str(line.version)) for line in fresh.history() for one in line.transactions if line.version > 2
    ]
    assert sorted(listed) == sorted(acknowledged.items())
    deltas = [*fresh.table("sales.orders").deltas()]
    assert [place.position for place, _ in deltas] == list(range(1, 1 + len(deltas)))
    found = [delta.manifest.entries[0].location.removeprefix("data/") for _, delta in deltas]
    assert sorted([*found, *(table.name for table in fresh.tables("sales", "w"))]) == sorted(acknowledged)
    # A process that ends may leave intents that are committed; their names contain a transaction.
    committed = {one.id for line in fresh.history() for one in line.transactions}
    assert {path.stem[-36:] for path in (tmp_path / "lake" / "data").glob("intents/*")} <= committed
