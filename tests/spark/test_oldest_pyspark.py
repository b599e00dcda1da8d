"""The oldest PySpark that pyproject.toml allows is installed beside the locked one, and does the main things."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import uv
from tests.spark.conftest import SHORT_LIVED

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.xdist_group("spark-processes")]

ROOT = Path(__file__).parents[2]
SMOKE = Path(__file__).parent / "scripts" / "oldest_smoke.py"


def oldest_version() -> str:
    """Return the lower bound as a whole version: 4.1 is 4.1.0."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["spark"]
    (bound,) = [found[1] for one in declared if (found := re.fullmatch(r"pyspark>=([\d.]+)", one))]
    return ".".join([*bound.split("."), "0", "0"][:3])


def installed(version: str) -> Path:
    """Return a folder with PySpark of that version and what it needs, made when it is not there."""
    folder = ROOT / ".build" / "oldest" / version
    ready = folder / ".ready"
    if not ready.exists():
        command = [uv.find_uv_bin(), "pip", "install", "--quiet", "--python", sys.executable, "--target", str(folder)]
        subprocess.run([*command, f"pyspark=={version}"], check=True, timeout=500)
        ready.touch()
    return folder


def test_the_oldest_pyspark_that_is_declared_creates_writes_reads_queries_and_streams(tmp_path: Path) -> None:
    version = oldest_version()
    left_out = ("SPARK_HOME", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    ended = subprocess.run(
        [sys.executable, str(SMOKE), str(tmp_path), version],
        env={**environment, **SHORT_LIVED, "PYTHONPATH": str(installed(version))},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert (ended.returncode, ended.stdout.splitlines()[-1:]) == (0, ["done"]), ended.stderr[-4000:]
