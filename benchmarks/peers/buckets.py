"""Workers whose data is in a bucket of SeaweedFS, each behind a proxy of its own."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.peers.client import Worker
from benchmarks.peers.results import PartResult
from benchmarks.peers.s3_proxy import S3Proxy
from benchmarks.peers.setting import Setting
from benchmarks.peers.systems.port import Place
from tests.support.servers import run_seaweedfs

SYSTEMS = ("parquet", "mangrove", "lance", "delta", "ducklake", "ducklake-postgres", "pyiceberg", "icechunk")


@contextmanager
def open_bucket_workers(
    setting: Setting, result: PartResult, folder: Path, latency_millis: float
) -> Iterator[tuple[dict[str, Worker], dict[str, S3Proxy]]]:
    """Yield the started workers and the proxies of all systems of a part."""
    with ExitStack() as stack:
        (folder / "server").mkdir()
        server = stack.enter_context(run_seaweedfs(folder / "server"))
        options = {name: server.options[name] for name in ("access_key_id", "secret_access_key", "region")}
        proxies = {
            name: stack.enter_context(S3Proxy(server.options["endpoint"], latency_millis)) for name in result.systems
        }

        def locate(name: str, parent: Path) -> Place:
            data = f"{server.uri}{name}"
            return Place(str(parent / name), data, {**options, "endpoint": proxies[name].endpoint})

        yield stack.enter_context(setting.workers(result, folder, locate)), proxies
