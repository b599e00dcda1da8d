import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InvalidInputError, StorageError
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import Store
from mangrove.testing.faulty_store import FaultKind, Faults, FaultyStore, SimulatedCrash
from mangrove.testing.store_contract import StoreContract, list_paths


class TestFaultyStoreWithoutFaults(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return FaultyStore(MemoryStore(), Faults(seed=0))


def outcomes(faults: Faults) -> list[str]:
    store = FaultyStore(MemoryStore(), faults)
    seen = []
    for number in range(60):
        try:
            store.create(f"path-{number % 20}", b"x")
            seen.append("done")
        except StorageError:
            seen.append("failed")
        except SimulatedCrash:
            seen.append("crashed")
    return seen


@given(st.integers(0, 1_000))
def test_the_same_seed_causes_the_same_faults(seed: int) -> None:
    faults = Faults(seed, before=0.2, after=0.2, lost_answer=0.2, crash=0.01)
    assert outcomes(faults) == outcomes(faults)


def test_different_seeds_cause_different_faults() -> None:
    assert len({tuple(outcomes(Faults(seed, before=0.3))) for seed in range(20)}) == 20


def test_an_error_before_has_no_effect_and_one_after_has_it() -> None:
    inner = MemoryStore()
    before = FaultyStore(inner, Faults(seed=1, before=1.0))
    with pytest.raises(StorageError, match="not done"):
        before.put("a", b"1")
    with pytest.raises(StorageError):
        before.create("b", b"1")
    assert list_paths(inner) == []
    after = FaultyStore(inner, Faults(seed=1, after=1.0))
    with pytest.raises(StorageError, match="not known"):
        after.put("a", b"1")
    with pytest.raises(StorageError):
        after.create("b", b"1")
    assert list_paths(inner) == ["a", "b"]


def test_every_operation_can_fail() -> None:
    store = FaultyStore(MemoryStore(), Faults(seed=1, before=1.0))
    for ask in (
        lambda: store.read("a"),
        lambda: store.read_many(["a"]),
        lambda: store.size("a"),
        lambda: store.exists("a"),
        lambda: [*store.list()],
        lambda: store.put_many({"a": b""}),
        lambda: store.delete_many(["a"]),
    ):
        with pytest.raises(StorageError, match="on purpose"):
            ask()


def test_after_a_lost_response_the_object_may_or_may_not_exist() -> None:
    there = set()
    for seed in range(20):
        inner = MemoryStore()
        with pytest.raises(StorageError, match="not known"):
            FaultyStore(inner, Faults(seed, lost_answer=1.0)).create("a", b"1")
        there.add(inner.exists("a"))
    assert there == {True, False}


def test_a_crash_leaves_any_part_of_many_puts_and_ends_the_store() -> None:
    left = set()
    for seed in range(30):
        inner = MemoryStore()
        store = FaultyStore(inner, Faults(seed))
        store.fail_next("put", "crash")
        with pytest.raises(SimulatedCrash):
            store.put_many({"a": b"whole", "b": b"whole"})
        left.add(tuple(list_paths(inner)))
        assert {inner.read(path) for path in list_paths(inner)} <= {b"whole"}
        with pytest.raises(SimulatedCrash):
            store.read("a")
    assert left == {(), ("a",), ("b",), ("a", "b")}


@pytest.mark.parametrize("kind", ["before", "after", "lost answer"])
def test_a_planned_fault_applies_once_to_its_path(kind: FaultKind) -> None:
    store = FaultyStore(MemoryStore(), Faults(seed=1))
    store.fail_next("create", kind, containing="root")
    assert store.create("node", b"1")
    with pytest.raises(StorageError):
        store.create("root-1", b"1")
    assert store.create("root-2", b"1")
    assert store.made == {kind: 1}


def test_delays_are_handed_to_the_pause() -> None:
    waited: list[float] = []
    store = FaultyStore(MemoryStore(), Faults(seed=1, delay_seconds=2.0), pause=waited.append)
    store.put("a", b"1")
    store.read("a")
    assert len(waited) == 2
    assert all(0 <= seconds <= 2 for seconds in waited)


def test_invalid_probabilities_are_rejected() -> None:
    with pytest.raises(InvalidInputError):
        Faults(seed=1, before=-0.1)
    with pytest.raises(InvalidInputError):
        Faults(seed=1, before=0.6, after=0.6)
