"""The sizes and systems of a run, and the workers of its parts."""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.peers.client import Failed, Worker
from benchmarks.peers.environments import NotAvailable, prepare_python, read_versions
from benchmarks.peers.registry import SYSTEMS
from benchmarks.peers.results import PartResult
from benchmarks.peers.systems.port import Place


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    rounds: int = 3
    rows: int = 5_000_000
    commits: int = 50
    writers: int = 4
    objects_max: int = 10_000
    commits_max: int = 1_000
    latency_millis: float = 20.0
    scale: float = 1.0
    seconds_max: float = 60.0
    """The time limit of one operation."""
    total_seconds_max: float = 2280.0
    """The time of all parts together, without the installation of systems."""


class OutOfTime(Failed):
    """No time is left for an operation."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The time limit of each operation, and of all of them together."""

    operation_seconds_max: float
    ends_at: float
    """On the monotonic clock."""

    @classmethod
    def of(cls, operation_seconds_max: float, seconds_max: float) -> "Budget":
        """Return a budget that begins now."""
        return cls(operation_seconds_max, time.monotonic() + seconds_max)

    def share(self, count: float) -> "Budget":
        """Return an equal share of the remaining time for the next of `count` parts or systems."""
        now = time.monotonic()
        return replace(self, ends_at=now + (self.ends_at - now) / count)

    def limit_next(self, factor: float = 1) -> float:
        """Return the time limit of the next operation in seconds, which may take `factor` times as long as others."""
        remaining = self.ends_at - time.monotonic()
        if remaining <= 0:
            raise OutOfTime("the time limit of the part")
        return min(remaining, factor * self.operation_seconds_max)


def locate_locally(name: str, folder: Path) -> Place:
    """Return a place of its own for a system below a folder."""
    return Place(str(folder / name), str(folder / name / "data"))


@dataclass(slots=True)
class Setting:
    """What all parts of a run share."""

    sizes: Sizes
    chosen: Sequence[str]
    """The names of the systems to measure."""
    base: Path | None = None
    """Where temporary folders are created; None is the system's place."""
    installed: bool = False
    """Whether all systems run in the environment of this process."""
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    budget: Budget = field(init=False)
    """The time of the part that runs."""

    def __post_init__(self) -> None:
        self.budget = Budget.of(self.sizes.seconds_max, self.sizes.total_seconds_max)

    def begin(self, name: str, title: str, description: str, systems: Sequence[str]) -> PartResult:
        """Return an empty result for the chosen systems among those of a part."""
        titles = {system: SYSTEMS[system].title for system in systems if system in self.chosen}
        return PartResult(name, title, description, titles)

    def list_turns(self) -> Iterator[int]:
        """Yield the numbers of the rounds: at least one, and no more than probably fit into the time of a part."""
        start = time.monotonic()
        for turn in range(self.sizes.rounds):
            now = time.monotonic()
            if turn and now + (now - start) / turn > self.budget.ends_at:
                return
            yield turn

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield a temporary folder."""
        folder = Path(tempfile.mkdtemp(prefix="mangrove-peers-", dir=self.base))
        try:
            yield folder
        finally:
            # A background write may still add a file.
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def workers(
        self, result: PartResult, folder: Path, locate: Callable[[str, Path], Place] = locate_locally
    ) -> Iterator[dict[str, Worker]]:
        """Yield a started worker for each available system of a part; the result lists the others."""
        workers: dict[str, Worker] = {}
        try:
            for name in result.systems:
                if name in result.unavailable:
                    continue
                try:
                    worker = self.prepare_worker(name, locate(name, folder))
                    worker.start()
                except (NotAvailable, Failed) as reason:
                    result.unavailable[name] = str(reason)
                else:
                    workers[name] = worker
            yield workers
        finally:
            for worker in workers.values():
                worker.stop()

    def prepare_worker(self, name: str, place: Place) -> Worker:
        """Return a worker of a system, whose environment is installed if necessary."""
        system = SYSTEMS[name]
        python = Path(sys.executable) if self.installed else prepare_python(system)
        if name not in self.versions:
            self.versions[name] = read_versions(python, system.versions) | system.jar_version
        return Worker(name, python, place)
