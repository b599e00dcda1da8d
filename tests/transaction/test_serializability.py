"""The theorem: what a committed transaction read is what a plain dictionary held just before it committed.

It holds at SERIALIZABLE. At SNAPSHOT the same machine finds the anomaly that
snapshots allow, which shows that it would find others.
"""

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from mangrove.errors import ConflictError
from mangrove.lakehouse.opening import create_on_store
from mangrove.lakehouse.transaction import Transaction
from mangrove.metastore import Isolation
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects

WRITERS = st.integers(0, 1)
NAMES = st.sampled_from(["a1", "a2", "b1"])
PREFIXES = st.sampled_from(["", "a", "b"])


class AnomalyError(AssertionError):
    """A transaction committed though what it read was no longer so."""


class Writers(RuleBasedStateMachine):
    """Two writers in any interleaving; each notes what it saw and did, and that is replayed when it commits."""

    layout = "tree"
    isolation = Isolation.SERIALIZABLE

    @initialize()
    def begin_all(self) -> None:
        self.lake = create_on_store(build_deterministic_effects(MemoryStore()), layout=self.layout)
        self.lake.create_namespace("n")
        self.model: dict[str, str] = {}
        self.writes = 0
        self.open = [self.begin() for _ in range(2)]

    def begin(self) -> tuple[Transaction, list[tuple[str, str, object]]]:
        return self.lake.transaction(self.isolation), []

    @rule(writer=WRITERS, name=NAMES)
    def look(self, writer: int, name: str) -> None:
        transaction, log = self.open[writer]
        found = [table for table in transaction.tables("n", name) if table.name == name]
        log.append(("look", name, found[0].properties["value"] if found else None))

    @rule(writer=WRITERS, prefix=PREFIXES)
    def list_names(self, writer: int, prefix: str) -> None:
        transaction, log = self.open[writer]
        log.append(("list", prefix, [table.name for table in transaction.tables("n", prefix)]))

    @rule(writer=WRITERS, name=NAMES)
    def write(self, writer: int, name: str) -> None:
        transaction, log = self.open[writer]
        self.writes += 1
        value = {"value": str(self.writes)}
        transaction.create_table(f"n.{name}", "id int", properties=value, if_not_exists=True).alter(value)
        log.append(("write", name, str(self.writes)))

    @rule(writer=WRITERS, name=NAMES)
    def drop(self, writer: int, name: str) -> None:
        transaction, log = self.open[writer]
        transaction.drop_table(f"n.{name}", if_exists=True)
        log.append(("drop", name, None))

    @rule(writer=WRITERS)
    def commit(self, writer: int) -> None:
        transaction, log = self.open[writer]
        before = self.lake.version
        try:
            is_written = transaction.commit() > before
        except ConflictError:
            is_written = False
        self.open[writer] = self.begin()
        if is_written:
            self.judge(transaction, log)

    def judge(self, transaction: Transaction, log: list[tuple[str, str, object]]) -> None:
        self.replay(log)

    def replay(self, log: list[tuple[str, str, object]]) -> None:
        for action, name, value in log:
            match action:
                case "look" if self.model.get(name) != value:
                    raise AnomalyError(f"{name} was {value}, and {self.model.get(name)} when the reader committed")
                case "list" if sorted(found for found in self.model if found.startswith(name)) != value:
                    raise AnomalyError(f"{name}* was {value} when it was listed, and {self.model} at the commit")
                case "write":
                    self.model[name] = str(value)
                case "drop":
                    self.model.pop(name, None)

    def teardown(self) -> None:
        found = {table.name: table.properties["value"] for table in self.lake.tables("n")}
        assert found == self.model


class SnapshotWriters(Writers):
    """The same at SNAPSHOT, where two that ran at once may each have read what the other one wrote."""

    isolation = Isolation.SNAPSHOT

    @initialize()
    def forget(self) -> None:
        self.ended: list[tuple[int, set[str], set[str]]] = []

    def judge(self, transaction: Transaction, log: list[tuple[str, str, object]]) -> None:
        looked = {name for action, name, _ in log if action == "look"}
        wrote = {name for action, name, _ in log if action == "write"}
        for version, rival_looked, rival_wrote in self.ended:
            if version > transaction.base_version and looked & rival_wrote and rival_looked & wrote:
                raise AnomalyError(f"both committed: {looked} read, {wrote} written; {rival_looked} and {rival_wrote}")
        self.ended.append((self.lake.version, looked, wrote))

    def teardown(self) -> None:
        """Nothing: after an anomaly no dictionary tells what is there."""


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_at_serializable_every_commit_is_equivalent_to_serial_execution(layout: str) -> None:
    machine = type("SerializableWriters", (Writers,), {"layout": layout})
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=30))


def test_at_snapshot_the_same_machine_finds_write_skew() -> None:
    search = settings(
        max_examples=1_000, stateful_step_count=80, derandomize=True, database=None, phases=[Phase.generate]
    )
    with pytest.raises(AnomalyError, match="both committed"):
        run_state_machine_as_test(SnapshotWriters, settings=search)
