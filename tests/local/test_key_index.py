"""The index of keys has the keys of the visible rows, and reads only files that were added."""

import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mangrove
from mangrove.lakehouse.table import Table
from mangrove.local.key_index import KeyIndexCache
from mangrove.local.parquet import read_columns
from mangrove.storage.counting import CountingStore
from mangrove.storage.opening import open_store
from mangrove.tables.scan_plan import plan_scan

ALL = 10**9
KEYS = st.lists(st.integers(-20, 20), min_size=1, max_size=12, unique=True)
CHANGES = st.lists(st.tuples(st.sampled_from(["append", "upsert", "delete", "compact"]), KEYS), max_size=8)


def create_table(folder: str | Path, columns: str = "id bigint not null, v int", **settings: Any) -> Table:
    lake = mangrove.create(folder)
    lake.create_namespace("s")
    return lake.create_table(
        "s.t", columns, **{"keys": ["id"], "properties": {"write.inline-rows-max-bytes": "0"}, **settings}
    )


def change(table: Table, kind: str, keys: list[int]) -> None:
    rows = [{"id": key} for key in keys]
    match kind:
        case "append":
            table.append(rows)
        case "upsert":
            table.upsert(rows)
        case "delete":
            table.delete_keys(rows)
        case _:
            table.compact()


@given(CHANGES)
@settings(max_examples=30)
def test_the_index_has_exactly_the_visible_keys_and_none_that_rows_share(changes: list[tuple[str, list[int]]]) -> None:
    table = create_table(f"memory://index-{uuid.uuid4()}")
    catalog: Any = table.catalog
    store = catalog.effects.store
    continued = KeyIndexCache()
    candidates = pa.chunked_array([list(range(-30, 30))])
    for done, (kind, keys) in enumerate(changes, 1):
        change(table, kind, keys)
        visible = Counter(table.to_arrow(["id"]).column("id").to_pylist())
        for cache in (continued, KeyIndexCache()):
            index = cache.load(store, table.state(), ALL)
            assert index is None or visible.total() == len(visible)
            if index is not None:
                assert index.count(candidates) == len(visible)
                assert all(index.count(pa.chunked_array([[key]])) == (key in visible) for key in range(-30, 30))
            # Rows that shared a key may have been deleted since.
            assert index is not None or not visible or any(one == "append" for one, _ in changes[:done])


def test_an_index_is_continued_with_the_files_that_were_added(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    for first in range(0, 50, 10):
        table.append([{"id": first + number} for number in range(10)])
    store = CountingStore(open_store(str(tmp_path)))
    cache = KeyIndexCache()
    assert cache.load(store, table.state(), 10) is None, "few rows would be compared"
    assert store.requests.reads == 0
    assert cache.load(store, table.state(), 25) is not None
    before = store.requests.reads
    assert cache.load(store, table.state(), 0) is not None
    assert store.requests.reads == before
    table.upsert([{"id": 49}, {"id": 10**6 - 1}])
    index = cache.load(store, table.state(), 0)
    read = store.requests.reads - before
    assert index is not None
    assert index.count(pa.chunked_array([[0, 48, 49, 10**6 - 1, 10**6, 2**62, -(2**63)]])) == 4
    read_columns(store, plan_scan(table.state()).scans[-1].file, table.state().key_columns)
    assert store.requests.reads - before == 2 * read


@pytest.mark.parametrize(
    ("columns", "settings", "rows"),
    [
        ("id string not null", {}, [{"id": "a"}]),
        ("id bigint not null, v int not null", {"keys": ["id", "v"]}, [{"id": 1, "v": 1}]),
        ("id bigint not null, v int", {"partition_by": ["id"]}, [{"id": 1}]),
        ("id bigint not null, v int", {}, [{"id": 0}, {"id": 2**40}]),
        ("id bigint not null, v int", {}, [{"id": 1}, {"id": 1}]),
    ],
    ids=["text", "two keys", "partitions", "sparse", "shared"],
)
def test_other_tables_have_no_index(
    tmp_path: Path, columns: str, settings: dict[str, Any], rows: list[dict[str, Any]]
) -> None:
    table = create_table(tmp_path, columns, **settings)
    table.append(rows)
    store = open_store(str(tmp_path))
    assert KeyIndexCache().load(store, table.state(), ALL) is None


def test_position_deletes_and_too_many_rows_have_no_index(tmp_path: Path) -> None:
    table = create_table(tmp_path, properties={"write.inline-rows-max-bytes": "0", "write.delete-mode": "position"})
    table.append([{"id": number} for number in range(10)])
    store = open_store(str(tmp_path))
    cache = KeyIndexCache()
    assert cache.load(store, table.state(), ALL) is not None
    assert KeyIndexCache(rows_max=9).load(store, table.state(), ALL) is None
    table.delete("id = 3")
    assert cache.load(store, table.state(), ALL) is None
