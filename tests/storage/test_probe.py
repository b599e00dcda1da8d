import pytest

from mangrove.errors import InvalidInputError, StorageError
from mangrove.storage.memory import MemoryStore
from mangrove.storage.probe import probe_creates
from mangrove.testing.faulty_store import Faults, FaultyStore
from mangrove.testing.store_contract import list_paths


class ForgivingStore(MemoryStore):
    """Tells everybody that they won."""

    def create(self, path: str, data: bytes) -> bool:
        super().create(path, data)
        return True


class OverwritingStore(MemoryStore):
    """Tells the first that it won, and keeps the bytes of the last."""

    def create(self, path: str, data: bytes) -> bool:
        won = super().create(path, data)
        if not won:
            self.put(path, data)
        return won


class SilentStore(MemoryStore):
    """Lets nobody win."""

    def create(self, path: str, data: bytes) -> bool:
        super().create(path, data)
        return False


@pytest.mark.parametrize("store", [ForgivingStore(), SilentStore()])
def test_the_probe_detects_a_store_without_exactly_one_winner(store: MemoryStore) -> None:
    probed = probe_creates(store, threads=4, keys=5)
    assert len(probed.unfair) == 5
    assert not probed.is_sound


def test_the_probe_detects_a_store_that_keeps_the_bytes_of_a_loser() -> None:
    probed = probe_creates(OverwritingStore(), threads=4, keys=50)
    assert probed.unfair == ()
    assert len(probed.misread) == 50
    assert not probed.is_sound


def test_the_keys_are_distributed_over_the_lanes() -> None:
    assert probe_creates(MemoryStore(), threads=4, keys=50, lanes=3).is_sound
    assert len(probe_creates(ForgivingStore(), threads=4, keys=50, lanes=3).unfair) == 50


def test_a_probe_cleans_up_also_when_the_store_fails() -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, Faults(seed=1))
    store.fail_next("create", "before", containing="00003")
    with pytest.raises(StorageError, match="on purpose"):
        probe_creates(store, threads=4, keys=10)
    assert list_paths(inner) == []


def test_a_probe_with_too_few_threads_or_keys_is_rejected() -> None:
    with pytest.raises(InvalidInputError):
        probe_creates(MemoryStore(), threads=1, keys=1)
    with pytest.raises(InvalidInputError):
        probe_creates(MemoryStore(), threads=2, keys=0)
