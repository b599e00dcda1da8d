"""The isolation checker finds each anomaly in a history that shows it, and nothing in correct histories."""

import random

import pytest
from tests.simulation.isolation_checker import (
    ALLOWED_AT_SNAPSHOT,
    AnomalyName,
    Append,
    ObservedTransaction,
    ReadList,
    ReadRegister,
    Step,
    Write,
    find_anomalies,
)


def act(name: str, *steps: Step, at: tuple[int, int] = (0, 100), committed: bool = True) -> ObservedTransaction:
    return ObservedTransaction(name, steps, *at, committed)


def read(key: str, *values: int) -> ReadList:
    return ReadList(key, values)


HISTORIES: dict[AnomalyName, list[ObservedTransaction]] = {
    AnomalyName.G0: [
        act("T1", Append("x", 1), Append("y", 1)),
        act("T2", Append("x", 2), Append("y", 2)),
        act("T3", read("x", 1, 2)),
        act("T4", read("y", 2, 1)),
    ],
    AnomalyName.G1A: [act("T1", Append("x", 1), committed=False), act("T2", read("x", 1))],
    AnomalyName.G1B: [act("T1", Append("x", 1), Append("x", 2)), act("T2", read("x", 1))],
    AnomalyName.G1C: [act("T1", Append("x", 1), read("y", 2)), act("T2", Append("y", 2), read("x", 1))],
    AnomalyName.FRACTURED_READ: [act("T1", Append("x", 1), Append("y", 2)), act("T2", read("x", 1), read("y"))],
    AnomalyName.G_SINGLE: [
        act("T1", read("x"), read("z", 3)),
        act("T2", Append("x", 1)),
        act("T3", read("x", 1), Append("z", 3)),
    ],
    AnomalyName.LOST_UPDATE: [
        act("T1", read("x"), Append("x", 1)),
        act("T2", read("x"), Append("x", 2)),
        act("T3", read("x", 1, 2)),
    ],
    AnomalyName.LONG_FORK: [
        act("T1", Append("x", 1)),
        act("T2", Append("y", 2)),
        act("T3", read("x", 1), read("y")),
        act("T4", read("x"), read("y", 2)),
    ],
    AnomalyName.G2_ITEM: [act("T1", read("x"), Append("y", 1)), act("T2", read("y"), Append("x", 2))],
    AnomalyName.G2: [
        act("T1", ReadList("x", (), by_predicate=True), Append("y", 1)),
        act("T2", ReadList("y", (), by_predicate=True), Append("x", 2)),
    ],
    AnomalyName.REAL_TIME: [act("T1", Append("x", 1), at=(0, 1)), act("T2", read("x"), at=(2, 3))],
    AnomalyName.G2_ITEM_REAL_TIME: [
        act("T1", read("x"), at=(10, 20)),
        act("T2", Append("x", 1), read("y"), at=(0, 15)),
        act("T3", Append("y", 2), at=(1, 5)),
    ],
    AnomalyName.INCOMPATIBLE_ORDER: [
        act("T1", Append("x", 1)),
        act("T2", Append("x", 2)),
        act("T3", read("x", 1)),
        act("T4", read("x", 2)),
    ],
    AnomalyName.DUPLICATE: [act("T1", Append("x", 1)), act("T2", read("x", 1, 1))],
    AnomalyName.INTERNAL: [act("T1", Append("x", 1), read("x"))],
}

