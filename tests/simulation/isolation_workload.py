"""The isolation workload: transactions on lists and registers, whose histories the isolation checker reads.

A register is a row of a table with keys. A list is either such a row, with its values as
text, or a table of its own to which rows are appended, in the order of its deltas. Values
are unique, as the checker requires.

At snapshot all lists are rows, and every write follows a read of the same row. Blind writes
and new rows never conflict there: they take effect at the commit, and the definition of
snapshot isolation does not know them.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

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
from tests.simulation.runner import BEGIN_MILLIS, Simulation, create_lakehouse, run_workload
from tests.simulation.turns import run_single_threaded
from tests.simulation.writers import Attempt

from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import open_on_store
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import Clock, build_deterministic_effects
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
"""The last two are rows of the same table."""
_KEYS_AT_SNAPSHOT: Final = (*_ROW_LISTS, *_REGISTERS)
_STEPS_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A read or a write of a key, or a scan of all registers by a predicate; the value is written."""

    kind: Literal["read", "write", "scan"]
    key: str
    value: int


@dataclass(slots=True)
class IsolationWorkload:
    """Transactions of a few reads and writes at one isolation level, with what each of them observed."""

    isolation: str
    observed: dict[str, list[Step]] = field(default_factory=dict)
    last_value: int = 0
    by_sql: bool = False
    """Whether statements are SQL, run by DuckDB; lists are rows then, because a query has no order of rows."""
    journal: str = ""
    """A table to which each transaction that writes appends a row with its message and its steps, if there is one."""

    def draw(self, chance: random.Random, message: str) -> tuple[PlannedStep, ...]:
        """Return the steps of the next transaction of a writer."""
        steps = []
        for _ in range(chance.randint(1, _STEPS_MAX)):
            self.last_value += 1
            has_table_lists = self.isolation == "serializable" and not self.by_sql
            key = chance.choice(_KEYS if has_table_lists else _KEYS_AT_SNAPSHOT)
            kind: Literal["read", "write", "scan"] = chance.choice(("read", "read", "write", "write", "scan"))
            steps.append(PlannedStep(kind, key, self.last_value))
        return tuple(steps) if self.isolation == "serializable" else tuple(_read_before_writes(steps))

    def execute(self, lake: Lakehouse, attempt: Attempt[tuple[PlannedStep, ...]]) -> None:
        """Run the transaction, and remember what its reads returned."""
        steps = self.observed[attempt.message] = []
        with lake.transaction(self.isolation, message=attempt.message) as transaction:
            rows = _SqlRows(transaction) if self.by_sql else _Rows(transaction)
            for step in attempt.deed:
                if step.kind == "scan":
                    steps += rows.scan_registers()
                elif step.kind == "read":
                    steps.append(_read(rows, step.key))
                elif step.key in _ROW_LISTS:
                    steps.append(before := _read_row_list(rows, step.key))
                    rows.write(step.key, ",".join(map(str, (*before.values, step.value))))
                    steps.append(Append(step.key, step.value))
                elif step.key in _TABLE_LISTS:
                    transaction.table(_table_of(step.key)).append([{"value": step.value}])
                    steps.append(Append(step.key, step.value))
                else:
                    rows.write(step.key, str(step.value))
                    steps.append(Write(step.key, step.value))
            if self.journal and any(step.kind == "write" for step in attempt.deed):
                row = {"message": attempt.message, "steps": encode_plan(attempt.deed)}
                transaction.table(self.journal).append([row])


def encode_plan(steps: Sequence[PlannedStep]) -> str:
    """Return steps as text."""
    return " ".join(f"{step.kind}:{step.key}:{step.value}" for step in steps)


def decode_plan(text: str) -> tuple[PlannedStep, ...]:
    """Return the steps that a text describes."""
    kinds: dict[str, Literal["read", "write", "scan"]] = {"read": "read", "write": "write", "scan": "scan"}
    steps = (part.split(":") for part in text.split())
    return tuple(PlannedStep(kinds[kind], key, int(value)) for kind, key, value in steps)


def observe_lost(steps: Sequence[PlannedStep]) -> tuple[Step, ...]:
    """Return what is known of a transaction whose process died: what it would write, and nothing that it read."""
    writes = (step for step in steps if step.kind == "write")
    return tuple((Write if step.key in _REGISTERS else Append)(step.key, step.value) for step in writes)


