"""Clean virtual environments, each made of one install line, with this checkout's wheel.

Versions are those of requirements.lock. What `make setup` has downloaded is taken
from uv's cache, without asking a registry; packages are hard links to that cache
where it is on the same disk, so an environment takes seconds and little space.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".build" / "environments"
_MANGROVE_REQUIREMENT = re.compile(r"(mangrove-lake(?:\[[a-z,]+\])?)")


def make_environment(requirements: Sequence[str]) -> Path:
    """Return the Python of a new environment that has these requirements and nothing else."""
    return _make(tuple(requirements))


@cache
def _make(requirements: tuple[str, ...]) -> Path:
    given = [
        f"{one} @ {_build_wheel().as_uri()}" if _MANGROVE_REQUIREMENT.fullmatch(one) else one for one in requirements
    ]
    if given == list(requirements):
        raise ValueError(f"an install line names mangrove-lake, and this one does not: {requirements}")
    folder = FOLDER / re.sub(r"[^a-z0-9]+", "-", " ".join(requirements)).strip("-")
    python = folder / "bin" / "python"
    _uv("venv", "--clear", "--python", sys.executable, str(folder))
    install = ["pip", "install", "--python", str(python), "--constraints", str(ROOT / "requirements.lock"), *given]
    try:
        _uv(*install, "--offline")
    except RuntimeError:
        _uv(*install)
    return python


@cache
def _build_wheel() -> Path:
    folder = FOLDER / "wheel"
    _uv(
        "build",
        "--wheel",
        "--no-build-isolation",
        "--python",
        sys.executable,
        "--clear",
        "--out-dir",
        str(folder),
        str(ROOT),
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def _uv(*arguments: str) -> None:
    uv = Path(sys.executable).parent / "uv"
    done = subprocess.run([uv, "--quiet", *arguments], capture_output=True, text=True, timeout=500, check=False)
    if done.returncode:
        raise RuntimeError(f"uv {' '.join(arguments)}: {done.stderr}")
