"""The format works over Spark Connect, where neither session nor frames are those of a classic Spark."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.interop
@pytest.mark.slow
def test_a_table_is_read_written_attached_and_streamed_over_connect(tmp_path: Path) -> None:
    script = Path(__file__).parent / "connect_process.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "read [0, 1, 2, 7] 4" in done.stdout
    assert "streamed [0, 1, 2, 7]" in done.stdout
