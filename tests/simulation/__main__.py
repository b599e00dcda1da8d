"""Deterministic simulation of concurrent writers with crashes, lost responses and clock skew.

python -m tests.simulation --seeds 200        from the root of the repository, or        make simulate SEEDS=200
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tests.simulation.bank import InvariantViolation
from tests.simulation.isolation_workload import check_isolation
from tests.simulation.runner import Simulation, SimulationReport, run_simulation, shrink_simulation

from mangrove.lakehouse.layouts import LAYOUTS

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds on both layouts; return 1 at the first that does not hold, with the way to repeat it."""
    given = _parse_arguments(arguments)
    totals: Counter[str] = Counter()
    began = time.monotonic()
    for number, seed in enumerate(range(given.first, given.first + given.seeds), start=1):
        for layout in given.layout or LAYOUTS:
            skipped = frozenset(given.skip.split(","))
            simulation = Simulation(seed, layout, given.writers, given.deeds, intents=given.intents, skipped=skipped)
            try:
                ran = _run_workloads(simulation)
            except InvariantViolation as broken:
                sys.stdout.write(_describe_failure(simulation, broken))
                fewest = shrink_simulation(simulation, _run_workloads)
                sys.stdout.write(f"Fewest operations: {_format_command(fewest)}\n")
                return 1
            totals.update(ran.outcomes)
            totals.update(versions=ran.versions, turns=len(ran.turns))
        _print_progress(number, given.seeds, time.monotonic() - began, is_last=number == given.seeds)
    sys.stdout.write(
        f"{given.seeds:,} seed{'' if given.seeds == 1 else 's'} held: {totals['turns']:,} requests interleaved, "
        f"{totals['versions']:,} versions compared; "
        f"{totals['committed']:,} transactions committed, {totals['refused']:,} refused, "
        f"{totals['unanswered']:,} without an answer\n"
    )
    return 0


def _run_workloads(simulation: Simulation) -> SimulationReport:
    """Run the bank, and the isolation workload at both levels."""
    ran = run_simulation(simulation)
    for isolation in ("serializable", "snapshot"):
        check_isolation(replace(simulation, isolation=isolation))
    return ran


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=main.__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: %(default)s)")
    parser.add_argument("--layout", action="append", choices=LAYOUTS, help="only this layout")
    parser.add_argument("--writers", type=int, default=3, help="how many at a time (default: %(default)s)")
    parser.add_argument("--deeds", type=int, default=10, help="transactions of each writer (default: %(default)s)")
    parser.add_argument("--intents", action="store_true", help="turn on group commit across processes")
    parser.add_argument("--skip", default="", help="operations to leave out, such as writer-0.3,writer-1.2")
    return parser.parse_args(arguments)


def _describe_failure(simulation: Simulation, broken: InvariantViolation) -> str:
    return (
        f"\nseed {simulation.seed} does not hold on the {simulation.layout} layout "
        f"({simulation.fault_profile.name}):\n  {broken}\nRun it again: {_format_command(simulation)}\n"
    )


def _format_command(simulation: Simulation) -> str:
    skipped = ",".join(sorted(simulation.skipped - {""}))
    return (
        f"python -m tests.simulation --first {simulation.seed} --seeds 1 --layout {simulation.layout} "
        f"--writers {simulation.writers} --deeds {simulation.deeds}{' --intents' if simulation.intents else ''}"
        f"{f' --skip {skipped}' if skipped else ''}"
    )


def _print_progress(done: int, total: int, seconds: float, *, is_last: bool) -> None:
    """Say on a terminal how far it is, and how long it may still take."""
    if not sys.stderr.isatty():
        return
    left = seconds / done * (total - done)
    end = "\r\033[K" if is_last else ""
    sys.stderr.write(f"\r{done:,} of {total:,} seeds, {done / max(seconds, 0.001):.1f}/s, {left:.0f} s left {end}")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
