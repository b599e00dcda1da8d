"""Execution of one simulation seed and verification against the model."""

import hashlib
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, Literal
from unittest.mock import patch

from tests.simulation.bank import (
    FIRST_TABLES,
    NAMESPACE,
    RESTORED,
    TAG,
    AccountRows,
    Bank,
    BankOperation,
    InvariantViolation,
    Tag,
    apply_operation,
)
from tests.simulation.bank_workload import NOTE, REPAIR, SCHEMA, TOLERANCE_MILLIS, BankWorkload
from tests.simulation.turns import TurnScheduler, run_single_threaded
from tests.simulation.writers import Attempt, DeedT, FaultProfile, Process, SkewedClock, Workload, Writer
from tests.support.commit_queue import MemoryQueue

from mangrove.errors import MangroveError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.model.settings import INTENTS_PROPERTY, LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.transaction.history import HistoryEntry
from mangrove.wiring import LakehouseEngines

__all__ = [
    "BEGIN_MILLIS",
    "FAULT_PROFILES",
    "Simulation",
    "SimulationReport",
    "create_lakehouse",
    "run_simulation",
    "run_workload",
    "shrink_simulation",
]

FAULT_PROFILES: Final = (
    FaultProfile("calm"),
    FaultProfile("lost answers", lost_answer=0.3, wrong_hints=0.2),
    FaultProfile("errors", before=0.02, after=0.02, lost_answer=0.05),
    FaultProfile("crashes", crash=0.02, lost_answer=0.05, wrong_hints=0.2),
    FaultProfile("storm", before=0.02, after=0.02, lost_answer=0.2, crash=0.02, wrong_hints=0.5),
)
_DELAYS: Final = 0.1
_INTERRUPTS: Final = 0.01
_BATCH: Final = "batch 0 of "
"""A batch may be committed again after a rollback; the model knows when."""
_BOOKKEEPING: Final = re.compile(
    rf"(?:begin|save) shared transaction |Export version \d+ as |Drop the export |{REPAIR}$"
)
"""The messages of versions in which no row and no name changes."""
_DAY_MILLIS: Final = 86_400_000
_YEAR_MILLIS: Final = 366 * _DAY_MILLIS
_MINUTES_MILLIS: Final = 10 * 60_000
BEGIN_MILLIS: Final = 1_800_000_000_000


@dataclass(frozen=True, slots=True)
class Simulation:
    """What is run: all else follows from the seed."""

    seed: int
    layout: str
    writers: int = 3
    deeds: int = 10
    isolation: str = "serializable"
    """With "snapshot" it does not hold: then writers rely on what has changed, and the model says so."""
    intents: bool = False
    """Whether writers that lose a race publish intents."""
    queue: bool = False
    """Whether writers that lose a race wait in a queue of their machine."""
    threads: int = 1
    """How many writers are threads of one process, which commit together."""
    interrupts: bool = False
    """Whether threads are interrupted while their processes go on."""
    clocks: Literal["close", "within", "beyond"] = "close"
    """Whether the clocks of processes differ by minutes, by up to the tolerance, or one of them by days."""
    skipped: frozenset[str] = frozenset()
    """The messages of operations that are left out."""

    @classmethod
    def draw(cls, seed: int, layout: str, writers: int | None, deeds: int, skipped: frozenset[str]) -> "Simulation":
        """Return the simulation in which the seed decides about intents, queue, threads, interrupts and clocks.

        Without a number of writers, there are three, or two processes of three threads.
        """
        chance = random.Random(f"simulation/{seed}")
        intents, threads = chance.random() < 0.4, chance.choice((1, 1, 2, 3))
        return cls(
            seed,
            layout,
            writers or (6 if threads == 3 else 3),
            deeds,
            intents=intents,
            threads=threads,
            clocks=chance.choice(("close", "within", "within", "beyond")),
            queue=not intents and chance.random() < 0.6,
            interrupts=chance.random() < 0.3,
            skipped=skipped,
        )

    @property
    def messages(self) -> list[str]:
        """The messages of the operations that are tried."""
        drawn = (f"{name}.{number}" for name in self.names for number in range(self.deeds))
        return [message for message in drawn if message not in self.skipped]

    @property
    def names(self) -> list[str]:
        """The names of the writers."""
        return [f"writer-{number}" for number in range(self.writers)]

    @property
    def fault_profile(self) -> FaultProfile:
        """The faults of this seed."""
        return FAULT_PROFILES[self.seed % len(FAULT_PROFILES)]


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """What came of a simulation that held."""

    versions: int
    turns: tuple[str, ...]
    outcomes: Mapping[str, int]
    """How many deeds were committed, refused, or left their writer without an answer."""
    groups: int = 0
    """How many versions hold several transactions."""
    operations: Mapping[str, int] = field(default_factory=dict)
    """How many operations of each kind were committed."""
    expired: int = 0
    """How many versions expired while writers worked."""
    checksum: str = ""
    """Of all objects that the writers left in the store."""
    flushes: int = 0
    """How many versions are compactions and flushes of inline rows, which change no rows."""


