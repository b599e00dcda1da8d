import threading

import pytest

from mangrove.storage.memory import MemoryStore, open_memory_store
from mangrove.storage.port import ObjectInfo, Store
from mangrove.storage.probe import probe_creates
from mangrove.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


def test_memory_stores_of_the_same_name_share_their_objects() -> None:
    open_memory_store("memory://shared-by-name/").put("a", b"1")
    assert open_memory_store("memory://shared-by-name/").read("a") == b"1"
    assert not open_memory_store("memory://another-name/").exists("a")


def test_times_come_from_the_given_clock() -> None:
    store = MemoryStore(now_millis=lambda: 42)
    store.put("a", b"")
    assert [*store.list()] == [ObjectInfo("a", 0, 42)]


def test_a_listing_returns_the_objects_at_its_start() -> None:
    store = MemoryStore()
    store.put_many({"a": b"", "b": b""})
    listing = store.list()
    store.put("c", b"")
    store.delete_many(["b"])
    assert [entry.path for entry in listing] == ["a", "b"]


def test_exactly_one_of_32_threads_wins_each_create() -> None:
    assert probe_creates(MemoryStore(), threads=32, keys=200).is_sound


def test_writers_of_many_threads_lose_nothing() -> None:
    store = MemoryStore()

    def write(writer: int) -> None:
        for number in range(100):
            store.put(f"{writer}/{number}", b"")

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(1 for _ in store.list()) == 800
