import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InvalidInputError, NotFoundError, StorageError
from mangrove.storage.cache import BLOCK_BYTES, CachingStore, UncachedStore
from mangrove.storage.counting import CountingStore
from mangrove.storage.disk_cache import DiskCache
from mangrove.storage.local import LocalStore
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import Store
from mangrove.storage.uri import parse_root_uri
from mangrove.testing.faulty_store import Faults, FaultyStore
from mangrove.testing.store_contract import StoreContract


def is_node(path: str) -> bool:
    return path.startswith("node-")


class TestCachingStoreOfMutablePaths(StoreContract):
    folders_hide_objects = True

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return CachingStore(LocalStore(parse_root_uri(tmp_path)), is_node, 1_000_000)


class TestCachingStoreWithADisk(StoreContract):
    """Every path counts as immutable here, which the contract's replacing puts stretch: a writer sees its own."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return CachingStore(MemoryStore(), lambda _: True, 1_000, DiskCache(str(tmp_path), 1_000_000))


def test_an_immutable_object_is_read_once() -> None:
    counted = CountingStore(MemoryStore())
    counted.put("node-1", b"0123")
    store = CachingStore(counted, is_node, 1_000)
    assert [store.read("node-1") for _ in range(3)] == [b"0123"] * 3
    assert store.read("node-1", 1, 2) == b"12"
    assert store.read_many(["node-1", "node-1"]) == [b"0123", b"0123"]
    assert counted.requests.reads == 1


def test_a_written_object_is_cached_on_its_first_read(tmp_path: Path) -> None:
    counted = CountingStore(MemoryStore())
    store = CachingStore(counted, is_node, 1_000, DiskCache(str(tmp_path), 10_000))
    store.put("node-1", b"1")
    store.put_many({"node-2": b"2"})
    assert store.create("node-3", b"3")
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
    for _ in range(2):
        assert store.read_many(["node-1", "node-2", "node-3"]) == [b"1", b"2", b"3"]
    assert counted.requests.reads == 3


def test_an_object_rewritten_before_its_commit_is_read_in_its_last_state(tmp_path: Path) -> None:
    inner = MemoryStore()
    writer, reader = (CachingStore(inner, is_node, 1_000, DiskCache(str(tmp_path), 10_000)) for _ in range(2))
    writer.put("node-1", b"first")
    assert writer.read("node-1") == b"first"
    writer.put("node-1", b"second")
    assert [writer.read("node-1"), reader.read("node-1")] == [b"second"] * 2


def test_a_failed_create_is_not_cached() -> None:
    inner = MemoryStore()
    inner.put("node-1", b"winner")
    store = CachingStore(inner, is_node, 1_000)
    assert not store.create("node-1", b"loser")
    assert store.read("node-1") == b"winner"


def test_a_mutable_object_is_always_requested_from_the_store() -> None:
    inner = MemoryStore()
    store = CachingStore(inner, is_node, 1_000)
    store.put("hint", b"1")
    inner.put("hint", b"2")
    assert store.read("hint") == b"2"
    inner.put("hint", b"3")
    assert store.read_many(["hint"]) == [b"3"]


def test_a_missing_object_is_requested_again() -> None:
    inner = MemoryStore()
    store = CachingStore(inner, is_node, 1_000)
    assert store.read_many(["node-1"]) == [None]
    with pytest.raises(NotFoundError):
        store.read("node-1")
    inner.put("node-1", b"1")
    assert store.read("node-1") == b"1"


def test_a_deleted_object_is_removed_from_the_cache(tmp_path: Path) -> None:
    store = CachingStore(MemoryStore(), is_node, 1_000, DiskCache(str(tmp_path), 1_000))
    store.put("node-1", b"1")
    assert store.read("node-1") == b"1"
    store.delete_many(["node-1"])
    assert store.read_many(["node-1"]) == [None]
    assert store.cached_bytes == 0
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60)), max_size=40))
def test_the_memory_cache_respects_its_limit_and_reads_stay_correct(requested: list[tuple[int, int]]) -> None:
    inner = MemoryStore()
    store = CachingStore(inner, is_node, 100)
    for number, size in requested:
        path = f"node-{number}-{size}"
        assert store.read_many([path]) == [b"x" * size if inner.exists(path) else None]
        store.put(path, b"x" * size)
        assert store.read(path) == b"x" * size
        assert store.cached_bytes <= 100


def test_the_least_recently_used_object_is_evicted_first() -> None:
    counted = CountingStore(MemoryStore())
    store = CachingStore(counted, is_node, 100)
    store.put_many({f"node-{number}": b"x" * 25 for number in range(5)})
    for number in (0, 1, 2, 3, 0, 4, 0):
        store.read(f"node-{number}")
    assert counted.requests.reads == 5
    store.read("node-1")
    assert counted.requests.reads == 6


def test_a_large_object_does_not_push_out_the_others() -> None:
    store = CachingStore(MemoryStore(), is_node, 100)
    store.put("node-1", b"x" * 20)
    store.put("node-2", b"x" * 90)
    store.read_many(["node-1", "node-2"])
    assert store.cached_bytes == 20


class GatedStore(MemoryStore):
    """Answers no read before the gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.begun = threading.Event()
        self.reads = 0

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self.reads += 1
        self.begun.set()
        self.gate.wait(60)
        return super().read(path, start, length)

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        self.reads += len(paths)
        self.begun.set()
        self.gate.wait(60)
        return super().read_many(paths)


