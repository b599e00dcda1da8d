"""Environments of the systems under `.build/peers`, installed by uv from the configured package registries."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.registry import System

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".build" / "peers"
INSTALL_SECONDS_MAX = 600


class NotAvailable(Exception):  # noqa: N818  an answer of the report
    """A system cannot be measured here, for the reason given."""


def prepare_python(system: System, base: Path = FOLDER) -> Path:
    """Return the interpreter of a system's environment."""
    return prepare_environment(base / system.environment, system.requirements)


def prepare_environment(folder: Path, requirements: Sequence[str], python: str = sys.executable) -> Path:
    """Return the interpreter of an environment, which is created if it is missing or incomplete."""
    ready, requested = folder / ".ready", "\n".join(requirements)
    if not ready.exists() or ready.read_text("utf-8") != requested:
        _run_uv("venv", "--clear", "--python", python, str(folder))
        _run_uv("pip", "install", "--compile-bytecode", "--python", str(folder / "bin" / "python"), *requirements)
        ready.write_text(requested, "utf-8")
    return folder / "bin" / "python"


def read_versions(python: Path, packages: tuple[str, ...]) -> dict[str, str]:
    """Return the installed versions of packages in an environment."""
    code = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
    printed = subprocess.run([python, "-c", code, *packages], capture_output=True, check=True, text=True).stdout
    return dict(zip(packages, printed.split(), strict=True))


def _run_uv(*arguments: str) -> None:
    command = [str(Path(sys.executable).with_name("uv")), *arguments, "--quiet"]
    try:
        ended = subprocess.run(
            command, cwd=ROOT, capture_output=True, timeout=INSTALL_SECONDS_MAX, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAvailable(f"uv could not run: {error}") from error
    if ended.returncode:
        raise NotAvailable(f"not installed: {' '.join(ended.stderr.split())[:200]}")
