"""A cluster of two workers writes every row once, though executors die in the middle."""

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


def test_a_write_with_a_killed_executor_contains_every_row_once(tmp_path: Path) -> None:
    command, known = (
        [sys.executable, "-m", "tests.spark.scripts.cluster_write", str(tmp_path)],
        os.environ | SHORT_LIVED,
    )
    done = subprocess.run(command, capture_output=True, check=False, cwd=ROOT, encoding="utf-8", env=known)
    assert done.returncode == 0, done.stderr[-5000:]
    assert "every row once" in done.stdout