def test_concurrent_reads_of_an_object_share_one_request() -> None:
    inner = GatedStore()
    inner.put("node-1", b"1")
    inner.put("node-2", b"2")
    store = CachingStore(inner, is_node, 1_000)
    answers: list[list[bytes | None]] = []
    threads = [threading.Thread(target=lambda: answers.append(store.read_many(["node-1", "node-2"]))) for _ in range(8)]
    threads[0].start()
    assert inner.begun.wait(60)
    for thread in threads[1:]:
        thread.start()
    inner.gate.set()
    for thread in threads:
        thread.join()
    assert answers == [[b"1", b"2"]] * 8
    assert inner.reads == 2


class WrittenAfterRead(MemoryStore):
    """A store in which something happens once, after a read and before its response."""

    after_read: Callable[[], object] | None = None

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        found = super().read_many(paths)
        if self.after_read is not None:
            task, self.after_read = self.after_read, None
            task()
        return found


def test_an_object_written_during_a_shared_read_is_found() -> None:
    inner = WrittenAfterRead()
    has_joined = threading.Event()
    answers: list[list[bytes | None]] = []

    def is_immutable(path: str) -> bool:
        # Called with the lock on the pending reads, so the second reader finds the first one there.
        if threading.current_thread() is second:
            has_joined.set()
        return is_node(path)

    def write() -> None:
        second.start()
        assert has_joined.wait(60)
        inner.put("node-1", b"1")

    store = CachingStore(inner, is_immutable, 1_000)
    second = threading.Thread(target=lambda: answers.append(store.read_many(["node-1"])))
    inner.after_read = write
    assert store.read_many(["node-1"]) == [None]
    second.join(60)
    assert answers == [[b"1"]]


class ReadDuringPut(MemoryStore):
    """A store whose puts are read through a cache just before they take effect."""

    read_first: Callable[[], object] | None = None

    def put(self, path: str, data: bytes) -> None:
        if self.read_first is not None:
            self.read_first()
        super().put(path, data)


def test_an_object_read_during_a_write_is_not_cached() -> None:
    inner = ReadDuringPut()
    store = CachingStore(inner, is_node, 1_000)
    store.put("node-1", b"first")
    inner.read_first = lambda: store.read("node-1")
    store.put("node-1", b"second")
    assert store.read("node-1") == b"second"


def test_a_failed_read_is_reported_and_not_cached() -> None:
    inner = FaultyStore(MemoryStore(), Faults(seed=1))
    inner.put("node-1", b"1")
    store = CachingStore(inner, is_node, 1_000)
    inner.fail_next("read", "before")
    with pytest.raises(StorageError):
        store.read("node-1")
    assert store.read("node-1") == b"1"


