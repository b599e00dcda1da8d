"""Tests that share something heavy run in one process."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONFTEST = Path(__file__).with_name("conftest.py")
TEST = """
import os
import pytest

@pytest.mark.parametrize("number", range(6))
{marker}
def test_where(number):
    with open({record!r}, "a") as record:
        record.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


def workers(folder: Path, marker: str) -> set[str]:
    """Return the names of the processes in which twelve tests in two files ran."""
    record = folder / "record.txt"
    shutil.copy(CONFTEST, folder)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    interop: talks to a peer\n")
    (folder / "peer").mkdir()
    for name in ("test_one.py", "test_two.py"):
        (folder / "peer" / name).write_text(TEST.format(marker=marker, record=str(record)))
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "--import-mode=importlib"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    ran_in: list[str] = re.findall(r"gw\d", record.read_text())
    assert len(ran_in) == 12
    return set(ran_in)


def test_the_interop_tests_of_a_folder_run_in_one_process(tmp_path: Path) -> None:
    assert len(workers(tmp_path, "@pytest.mark.interop")) == 1


def test_other_tests_are_spread(tmp_path: Path) -> None:
    assert len(workers(tmp_path, "@pytest.mark.usefixtures('tmp_path')")) == 2
