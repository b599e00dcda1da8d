"""Simulated writers with separate clocks, faults and cached state."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from tests.simulation.turns import ScheduledStore, TurnScheduler

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
from mangrove.wiring import LakehouseEngines

__all__ = ["Attempt", "DeedT", "FaultProfile", "Workload", "Writer"]

_IDS_OF_A_LIFE: Final = 1_000_000
_SKEW_MILLIS: Final = 600_000


@dataclass(frozen=True, slots=True)
class FaultProfile:
    """How often a request of one writer fails, and in which way."""

    name: str
    before: float = 0.0
    after: float = 0.0
    lost_answer: float = 0.0
    crash: float = 0.0


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


@dataclass
class Writer(Generic[DeedT]):
    """Does one deed after the other; after a crash it begins a new life, and knows nothing of the one before."""

    name: str
    number: int
    seed: int
    fault_profile: FaultProfile
    shared: Store
    turns: TurnScheduler
    workload: Workload[DeedT]
    delays: float = 0.0
    """The chance that a create or the put of an intent takes effect only later."""
    attempts: list[Attempt[DeedT]] = field(default_factory=list)
    lives: int = 0
    _deferred: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(f"{self.seed}/{self.name}")
        skew_millis = self.chance.randint(-_SKEW_MILLIS, _SKEW_MILLIS)
        self._clock = Clock(1_800_000_000_000 + skew_millis, self.chance.choice([0, 1, 40]))

    def work(self, deeds: int) -> None:
        """Try so many deeds."""
        lake: Lakehouse | None = None
        for number in range(deeds):
            message = f"{self.name}.{number}"
            attempt = Attempt(message, self.workload.draw(self.chance, message), began=len(self.turns.taken))
            self.attempts.append(attempt)
            try:
                lake = lake or self._start_life()
                self._run_deferred()
                self.workload.execute(lake, attempt)
                attempt.is_committed = True
            except (ConflictError, NotFoundError, AlreadyExistsError, InvalidInputError) as error:
                attempt.is_committed, attempt.told = False, str(error)
            except StorageError as error:
                attempt.told = str(error)
            except SimulatedCrash as crash:
                attempt.told = f"crashed: {crash}"
                lake = None
            attempt.ended = len(self.turns.taken)

    def _start_life(self) -> Lakehouse:
        """Open the lakehouse as a new process does."""
        self.lives += 1
        self._deferred.clear()
        fault_profile = self.fault_profile
        faults = Faults(
            self.seed * 1_000 + self.number * 100 + self.lives,
            fault_profile.before,
            fault_profile.after,
            fault_profile.lost_answer,
            fault_profile.crash,
        )
        scheduled = ScheduledStore(self.shared, self.turns, self.name, self.delays, f"{self.seed}/{self.number}")
        store = FaultyStore(scheduled, faults)
        first_id = (self.number * 1_000 + self.lives) * _IDS_OF_A_LIFE
        counted = build_deterministic_effects(store, self._clock, first_id)
        effects = Effects(store, counted.now_millis, counted.new_id, self._pause, self._later)
        return open_on_store(effects, engines=LakehouseEngines)

    def _pause(self, _: float) -> None:
        self.turns.hand_over(self.name)

    def _later(self, task: Callable[[], None]) -> None:
        """Write a hint at once, or never, or only when it is long out of date."""
        match self.chance.choice(("at once", "never", "late")):
            case "at once":
                task()
            case "late":
                self._deferred.append(task)

    def _run_deferred(self) -> None:
        while self._deferred and self.chance.random() < 0.5:
            self._deferred.pop(0)()
