"""The streaming example runs to its end, also when a run before it was killed between two commits."""

import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import SHORT_LIVED

import mangrove

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "streaming_ingest.py"


@pytest.mark.interop
@pytest.mark.slow
def test_a_pipeline_killed_after_a_commit_resumes_with_every_order_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dying = [sys.executable, str(HERE / "scripts" / "dying_ingest.py"), str(tmp_path)]
    killed = subprocess.run(dying, capture_output=True, text=True, check=False, env=os.environ | SHORT_LIVED)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    lake = mangrove.open(tmp_path / "lake")
    assert lake.table("shop.orders").to_arrow().num_rows == 20
    # Spark has not noted the batch, so it will give it once more.
    assert not list((tmp_path / "checkpoint" / "commits").glob("0"))
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(tmp_path)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    told = capsys.readouterr().out
    assert "batch 0 is in the lakehouse already" in told
    assert "60 orders of 7 customers" in told
    orders = lake.table("shop.orders").to_arrow().column("order_id").to_numpy().tolist()
    assert sorted(orders) == list(range(60))
    assert lake.table("shop.customers").to_arrow(where="last_order >= 40").num_rows == 7
    assert lake.maintenance.check().is_sound
