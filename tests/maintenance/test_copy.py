"""Copies between stores: bounded groups, nothing twice, sizes checked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import FormatError, StorageError
from mangrove.maintenance.copy import copy_files, find_missing_copies, load_file_sizes, split_into_batches
from mangrove.maintenance.progress import Progress, ignore_progress
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import ListEntry, ObjectInfo, Prefix
from mangrove.testing.faulty_store import Faults, FaultyStore

SIZES = st.dictionaries(st.text("abc/", min_size=1, max_size=4), st.integers(0, 50), max_size=20)


@given(SIZES, st.integers(1, 5), st.integers(1, 60))
def test_groups_are_bounded_and_hold_each_file_once(sizes: dict[str, int], files_max: int, bytes_max: int) -> None:
    groups = list(split_into_batches(sizes, files_max, bytes_max))
    assert [path for group in groups for path in group] == list(sizes)
    for group in groups:
        assert 1 <= len(group) <= files_max
        assert len(group) == 1 or sum(sizes[path] for path in group) <= bytes_max


@given(SIZES, SIZES)
def test_complete_files_are_not_copied_again(wanted: dict[str, int], there: dict[str, int]) -> None:
    listed: list[ListEntry] = [Prefix("p/"), *(ObjectInfo(path, size, 0) for path, size in there.items())]
    missing = find_missing_copies(wanted, listed)
    assert missing == {path: size for path, size in wanted.items() if there.get(path) != size}


@pytest.mark.parametrize("count", [3, 40])
def test_sizes_are_read_from_the_store_and_a_missing_file_is_an_error(count: int) -> None:
    store = CountingStore(MemoryStore())
    store.put_many({f"f{number:02d}": b"x" * number for number in range(count)})
    paths = {f"f{number:02d}" for number in range(count)}
    before = store.requests
    assert load_file_sizes(store, paths) == {path: int(path[1:]) for path in sorted(paths)}
    assert (store.requests - before).total == (1 if count > 16 else count)
    with pytest.raises(FormatError, match="absent"):
        load_file_sizes(store, paths | {"absent"})


def test_files_are_copied_as_they_are_and_progress_ends_at_the_total() -> None:
    source, destination = MemoryStore(), MemoryStore()
    contents = {f"data/{number}": bytes([number % 256]) * number for number in range(600)}
    source.put_many(contents)
    seen: list[Progress] = []
    copy_files(source, destination, {path: len(data) for path, data in contents.items()}, seen.append)
    assert {path: destination.read(path) for path in contents} == contents
    assert [progress.files_done for progress in seen] == [0, 256, 512, 600]
    last = seen[-1]
    assert (last.files_done, last.bytes_done) == (last.files_total, last.bytes_total) == (600, 600 * 599 // 2)
    assert str(last) == "copying: 600 of 600 files, 175.5 KiB of 175.5 KiB"


def test_the_last_file_is_written_after_all_others() -> None:
    source, below = MemoryStore(), MemoryStore()
    source.put_many({"a": b"1", "b": b"2", "c": b"3"})
    failing = FaultyStore(below, Faults(seed=0))
    failing.fail_next("put", "before", "a")
    with pytest.raises(StorageError):
        copy_files(source, failing, {"a": 1, "b": 1, "c": 1}, ignore_progress, last="a")
    assert [entry.path for entry in below.list()] == ["b", "c"]
    copy_files(source, failing, {"a": 1}, ignore_progress, last="a")
    copy_files(source, failing, {}, ignore_progress, last="d")
    assert [entry.path for entry in below.list()] == ["a", "b", "c"]


def test_a_file_that_changed_since_it_was_listed_stops_the_copy() -> None:
    source = MemoryStore()
    source.put("a", b"12")
    with pytest.raises(StorageError, match="has 2 bytes now"):
        copy_files(source, MemoryStore(), {"a": 3}, ignore_progress)
    with pytest.raises(StorageError, match="is missing now"):
        copy_files(source, MemoryStore(), {"b": 3}, ignore_progress)
