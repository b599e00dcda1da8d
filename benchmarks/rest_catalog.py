"""Measure the Iceberg REST catalog: the first load of a large table, responses 304, and loads per second.

    python benchmarks/rest_catalog.py [--files 10000] [--workers 2] [--seconds 5]

The CPU time is that of the server's processes. The client runs on the same machine.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

import mangrove
from mangrove.lakehouse.table_staging import stage_write
from mangrove.tables.write_plan import PlannedDelta, PlannedWrite, build_append_delta

_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lake_folder = Path(folder) / "lake"
        fill(lake_folder, given.files)
        with serve(lake_folder, 1) as (address, process):
            began = time.perf_counter()
            used = cpu_seconds(process)
            etag = load(f"{address}/v1/namespaces/n/tables/large")
            seconds = time.perf_counter() - began
            print(f"first load of {given.files:,} files: {seconds:.2f} s, {cpu_seconds(process) - used:.2f} s of CPU")
            for name, tag in (("again", None), ("as 304", etag)):
                used, began, count = cpu_seconds(process), time.perf_counter(), 200
                request_many(address, "large", tag, count)
                each = (cpu_seconds(process) - used) / count * 1_000
                elapsed = (time.perf_counter() - began) / count * 1_000
                print(f"load of {given.files:,} files {name}: {each:.2f} ms of CPU, {elapsed:.2f} ms")
        with serve(lake_folder, given.workers) as (address, process):
            for tag in (None, load(f"{address}/v1/namespaces/n/tables/small")):
                used, began = cpu_seconds(process), time.perf_counter()
                counts = [0] * given.connections
                threads = [
                    threading.Thread(target=request_for, args=(address, tag, given.seconds, counts, place))
                    for place in range(given.connections)
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                elapsed, total = time.perf_counter() - began, sum(counts)
                each = (cpu_seconds(process) - used) / total * 1_000
                what = "304 responses" if tag else "loads"
                print(
                    f"{what} of a small table, {given.workers} workers: {total / elapsed:,.0f} per second, "
                    f"{each:.2f} ms of CPU each"
                )


def fill(folder: Path, files: int) -> None:
    """Create a lakehouse with a table of many files and one of a single file."""
    lake = mangrove.create(folder)
    lake.create_namespace("n")
    lake.create_table("n.small", "id bigint").append(pa.table({"id": [1, 2, 3]}))
    large = lake.create_table("n.large", "id bigint", properties={"write.inline-rows-max-bytes": "0"})
    large.append(pa.table({"id": [1]}))
    (first,) = large.files()
    content = (folder / first.location).read_bytes()
    copies = [replace(first, location=f"{Path(first.location).parent}/{number}.parquet") for number in range(files - 1)]
    for one in copies:
        (folder / one.location).write_bytes(content)
    with lake.transaction() as transaction:
        write = PlannedWrite((PlannedDelta((), build_append_delta(copies)),))
        stage_write(transaction._reading(), large.locator, write, transaction.id)


@contextmanager
def serve(folder: Path, workers: int) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `mangrove serve`; give the address of the catalog."""
    program = str(Path(sys.executable).with_name("mangrove"))
    command = [program, "serve", str(folder), "--port", "0", "--json", "--workers", str(workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["iceberg"], process
        finally:
            process.terminate()


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    """Return the CPU time of a process and its children."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    total = 0
    for pid in (process.pid, *children):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def load(url: str) -> str:
    """Load a table; return its ETag."""
    with urllib.request.urlopen(url, timeout=600) as response:
        response.read()
        return str(response.headers["ETag"])


class Connection:
    """A client with one open connection, which costs little CPU itself."""

    def __init__(self, address: str, table: str, tag: str | None) -> None:
        host, _, port = address.removeprefix("http://").partition("/")[0].partition(":")
        self._socket = socket.create_connection((host, int(port)))
        header = "" if tag is None else f"If-None-Match: {tag}\r\n"
        path = f"/iceberg/v1/namespaces/n/tables/{table}"
        self._request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{header}\r\n".encode()

    def send(self) -> None:
        """Send the request and read the response."""
        self._socket.sendall(self._request)
        received = self._socket.recv(1 << 20)
        while b"\r\n\r\n" not in received:
            received += self._socket.recv(1 << 20)
        head, _, body = received.partition(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        missing = (int(lengths[0].partition(b":")[2]) if lengths else 0) - len(body)
        while missing > 0:
            missing -= len(self._socket.recv(1 << 20))


def request_many(address: str, table: str, tag: str | None, count: int) -> None:
    """Send requests one after the other."""
    connection = Connection(address, table, tag)
    for _ in range(count):
        connection.send()


def request_for(address: str, tag: str | None, seconds: float, counts: list[int], place: int) -> None:
    """Send requests for some time, and count them."""
    connection = Connection(address, "small", tag)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        connection.send()
        counts[place] += 1


if __name__ == "__main__":
    main()