def test_the_disk_cache_persists_between_runs(tmp_path: Path) -> None:
    inner = MemoryStore()
    inner.put("node-1", b"1")
    CachingStore(inner, is_node, 1_000, DiskCache(str(tmp_path), 10_000)).read("node-1")
    counted = CountingStore(inner)
    later = CachingStore(counted, is_node, 1_000, DiskCache(str(tmp_path), 10_000))
    assert later.read("node-1") == b"1"
    assert later.read_many(["node-1"]) == [b"1"]
    assert counted.requests.reads == 0


def test_two_stores_share_a_disk_cache_without_collisions(tmp_path: Path) -> None:
    disk = DiskCache(str(tmp_path), 10_000)
    disk.write("memory://one/", "node-1", b"one")
    assert disk.read("memory://two/", "node-1") is None
    assert disk.read("memory://one/", "node-1") == b"one"


@pytest.mark.parametrize("damage", ["cut", "empty", "flip", "swap"])
def test_a_damaged_cache_file_is_ignored(tmp_path: Path, damage: str) -> None:
    disk = DiskCache(str(tmp_path), 10_000)
    disk.write("memory://one/", "node-1", b"some bytes")
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    held = file.read_bytes()
    if damage == "swap":
        disk.write("memory://one/", "node-2", b"others")
        (other,) = [path for path in tmp_path.rglob("*") if path.is_file() and path != file]
        file.write_bytes(other.read_bytes())
    else:
        file.write_bytes({"cut": held[:-1], "empty": b"", "flip": held[:-1] + b"\xff"}[damage])
    assert disk.read("memory://one/", "node-1") is None
    disk.write("memory://one/", "node-1", b"some bytes")
    assert disk.read("memory://one/", "node-1") == b"some bytes"


def test_the_disk_cache_respects_its_limit(tmp_path: Path) -> None:
    disk = DiskCache(str(tmp_path), 10_000)
    for number in range(200):
        disk.write("memory://one/", f"node-{number}", bytes([number]) * 200)
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) <= 11_300
        # Files of one tick of the clock would be equally old, so each gets a date of its own, long past.
        for path in files:
            if path.stat().st_mtime > 1_000:
                os.utime(path, (number, number))
    assert disk.read("memory://one/", "node-199") is not None
    assert disk.read("memory://one/", "node-0") is None


def test_a_failing_disk_cache_falls_back_to_the_store(tmp_path: Path) -> None:
    blocked = tmp_path / "a-file"
    blocked.write_bytes(b"")
    store = CachingStore(MemoryStore(), is_node, 8, DiskCache(str(blocked / "below"), 1_000))
    store.put("node-1", b"1234")
    assert [store.read("node-1"), store.read("node-1", 1, 2)] == [b"1234", b"23"]
    store.delete_many(["node-1"])


def test_only_files_of_the_cache_are_counted_and_swept(tmp_path: Path) -> None:
    (tmp_path / "ab").mkdir()
    own = [tmp_path / "letter.txt", tmp_path / "ab" / "letter.txt", tmp_path / "ab" / ("c" * 62)]
    for file in own:
        file.write_bytes(b"precious" * 1_000)
        os.utime(file, (1, 1))
    disk = DiskCache(str(tmp_path), 1_000)
    for number in range(50):
        disk.write("memory://one/", f"node-{number}", b"x" * 100)
    assert all(file.read_bytes() == b"precious" * 1_000 for file in own)
    assert disk.read("memory://one/", "node-49") is not None


def test_cache_files_are_readable_only_by_their_owner(tmp_path: Path) -> None:
    disk = DiskCache(str(tmp_path / "new"), 10_000)
    disk.write("memory://one/", "node-1", b"some bytes")
    assert {path.stat().st_mode & 0o077 for path in tmp_path.rglob("*")} == {0}


RANGES = st.lists(st.tuples(st.integers(0, 5 * BLOCK_BYTES), st.integers(0, 3 * BLOCK_BYTES)), min_size=1, max_size=6)


