"""A cluster of two workers writes every row once, though executors, tasks and drivers die in the middle."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.conftest import SHORT_LIVED

# Several Javas start one after the other: a machine that is busy with other things needs many times a minute for them.
pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("spark-processes"),
]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines of the script, which starts one cluster for all tests."""
    folder = tmp_path_factory.mktemp("cluster")
    command = [sys.executable, "-m", "tests.spark.scripts.cluster_write", str(folder)]
    known = os.environ | SHORT_LIVED
    done = subprocess.run(command, capture_output=True, check=False, cwd=ROOT, encoding="utf-8", env=known)
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout.splitlines()


def test_a_write_with_a_killed_executor_contains_every_row_once(printed: list[str]) -> None:
    assert "every row once" in printed


def test_a_write_with_a_retried_and_a_speculative_task_contains_every_row_once(printed: list[str]) -> None:
    assert "every row once after a retry and a copy of a task" in printed


def test_a_write_whose_driver_is_killed_is_complete_after_the_commit_and_absent_before_it(printed: list[str]) -> None:
    assert "driver lost before the commit" in printed
    assert "driver lost after the commit" in printed