@run_single_threaded()
def run_simulation(simulation: Simulation) -> SimulationReport:
    """Run a simulation and check what it left behind; raise `InvariantViolation` where the model says otherwise."""
    # The clock of the store is right.
    clock = Clock(BEGIN_MILLIS, 0)
    store = MemoryStore("memory://simulation/", clock.read)
    lake = create_lakehouse(store, simulation, clock)
    with lake.transaction(message="found the bank") as transaction:
        transaction.create_namespace(NAMESPACE)
        for place, name in enumerate(FIRST_TABLES):
            inline = {"write.inline-rows-max-bytes": "0" if place % 2 else "2000"}
            by = ["branch"] if place % 2 else []
            transaction.create_table(name, SCHEMA, keys=["key"], partition_by=by, properties=inline)
    ids = {str(table): table.value.id for table in lake.tables(NAMESPACE)}
    history: dict[int, HistoryEntry] = {}
    """Of all versions, also of those that expire."""
    founded = lake.version, Bank(ids, {table_id: {} for table_id in ids.values()})

    def remember() -> None:
        history.update({entry.version: entry for entry in lake.history()})

    with _flush_early():
        workload = BankWorkload(simulation.isolation, clock, remember)
        turns, attempts = run_workload(simulation, store, workload, clock)
    checksum = _compute_checksum(store)
    retained = {entry.version for entry in lake.history()}
    remember()
    banks = _replay_history(history, founded, attempts)
    records = [line.transactions for line in history.values()]
    known: dict[object, AccountRows] = {}
    for version in sorted(retained & banks.keys()):
        _check_same(lake, version, banks[version], known)
    _check_tags(lake, attempts, banks)
    _check_integrity(store, banks[lake.version], clock)
    words = {True: "committed", False: "refused", None: "unanswered"}
    outcomes = Counter(words[attempt.is_committed] for attempt in attempts)
    return SimulationReport(
        lake.version,
        tuple(turns.taken),
        dict(outcomes),
        groups=sum(len(one) > 1 for one in records),
        operations=dict(Counter(type(one.deed).__name__ for one in attempts if one.is_committed)),
        expired=len(history.keys() - retained),
        checksum=checksum,
        flushes=sum(_is_flush(record.message) for one in records for record in one),
    )


@contextmanager
def _flush_early() -> Iterator[None]:
    """Let few inline rows be enough to move them into a data file."""
    name = "mangrove.tables.inline_flush"
    with patch(f"{name}._INLINE_FILES_MAX", 3), patch(f"{name}._FLUSH_CHECK_INTERVAL", 2):
        yield


def _is_flush(message: str) -> bool:
    return message.startswith(("compact ", "move inline rows of "))


def shrink_simulation(simulation: Simulation, run: Callable[[Simulation], object] = run_simulation) -> Simulation:
    """Return a failing simulation that still fails, and holds if any one of its operations is left out."""
    size = len(simulation.messages)
    remaining: list[str] = []
    while size > 1 or len(remaining) != len(simulation.messages):
        size = (size + 1) // 2
        remaining = simulation.messages
        for start in range(0, len(remaining), size):
            smaller = replace(simulation, skipped=simulation.skipped.union(remaining[start : start + size]))
            try:
                run(smaller)
            except InvariantViolation:
                simulation = smaller
    return simulation


def _compute_checksum(store: MemoryStore) -> str:
    paths = [entry.path for entry in store.list()]
    found = hashlib.sha256()
    for path, data in zip(paths, store.read_many(paths), strict=True):
        found.update(f"{path} {len(data or b'')}\n".encode() + (data or b""))
    return found.hexdigest()


def create_lakehouse(store: MemoryStore, simulation: Simulation, clock: Clock) -> Lakehouse:
    """Create the empty lakehouse of a simulation."""
    properties = {INTENTS_PROPERTY: "true"} if simulation.intents else {}
    # Small nodes and buffers, so that few versions are enough to divide and flush them.
    settings = LakehouseSettings(order=4, properties=properties)
    return create_on_store(
        build_deterministic_effects(store, clock),
        layout=simulation.layout,
        strict=False if (properties or simulation.queue) and simulation.layout.startswith("tree") else None,
        settings=settings,
        engines=LakehouseEngines,
    )


