"""Mutation testing of the commit protocol on a copy of the repository.

    python -m tests.mutants                     from the root of the repository, or        make mutants
    python -m tests.mutants --only vacuum       the mutants whose name or file contains a text

Each mutant changes one line of one module in the copy; then its named tests must fail.
They pass without the change, which is verified first. A mutant that survives lacks a test.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tests.mutants.catalog import ROOT, Mutant, load_mutants

__all__ = ["main"]

_COPIED: Final = ("src", "tests", "benchmarks", "pyproject.toml")
_SECONDS_MAX: Final = 120
_TESTS_FAILED: Final = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants and print the fate of each; return 1 if one survives."""
    given = _parse_arguments(arguments)
    mutants = [mutant for mutant in load_mutants(given.only) if mutant.tests]
    if not mutants:
        sys.stdout.write(f"no mutant has {given.only!r} in its name or file\n")
        return 1
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(given.jobs):
            copies.put(_copy_repository(Path(folder) / str(number)))
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        baseline = copies.get()
        code, output = _run_tests(baseline, tests, _SECONDS_MAX * len(tests))
        copies.put(baseline)
        if code != 0:
            sys.stdout.write(f"{output}\nthe named tests must pass without a mutant\n")
            return 1
        with ThreadPoolExecutor(given.jobs) as pool:
            survivors = [mutant for mutant in pool.map(lambda one: _run_mutant(one, copies), mutants) if mutant]
    killed = len(mutants) - len(survivors)
    sys.stdout.write(f"{killed} of {len(mutants)} mutants killed in {time.monotonic() - began:.0f} s\n")
    return 1 if survivors else 0


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=main.__doc__)
    parser.add_argument("--only", default="", help="a part of a name or a file")
    parser.add_argument("--jobs", type=int, default=2, help="copies that run at a time (default: %(default)s)")
    return parser.parse_args(arguments)


def _copy_repository(to: Path) -> Path:
    """Copy what tests need, with modification times, so that compiled files stay valid."""
    for name in _COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to / name)
        else:
            shutil.copy2(ROOT / name, to / name)
    return to


def _run_mutant(mutant: Mutant, copies: "SimpleQueue[Path]") -> Mutant | None:
    """Run the tests of a mutant in a free copy, print its fate, and return it if it survives."""
    copy = copies.get()
    path = copy / mutant.path
    original, times = path.read_text(), path.stat()
    began = time.monotonic()
    try:
        path.write_text(mutant.apply(original))
        code, output = _run_tests(copy, mutant.tests, _SECONDS_MAX)
    finally:
        path.write_text(original)
        # The compiled file is valid for this time only.
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        copies.put(copy)
    fate = {0: "SURVIVED", _TESTS_FAILED: "killed", None: "killed by time"}.get(code, "BROKEN")
    sys.stdout.write(f"{fate:14} {time.monotonic() - began:5.1f} s  {mutant.name}\n")
    if fate == "BROKEN":
        sys.stdout.write(output)
    sys.stdout.flush()
    return None if fate.startswith("killed") else mutant


def _run_tests(copy: Path, tests: Iterable[str], seconds_max: int) -> tuple[int | None, str]:
    """Return the exit code of pytest, None after the time limit, and its output."""
    environment = {
        **os.environ,
        "CI": "true",
        "PYTHONPATH": str(copy / "src"),
        # A compiled mutant must not outlive it.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    selected = [f"tests/{test}" for test in tests]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow and not interop"]
    try:
        ran = subprocess.run(
            [*command, *selected],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds_max,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return ran.returncode, ran.stdout + ran.stderr


if __name__ == "__main__":
    sys.exit(main())
