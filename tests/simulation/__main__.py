"""Deterministic simulation of concurrent writers with crashes, lost responses and clock skew.

python -m tests.simulation --seeds 200        from the root of the repository, or        make simulate SEEDS=200
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from tests.simulation.bank import InvariantViolation
from tests.simulation.isolation_workload import check_isolation
from tests.simulation.runner import Simulation, SimulationReport, run_simulation, shrink_simulation

from mangrove.lakehouse.layout_detection import LAYOUTS

__all__ = ["main"]

_LINES = 20
"""How many lines of progress a file gets."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds on all layouts; return 1 if one does not hold, with the command to repeat it."""
    given = _parse_arguments(arguments)
    totals: Counter[str] = Counter()
    failures: list[str] = []
    began = time.monotonic()
    skipped = frozenset(given.skip.split(","))
    simulations = [
        Simulation.draw(seed, layout, given.writers, given.deeds, skipped)
        for seed in range(given.first, given.first + given.seeds)
        for layout in given.layout or LAYOUTS
    ]
    with _start_pool(given.jobs) as run_all:
        for number, (counted, failure) in enumerate(run_all(simulations), start=1):
            totals.update(counted)
            if failure:
                failures.append(failure)
                sys.stdout.write(failure)
                sys.stdout.flush()
            _print_progress(number, len(simulations), time.monotonic() - began, is_last=number == len(simulations))
    if failures:
        sys.stdout.write(f"{len(failures)} of {len(simulations)} simulations do not hold\n")
        return 1
    sys.stdout.write(
        f"{given.seeds:,} seed{'' if given.seeds == 1 else 's'} held: {totals['turns']:,} requests interleaved, "
        f"{totals['versions']:,} versions compared, {totals['expired']:,} expired; "
        f"{totals['committed']:,} transactions committed, {totals['refused']:,} refused, "
        f"{totals['unanswered']:,} without an answer\n"
    )
    return 0


@contextmanager
def _start_pool(jobs: int) -> Iterator[Callable[[Iterable[Simulation]], Iterable[tuple[Counter[str], str]]]]:
    """Give a function that runs simulations, on several processes if there are several jobs."""
    if jobs == 1:
        yield lambda simulations: map(_run, simulations)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield lambda simulations: pool.map(_run, simulations)


def _run(simulation: Simulation) -> tuple[Counter[str], str]:
    """Return how often each thing happened, and how the simulation fails if it does."""
    try:
        ran = _run_workloads(simulation)
    except InvariantViolation as broken:
        fewest = shrink_simulation(simulation, _run_workloads)
        return Counter(), f"{_describe_failure(simulation, broken)}Fewest operations: {_format_command(fewest)}\n"
    return Counter(**ran.outcomes, versions=ran.versions, turns=len(ran.turns), expired=ran.expired), ""


def _run_workloads(simulation: Simulation) -> SimulationReport:
    """Run the bank, and the isolation workload at one level, which the seed decides."""
    # Nobody repairs the time there.
    clocks = "within" if simulation.clocks == "beyond" else simulation.clocks
    isolation = ("serializable", "snapshot")[simulation.seed % 2]
    try:
        ran = run_simulation(simulation)
        check_isolation(replace(simulation, isolation=isolation, clocks=clocks))
    except InvariantViolation:
        raise
    except Exception as error:
        raise InvariantViolation(f"the check met {type(error).__name__}: {error}") from error
    return ran


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=main.__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: %(default)s)")
    parser.add_argument("--layout", action="append", choices=LAYOUTS, help="only this layout")
    parser.add_argument("--writers", type=int, help="how many at a time (default: 3 or 6, as the seed decides)")
    parser.add_argument("--deeds", type=int, default=10, help="transactions of each writer (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes (default: %(default)s)")
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
        f"--writers {simulation.writers} --deeds {simulation.deeds}"
        f"{f' --skip {skipped}' if skipped else ''}"
    )


def _print_progress(done: int, total: int, seconds: float, *, is_last: bool) -> None:
    """Write how far it is, and how long it may still take: always to a terminal, else twenty times."""
    left = seconds / done * (total - done)
    line = f"{done:,} of {total:,} simulations, {done / max(seconds, 0.001):.1f}/s, {left:.0f} s left "
    if sys.stderr.isatty():
        end = "\r\033[K" if is_last else ""
        sys.stderr.write(f"\r{line}{end}")
        sys.stderr.flush()
    elif total >= _LINES and done * _LINES // total > (done - 1) * _LINES // total:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