def run_workload(
    simulation: Simulation, store: MemoryStore, workload: Workload[DeedT], clock: Clock
) -> tuple[TurnScheduler, list[Attempt[DeedT]]]:
    """Let the writers of a simulation work, and return whose turns it was and what they tried."""
    turns = TurnScheduler(simulation.seed, simulation.names, _INTERRUPTS if simulation.interrupts else 0.0)
    profile = simulation.fault_profile
    queue = MemoryQueue() if simulation.queue else None
    clocks = [_draw_clock(simulation, number, clock) for number in range(simulation.writers)]
    processes = [
        Process(
            number,
            simulation.seed,
            profile,
            store,
            turns,
            # A machine has one clock, and uses no version from its future or from before a process began.
            clocks[-1 if simulation.queue else number],
            queue,
            _DELAYS if profile.lost_answer else 0.0,
        )
        for number in range(simulation.writers)
    ]
    writers = [
        Writer(name, processes[number // simulation.threads], workload, simulation.skipped)
        for number, name in enumerate(simulation.names)
    ]
    with _vary_limits(simulation):
        _run_writers(writers, simulation.deeds)
    return turns, [attempt for writer in writers for attempt in writer.attempts]


@contextmanager
def _vary_limits(simulation: Simulation) -> Iterator[None]:
    """Let the seed decide about limits of the protocol, so that few races are enough to meet them."""
    with (
        # Half of the simulations publish intents after one lost race.
        patch("mangrove.transaction.process_group_commit._DIRECT_ATTEMPTS_MAX", 1 + 2 * (simulation.seed % 2)),
        # Two thirds show no nodes in the queue of the machine, so that processes read them in the store.
        patch("mangrove.layouts.tree.commit._SHOWN_NODES_BYTES_MAX", 0 if simulation.seed % 3 else 256 * 1024),
    ):
        yield


def _draw_clock(simulation: Simulation, number: int, common: Clock) -> SkewedClock:
    """Return the clock of a process; only the first has one that differs by more than the tolerance."""
    chance = random.Random(f"clock/{simulation.seed}/{number}")
    millis = chance.randint(-_MINUTES_MILLIS, _MINUTES_MILLIS)
    if simulation.clocks != "close":
        # Any two of them differ by less than the tolerance.
        millis = chance.choice((-1, 1)) * (TOLERANCE_MILLIS // 2 - _MINUTES_MILLIS // 2)
    if simulation.clocks == "beyond" and number == 0:
        millis = chance.choice((-1, 1)) * chance.randint(2 * TOLERANCE_MILLIS, 100 * TOLERANCE_MILLIS)
    return SkewedClock(common, millis, chance.choice((0, 1, 40)))


def _run_writers(writers: Sequence[Writer[DeedT]], deeds: int) -> None:
    """Let all of them work, one at a time, and raise what none of them should have met."""
    failures: list[tuple[Writer[DeedT], BaseException]] = []

    def work(writer: Writer[DeedT]) -> None:
        try:
            writer.turns.begin(writer.name)
            writer.work(deeds)
        except BaseException as error:  # noqa: BLE001 - told below, by the thread that asked
            failures.append((writer, error))
        finally:
            writer.turns.leave(writer.name)

    threads = [threading.Thread(target=work, args=(writer,), name=writer.name) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer, error in failures:
        last = writer.attempts[-1] if writer.attempts else None
        raise InvariantViolation(f"{writer.name} met {type(error).__name__} ({error}) at {last}") from error


def _replay_history(
    history: Mapping[int, HistoryEntry], founded: tuple[int, Bank], attempts: Sequence[Attempt[BankOperation]]
) -> dict[int, Bank]:
    """Return what each version must hold, told by the deeds that the history names, in its order."""
    known = {attempt.message: attempt for attempt in attempts}
    founded_at, first = founded
    banks = {founded_at: first}
    for version in range(founded_at + 1, max(history) + 1):
        if version not in history:
            raise InvariantViolation(f"version {version} is missing, and it was not there when versions expired")
        line = history[version]
        bank = banks[line.version - 1]
        for record in line.transactions:
            if _BOOKKEEPING.match(record.message) or _is_flush(record.message):
                continue
            message = record.message.removeprefix(_BATCH)
            attempt = known.get(message)
            if message == record.message:
                known.pop(message, None)
            if attempt is None:
                raise InvariantViolation(f"version {line.version} holds {record.message!r}, twice or by nobody")
            if attempt.is_committed is False:
                raise InvariantViolation(
                    f"version {line.version} holds {attempt}, whose writer was told that it was refused"
                )
            if attempt.is_committed and attempt.version != line.version and message == record.message:
                raise InvariantViolation(
                    f"version {line.version} holds {attempt}, whose writer was told another version"
                )
            restored = attempt.met.get(RESTORED)
            target = line.rolled_back_to if restored is None else int(restored)
            try:
                rolled_back_to = None if target is None else banks[target]
                bank = apply_operation(attempt.deed, bank, attempt.met, attempt.read, rolled_back_to, line.version)
            except InvariantViolation as broken:
                raise InvariantViolation(f"version {line.version} holds {attempt}: {broken}") from broken
        banks[line.version] = bank
    for attempt in known.values():
        if attempt.is_committed and attempt.version is not None:
            raise InvariantViolation(f"no version holds {attempt}, whose writer was told that it was committed")
    return banks


def _check_tags(lake: Lakehouse, attempts: Sequence[Attempt[BankOperation]], banks: Mapping[int, Bank]) -> None:
    """Check that every version with a name is there, and that no name is lost."""
    tags = {tag.name: tag.version for tag in lake.tags()}
    dropped = {attempt.met.get(TAG) for attempt in attempts if attempt.is_committed is not False}
    for attempt in attempts:
        if isinstance(attempt.deed, Tag) and attempt.is_committed and attempt.message not in {*tags, *dropped}:
            raise InvariantViolation(f"{attempt} was committed, but there is no such tag")
    for version in tags.values():
        if version in banks:
            _check_same(lake, version, banks[version], {})


def _check_same(lake: Lakehouse, version: int, bank: Bank, known: dict[object, AccountRows]) -> None:
    """Compare all that a version holds; `known` has rows of the same files in other versions."""
    past = lake.at(version)
    listed = [(table, table.versions()) for table in past.tables(NAMESPACE)]
    versions = {
        str(table): {one.version: _rows_of(table.version(one.version), known) for one in all_versions}
        for table, all_versions in listed
    }
    found = {
        str(table): versions[str(table)][one.version]
        for table, all_versions in listed
        for one in all_versions
        if one.is_default
    }
    if versions != bank.versions:
        raise InvariantViolation(
            f"version {version} holds the table versions {versions}, where {bank.versions} were committed"
        )
    notes = {
        (table.id, one.version): one.properties.get(NOTE) for table, all_versions in listed for one in all_versions
    }
    committed = {at: bank.notes.get(at) for at in notes}
    if notes != committed:
        raise InvariantViolation(f"version {version} holds the notes {notes}, where {committed} were committed")
    aliases = {alias.name: bank.ids.get(alias.target) for alias in past.aliases()}
    if aliases != bank.aliases:
        raise InvariantViolation(f"version {version} holds the aliases {aliases}, where {bank.aliases} were committed")
    noted = past.namespace(NAMESPACE).properties.get("noted", "")
    if (found, noted) != (bank.tables, bank.noted):
        raise InvariantViolation(
            f"version {version} holds {found}, {noted!r}, where {bank.tables}, {bank.noted!r} was committed"
        )


def _rows_of(table: TableSnapshot, known: dict[object, AccountRows]) -> AccountRows:
    """Return the rows of a table version; the same files are read once."""
    scan = table.scan()
    files = repr(scan.plan)
    if files not in known:
        found = scan.to_arrow().to_pylist()
        known[files] = {row["key"]: row["value"] for row in found}
        if len(known[files]) < len(found):
            raise InvariantViolation(f"{table} holds a key twice: {found}")
    return known[files]


def _check_integrity(store: MemoryStore, newest: Bank, clock: Clock) -> None:
    """Check every file, then let a year pass, sweep, and look whether the newest version is still whole."""
    later = Clock(clock.now_millis + _YEAR_MILLIS)
    lake = open_on_store(build_deterministic_effects(store, later, first_id=10**11), engines=LakehouseEngines)
    try:
        # Who crashed right after the commit left a hint out of date, and in the DeltaCAT layout no log.
        problems = lake.maintenance.check(repair=True).problems
        lake.maintenance.expire()
        # A vacuum spares what expired a moment ago.
        later.now_millis += _DAY_MILLIS
        lake.maintenance.vacuum()
        problems += lake.maintenance.check().problems
    except MangroveError as error:
        raise InvariantViolation(f"upkeep met {type(error).__name__}: {error}") from error
    if problems:
        raise InvariantViolation(f"the check finds {problems}")
    _check_same(lake, lake.version, newest, {})
