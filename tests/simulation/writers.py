"""Simulated writers with separate clocks, faults and cached state."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.bank import (
    NAMESPACE,
    VERSION,
    AccountRows,
    Activate,
    AddAlias,
    BankOperation,
    Compact,
    Count,
    Create,
    Deposit,
    DepositStaged,
    Discard,
    Drop,
    DropAlias,
    Increment,
    Rename,
    RollBack,
    Stage,
    Transfer,
    Withdraw,
    draw_operation,
)
from tests.simulation.turns import ScheduledStore, TurnScheduler

from mangrove.effects import Effects
from mangrove.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import open_on_store
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.transaction import Transaction
from mangrove.storage.port import Store
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.faulty_store import Faults, FaultyStore, SimulatedCrash
from mangrove.wiring import LakehouseEngines

__all__ = ["SCHEMA", "Attempt", "FaultProfile", "Writer", "load_rows"]

SCHEMA: Final = "key bigint not null, value bigint"
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


@dataclass(slots=True)
class Attempt:
    """A deed that was tried, and what its writer was told: True, False, or nothing at all."""

    message: str
    deed: BankOperation
    read: dict[str, AccountRows] = field(default_factory=dict)
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
    fault_profile: FaultProfile
    shared: Store
    turns: TurnScheduler
    isolation: str = "serializable"
    """Of those deeds that write what follows from what they read."""
    delays: float = 0.0
    """The chance that a create or the put of an intent takes effect only later."""
    attempts: list[Attempt] = field(default_factory=list)
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
            attempt = Attempt(f"{self.name}.{number}", draw_operation(self.chance))
            self.attempts.append(attempt)
            try:
                lake = lake or self._start_life()
                self._run_deferred()
                _execute(lake, attempt, self.isolation)
                attempt.is_committed = True
            except (ConflictError, NotFoundError, AlreadyExistsError, InvalidInputError) as error:
                attempt.is_committed, attempt.told = False, str(error)
            except StorageError as error:
                attempt.told = str(error)
            except SimulatedCrash as crash:
                attempt.told = f"crashed: {crash}"
                lake = None

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


def load_rows(catalog: Catalog, table: str, where: str | None = None) -> AccountRows:
    """Return the rows of a table as the model has them."""
    found = catalog.table(table).to_arrow(where=where).to_pylist()
    rows = {row["key"]: row["value"] for row in found}
    assert len(rows) == len(found), f"{table} holds a key twice: {found}"
    return rows


def _execute(lake: Lakehouse, attempt: Attempt, isolation_of_readers: str) -> None:
    """Do the deed on the lakehouse."""
    deed = attempt.deed
    if isinstance(deed, RollBack):
        wanted = max(1, lake.version - deed.back)
        version = lake.rollback(wanted, message=attempt.message)
        # Back to what is the newest anyway is no version of its own.
        attempt.version = None if version == wanted else version
        return
    if isinstance(deed, Compact):
        lake.table(deed.table).compact()
        return
    isolation = isolation_of_readers if isinstance(deed, Transfer | Count) else "snapshot"
    with lake.transaction(isolation, message=attempt.message) as transaction:
        match deed:
            case Deposit(rows=deposited):
                for name, rows in deposited.items():
                    _load_table(transaction, attempt, name).upsert(_rows_to_dicts(rows))
            case Withdraw(table=name, keys=keys):
                _load_table(transaction, attempt, name).delete_keys([{"key": key} for key in keys])
            case Transfer(source=source, target=target, key=key):
                steps = [
                    (_load_and_read(transaction, attempt, name), name, by) for name, by in ((source, -1), (target, 1))
                ]
                for table, name, by in steps:
                    table.upsert([{"key": key, "value": attempt.read[name].get(key, 0) + by}])
            case Increment(table=name, key=key):
                table = _load_table(transaction, attempt, name)
                attempt.read[name] = load_rows(transaction, name, where=f"key = {key}")
                table.upsert([{"key": key, "value": attempt.read[name].get(key, 0) + 1}])
            case Count(table=name):
                _load_and_read(transaction, attempt, name)
                transaction.alter_namespace(NAMESPACE, {"noted": f"{len(attempt.read[name])} in {name}"})
            case Create(table=name):
                attempt.met[name] = transaction.create_table(name, SCHEMA, keys=["key"]).value.id
            case Drop(table=name):
                _load_table(transaction, attempt, name).drop()
            case Rename(table=name, name=new_name):
                _load_table(transaction, attempt, name).rename(new_name)
            case AddAlias(table=name, alias=alias):
                transaction.create_alias(alias, _load_table(transaction, attempt, name).locator)
            case DropAlias(alias=alias):
                transaction.drop_alias(alias)
            case Stage() | DepositStaged() | Activate() | Discard():
                _execute_on_version(_load_table(transaction, attempt, deed.table), deed, attempt)
    # Where there was nothing to change it stays the version on which the transaction stood.
    attempt.version = None if transaction.version == transaction.base_version else transaction.version


def _execute_on_version(table: Table, deed: Stage | DepositStaged | Activate | Discard, attempt: Attempt) -> None:
    """Choose a version of a table, and do the deed on it."""
    if isinstance(deed, Stage):
        made = table.create_version()
        attempt.met[VERSION] = str(made.target.version)
        made.upsert(_rows_to_dicts(deed.rows))
        return
    versions = table.versions()
    beside = [one.version for one in versions if not one.is_default]
    if not isinstance(deed, DepositStaged) and not beside:
        return
    chosen = beside[0] if isinstance(deed, Discard) else versions[-1].version
    attempt.met[VERSION] = str(chosen)
    match deed:
        case DepositStaged(rows=rows):
            table.version(chosen).upsert(_rows_to_dicts(rows))
        case Discard():
            table.drop_version(chosen)
        case Activate() if chosen in beside:
            table.version(chosen).set_state("active")
            for one in versions:
                if one.is_default:
                    table.version(one.version).set_state("deprecated")


def _load_table(transaction: Transaction, attempt: Attempt, name: str) -> Table:
    table = transaction.table(name)
    attempt.met[name] = table.value.id
    return table


def _load_and_read(transaction: Transaction, attempt: Attempt, name: str) -> Table:
    table = _load_table(transaction, attempt, name)
    attempt.read[name] = load_rows(transaction, name)
    return table


def _rows_to_dicts(rows: AccountRows) -> list[dict[str, int]]:
    return [{"key": key, "value": value} for key, value in rows.items()]
