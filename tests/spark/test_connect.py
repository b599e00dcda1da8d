"""The main verbs and SQL statements work over Spark Connect as they do in a session of this process."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SCRIPT = Path(__file__).parent / "scripts" / "connect_verbs.py"


def test_the_main_verbs_and_statements_work_over_connect(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "lake")],
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert "all verbs done" in done.stdout
    assert "all statements done" in done.stdout
