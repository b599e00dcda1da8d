"""The isolation workload: transactions on lists and registers, whose histories the isolation checker reads.

A register is a row of a table with keys. A list is either such a row, with its values as
text, or a table of its own to which rows are appended, in the order of its deltas. Values
are unique, as the checker requires.

At snapshot all lists are rows, and every write follows a read of the same row. Blind writes
and new rows never conflict there: they take effect at the commit, and the definition of
snapshot isolation does not know them.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from tests.simulation.bank import InvariantViolation
from tests.simulation.isolation_checker import (
    ALLOWED_AT_SNAPSHOT,
    Anomaly,
    Append,
    ObservedTransaction,
    ReadList,
    ReadRegister,
    Step,
    Write,
    find_anomalies,
)
from tests.simulation.runner import Simulation, create_lakehouse, run_workload
from tests.simulation.writers import Attempt

from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import open_on_store
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.wiring import LakehouseEngines

__all__ = [
    "IsolationWorkload",
    "PlannedStep",
    "check_anomalies",
    "check_isolation",
    "create_tables",
    "decode_plan",
    "encode_plan",
    "find_isolation_anomalies",
    "observe_lost",
    "read_all",
]

_NAMESPACE: Final = "isolation"
_TABLE_LISTS: Final = ("list_a", "list_b")
_ROW_LISTS: Final = ("list_c", "list_d")
_REGISTERS: Final = ("register_a", "register_b")
_KEYS: Final = (*_TABLE_LISTS, *_ROW_LISTS, *_REGISTERS)
_KEYS_AT_SNAPSHOT: Final = (*_ROW_LISTS, *_REGISTERS)
_STEPS_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A read or a write of a key; the value is written."""

    kind: Literal["read", "write"]
    key: str
    value: int


@dataclass(slots=True)
class IsolationWorkload:
    """Transactions of a few reads and writes at one isolation level, with what each of them observed."""

    isolation: str
    observed: dict[str, list[Step]] = field(default_factory=dict)
    last_value: int = 0
    journal: str = ""
    """A table to which each transaction that writes appends a row with its message and its steps, if there is one."""

    def draw(self, chance: random.Random, message: str) -> tuple[PlannedStep, ...]:
        """Return the steps of the next transaction of a writer."""
        steps = []
        for _ in range(chance.randint(1, _STEPS_MAX)):
            self.last_value += 1
            key = chance.choice(_KEYS if self.isolation == "serializable" else _KEYS_AT_SNAPSHOT)
            steps.append(PlannedStep(chance.choice(("read", "write")), key, self.last_value))
        return tuple(steps) if self.isolation == "serializable" else tuple(_read_before_writes(steps))

    def execute(self, lake: Lakehouse, attempt: Attempt[tuple[PlannedStep, ...]]) -> None:
        """Run the transaction, and remember what its reads returned."""
        steps = self.observed[attempt.message] = []
        with lake.transaction(self.isolation, message=attempt.message) as transaction:
            for step in attempt.deed:
                if step.kind == "read":
                    steps.append(_read(transaction, step.key))
                elif step.key in _ROW_LISTS:
                    steps.append(before := _read_row_list(transaction, step.key))
                    values = ",".join(map(str, (*before.values, step.value)))
                    transaction.table(_table_of(step.key)).upsert([{"key": step.key, "value": values}])
                    steps.append(Append(step.key, step.value))
                elif step.key in _TABLE_LISTS:
                    transaction.table(_table_of(step.key)).append([{"value": step.value}])
                    steps.append(Append(step.key, step.value))
                else:
                    transaction.table(_table_of(step.key)).upsert([{"key": step.key, "value": str(step.value)}])
                    steps.append(Write(step.key, step.value))
            if self.journal and any(step.kind == "write" for step in attempt.deed):
                row = {"message": attempt.message, "steps": encode_plan(attempt.deed)}
                transaction.table(self.journal).append([row])


def encode_plan(steps: Sequence[PlannedStep]) -> str:
    """Return steps as text."""
    return " ".join(f"{step.kind}:{step.key}:{step.value}" for step in steps)


def decode_plan(text: str) -> tuple[PlannedStep, ...]:
    """Return the steps that a text describes."""
    steps = (part.split(":") for part in text.split())
    return tuple(PlannedStep("read" if kind == "read" else "write", key, int(value)) for kind, key, value in steps)


