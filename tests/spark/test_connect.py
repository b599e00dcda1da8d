"""Verbs, SQL statements and the format work over Spark Connect as they do in a session of this process."""

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

SCRIPT = Path(__file__).parent / "scripts" / "connect_verbs.py"


def test_verbs_statements_and_a_table_that_is_read_written_attached_and_streamed_work_over_connect(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "lake")],
        capture_output=True,
        check=False,
        encoding="utf-8",
        cwd=tmp_path,
        env=os.environ | SHORT_LIVED,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    kinds = ["verbs", "statements", "formats", "computed statements"]
    assert done.stdout.splitlines() == [f"all {kind} done" for kind in kinds]
