"""Which rows are hidden is found from their keys, of any types and any number of columns, and from their numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mangrove
from mangrove.spark.deletion_vectors import DeletedRowCache, find_rows_deleted_by_keys, pack_bits
from mangrove.storage.counting import CountingStore
from mangrove.storage.opening import open_store
from mangrove.tables.scan_plan import ScanPlan, plan_scan

_KEYS = st.tuples(st.sampled_from([None, 0, 1, -(2**62)]), st.sampled_from([None, "", "a", "b"]))
_FILES = st.lists(st.tuples(st.lists(_KEYS, max_size=6), st.integers(1, 4)), min_size=1, max_size=5)


def columns_of(keys: Sequence[tuple[Any, ...]], types: Sequence[Any]) -> list[Any]:
    return [
        pa.chunked_array([pa.array([key[place] for key in part], kind) for part in (keys[:2], keys[2:])])
        for place, kind in enumerate(types)
    ]


@given(_FILES, _FILES)
def test_a_row_is_deleted_if_its_whole_key_occurs_at_a_later_position(
    delete_files: list[tuple[list[tuple[Any, ...]], int]], compared: list[tuple[list[tuple[Any, ...]], int]]
) -> None:
    types = (pa.int64(), pa.string())
    found = find_rows_deleted_by_keys(
        [(columns_of(keys, types), position) for keys, position in delete_files],
        [(columns_of(keys, types), position) for keys, position in compared],
    )
    assert [flags.tolist() for flags in found] == [
        [None not in key and any(key in newer and later > position for newer, later in delete_files) for key in keys]
        for keys, position in compared
    ]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.bool_(), [True, False]),
        (pa.decimal128(20, 3), [1, 2]),
        (pa.date32(), [1, 2]),
        (pa.timestamp("us", "UTC"), [1, 2]),
        (pa.time64("us"), [1, 2]),
        (pa.binary(), [b"\0", b""]),
        (pa.binary(2), [b"\0a", b"\0b"]),
        (pa.int16(), [-1, 1]),
    ],
)
def test_keys_of_every_type_are_compared(kind: Any, values: list[Any]) -> None:
    both, one = ([pa.chunked_array([pa.array(part, kind)])] for part in (values, values[1:]))
    assert [flags.tolist() for flags in find_rows_deleted_by_keys([(one, 2)], [(both, 1), (both, 2)])] == [
        [False, True],
        [False, False],
    ]


@given(st.lists(st.booleans(), max_size=200))
def test_packed_words_contain_each_flag_at_its_position(flags: list[bool]) -> None:
    bits = np.unpackbits(pack_bits(np.array(flags, np.bool_)).view(np.uint8), bitorder="little")
    assert len(bits) % 64 == 0
    assert np.flatnonzero(bits).tolist() == [place for place, flag in enumerate(flags) if flag]


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """A table with texts for keys, of which two upserts hide rows and one row is gone by its number."""
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "code string", keys=["code"], properties={"write.delete-mode": "position"})
    table.append([{"code": str(one)} for one in range(5)])
    table.upsert([{"code": "1"}, {"code": "2"}])
    table.delete("code = '4'")
    table.upsert([{"code": "2"}])
    return table


def test_equality_and_position_deletes_share_one_bitmap_and_each_file_is_read_once(table: Any, tmp_path: Path) -> None:
    store = CountingStore(open_store(str(tmp_path)))
    deleted_rows = DeletedRowCache(store)
    scans = plan_scan(table.state()).scans
    touched = [scan for scan in scans if not scan.is_whole]
    found = [words.tolist() for words in deleted_rows.bits(touched, table.state().schema)]
    assert found == [[0b10110], [0b10]]
    assert store.requests.reads == len(ScanPlan(tuple(touched)).files()) == 4
    assert [words.tolist() for words in deleted_rows.bits(touched[::-1], table.state().schema)] == found[::-1]
    assert store.requests.reads == 4, "files never change, so what is known is not looked for again"


def test_deletes_of_a_newer_upsert_are_added_to_the_cached_bitmap(table: Any, tmp_path: Path) -> None:
    deleted_rows = DeletedRowCache(open_store(str(tmp_path)))
    for keys, expected in (([], [[0b10110], [0b10]]), (["0", "1"], [[0b10111], [0b11]])):
        if keys:
            table.upsert([{"code": key} for key in keys])
        touched = [scan for scan in plan_scan(table.state()).scans if not scan.is_whole]
        assert [words.tolist() for words in deleted_rows.bits(touched, table.state().schema)][:2] == expected


def test_the_oldest_bitmap_is_evicted_from_a_full_cache(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mangrove.spark.deletion_vectors._WORDS_MAX", 1)
    store = CountingStore(open_store(str(tmp_path)))
    deleted_rows = DeletedRowCache(store)
    first, last = (scan for scan in plan_scan(table.state()).scans if not scan.is_whole)
    for scans, is_read in (([first, last], True), ([last], False), ([first], True), ([last], True)):
        before = store.requests.reads
        deleted_rows.bits(scans, table.state().schema)
        assert (store.requests.reads > before) == is_read