@run_single_threaded()
def find_isolation_anomalies(simulation: Simulation) -> list[Anomaly]:
    """Run the isolation workload, and return the anomalies in what the transactions observed."""
    clock = Clock(BEGIN_MILLIS, 0)
    store = MemoryStore("memory://isolation/", clock.read)
    lake = create_lakehouse(store, simulation, clock)
    create_tables(lake)
    workload = IsolationWorkload(simulation.isolation)
    turns, attempts = run_workload(simulation, store, workload, clock)
    opened = open_on_store(build_deterministic_effects(store, first_id=10**11), engines=LakehouseEngines)
    committed = {record.message for line in opened.history() for record in line.transactions}
    end = len(turns.taken) + 1
    history = [_observe(attempt, workload.observed.get(attempt.message, ()), committed, end) for attempt in attempts]
    return find_anomalies([*history, ObservedTransaction("final read", read_all(opened), end + 1, end + 2)])


def read_all(catalog: Catalog) -> tuple[Step, ...]:
    """Return reads of all lists and registers, for the end of a history."""
    return tuple(_read(_Rows(catalog), key) for key in _KEYS)


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
        for place, key in enumerate(_KEYS[:-1]):
            inline = {"write.inline-rows-max-bytes": "2000" if place % 2 else "0"}
            if key in _TABLE_LISTS:
                transaction.create_table(_table_of(key), "value bigint", properties=inline)
            else:
                schema = "key string not null, value string"
                transaction.create_table(_table_of(key), schema, keys=["key"], properties=inline)


def _table_of(key: str) -> str:
    """Return the table of a key; all registers are rows of one."""
    return f"{_NAMESPACE}.{'registers' if key in _REGISTERS else key}"


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of the tables by their keys, read and written from Python."""

    catalog: Any

    def read_list(self, key: str) -> list[int]:
        """Return the rows of a list that is a table, in their order."""
        return [row["value"] for row in self.catalog.table(_table_of(key)).to_arrow().to_pylist()]

    def read(self, key: str) -> str | None:
        """Return the value of a row."""
        rows = self.catalog.table(_table_of(key)).to_arrow(where=f"key = '{key}'").to_pylist()
        return rows[0]["value"] if rows else None

    def write(self, key: str, value: str) -> None:
        """Insert or update a row."""
        self.catalog.table(_table_of(key)).upsert([{"key": key, "value": value}])

    def scan_registers(self) -> list[ReadRegister]:
        """Read all registers that have a value, by a predicate."""
        found = self.catalog.table(_table_of(_REGISTERS[0])).to_arrow(where="key like 'register%'").to_pylist()
        return _list_registers({row["key"]: row["value"] for row in found})


class _SqlRows(_Rows):
    """The same, in SQL."""

    def read(self, key: str) -> str | None:
        """Return the value of a row."""
        rows = self._run(f"select value from {_table_of(key)} where key = :key", {"key": key}).to_arrow().to_pylist()
        return rows[0]["value"] if rows else None

    def write(self, key: str, value: str) -> None:
        """Insert or update a row."""
        source = "(select :key as key, :value as value) s on t.key = s.key"
        update, insert = "update set value = s.value", "insert (key, value) values (s.key, s.value)"
        merge = (
            f"merge into {_table_of(key)} t using {source} when matched then {update} when not matched then {insert}"
        )
        self._run(merge, {"key": key, "value": value})

    def scan_registers(self) -> list[ReadRegister]:
        """Read all registers that have a value, by a predicate."""
        found = self._run(f"select key, value from {_table_of(_REGISTERS[0])} where value is not null", {})
        return _list_registers({row["key"]: row["value"] for row in found.to_arrow().to_pylist()})

    def _run(self, text: str, values: Mapping[str, object]) -> Any:
        return self.catalog.sql(text, values, engine="duckdb")


def _list_registers(found: Mapping[str, str]) -> list[ReadRegister]:
    return [ReadRegister(key, int(found[key]) if key in found else None, by_predicate=True) for key in _REGISTERS]


def _read(rows: _Rows, key: str) -> ReadList | ReadRegister:
    if key in _TABLE_LISTS:
        return ReadList(key, tuple(rows.read_list(key)))
    if key in _ROW_LISTS:
        return _read_row_list(rows, key)
    found = rows.read(key)
    return ReadRegister(key, None if found is None else int(found))


def _read_row_list(rows: _Rows, key: str) -> ReadList:
    found = rows.read(key)
    return ReadList(key, () if found is None else tuple(map(int, found.split(","))))
