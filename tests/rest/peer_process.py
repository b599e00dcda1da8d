"""Another engine in a process of its own, with a Python of its own: asked a statement a line, it answers a line."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

PYTHON = os.environ.get("MANGROVE_ICEBERG_PYTHON")
"""A Python that has the engines, whose versions need not be those of this one."""
ICEBERG_JAR = os.environ.get("MANGROVE_ICEBERG_JAR", "")
"""The files of Iceberg's Java library for Spark 4.1 and of its part for buckets, separated by a comma."""
ICEBERG_GO = os.environ.get("MANGROVE_ICEBERG_GO", "")
"""The program of `benchmarks/iceberg_clients/go`."""

Rows = list[list[str]]
PeerQuery = Callable[[str], Rows]


def has_module(name: str) -> bool:
    """Return whether the engines' Python has a module."""
    command = [PYTHON or "", "-c", f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is None)"]
    return PYTHON is not None and subprocess.run(command, check=False).returncode == 0


needs_iceberg_spark = pytest.mark.skipif(
    not (ICEBERG_JAR and has_module("pyspark")),
    reason="MANGROVE_ICEBERG_PYTHON and MANGROVE_ICEBERG_JAR name no Spark with Iceberg; run: make test-peers",
)
needs_iceberg_duckdb = pytest.mark.skipif(
    not has_module("duckdb_extension_iceberg"),
    reason="MANGROVE_ICEBERG_PYTHON names no Python with DuckDB's extensions; run: make test-peers",
)
needs_iceberg_go = pytest.mark.skipif(
    not ICEBERG_GO, reason="MANGROVE_ICEBERG_GO names no program with iceberg-go; run: make test-peers"
)
needs_trino = pytest.mark.skipif(
    "MANGROVE_TRINO" not in os.environ, reason="MANGROVE_TRINO names no Trino server; run: make test-peers"
)


def peer(script: str, *arguments: str, python: str | None = PYTHON) -> AbstractContextManager[PeerQuery]:
    """Run a script of this folder, and give what asks it; what it refuses is raised."""
    assert python is not None
    return run_peer([python, str(Path(__file__).with_name(script)), *arguments])


@contextmanager
def run_peer(command: Sequence[str]) -> Iterator[PeerQuery]:
    """Run a program that answers each line with a line, and give what asks it; what it refuses is raised."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        to_peer, from_peer = process.stdin, process.stdout

        def ask(statement: str) -> Rows:
            to_peer.write(f"{json.dumps(statement)}\n")
            to_peer.flush()
            answer = json.loads(next(line for line in from_peer if line.startswith("{")))
            if "error" in answer:
                raise RuntimeError(answer["error"])
            rows: Rows = answer.get("rows", [])
            return rows

        try:
            yield ask
        finally:
            to_peer.close()
