"""Iceberg's REST Compatibility Kit, installed by Maven and run against a server.

    python -m tests.peers.compatibility_kit [TEST ...]      or      make compatibility-kit ARGS="TEST ..."

The kit is the set of tests with which Iceberg tests its own REST catalog. A server on loopback serves a new lakehouse.
Results are printed by name, and a failure that `KNOWN_FAILURES` does not explain fails the run.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from benchmarks.peers.environments import FOLDER, NotAvailable
from tests.peers.maven import build_classpath
from tests.support.servers import run_mangrove

import mangrove
from mangrove.errors import MangroveError
from mangrove.spark.java import find_java_home

__all__ = ["KNOWN_FAILURES", "TOKEN", "install_kit", "main", "report", "run_kit", "serve_new_lakehouse"]

_VERSION: Final = "1.11.0"
_ARTIFACTS: Final = (
    f"org.apache.iceberg:iceberg-open-api:{_VERSION}:tests",
    f"org.apache.iceberg:iceberg-open-api:{_VERSION}:test-fixtures",
    f"org.apache.iceberg:iceberg-core:{_VERSION}",
    f"org.apache.iceberg:iceberg-core:{_VERSION}:tests",
    f"org.apache.iceberg:iceberg-api:{_VERSION}:tests",
    "org.apache.hadoop:hadoop-client-api:3.4.1",
    "org.apache.hadoop:hadoop-client-runtime:3.4.1",
    "org.assertj:assertj-core:3.27.3",
    "org.awaitility:awaitility:4.2.2",
    "org.mockito:mockito-core:4.11.0",
    "org.slf4j:slf4j-simple:2.0.17",
    "org.junit.platform:junit-platform-console-standalone:1.12.2",
)
_CLASSES: Final = (
    "org.apache.iceberg.rest.RESTCompatibilityKitCatalogTests",
    "org.apache.iceberg.rest.RESTCompatibilityKitViewCatalogTests",
)
_BEHAVIOURS: Final = (
    # Behaviours that the kit lets a catalog choose: the server decides where tables are stored.
    "overrides-requested-location",
    "requires-namespace-create",
    "supports-names-with-dot",
    "supports-serverside-retry",
)
_SECONDS_MAX: Final = 900
TOKEN: Final = "token-of-the-kit"

_MISSING_FILES: Final = "appends data files that do not exist, which a commit may not name"
_REASONS: Final[Mapping[str, str]] = {
    _MISSING_FILES: """
        dropAfterRenameDoesntCorruptTable testAppend testCatalogWithCustomMetricsReporter
        testCompleteCreateOrReplaceTransactionCreate testCompleteCreateOrReplaceTransactionReplace
        testCompleteCreateTransaction testCompleteCreateTransactionMultipleSchemas testCompleteCreateTransactionV2
        testCompleteReplaceTransaction testConcurrentAppendEmptyTable testConcurrentAppendNonEmptyTable
        testConcurrentReplaceTransactionPartitionSpec testConcurrentReplaceTransactionPartitionSpec2
        testConcurrentReplaceTransactionPartitionSpecConflict testConcurrentReplaceTransactionSchema
        testConcurrentReplaceTransactionSchema2 testConcurrentReplaceTransactionSchemaConflict
        testConcurrentReplaceTransactionSortOrder testConcurrentReplaceTransactionSortOrderConflict
        testConcurrentReplaceTransactions testCreateOrReplaceReplaceTransactionReplace
        testCreateOrReplaceTransactionCreate testCreateTransaction testRegisterTable testReplaceTableKeepsSnapshotLog
        testReplaceTransaction""",
    "expires snapshots and appends data files that do not exist; versions expire with `mangrove expire`": """
        testRemoveUnusedSchemas(boolean)[1] testRemoveUnusedSchemas(boolean)[2]
        testRemoveUnusedSpec(boolean)[1] testRemoveUnusedSpec(boolean)[2]""",
    "creates a table of format version 1, which has no deleted rows": """
        createTableTransaction(int)[1] replaceTableTransaction(int)[1]""",
    "expects an error after the metadata file was deleted, which is written again here": """
        testLoadTableWithMissingMetadataFile(Path)""",
    "creates a view that reads itself": "registerTableThatAlreadyExistsAsView",
}
KNOWN_FAILURES: Final[Mapping[str, str]] = {
    f"RESTCompatibilityKit{'View' * ('View' in name and 'view' in reason)}CatalogTests.{name}": reason
    for reason, names in _REASONS.items()
    for name in names.split()
}
"""Why a test of the kit fails, by the names of its class and method."""


def install_kit() -> Mapping[str, str]:
    """Install the kit, and find a Java for it."""
    try:
        java_home = find_java_home(os.environ)
    except MangroveError as error:
        raise NotAvailable(str(error)) from error
    classpath = build_classpath(FOLDER / "compatibility-kit", _ARTIFACTS)
    return {"MANGROVE_ICEBERG_KIT": classpath, "JAVA_HOME": str(java_home)}


def run_kit(
    address: str, token: str, folder: Path, variables: Mapping[str, str], tests: Iterable[str] = ()
) -> dict[str, str]:
    """Run the kit and return its results by test: `passed`, `skipped` or the reason of a failure.

    `tests` are names of methods, all by default. `variables` are those of `install_kit`.
    """
    settings = {
        "rck.local": "false",
        "uri": address,
        "token": token,
        "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        "org.slf4j.simpleLogger.defaultLogLevel": "error",
        **{f"{prefix}{name}": "true" for prefix in ("", "rck.") for name in _BEHAVIOURS},
    }
    selected = [f"--include-methodname=.*{name}.*" for name in tests]
    command = [
        f"{variables['JAVA_HOME']}/bin/java",
        "-Xmx1G",
        *(f"-D{name}={value}" for name, value in settings.items()),
        "-cp",
        variables["MANGROVE_ICEBERG_KIT"],
        "org.junit.platform.console.ConsoleLauncher",
        "execute",
        "--disable-banner",
        "--details=none",
        f"--reports-dir={folder}",
        *(f"--select-class={name}" for name in _CLASSES),
        *selected,
    ]
    with (folder / "output").open("w") as output:
        subprocess.run(command, cwd=folder, stdout=output, stderr=output, timeout=_SECONDS_MAX, check=False)
    return _read_results(folder)


def _read_results(folder: Path) -> dict[str, str]:
    results: dict[str, str] = {}
    for file in folder.glob("TEST-*.xml"):
        for case in ElementTree.parse(file).iter("testcase"):
            name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name', '').replace('()', '')}"
            failure = next((one for kind in ("failure", "error") for one in case.iter(kind)), None)
            if failure is not None:
                results[name] = failure.get("message") or (failure.text or "").strip() or "failed"
            else:
                results[name] = "passed" if case.find("skipped") is None else "skipped"
    return results


@contextmanager
def serve_new_lakehouse(folder: Path) -> Iterator[str]:
    """Serve a new lakehouse and yield the address for Iceberg clients."""
    mangrove.create(folder)
    with run_mangrove(str(folder), TOKEN, "--warehouse", "rck_warehouse") as address:
        yield address


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the kit and list the tests that did not pass; return 1 if a failure is not known."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.compatibility_kit", description=main.__doc__)
    parser.add_argument("tests", nargs="*", metavar="TEST", help="parts of names of tests (default: all)")
    tests = parser.parse_args(arguments).tests
    variables = install_kit()
    with tempfile.TemporaryDirectory() as folder:
        results_folder = Path(folder) / "results"
        results_folder.mkdir()
        with serve_new_lakehouse(Path(folder) / "lake") as address:
            results = run_kit(address, TOKEN, results_folder, variables, tests)
    return report(results, KNOWN_FAILURES)


def report(results: Mapping[str, str], known: Mapping[str, str]) -> int:
    """Print the results; return 1 if a failure is not known, or a known one does not happen."""
    failures = {name: found for name, found in results.items() if found not in ("passed", "skipped")}
    for name in sorted(failures):
        reason = known.get(name)
        sys.stdout.write(f"{'known' if reason else 'FAILED'}  {name}: {reason or ' '.join(failures[name].split())}\n")
    passed, skipped = ([*results.values()].count(one) for one in ("passed", "skipped"))
    sys.stdout.write(f"{passed} passed, {skipped} skipped, {len(failures)} failed\n")
    fixed = sorted(name for name in known if results.get(name) == "passed")
    sys.stdout.writelines(f"known as a failure, but passed: {name}\n" for name in fixed)
    return int(not results or bool(failures.keys() - known.keys()) or bool(fixed))


if __name__ == "__main__":
    sys.exit(main())
