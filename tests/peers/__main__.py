"""Installation of the peers that tests need, and a run of the tests that are skipped without them.

    python -m tests.peers                               from the root of the repository, or make test-peers
    python -m tests.peers --only "Iceberg clients"      only this peer

What is installed is in `.build/peers`. A peer that cannot be installed here is listed with the
reason, and so is each test that is still skipped. A test that fails is repeated once, because it
starts servers and JVMs of other projects.
"""

import argparse
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pytest
from benchmarks.iceberg_clients.programs import build_go_program
from benchmarks.peers.environments import FOLDER, ROOT, NotAvailable, prepare_environment
from tests.peers.compatibility_kit import install_kit
from tests.peers.maven import download_artifact
from tests.support.trino import install_trino

from mangrove.errors import MangroveError
from mangrove.spark.java import find_java_home
from mangrove.web.pages.connect import SPARK_PACKAGE

__all__ = ["PEERS", "Peer", "install_peers", "main"]

_DUCKDB: Final = "1.5.5"
_BUCKET_PACKAGE: Final = f"org.apache.iceberg:iceberg-aws-bundle:{SPARK_PACKAGE.rpartition(':')[2]}"


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer, and the tests that need it."""

    name: str
    tests: tuple[str, ...]
    install: Callable[[], Mapping[str, str]] = dict
    """Installs it, and returns the environment variables by which the tests find it."""


def install_iceberg_clients() -> Mapping[str, str]:
    """Install Spark for Iceberg's JAR, and DuckDB with its extension for Iceberg."""
    extensions = [f"duckdb-extension-{name}=={_DUCKDB}" for name in ("avro", "httpfs", "iceberg")]
    requirements = ["pyspark>=4.1,<4.2", f"duckdb=={_DUCKDB}", *extensions]
    return {"MANGROVE_ICEBERG_PYTHON": str(prepare_environment(FOLDER / "iceberg-clients", requirements))}


def install_iceberg_jar() -> Mapping[str, str]:
    """Install Iceberg's Java library, and find a Java for it."""
    try:
        java_home = find_java_home(os.environ)
    except MangroveError as error:
        raise NotAvailable(str(error)) from error
    jars = [str(download_artifact(one, "jar")) for one in (SPARK_PACKAGE, _BUCKET_PACKAGE)]
    return {"MANGROVE_ICEBERG_JAR": ",".join(jars), "JAVA_HOME": str(java_home)}


def install_iceberg_go() -> Mapping[str, str]:
    """Build the client of iceberg-go."""
    return {"MANGROVE_ICEBERG_GO": str(build_go_program()[0])}


PEERS: Final = (
    Peer(
        "Iceberg clients",
        (
            "tests/iceberg/test_foreign_tables.py",
            "tests/rest/test_iceberg_duckdb.py",
            "tests/rest/test_iceberg_java.py",
            "tests/rest/test_rest_writing_spark.py",
        ),
        install_iceberg_clients,
    ),
    Peer("Iceberg JAR", ("tests/iceberg/test_iceberg_java.py",), install_iceberg_jar),
    Peer("Trino", ("tests/rest/test_iceberg_trino.py",), install_trino),
    Peer("iceberg-go", ("tests/rest/test_several_engines.py",), install_iceberg_go),
    Peer("Iceberg's compatibility kit", ("tests/rest/test_compatibility_kit.py",), install_kit),
    # These are installed by the tests themselves, or are packages of the operating system.
    Peer("DeltaCAT", ("tests/compat/test_deltacat_reads_mangrove.py",)),
    Peer(
        "SeaweedFS, Ceph and Azurite",
        (
            "tests/storage/test_lakehouse_on_servers.py",
            "tests/storage/test_real_servers.py",
            "tests/storage/test_shared_access_signatures.py",
        ),
    ),
    Peer("Chromium", ("tests/web/test_in_a_browser.py",)),
    Peer("shells", ("tests/cli/test_completion.py",)),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Install the peers, run their tests and list what is not available; return the exit code of pytest."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=main.__doc__)
    parser.add_argument("--jobs", default="2", help="how many processes run tests (default: %(default)s)")
    parser.add_argument(
        "--only", action="append", choices=[peer.name for peer in PEERS], help="a peer; may be given several times"
    )
    given = parser.parse_args(arguments)
    chosen = [peer for peer in PEERS if given.only is None or peer.name in given.only]
    found, reasons = install_peers(chosen)
    tests = [path for peer in chosen for path in peer.tests]
    code = _run_tests(["-n", given.jobs, "--dist", "loadgroup", *tests], found)
    if code == pytest.ExitCode.TESTS_FAILED:
        sys.stdout.write("the tests that failed are repeated\n")
        code = _run_tests(["--last-failed", *tests], found)
    for name, reason in reasons.items():
        sys.stdout.write(f"not available: {name}: {reason}\n")
    for peer in PEERS:
        if peer not in chosen:
            sys.stdout.write(f"not chosen: {peer.name}\n")
    return code


def _run_tests(arguments: Sequence[str], variables: Mapping[str, str]) -> int:
    """Return the exit code of pytest, with the environment variables of peers."""
    # What is printed so far comes first.
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", "-q", "-rs", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False).returncode


def install_peers(peers: Iterable[Peer]) -> tuple[dict[str, str], dict[str, str]]:
    """Install peers at the same time; return the environment variables of all, and why others are not available."""

    def install(peer: Peer) -> Mapping[str, str] | NotAvailable:
        try:
            return peer.install()
        except NotAvailable as error:
            return error
        except (OSError, tarfile.TarError) as error:
            return NotAvailable(f"{type(error).__name__}: {error}")

    listed = tuple(peers)
    variables: dict[str, str] = {}
    reasons = {}
    with ThreadPoolExecutor(max(1, len(listed))) as pool:
        for peer, result in zip(listed, pool.map(install, listed), strict=True):
            if isinstance(result, NotAvailable):
                reasons[peer.name] = str(result)
            else:
                variables |= result
    return variables, reasons


if __name__ == "__main__":
    sys.exit(main())