def observe_lost(steps: Sequence[PlannedStep]) -> tuple[Step, ...]:
    """Return what is known of a transaction whose process died: what it would write, and nothing that it read."""
    writes = (step for step in steps if step.kind == "write")
    return tuple((Write if step.key in _REGISTERS else Append)(step.key, step.value) for step in writes)


def find_isolation_anomalies(simulation: Simulation) -> list[Anomaly]:
    """Run the isolation workload, and return the anomalies in what the transactions observed."""
    store = MemoryStore("memory://isolation/")
    lake = create_lakehouse(store, simulation)
    create_tables(lake)
    workload = IsolationWorkload(simulation.isolation)
    turns, attempts = run_workload(simulation, store, workload)
    opened = open_on_store(build_deterministic_effects(store, first_id=10**11), engines=LakehouseEngines)
    committed = {record.message for line in opened.history() for record in line.transactions}
    end = len(turns.taken) + 1
    history = [_observe(attempt, workload.observed.get(attempt.message, ()), committed, end) for attempt in attempts]
    return find_anomalies([*history, ObservedTransaction("final read", read_all(opened), end + 1, end + 2)])


def read_all(catalog: Catalog) -> tuple[Step, ...]:
    """Return reads of all lists and registers, for the end of a history."""
    return tuple(_read(catalog, key) for key in _KEYS)


def check_isolation(simulation: Simulation) -> None:
    """Run the isolation workload; raise `InvariantViolation` at an anomaly that the isolation level excludes."""
    check_anomalies(find_isolation_anomalies(simulation), simulation.isolation)


def check_anomalies(found: Sequence[Anomaly], isolation: str) -> None:
    """Raise `InvariantViolation` if an isolation level excludes one of the anomalies."""
    excluded = [one for one in found if isolation != "snapshot" or one.name not in ALLOWED_AT_SNAPSHOT]
    if excluded:
        raise InvariantViolation(f"at {isolation}: {'; '.join(map(str, excluded))}")


def _read_before_writes(steps: Sequence[PlannedStep]) -> Iterator[PlannedStep]:
    known: set[str] = set()
    for step in steps:
        if step.key not in known and step.kind == "write":
            yield PlannedStep("read", step.key, step.value)
        known.add(step.key)
        yield step


def _observe(
    attempt: Attempt[tuple[PlannedStep, ...]], steps: Sequence[Step], committed: set[str], end: int
) -> ObservedTransaction:
    """Return what an attempt observed; one without a response may take effect until the end."""
    is_read_only = not any(isinstance(step, Append | Write) for step in steps)
    is_committed = attempt.message in committed or (is_read_only and attempt.is_committed is True)
    ended = end if attempt.is_committed is None else attempt.ended
    return ObservedTransaction(attempt.message, tuple(steps), attempt.began, ended, is_committed)


def create_tables(lake: Lakehouse) -> None:
    """Create the tables of all lists and registers."""
    with lake.transaction(message="create the tables") as transaction:
        transaction.create_namespace(_NAMESPACE)
        for place, key in enumerate(_KEYS):
            inline = {"write.inline-rows-max-bytes": "2000" if place % 2 else "0"}
            if key in _TABLE_LISTS:
                transaction.create_table(_table_of(key), "value bigint", properties=inline)
            else:
                schema = "key string not null, value string"
                transaction.create_table(_table_of(key), schema, keys=["key"], properties=inline)


def _table_of(key: str) -> str:
    return f"{_NAMESPACE}.{key}"


def _read(catalog: Catalog, key: str) -> ReadList | ReadRegister:
    if key in _TABLE_LISTS:
        rows = catalog.table(_table_of(key)).to_arrow().to_pylist()
        return ReadList(key, tuple(row["value"] for row in rows))
    if key in _ROW_LISTS:
        return _read_row_list(catalog, key)
    found = _read_row(catalog, key)
    return ReadRegister(key, None if found is None else int(found))


def _read_row_list(catalog: Catalog, key: str) -> ReadList:
    found = _read_row(catalog, key)
    return ReadList(key, () if found is None else tuple(map(int, found.split(","))))


def _read_row(catalog: Catalog, key: str) -> str | None:
    rows = catalog.table(_table_of(key)).to_arrow(where=f"key = '{key}'").to_pylist()
    return rows[0]["value"] if rows else None
