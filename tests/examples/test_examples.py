"""The examples run, as a new user would run them."""

import subprocess
import sys
from pathlib import Path

import pytest

import mangrove

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.interop
def test_the_first_steps_run_to_the_end_and_leave_a_sound_lakehouse(tmp_path: Path) -> None:
    walked = subprocess.run(
        [sys.executable, str(EXAMPLES / "first_steps.py"), str(tmp_path / "lake")],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert walked.returncode == 0, walked.stderr
    for wanted in (
        "the power went out; still version 13",
        "changed it first",
        "opens with 420 orders",
        "no problem in",
    ):
        assert wanted in walked.stdout
    lake = mangrove.open(tmp_path / "lake")
    assert lake.check().is_sound
    assert mangrove.open(tmp_path / "lake-year-end").version > 0
