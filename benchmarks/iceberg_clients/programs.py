"""Clients that are no Python packages: small programs in Go and Rust, which are built under `.build/peers`."""

import re
import shutil
from pathlib import Path

from benchmarks.peers.environments import FOLDER
from tests.peers.maven import run_program

__all__ = ["PROGRAMS", "build_go_program", "build_rust_program"]

_SOURCES = Path(__file__).parent
BUILD_SECONDS_MAX = 3_600
"""Each program has some hundred dependencies, which are compiled the first time."""


def build_go_program() -> tuple[Path, str]:
    """Build the client of iceberg-go; return the program and the version of the library."""
    folder = FOLDER / "iceberg-go"
    shutil.copytree(_SOURCES / "go", folder, dirs_exist_ok=True)
    program = folder / "client"
    run_program(["go", "mod", "tidy"], folder, BUILD_SECONDS_MAX)
    run_program(["go", "build", "-o", str(program), "."], folder, BUILD_SECONDS_MAX)
    return program, _find_version(folder / "go.mod", r"apache/iceberg-go v(\S+)")


def build_rust_program() -> tuple[Path, str]:
    """Build the client of iceberg-rust; return the program and the version of the library."""
    folder = FOLDER / "iceberg-rust"
    shutil.copytree(_SOURCES / "rust", folder, dirs_exist_ok=True)
    run_program(["cargo", "build", "--quiet"], folder, BUILD_SECONDS_MAX)
    version = _find_version(folder / "Cargo.lock", r'name = "iceberg"\nversion = "(.+)"')
    return folder / "target" / "debug" / "client", version


def _find_version(file: Path, pattern: str) -> str:
    match = re.search(pattern, file.read_text("utf-8"))
    assert match is not None
    return match[1]


PROGRAMS = {"iceberg-go": build_go_program, "iceberg-rust": build_rust_program}
"""What builds the program of a client, by the title of the client."""