REGISTER_HISTORIES: dict[AnomalyName, list[ObservedTransaction]] = {
    AnomalyName.G1A: [act("T1", Write("x", 1), committed=False), act("T2", ReadRegister("x", 1))],
    AnomalyName.G1B: [act("T1", Write("x", 1), Write("x", 2)), act("T2", ReadRegister("x", 1))],
    AnomalyName.G1C: [
        act("T1", Write("x", 1), ReadRegister("y", 2)),
        act("T2", Write("y", 2), ReadRegister("x", 1)),
    ],
    AnomalyName.FRACTURED_READ: [
        act("T1", Write("x", 1)),
        act("T2", ReadRegister("x", 1), Write("x", 2), Write("y", 3)),
        act("T3", ReadRegister("x", 1), ReadRegister("y", 3)),
    ],
    AnomalyName.LOST_UPDATE: [
        act("T1", ReadRegister("x", None), Write("x", 1)),
        act("T2", ReadRegister("x", None), Write("x", 2)),
    ],
    AnomalyName.G2_ITEM: [
        act("T1", ReadRegister("x", None), Write("y", 1)),
        act("T2", ReadRegister("y", None), Write("x", 2)),
    ],
    AnomalyName.G2: [
        act("T1", ReadRegister("x", None, by_predicate=True), Write("y", 1)),
        act("T2", ReadRegister("y", None), Write("x", 2)),
    ],
    AnomalyName.REAL_TIME: [act("T1", Write("x", 1), at=(0, 1)), act("T2", ReadRegister("x", None), at=(2, 3))],
    AnomalyName.INTERNAL: [act("T1", Write("x", 1), ReadRegister("x", None))],
}


def test_there_is_a_history_for_every_anomaly() -> None:
    assert HISTORIES.keys() == set(AnomalyName)


@pytest.mark.parametrize("name", HISTORIES, ids=lambda name: name.name)
def test_each_anomaly_of_lists_is_found_and_named(name: AnomalyName) -> None:
    assert [one.name for one in find_anomalies(HISTORIES[name])] == [name]


@pytest.mark.parametrize("name", REGISTER_HISTORIES, ids=lambda name: name.name)
def test_each_anomaly_of_registers_is_found_and_named(name: AnomalyName) -> None:
    assert [one.name for one in find_anomalies(REGISTER_HISTORIES[name])] == [name]


def test_the_evidence_names_the_edges_of_the_cycle() -> None:
    (skew,) = find_anomalies(HISTORIES[AnomalyName.G2_ITEM])
    assert set(skew.transactions) == {"T1", "T2"}
    assert "T1 -rw-> T2" in str(skew)
    assert "T2 -rw-> T1" in str(skew)


class MultiVersionStore:
    """Lists and registers with snapshot isolation: reads see one version, and the first of two updates wins."""

    def __init__(self) -> None:
        self.versions: list[dict[str, tuple[int, ...]]] = [{}]

    def run(self, number: int, base: int, keys: list[str], chance: random.Random, *, serializable: bool) -> list[Step]:
        """Return the steps of a transaction on an earlier version, or no steps if it conflicts."""
        state, steps, written = self.versions[base], list[Step](), dict[str, tuple[int, ...]]()
        for place, key in enumerate(keys):
            value, there = number * 10 + place, written.get(key, state.get(key, ()))
            is_list = key.startswith("list")
            if chance.random() < 0.5:
                steps.append(ReadList(key, there) if is_list else ReadRegister(key, there[-1] if there else None))
            else:
                steps.append(Append(key, value) if is_list else Write(key, value))
                written[key] = (*there, value)
        changed = {key for key in keys if self.versions[-1].get(key) != state.get(key)}
        if changed & written.keys() or (serializable and changed):
            return []
        if written:
            self.versions.append({**self.versions[-1], **written})
        return steps


def run_transactions(seed: int, *, serializable: bool) -> list[ObservedTransaction]:
    chance, store, history = random.Random(seed), MultiVersionStore(), list[ObservedTransaction]()
    for number in range(40):
        base = max(0, len(store.versions) - 1 - chance.randint(0, 3))
        keys = chance.choices(["list a", "list b", "register a", "register b"], k=chance.randint(1, 4))
        # It began when its base was the newest version; read-only transactions end where they begin.
        began, steps = 2 * base, store.run(number, base, keys, chance, serializable=serializable)
        ended = 2 * (len(store.versions) - 1)
        history.append(ObservedTransaction(f"T{number}", tuple(steps), began, max(began, ended)))
    return history


@pytest.mark.parametrize("seed", range(30))
def test_a_serializable_store_shows_no_anomaly(seed: int) -> None:
    assert find_anomalies(run_transactions(seed, serializable=True)) == []


def test_a_store_with_snapshot_isolation_shows_write_skew_only() -> None:
    found = {one.name for seed in range(30) for one in find_anomalies(run_transactions(seed, serializable=False))}
    assert AnomalyName.G2_ITEM in found
    assert found <= ALLOWED_AT_SNAPSHOT
