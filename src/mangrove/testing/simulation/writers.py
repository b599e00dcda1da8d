"""A simulated writer: a process with its own clock, its own faults and its own sight of the lakehouse."""

import random  # noqa: TID251 - all chance here comes from the seed
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mangrove.effects import Effects
from mangrove.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.handles import LakeTable
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import open_on
from mangrove.lakehouse.transactions import LakeTransaction
from mangrove.spark.engines import BothEngines
from mangrove.storage.port import Store
from mangrove.testing.effects import Clock, repeatable_effects
from mangrove.testing.faulty_store import Crashed, Faults, FaultyStore
from mangrove.testing.simulation.bank import (
    NAMESPACE,
    Count,
    Create,
    Deed,
    Deposit,
    Drop,
    Rename,
    RollBack,
    Rows,
    Transfer,
    Withdraw,
    drawn_deed,
)
from mangrove.testing.simulation.turns import Turns, TurnStore

__all__ = ["SCHEMA", "Attempt", "Weather", "Writer", "rows_of"]

SCHEMA: Final = "key bigint not null, value bigint"
_IDS_OF_A_LIFE: Final = 1_000_000
_SKEW_MILLIS: Final = 600_000


@dataclass(frozen=True, slots=True)
class Weather:
    """How often a request of one writer fails, and in which way."""

    name: str
    before: float = 0.0
    after: float = 0.0
    lost_answer: float = 0.0
    crash: float = 0.0


@dataclass(slots=True)
class Attempt:
    """A deed that was tried, and what its writer was told: True, False, or nothing at all."""

    message: str
    deed: Deed
    read: dict[str, Rows] = field(default_factory=dict)
    """What it read before it wrote, where it relies on that."""
    met: dict[str, str] = field(default_factory=dict)
    """The id of each table that it named."""
    is_committed: bool | None = None
    version: int | None = None
    """The version that it became, as its writer was told; None where there was nothing to change."""
    told: str = ""


@dataclass
class Writer:
    """Does one deed after the other; after a crash it begins a new life, and knows nothing of the one before."""

    name: str
    number: int
    seed: int
    weather: Weather
    shared: Store
    turns: Turns
    isolation: str = "serializable"
    """Of those deeds that write what follows from what they read."""
    attempts: list[Attempt] = field(default_factory=list)
    lives: int = 0
    _put_off: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(f"{self.seed}/{self.name}")
        skew_millis = self.chance.randint(-_SKEW_MILLIS, _SKEW_MILLIS)
        self._clock = Clock(1_800_000_000_000 + skew_millis, self.chance.choice([0, 1, 40]))

    def work(self, deeds: int) -> None:
        """Try so many deeds."""
        lake: Lakehouse | None = None
        for number in range(deeds):
            attempt = Attempt(f"{self.name}.{number}", drawn_deed(self.chance))
            self.attempts.append(attempt)
            try:
                lake = lake or self._born()
                self._put_off_ends()
                _done(lake, attempt, self.isolation)
                attempt.is_committed = True
            except (ConflictError, NotFoundError, AlreadyExistsError, InvalidInputError) as error:
                attempt.is_committed, attempt.told = False, str(error)
            except StorageError as error:
                attempt.told = str(error)
            except Crashed as crash:
                attempt.told = f"crashed: {crash}"
                lake = None

    def _born(self) -> Lakehouse:
        """Open the lakehouse as a new process does."""
        self.lives += 1
        self._put_off.clear()
        weather = self.weather
        faults = Faults(
            self.seed * 1_000 + self.number * 100 + self.lives,
            weather.before,
            weather.after,
            weather.lost_answer,
            weather.crash,
        )
        store = FaultyStore(TurnStore(self.shared, self.turns, self.name), faults)
        first_id = (self.number * 1_000 + self.lives) * _IDS_OF_A_LIFE
        counted = repeatable_effects(store, self._clock, first_id)
        effects = Effects(store, counted.now_millis, counted.new_id, self._pause, self._later)
        return open_on(effects, engines=BothEngines)

    def _pause(self, _: float) -> None:
        self.turns.hand_over(self.name)

    def _later(self, task: Callable[[], None]) -> None:
        """Write a hint at once, or never, or only when it is long out of date."""
        match self.chance.choice(("at once", "never", "late")):
            case "at once":
                task()
            case "late":
                self._put_off.append(task)

    def _put_off_ends(self) -> None:
        while self._put_off and self.chance.random() < 0.5:
            self._put_off.pop(0)()


def rows_of(catalog: Catalog, table: str) -> Rows:
    """Return the rows of a table as the model has them."""
    found = catalog.table(table).to_arrow().to_pylist()
    rows = {row["key"]: row["value"] for row in found}
    assert len(rows) == len(found), f"{table} holds a key twice: {found}"
    return rows


def _done(lake: Lakehouse, attempt: Attempt, isolation_of_readers: str) -> None:
    """Do the deed on the lakehouse."""
    deed = attempt.deed
    if isinstance(deed, RollBack):
        wanted = max(1, lake.version - deed.back)
        version = lake.rollback(wanted, message=attempt.message)
        # Back to what is the newest anyway is no version of its own.
        attempt.version = None if version == wanted else version
        return
    isolation = isolation_of_readers if isinstance(deed, Transfer | Count) else "snapshot"
    with lake.transaction(isolation, message=attempt.message) as transaction:
        match deed:
            case Deposit(rows=deposited):
                for name, rows in deposited.items():
                    _met(transaction, attempt, name).upsert(_listed(rows))
            case Withdraw(table=name, keys=keys):
                _met(transaction, attempt, name).delete([{"key": key} for key in keys])
            case Transfer(source=source, target=target, key=key):
                steps = [(_read(transaction, attempt, name), name, by) for name, by in ((source, -1), (target, 1))]
                for table, name, by in steps:
                    table.upsert([{"key": key, "value": attempt.read[name].get(key, 0) + by}])
            case Count(table=name):
                _read(transaction, attempt, name)
                transaction.alter_namespace(NAMESPACE, {"noted": f"{len(attempt.read[name])} in {name}"})
            case Create(table=name):
                attempt.met[name] = transaction.create_table(name, SCHEMA, keys=["key"]).value.id
            case Drop(table=name):
                _met(transaction, attempt, name).drop()
            case Rename(table=name, name=new_name):
                _met(transaction, attempt, name).rename(new_name)
    # Where there was nothing to change it stays the version on which the transaction stood.
    attempt.version = None if transaction.version == transaction.base_version else transaction.version


def _met(transaction: LakeTransaction, attempt: Attempt, name: str) -> LakeTable:
    table = transaction.table(name)
    attempt.met[name] = table.value.id
    return table


def _read(transaction: LakeTransaction, attempt: Attempt, name: str) -> LakeTable:
    table = _met(transaction, attempt, name)
    attempt.read[name] = rows_of(transaction, name)
    return table


def _listed(rows: Rows) -> list[dict[str, int]]:
    return [{"key": key, "value": value} for key, value in rows.items()]
