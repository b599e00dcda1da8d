"""Which rows are hidden is found from their keys, of any types and any number of columns, and from their numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mangrove
from mangrove.spark.deletion_vectors import DeletionVectorBuilder, pack_bits
from mangrove.storage.counting import CountingStore
from mangrove.storage.opening import open_store
from mangrove.tables.scan_plan import ScanPlan, plan_scan


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
    deleted_rows = DeletionVectorBuilder(store)
    scans = plan_scan(table.state()).scans
    touched = [scan for scan in scans if not scan.is_whole]
    found = [words.tolist() for words in deleted_rows.bits(touched, table.state().schema)]
    assert found == [[0b10110], [0b10]]
    assert store.requests.reads == len(ScanPlan(tuple(touched)).files()) == 4
    assert [words.tolist() for words in deleted_rows.bits(touched[::-1], table.state().schema)] == found[::-1]
    assert store.requests.reads == 4, "files never change, so what is known is not looked for again"


def test_deletes_of_a_newer_upsert_are_added_to_the_cached_bitmap(table: Any, tmp_path: Path) -> None:
    deleted_rows = DeletionVectorBuilder(open_store(str(tmp_path)))
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
    deleted_rows = DeletionVectorBuilder(store)
    first, last = (scan for scan in plan_scan(table.state()).scans if not scan.is_whole)
    for scans, is_read in (([first, last], True), ([last], False), ([first], True), ([last], True)):
        before = store.requests.reads
        deleted_rows.bits(scans, table.state().schema)
        assert (store.requests.reads > before) == is_read
