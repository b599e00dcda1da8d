"""The streaming example runs to its end, also when a run before it was killed between two commits."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mangrove

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "streaming_ingest.py"


def run(script: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), str(folder)], capture_output=True, text=True, timeout=400, check=False
    )


@pytest.mark.interop
@pytest.mark.slow
def test_a_pipeline_that_was_killed_after_a_commit_goes_on_with_every_order_once(tmp_path: Path) -> None:
    killed = run(HERE / "dying_ingest.py", tmp_path)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    lake = mangrove.open(tmp_path / "lake")
    assert lake.table("shop.orders").to_arrow().num_rows == 20
    # Spark has not noted the batch, so it will give it once more.
    assert not list((tmp_path / "checkpoint" / "commits").glob("0"))
    walked = run(EXAMPLE, tmp_path)
    assert walked.returncode == 0, walked.stderr
    assert "batch 0 is in the lakehouse already" in walked.stdout
    assert "60 orders of 7 customers" in walked.stdout
    orders = lake.table("shop.orders").to_arrow().column("order_id").to_pylist()
    assert sorted(orders) == list(range(60))
    assert lake.table("shop.customers").to_arrow(where="last_order >= 40").num_rows == 7
    assert lake.check().is_sound
