"""Processes that write, maintain and read one lakehouse are killed and stopped, and nothing is lost."""

from pathlib import Path

import pytest
from tests.soak.__main__ import run_soak
from tests.support.servers import RealServer

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("soak")]


def test_processes_that_are_killed_and_stopped_lose_nothing_and_see_only_complete_versions(tmp_path: Path) -> None:
    done = run_soak(RealServer(f"{tmp_path.as_uri()}/", {}), tmp_path, 4, "tree", 0.0)
    assert done["committed"] > 0
    assert done["read"] > 0
