"""A server of several processes: all answer, one that ends is replaced, and all end with their parent."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import mangrove

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs the children of a process, as Linux has"),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id bigint").append([{"id": 1}])
    command = [
        str(Path(sys.executable).with_name("mangrove")),
        "serve",
        str(tmp_path / "lake"),
        "--port",
        "0",
        "--json",
    ]
    with subprocess.Popen([*command, "--workers", "2"], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def find_workers(process: subprocess.Popen[str]) -> set[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return {int(one) for one in children if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()}


def load_table(address: str) -> str:
    with urllib.request.urlopen(f"{address}/v1/namespaces/sales/tables/orders", timeout=60) as response:
        return str(json.load(response)["metadata-location"])


def test_a_worker_that_ends_is_replaced_and_all_end_with_the_server(server: subprocess.Popen[str]) -> None:
    assert server.stdout is not None
    address = json.loads(server.stdout.readline())["iceberg"]
    first = find_workers(server)
    assert len(first) == 2
    assert len({load_table(address) for _ in range(20)}) == 1
    killed = min(first)
    os.kill(killed, signal.SIGKILL)
    # The other one answers, also while the first is being replaced.
    assert len({load_table(address) for _ in range(20)}) == 1
    while (found := find_workers(server)) == first or len(found) < 2:
        load_table(address)
    assert killed not in found
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 0
    assert not any(Path(f"/proc/{one}").exists() for one in found)


def test_workers_end_if_their_parent_is_killed(server: subprocess.Popen[str]) -> None:
    assert server.stdout is not None
    server.stdout.readline()
    workers = find_workers(server)
    server.kill()
    # The pipe ends when the last process that has it does.
    assert server.stdout.read() == ""
    assert len(workers) == 2
