"""Iceberg's REST Compatibility Kit passes, except for failures that the documentation explains.

`make test-peers` installs the kit, whose classpath `MANGROVE_ICEBERG_KIT` is.
"""

import os
import re
from pathlib import Path

import pytest
from tests.peers.compatibility_kit import KNOWN_FAILURES, run_kit
from tests.peers.pyiceberg_tests import KNOWN_FAILURES as PYICEBERG_FAILURES
from tests.rest.conftest import TOKEN, counted, served

import mangrove
from mangrove.rest.settings import RestSettings
from mangrove.server.access import Access

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "iceberg.md"


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.skipif("MANGROVE_ICEBERG_KIT" not in os.environ, reason="the kit is not installed; run: make test-peers")
def test_the_compatibility_kit_passes_except_for_known_failures(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    lake = mangrove.create(tmp_path / "lake")
    access = Access("127.0.0.1", TOKEN, is_writable=True)
    with served(counted(lake), access, RestSettings(("rck_warehouse",))) as address:
        results = run_kit(address, TOKEN, tmp_path / "results", os.environ)
    failed = {name: found for name, found in results.items() if found not in ("passed", "skipped")}
    assert len(results) > 150
    assert failed.keys() == KNOWN_FAILURES.keys(), failed


def test_the_documentation_names_each_known_failure_of_the_kit() -> None:
    names = {name.partition(".")[2].partition("(")[0] for name in KNOWN_FAILURES}
    section = PAGE.read_text("utf-8").partition("## Compatibility kit")[2].partition("\n## ")[0]
    named = {
        one for one in re.findall(r"`(\w+)`", section) if one.startswith(("test", "create", "replace", "drop", "reg"))
    }
    assert named == names


def test_the_documentation_names_each_known_failure_of_the_tests_of_pyiceberg() -> None:
    section = PAGE.read_text("utf-8").partition("## PyIceberg's tests")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(test_\w+)`", section)) == {name.partition(".")[2] for name in PYICEBERG_FAILURES}