@given(size=st.integers(1, 4 * BLOCK_BYTES), ranges=RANGES)
def test_ranges_are_right_and_cost_one_request_at_most_and_none_the_second_time(
    tmp_path_factory: pytest.TempPathFactory, size: int, ranges: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    data = bytes(number % 251 for number in range(size))
    inner = MemoryStore()
    inner.put("node-1", data)
    counted = CountingStore(inner)
    store = CachingStore(counted, is_node, 1_000, DiskCache(str(folder), 100_000_000))
    for start, length in ranges:
        before = counted.requests.reads
        assert store.read("node-1", start, length) == data[start : start + length]
        assert counted.requests.reads <= before + 1
        before = counted.requests.reads
        assert store.read("node-1", start, length) == data[start : start + length]
        is_within = length > 0 and (start + length - 1) // BLOCK_BYTES <= (size - 1) // BLOCK_BYTES
        assert counted.requests.reads == before or not is_within


def test_a_range_of_other_columns_reads_only_the_blocks_that_are_missing(tmp_path: Path) -> None:
    inner = MemoryStore()
    inner.put("node-1", b"x" * (10 * BLOCK_BYTES))
    counted = CountingStore(inner)
    store = CachingStore(counted, is_node, 1_000, DiskCache(str(tmp_path), 100_000_000))
    store.read("node-1", 4, 3 * BLOCK_BYTES)
    assert counted.requests.bytes_read == 4 * BLOCK_BYTES
    store.read("node-1", 4, 6 * BLOCK_BYTES)
    assert counted.requests.bytes_read == 7 * BLOCK_BYTES
    store.read("node-1", BLOCK_BYTES, 5 * BLOCK_BYTES)
    assert counted.requests.reads == 2


def test_a_range_of_a_missing_object_is_not_found_and_its_cached_blocks_are_removed(tmp_path: Path) -> None:
    store = CachingStore(MemoryStore(), is_node, 1_000, DiskCache(str(tmp_path), 10_000_000))
    with pytest.raises(NotFoundError):
        store.read("node-1", 0, 10)
    store.put("node-1", b"x" * (2 * BLOCK_BYTES))
    assert store.read("node-1", 5, BLOCK_BYTES) == b"x" * BLOCK_BYTES
    store.delete_many(["node-1"])
    with pytest.raises(NotFoundError):
        store.read("node-1", 5, BLOCK_BYTES)
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


class TestUncachedStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return UncachedStore(CachingStore(MemoryStore(), lambda _: True, 1_000, DiskCache(str(tmp_path), 1_000_000)))


def test_uncached_reads_bypass_and_update_the_cache(tmp_path: Path) -> None:
    inner = MemoryStore()
    inner.put("node-1", b"damaged")
    inner.put("node-2", b"y" * BLOCK_BYTES * 2)
    store = CachingStore(inner, is_node, 1_000, DiskCache(str(tmp_path), 10_000_000))
    assert [store.read("node-1"), store.read("node-2", 0, 1)] == [b"damaged", b"y"]
    inner.put("node-1", b"put right")
    inner.put("node-2", b"z" * BLOCK_BYTES * 2)
    assert [store.read("node-1"), store.read("node-2", 0, 1)] == [b"damaged", b"y"]
    request_info = UncachedStore(store)
    assert request_info.read_many(["node-1"]) == [b"put right"]
    assert request_info.read("node-2", 0, 1) == b"z"
    assert [store.read("node-1"), store.read("node-2", 0, 1)] == [b"put right", b"z"]


def test_processes_share_one_disk(tmp_path: Path) -> None:
    source = (
        "import sys\nfrom mangrove.storage.disk_cache import DiskCache\n"
        "disk = DiskCache(sys.argv[1], 20_000)\n"
        "for number in range(300):\n"
        "    data = (b'%d' % (number % 40)) * 100\n"
        "    disk.write('s3://b/', f'node-{number % 40}', data)\n"
        "    assert disk.read('s3://b/', f'node-{number % 40}') in {None, data}\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", source, str(tmp_path)]) for _ in range(3)]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= 20_000 + 3 * 2_300


def test_a_cache_of_no_bytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError):
        CachingStore(MemoryStore(), is_node, 0)
    with pytest.raises(InvalidInputError):
        DiskCache(str(tmp_path), 0)
