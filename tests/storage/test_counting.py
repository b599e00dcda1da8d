import threading

import pytest

from mangrove.errors import NotFoundError
from mangrove.storage.counting import CountingStore, StoreRequests
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import Store
from mangrove.testing.store_contract import StoreContract


class TestCountingStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return CountingStore(MemoryStore())


def test_each_request_is_counted_by_its_kind() -> None:
    store = CountingStore(MemoryStore())
    store.put("a", b"12")
    store.put_many({"b": b"345", "c": b""})
    store.create("d", b"6")
    store.create("d", b"7")
    store.read("b", 1, 1)
    store.read_many(["a", "missing"])
    store.size("a")
    store.exists("b")
    assert [entry.path for entry in store.list()] == ["a", "b", "c", "d"]
    store.delete_many(["a", "b"])
    assert store.requests == StoreRequests(
        reads=3, sizes=2, lists=1, puts=3, creates=2, deletes=1, bytes_read=3, bytes_written=7
    )
    assert store.requests.total == 12


def test_a_read_of_a_missing_object_is_counted_too() -> None:
    store = CountingStore(MemoryStore())
    with pytest.raises(NotFoundError):
        store.read("missing")
    assert store.requests == StoreRequests(reads=1)


def test_a_difference_counts_the_requests_in_between() -> None:
    store = CountingStore(MemoryStore())
    store.put("a", b"1")
    before = store.requests
    store.read("a")
    assert store.requests - before == StoreRequests(reads=1, bytes_read=1)
    assert before + (store.requests - before) == store.requests


def test_long_listings_and_deletions_cost_a_request_per_thousand() -> None:
    inner = MemoryStore()
    inner.put_many({f"{number:05d}": b"" for number in range(2_001)})
    store = CountingStore(inner)
    paths = [entry.path for entry in store.list()]
    assert store.requests == StoreRequests(lists=3)
    store.delete_many(paths)
    assert store.requests == StoreRequests(lists=3, deletes=3)
    store.delete_many([])
    assert store.requests.deletes == 3


def test_no_count_is_lost_between_threads() -> None:
    store = CountingStore(MemoryStore())

    def ask() -> None:
        for _ in range(500):
            store.exists("a")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.requests == StoreRequests(sizes=4_000)
