"""Simulated writers with separate clocks, faults and cached state."""

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from tests.simulation.turns import ScheduledQueue, ScheduledStore, SimulatedInterrupt, TurnCondition, TurnScheduler
from tests.support.commit_queue import MemoryQueue

from mangrove.effects import Effects
from mangrove.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import open_on_store
from mangrove.storage.port import Store
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.faulty_store import Faults, FaultyStore, SimulatedCrash
from mangrove.transaction.group_commit import GroupCommitter
from mangrove.wiring import LakehouseEngines

__all__ = ["Attempt", "DeedT", "FaultProfile", "Process", "SkewedClock", "Workload", "Writer"]

_IDS_OF_A_LIFE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class FaultProfile:
    """How often a request of one writer fails, and in which way."""

    name: str
    before: float = 0.0
    after: float = 0.0
    lost_answer: float = 0.0
    crash: float = 0.0
    wrong_hints: float = 0.0


DeedT = TypeVar("DeedT")


@dataclass(slots=True)
class Attempt(Generic[DeedT]):
    """A deed that was tried, and the response that its writer got: True, False, or nothing at all."""

    message: str
    deed: DeedT
    read: dict[str, Mapping[int, int]] = field(default_factory=dict)
    """What it read before it wrote, where it relies on that."""
    met: dict[str, str] = field(default_factory=dict)
    """The id of each table that it named."""
    is_committed: bool | None = None
    version: int | None = None
    """The version that it became, as its writer was told; None where there was nothing to change."""
    told: str = ""
    has_unknown_repetition: bool = False
    """Whether it was tried before without a response: that try may still be committed by a group."""
    began: int = 0
    ended: int = 0
    """The numbers of turns taken when it began, and when its writer got the response."""


class Workload(Protocol[DeedT]):
    """What writers do."""

    def draw(self, chance: random.Random, message: str) -> DeedT:
        """Return what a writer does next."""
        ...

    def execute(self, lake: Lakehouse, attempt: Attempt[DeedT]) -> None:
        """Do it on the lakehouse."""
        ...


class SkewedClock:
    """A clock beside a common one: so many milliseconds ahead, and faster by some at each reading."""

    def __init__(self, common: Clock, skew_millis: int, tick_millis: int) -> None:
        self.common = common
        self._own = Clock(skew_millis, tick_millis)

    def read(self) -> int:
        """Return the time that this clock shows."""
        return self.common.now_millis + self._own.read()


@dataclass
class Process:
    """A process with one open lakehouse for its threads.

    After a crash it begins a new life, and knows nothing of the one before.
    """

    number: int
    seed: int
    fault_profile: FaultProfile
    shared: Store
    turns: TurnScheduler
    clock: SkewedClock
    queue: MemoryQueue | None = None
    """The queue of the machine on which all processes run."""
    delays: float = 0.0
    """The chance that a create or the put of an intent takes effect only later."""
    lives: int = 0
    lake: Lakehouse | None = None
    _deferred: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(f"{self.seed}/process-{self.number}")

    def open(self) -> Lakehouse:
        """Return the lakehouse of this life, or open it as a new process does."""
        lake = self.lake or self._start_life()
        # Another thread may have opened it meanwhile.
        lake = self.lake = self.lake or lake
        self._run_deferred()
        return lake

    def end_life(self, lake: Lakehouse | None) -> None:
        """Forget a lakehouse whose store has crashed."""
        if self.lake is lake:
            self.lake = None

    def _start_life(self) -> Lakehouse:
        self.lives += 1
        self._deferred.clear()
        profile, life = self.fault_profile, self.lives
        faults = Faults(
            self.seed * 1_000 + self.number * 100 + life,
            profile.before,
            profile.after,
            profile.lost_answer,
            profile.crash,
        )
        scheduled = ScheduledStore(
            self.shared,
            self.turns,
            self.clock.common,
            self.delays,
            profile.wrong_hints,
            f"{self.seed}/{self.number}/{life}",
        )
        store = FaultyStore(scheduled, faults)
        first_id = (self.number * 1_000 + life) * _IDS_OF_A_LIFE
        counted = build_deterministic_effects(store, first_id=first_id)
        queue = self.queue and ScheduledQueue(self.queue, self.turns, store, f"{self.seed}/{self.number}/{life}")
        effects = Effects(store, self.clock.read, counted.new_id, self._pause, self._later, queue)
        lake = open_on_store(effects, engines=LakehouseEngines)
        # Threads of one process commit together; they wait for each other in turns.
        commits = lake._commits
        assert isinstance(commits, GroupCommitter)
        commits.new_condition = self._build_condition
        commits.__post_init__()
        return lake

    def _build_condition(self, lock: threading.Lock) -> TurnCondition:
        return TurnCondition(self.turns, lock)

    def _pause(self, _: float) -> None:
        self.turns.hand_over(threading.current_thread().name)

    def _later(self, task: Callable[[], None]) -> None:
        """Write a hint at once, or never, or only when it is long out of date."""
        match self._chance.choice(("at once", "never", "late")):
            case "at once":
                task()
            case "late":
                self._deferred.append(task)

    def _run_deferred(self) -> None:
        while self._deferred and self._chance.random() < 0.5:
            self._deferred.pop(0)()


@dataclass
class Writer(Generic[DeedT]):
    """A thread of a process that does one deed after the other."""

    name: str
    process: Process
    workload: Workload[DeedT]
    skipped: frozenset[str] = frozenset()
    """The messages of deeds that are drawn but not tried."""
    attempts: list[Attempt[DeedT]] = field(default_factory=list)

    @property
    def turns(self) -> TurnScheduler:
        """The turns that all take."""
        return self.process.turns

    def work(self, deeds: int) -> None:
        """Try so many deeds."""
        chance = random.Random(f"{self.process.seed}/{self.name}")
        for number in range(deeds):
            message = f"{self.name}.{number}"
            attempt = Attempt(message, self.workload.draw(chance, message), began=len(self.turns.taken))
            if message in self.skipped:
                continue
            self.attempts.append(attempt)
            lake = None
            try:
                lake = self.process.open()
                self.workload.execute(lake, attempt)
                attempt.is_committed = True
            except (ConflictError, NotFoundError, AlreadyExistsError, InvalidInputError) as error:
                attempt.is_committed = None if attempt.has_unknown_repetition else False
                attempt.told = str(error)
            except StorageError as error:
                attempt.told = str(error)
            except SimulatedCrash as crash:
                attempt.told = f"crashed: {crash}"
                self.process.end_life(lake)
            except SimulatedInterrupt:
                attempt.told = "interrupted"
            attempt.ended = len(self.turns.taken)
