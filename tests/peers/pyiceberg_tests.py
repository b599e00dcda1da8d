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

_SCHEMA_IDS: Final = "expects the id that the client proposed for a schema, or that of an earlier one"
_REASONS: Final[Mapping[str, Mapping[str, str]]] = {
    "test_catalog": {
        _SCHEMA_IDS: "test_create_table_transaction_multiple_schemas",
        "expects a number at the beginning of the name of the metadata file": "test_create_table_with_default_location",
        "expects the id 1 for a second partition spec, which is that of the unpartitioned one": """
            test_incompatible_partitioned_schema_evolution""",
        "expects a server whose levels of namespaces are separated by dots": "test_rest_custom_namespace_separator",
    },
    "test_partition_evolution": {
        "adds a partition field that is always null (`void`), which is left out here": """
            test_add_void test_add_void_generates_default_name""",
        "requests format version 1, which keeps removed partition fields as `void`; the table has version 2 here": """
            test_multiple_adds_and_remove_v1 test_remove_and_add_identity test_remove_bucket test_remove_day
            test_remove_identity""",
        "expects another id of a spec whose field was renamed": "test_rename",
    },
    "test_rest_catalog": {
        "uses a name with a space": """
            test_create_namespace_if_already_existing test_create_namespace_if_not_exists test_namespace_exists""",
    },
    "test_rest_manifest": {"needs a table that Spark prepared": "test_write_sample_manifest"},
    "test_rest_schema": {
        "has a struct without fields, which Parquet cannot store": """
            test_initial_default_all_columns test_move_primitive_map_value_fails""",
        "expects former names in the name mapping, which may belong to other columns now": """
            test_rename_simple test_rename_simple_nested""",
        _SCHEMA_IDS: "test_revert_changes test_two_add_schemas_in_a_single_transaction",
    },
    "test_snapshot_operations": {
        "creates a branch; all tables share the history of the lakehouse": """
            test_create_branch test_remove_branch test_rollback_to_snapshot_not_ancestor""",
    },
    "test_statistics_operations": {
        "names statistics files outside the folder of the table, which are ignored": "test_manage_statistics",
    },
}
KNOWN_FAILURES: Final[Mapping[str, str]] = {
    f"{file}.{name}": reason
    for file, reasons in _REASONS.items()
    for reason, names in reasons.items()
    for name in names.split()
}
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
