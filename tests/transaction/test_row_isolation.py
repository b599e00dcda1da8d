"""Random histories of several writers on the rows of a table, compared with a dictionary.

At snapshot no update is lost: a row that a transaction writes after it read the table is the row of its base version
when it commits, and each statement with a condition finds the rows that it would find at the commit. At serializable
all reads give at the commit what they gave before. Blind writes never fail, and a refused transaction has a
reason in the rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from mangrove import expr
from mangrove.errors import ConflictError
from mangrove.lakehouse.opening import create_on_store
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.transaction import Transaction
from mangrove.metastore import Isolation
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.wiring import LocalEngines

Key = tuple[int, int]
Rows = dict[Key, int]
"""The value of each row by its id and its group."""
WRITERS = st.integers(0, 1)
IDS = st.integers(0, 2)
GROUPS = st.integers(0, 1)


class AnomalyError(AssertionError):
    """A transaction committed though its isolation level forbids it, or was refused without a reason."""


def is_in(group: int) -> Callable[[Key], bool]:
    return lambda key: key[1] == group


@dataclass
class Work:
    """A transaction and what it did, to be repeated on the dictionary when it commits."""

    transaction: Transaction
    base: Rows
    steps: list[Callable[[Rows], None]] = field(default_factory=list)
    """Each changes the rows, or raises `AnomalyError` if what it relies on is not there."""
    reads: list[Callable[[Rows], None]] = field(default_factory=list)
    written: set[Key] = field(default_factory=set)
    """The keys that it wrote after it had read the table."""
    relied_on: list[Callable[[Key], bool]] = field(default_factory=list)
    """Which keys may have been a reason to refuse it."""
    has_read: bool = False
    is_blind: bool = True


class RowWriters(RuleBasedStateMachine):
    """Two writers in any interleaving, beside compactions."""

    layout = "tree"
    isolation = Isolation.SNAPSHOT
    checks_reads = False
    is_partitioned = False
    mode = "auto"

    @initialize()
    def begin_all(self) -> None:
        self.lake = create_on_store(
            build_deterministic_effects(MemoryStore()), layout=self.layout, engines=LocalEngines
        )
        self.lake.create_namespace("n")
        keys = ["id", "grp"]
        self.table = self.lake.create_table(
            "n.t",
            "id int not null, grp int not null, v bigint",
            keys=keys,
            partition_by=["grp"] if self.is_partitioned else [],
            properties={"write.delete-mode": self.mode},
        )
        self.model: Rows = {(number, number % 2): number for number in range(3)}
        self.table.append(self.rows(self.model))
        self.values = 100
        self.changed: set[tuple[int, Key]] = set()
        """The version that changed a key, and the key."""
        self.open = [self.begin() for _ in range(2)]

    def begin(self) -> Work:
        return Work(self.lake.transaction(self.isolation), dict(self.model))

    @staticmethod
    def rows(rows: Rows) -> list[dict[str, int]]:
        return [{"id": key[0], "grp": key[1], "v": value} for key, value in rows.items()]

    def new_value(self) -> int:
        self.values += 1
        return self.values

    def table_of(self, work: Work) -> Table:
        return work.transaction.table("n.t")

    def note_written(self, work: Work, *keys: Key) -> None:
        if work.has_read:
            work.written |= set(keys)

    def note_read(self, work: Work, where: str | None, selects: Callable[[Key], bool]) -> Rows:
        found = self.table_of(work).to_arrow(where=where).to_pylist()
        got = {(row["id"], row["grp"]): row["v"] for row in found}
        work.has_read, work.is_blind = True, False
        if self.isolation is Isolation.SERIALIZABLE:
            work.relied_on.append(selects)

        def repeat(rows: Rows) -> None:
            now = {key: value for key, value in rows.items() if selects(key)}
            if now != got:
                raise AnomalyError(f"read {got}, and {now} is there at the commit")

        if self.checks_reads:
            work.steps.append(repeat)
        return got

    @rule(writer=WRITERS, group=GROUPS)
    def read_group(self, writer: int, group: int) -> None:
        self.note_read(self.open[writer], f"grp = {group}", is_in(group))

    @rule(writer=WRITERS)
    def read_all(self, writer: int) -> None:
        self.note_read(self.open[writer], None, lambda _: True)

    @rule(writer=WRITERS, number=IDS, group=GROUPS)
    def upsert(self, writer: int, number: int, group: int) -> None:
        work, key, value = self.open[writer], (number, group), self.new_value()
        self.note_written(work, key)
        self.table_of(work).upsert(self.rows({key: value}))
        work.steps.append(lambda rows: rows.update({key: value}))

    @rule(writer=WRITERS, number=IDS, group=GROUPS)
    def delete_key(self, writer: int, number: int, group: int) -> None:
        work, key = self.open[writer], (number, group)
        self.note_written(work, key)
        self.table_of(work).delete_keys([{"id": number, "grp": group}])

        def repeat(rows: Rows) -> None:
            rows.pop(key, None)

        work.steps.append(repeat)

    @rule(writer=WRITERS, number=IDS, group=GROUPS)
    def increment(self, writer: int, number: int, group: int) -> None:
        work, key = self.open[writer], (number, group)
        got = self.note_read(work, f"id = {number} and grp = {group}", lambda one: one == key).get(key, 0)
        self.note_written(work, key)
        self.table_of(work).upsert(self.rows({key: got + 1000}))

        def repeat(rows: Rows) -> None:
            if rows.get(key, 0) != got:
                raise AnomalyError(f"lost update: {key} was {got}, and is {rows.get(key)}")
            rows[key] = got + 1000

        work.steps.append(repeat)

    @rule(writer=WRITERS, group=GROUPS, deletes=st.booleans())
    def change_group(self, writer: int, group: int, deletes: bool) -> None:
        work = self.open[writer]
        if deletes:
            self.table_of(work).delete(f"grp = {group}")
        else:
            self.table_of(work).update({"v": expr("v + 100000")}, where=f"grp = {group}")
        work.has_read, work.is_blind = True, False
        work.relied_on.append(is_in(group))

        def repeat(rows: Rows) -> None:
            for key in [key for key in rows if key[1] == group]:
                if deletes:
                    del rows[key]
                else:
                    rows[key] += 100_000

        work.steps.append(repeat)

    @rule(writer=WRITERS, numbers=st.sets(IDS, min_size=1, max_size=2), group=GROUPS)
    def merge(self, writer: int, numbers: set[int], group: int) -> None:
        work, keys = self.open[writer], [(number, group) for number in sorted(numbers)]
        source = self.rows(dict.fromkeys(keys, 10_000))
        merge = self.table_of(work).merge(source, on="t.id = s.id and t.grp = s.grp")
        merge.when_matched_update({"v": expr("t.v + s.v")}).when_not_matched_insert().execute()
        work.has_read, work.is_blind = True, False
        work.written |= set(keys)

        def repeat(rows: Rows) -> None:
            for key in keys:
                rows[key] = rows.get(key, 0) + 10_000

        work.steps.append(repeat)

    @rule()
    def compact(self) -> None:
        self.table.compact()

    @rule(writer=WRITERS)
    def commit(self, writer: int) -> None:
        work = self.open[writer]
        before, now = self.lake.version, dict(self.model)
        try:
            is_written = work.transaction.commit() > before
        except ConflictError as error:
            self.check_refused(work, error)
            self.open[writer] = self.begin()
            return
        if is_written:
            self.check_committed(work, now)
            for step in work.steps:
                # A row that is deleted and written again with the same value was changed too.
                was = dict(self.model)
                step(self.model)
                changed = {key for key in was.keys() | self.model.keys() if was.get(key) != self.model.get(key)}
                self.changed |= {(self.lake.version, key) for key in changed}
        self.open[writer] = self.begin()
        found = {(row["id"], row["grp"]): row["v"] for row in self.table.to_arrow().to_pylist()}
        if found != self.model:
            raise AnomalyError(f"{found} is there, and not {self.model}")

    @rule(first=WRITERS)
    def commit_both(self, first: int) -> None:
        self.commit(first)
        self.commit(1 - first)

    @rule(first=WRITERS, number=IDS, group=GROUPS, deletes=st.booleans())
    def change_group_beside_a_matching_write(self, first: int, number: int, group: int, deletes: bool) -> None:
        """Let the other writer commit a row that the condition of the first one selects."""
        self.change_group(first, group, deletes)
        self.upsert(1 - first, number, group)
        self.commit(1 - first)
        self.commit(first)

    def check_committed(self, work: Work, now: Rows) -> None:
        """Refuse a committed transaction whose written rows were changed since it began: the first committer wins."""
        for key in work.written:
            if work.base.get(key) != now.get(key):
                raise AnomalyError(f"{key} was {work.base.get(key)} when it was read, and {now.get(key)} before")

    def check_refused(self, work: Work, error: ConflictError) -> None:
        """Refuse a conflict without a reason: no row that it depends on was changed since it began."""
        if work.is_blind and not work.written:
            raise AnomalyError(f"a blind write was refused: {error}")
        changed = {key for version, key in self.changed if version > work.transaction.base_version}
        reasons = {key for key in changed if key in work.written or any(selects(key) for selects in work.relied_on)}
        if self.mode == "auto" and not reasons:
            raise AnomalyError(f"refused though only {changed} were changed: {error}")


CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "tree": {"layout": "tree"},
    "deltacat": {"layout": "deltacat"},
    "partitions": {"layout": "tree", "is_partitioned": True},
    "partitions in deltacat": {"layout": "deltacat", "is_partitioned": True},
    "positions": {"layout": "tree", "mode": "position"},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("isolation", list(Isolation))
def test_no_update_is_lost_at_snapshot_and_nothing_at_serializable(name: str, isolation: Isolation) -> None:
    checks_reads = isolation is Isolation.SERIALIZABLE
    machine = type(
        "Writers",
        (RowWriters,),
        {"isolation": isolation, "checks_reads": checks_reads, **CONFIGURATIONS[name]},
    )
    # Each example is a life of its own, so a tenth of what simpler properties get.
    few = settings(max_examples=settings().max_examples // 10, stateful_step_count=30)
    run_state_machine_as_test(machine, settings=few)


def test_the_state_machine_finds_stale_reads_at_snapshot() -> None:
    machine = type("SkewedWriters", (RowWriters,), {"checks_reads": True})
    search = settings(
        max_examples=500, stateful_step_count=40, derandomize=True, database=None, phases=[Phase.generate]
    )
    with pytest.raises(AnomalyError, match="is there at the commit"):
        run_state_machine_as_test(machine, settings=search)
