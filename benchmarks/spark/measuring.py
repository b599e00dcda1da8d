"""Comparing two ways of doing one thing: in turns, so that a busy machine slows both."""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Comparison:
    """What one way took beside another, in seconds."""

    what: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    goal: float

    @property
    def ratio(self) -> float:
        """The medians of the two, one by the other."""
        return statistics.median(self.ours) / statistics.median(self.theirs)

    @property
    def ratio_text(self) -> str:
        return f"{self.ratio:.2f} ×"

    @property
    def goal_text(self) -> str:
        return f"{self.goal:.2f} ×"

    def line(self) -> str:
        verdict = "reached" if self.ratio <= self.goal else "missed"
        return (
            f"{self.what:<66} {statistics.median(self.ours):>9.3f} {statistics.median(self.theirs):>9.3f} "
            f"{self.ratio:>6.2f} × {self.goal:>6.2f} ×  {verdict}"
        )


HEADER = f"{'':<66} {'ours, s':>9} {'bare, s':>9} {'ratio':>8} {'goal':>8}"


class Clock:
    """What is counted: the time that passes, or the work of processors, which other people's work does not lengthen."""

    def __init__(self) -> None:
        self.processes: list[int] | None = None

    def read(self) -> float:
        if self.processes is None:
            return time.perf_counter()
        ticks = 0
        for process in self.processes:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


CLOCK = Clock()


def seconds(work: Callable[[], object]) -> float:
    began = CLOCK.read()
    work()
    return CLOCK.read() - began


def compared(
    what: str, ours: Callable[[], object], theirs: Callable[[], object], goal: float, repetitions: int
) -> Comparison:
    """Run both ways in turns, the first turn unmeasured."""
    ours()
    theirs()
    taken: list[tuple[float, float]] = []
    for turn in range(repetitions):
        if turn % 2:
            second = seconds(theirs)
            taken.append((seconds(ours), second))
        else:
            taken.append((seconds(ours), seconds(theirs)))
    return Comparison(what, tuple(one for one, _ in taken), tuple(two for _, two in taken), goal)
