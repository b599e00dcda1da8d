"""PyIceberg's own tests of REST catalogs, run against a server on loopback.

    python -m tests.peers.pyiceberg_tests FOLDER [PYTEST ARGUMENT ...]
    make pyiceberg-tests FOLDER=...

FOLDER is a checkout of PyIceberg, whose packages contain no tests. Tests that need Hive, Spark or tables that Spark
prepared are not selected. A failure that `KNOWN_FAILURES` does not explain fails the run.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from benchmarks.peers.environments import FOLDER, prepare_environment
from tests.peers.compatibility_kit import TOKEN, report, serve_new_lakehouse

__all__ = ["KNOWN_FAILURES", "main"]

_REQUIREMENTS: Final = (
    "pyiceberg[pyarrow,s3fs,sql-sqlite,hive,glue]==0.12.0",
    "moto[server]>=5.0.2",
    "pytest==9.1.1",
    "pytest-lazy-fixtures==1.4.1",
    "pytest-mock",
    "requests-mock",
    "fastavro",
    "pyspark[connect]==4.0.1",
)
_FILES: Final = (
    "test_catalog.py",
    "test_partition_evolution.py",
    "test_rest_catalog.py",
    "test_rest_manifest.py",
    "test_rest_schema.py",
    "test_snapshot_operations.py",
    "test_sort_order_update.py",
    "test_statistics_operations.py",
)
_SECONDS_MAX: Final = 900

KNOWN_FAILURES: Final[Mapping[str, str]] = {}
"""Why a test fails, by the names of its file and function."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests and list those that did not pass; return 1 if a failure is not known."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.pyiceberg_tests", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="a checkout of PyIceberg")
    options, others = parser.parse_known_args(arguments)
    python = prepare_environment(FOLDER / "pyiceberg-tests", _REQUIREMENTS)
    with tempfile.TemporaryDirectory() as folder, serve_new_lakehouse(Path(folder) / "lake") as address:
        results = Path(folder) / "results.xml"
        variables = {
            "MANGROVE_REST_ADDRESS": address,
            "MANGROVE_REST_TOKEN": TOKEN,
            "PYTHONPATH": str(Path(__file__).parent),
            "PYICEBERG_TEST_CATALOG": "mangrove",
            "PYICEBERG_CATALOG__MANGROVE__URI": address,
            "PYICEBERG_CATALOG__MANGROVE__TYPE": "rest",
            "PYICEBERG_CATALOG__MANGROVE__TOKEN": TOKEN,
        }
        command = [str(python), "-m", "pytest", "-q", "-p", "pyiceberg_plugin", "-p", "no:cacheprovider"]
        command += ["-m", "integration", f"--junitxml={results}", "-W", "ignore", "--tb=short", *others]
        command += [f"tests/integration/{name}" for name in _FILES]
        subprocess.run(command, cwd=options.folder, env={**os.environ, **variables}, timeout=_SECONDS_MAX, check=False)
        return report(_read_results(results), KNOWN_FAILURES)


def _read_results(file: Path) -> dict[str, str]:
    """Return the results by file and function; a function fails if it fails with any parameters."""
    results: dict[str, str] = {}
    for case in ElementTree.parse(file).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name', '').partition('[')[0]}"
        failure = next((one for kind in ("failure", "error") for one in case.iter(kind)), None)
        if failure is not None:
            results[name] = failure.get("message") or "failed"
        elif results.get(name) in (None, "skipped"):
            results[name] = "passed" if case.find("skipped") is None else "skipped"
    return results


if __name__ == "__main__":
    sys.exit(main())
