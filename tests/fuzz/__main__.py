"""Coverage-guided fuzzing of one decoder, or of all, in an environment of its own.

python -m tests.fuzz TARGET RUNS        from the root of the repository, or        make fuzz TARGET=sql RUNS=100000

New inputs are kept in `.build/fuzz`, and an input that fails in `.build/fuzz/TARGET-crash-…`. One that
shows a bug belongs into `tests/fuzz/corpus`, which the tests replay.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers.environments import ROOT, prepare_environment

__all__ = ["main"]

CORPUS: Final = Path(__file__).with_name("corpus")
_FOLDER: Final = ROOT / ".build" / "fuzz"
_REQUIREMENTS: Final = ("atheris==3.0.0", "httpx2", "--editable", ".[duckdb,iceberg,server]")
_LIMITS: Final = ("-timeout=10", "-rss_limit_mb=2048", "-max_len=4096", "-print_final_stats=1")
_PROGRAM: Final = """
import sys
import atheris
with atheris.instrument_imports(include=["mangrove", "sqlglot"]):
    from tests.fuzz.targets import run_target
target, *arguments = sys.argv[1:]
atheris.Setup([target, *arguments], lambda data: run_target(target, data))
atheris.Fuzz()
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz a target so many times; return 1 at the first input that fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=main.__doc__)
    parser.add_argument("target", choices=sorted(path.name for path in CORPUS.iterdir()))
    parser.add_argument("runs", type=int)
    given = parser.parse_args(arguments)
    python = prepare_environment(_FOLDER / "environment", _REQUIREMENTS)
    found = _FOLDER / given.target
    found.mkdir(parents=True, exist_ok=True)
    options = [f"-runs={given.runs}", f"-artifact_prefix={found}-", *_LIMITS]
    command = [str(python), "-c", _PROGRAM, given.target, *options, str(found), str(CORPUS / given.target)]
    return 1 if subprocess.run(command, cwd=ROOT, check=False).returncode else 0


if __name__ == "__main__":
    sys.exit(main())
