"""What showing a state costs, and what becomes of it when something fails on the way."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyiceberg.table import StaticTable
from tests.support.table_properties import DATA_FILES_ONLY

from mangrove.errors import FormatError, InvalidInputError, StorageError
from mangrove.expressions.schema_text import parse_schema
from mangrove.iceberg.publish.metadata_writer import publish_table
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType, TableVersion
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.storage.opening import open_store
from mangrove.storage.port import ObjectInfo, Store
from mangrove.tables.iceberg_names import METADATA_SUFFIX, compute_published_name, published_folder_of, split_runs
from mangrove.tables.table_state import PartitionLog, TableState
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.faulty_store import Faults, FaultyStore, SimulatedCrash
from mangrove.wiring import LocalEngines

AT_MILLIS = 1_700_000_000_000


def bulky(count: int) -> TableState:
    """Return a table of so many files, one in each delta, which are not there: to show them nobody opens them."""
    deltas = [
        Delta(DeltaType.APPEND, Manifest((DataFile(f"data/t/{number}.parquet", 1000, 10),)), position=number)
        for number in range(1, count + 1)
    ]
    return TableState(
        "shop.sales", "t", TableVersion(1, parse_schema("id bigint")), logs=(PartitionLog((), tuple(deltas)),)
    )


@pytest.fixture(autouse=True)
def names_without_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let manifests end where the same names end them in every run, although addresses contain the temporary folder."""

    def split(items: Sequence[Any], texts: Sequence[str], size: int) -> Iterator[tuple[Any, ...]]:
        return split_runs(items, [text.replace(str(tmp_path), "") for text in texts], size)

    monkeypatch.setattr("mangrove.iceberg.publish.manifest_plan.split_runs", split)


def create_lakehouse(folder: Path) -> Lakehouse:
    """Create a lakehouse with the same file names in every run: names decide where a manifest ends."""
    lake = create_on_store(build_deterministic_effects(open_store(folder)), engines=LocalEngines)
    lake.create_namespace("shop")
    return lake


def with_deleted_rows(folder: Path) -> Lakehouse:
    lake = create_lakehouse(folder)
    sales = lake.create_table("shop.sales", "id bigint not null, what string", keys=["id"])
    sales.append([{"id": number, "what": "old"} for number in range(10)])
    sales.append([{"id": number, "what": "old"} for number in range(10, 20)])
    sales.upsert([{"id": 5, "what": "new"}, {"id": 15, "what": "new"}, {"id": 30, "what": "new"}])
    return lake


def files_of(store: Store, table_id: str) -> dict[str, bytes]:
    listed = [entry.path for entry in store.list(published_folder_of(table_id)) if isinstance(entry, ObjectInfo)]
    return {path: store.read(path) for path in listed}


def test_publishing_an_unchanged_state_again_is_one_request(tmp_path: Path) -> None:
    lake = with_deleted_rows(tmp_path / "lake")
    state = lake.table("shop.sales").state()
    store = CountingStore(lake.effects.store)
    first = publish_table(store, state, AT_MILLIS)
    before = store.requests
    assert publish_table(store, state, AT_MILLIS) == first
    made = store.requests - before
    assert (made.total, made.reads) == (1, 1)


def test_publishing_an_append_to_a_table_of_many_files_writes_few_files() -> None:
    store = CountingStore(MemoryStore("memory://many/"))
    publish_table(store, bulky(3000), AT_MILLIS)
    for more in range(1, 5):
        before = store.requests
        found = publish_table(store, bulky(3000 + more), AT_MILLIS)
        made = store.requests - before
        # The last manifest, the list, the names of the parts, the metadata.
        assert made.puts <= 5
        assert made.reads == 1
        assert found.metadata.snapshots[0].summary is not None
        assert found.metadata.snapshots[0].summary["total-data-files"] == str(3000 + more)


def test_removing_a_file_rewrites_only_its_manifest() -> None:
    store = CountingStore(MemoryStore("memory://many/"))
    state = bulky(3000)
    publish_table(store, state, AT_MILLIS)
    removal = Delta(DeltaType.REPLACE, replaced_locations=("data/t/1500.parquet",), position=3001)
    before = store.requests
    publish_table(store, replace(state, logs=(PartitionLog((), (*state.logs[0].deltas, removal)),)), AT_MILLIS)
    assert (store.requests - before).puts <= 6


def test_position_deletes_are_computed_once_for_the_same_delete_files(tmp_path: Path) -> None:
    lake = with_deleted_rows(tmp_path / "lake")
    sales = lake.table("shop.sales")
    publish_table(lake.effects.store, sales.state(), AT_MILLIS)
    sales.append([{"id": 40, "what": "new"}])
    store = CountingStore(lake.effects.store)
    publish_table(store, sales.state(), AT_MILLIS)
    # Whether the state has been shown, and what was found out for the last one: no Parquet file is opened.
    assert store.requests.reads == 2


def test_inline_rows_are_written_once_and_found_by_one_listing(tmp_path: Path) -> None:
    lake = create_lakehouse(tmp_path / "lake")
    sales = lake.create_table("shop.sales", "id bigint")
    for number in range(20):
        sales.append([{"id": number}])
    publish_table(lake.effects.store, sales.state(), AT_MILLIS)
    sales.append([{"id": 20}])
    store = CountingStore(lake.effects.store)
    found = publish_table(store, sales.state(), AT_MILLIS)
    # The rows, a manifest, the list, the names of the parts, the metadata.
    assert (store.requests.puts, store.requests.sizes) == (5, 0)
    assert StaticTable.from_metadata(found.metadata_address).scan().to_arrow().num_rows == 21


def test_an_upsert_whose_keys_may_be_anywhere_writes_files_only_for_those_that_lose_rows(tmp_path: Path) -> None:
    lake = create_lakehouse(tmp_path / "lake")
    sales = lake.create_table("shop.sales", "id bigint not null, what string", keys=["id"], properties=DATA_FILES_ONLY)
    for number in range(20):
        sales.append([{"id": 20 * one + number, "what": "old"} for one in range(20)])
    sales.upsert([{"id": 20 * one, "what": "new"} for one in range(20)])
    publish_table(lake.effects.store, sales.state(), AT_MILLIS)
    sales.upsert([{"id": 1, "what": "newer"}, {"id": 382, "what": "newer"}])
    store = CountingStore(lake.effects.store)
    found = publish_table(store, sales.state(), AT_MILLIS)
    # Two files of hidden rows, two manifests, the list, the names of the parts, the metadata.
    assert store.requests.puts == 7
    rows = StaticTable.from_metadata(found.metadata_address).scan().to_arrow().to_pylist()
    assert sorted(rows, key=repr) == sorted(sales.to_arrow().to_pylist(), key=repr)


def test_publishing_a_state_is_deterministic(tmp_path: Path) -> None:
    lake = with_deleted_rows(tmp_path / "lake")
    state = lake.table("shop.sales").state()
    found = []
    for _ in range(2):
        publish_table(lake.effects.store, state, AT_MILLIS)
        found.append(files_of(lake.effects.store, state.table_id))
        lake.effects.store.delete_many(found[-1])
    assert found[0] == found[1]


def test_a_state_can_be_published_concurrently(tmp_path: Path) -> None:
    lake = with_deleted_rows(tmp_path / "lake")
    state = lake.table("shop.sales").state()
    begin = Barrier(4)

    def shown(_: int) -> str:
        begin.wait()
        return publish_table(lake.effects.store, state, AT_MILLIS).metadata_address

    with ThreadPoolExecutor(4) as pool:
        (address,) = set(pool.map(shown, range(4)))
    together = files_of(lake.effects.store, state.table_id)
    lake.effects.store.delete_many(together)
    publish_table(lake.effects.store, state, AT_MILLIS)
    assert files_of(lake.effects.store, state.table_id) == together
    assert StaticTable.from_metadata(address).scan().to_arrow().num_rows == 21


def crashes(paths: dict[str, bytes]) -> Iterator[tuple[str, int]]:
    for path in paths:
        for seed in range(4):
            yield path, seed


def test_a_publication_that_crashed_at_any_file_is_completed_by_the_next_one(tmp_path: Path) -> None:
    lake = with_deleted_rows(tmp_path / "lake")
    state = lake.table("shop.sales").state()
    store = lake.effects.store
    address = publish_table(store, state, AT_MILLIS).metadata_address
    whole = files_of(store, state.table_id)
    rows = sorted(StaticTable.from_metadata(address).scan().to_arrow().to_pylist(), key=repr)
    for path, seed in crashes(whole):
        store.delete_many(whole)
        faulty = FaultyStore(store, Faults(seed))
        faulty.fail_next("put", "crash", path)
        with pytest.raises(SimulatedCrash):
            publish_table(faulty, state, AT_MILLIS)
        left = files_of(store, state.table_id)
        assert left.items() <= whole.items()
        if any(one.endswith(METADATA_SUFFIX) for one in left):
            assert left == whole
        assert publish_table(store, state, AT_MILLIS).metadata_address == address
        assert files_of(store, state.table_id) == whole
    assert sorted(StaticTable.from_metadata(address).scan().to_arrow().to_pylist(), key=repr) == rows


def test_a_failed_write_is_reported_and_no_metadata_file_is_written(tmp_path: Path) -> None:
    lake = with_deleted_rows(tmp_path / "lake")
    state = lake.table("shop.sales").state()
    faulty = FaultyStore(lake.effects.store, Faults(0))
    faulty.fail_next("put", "before", ".avro")
    with pytest.raises(StorageError, match=r"cannot publish shop\.sales as Iceberg.*writes files below.*on purpose"):
        publish_table(faulty, state, AT_MILLIS)
    assert not lake.effects.store.exists(compute_published_name(state, lake.uri).metadata_path)
    assert list(lake.maintenance.check()) == []


class _StoreVacuumedOnce(CountingStore):
    """A store from which what was there vanishes once, between a listing and what is written after it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._inner = store
        self.gone = False

    def put(self, path: str, data: bytes) -> None:
        if not self.gone:
            self.gone = True
            listed = [entry.path for entry in self._inner.list("data/t/metadata/") if isinstance(entry, ObjectInfo)]
            self._inner.delete_many(listed[:3])
        super().put(path, data)


def test_manifests_deleted_during_the_publication_are_written_again() -> None:
    inner = MemoryStore("memory://many/")
    publish_table(inner, bulky(2000), AT_MILLIS)
    publish_table(_StoreVacuumedOnce(inner), bulky(2001), AT_MILLIS)
    fresh = MemoryStore("memory://many/")
    publish_table(fresh, bulky(2001), AT_MILLIS)
    assert files_of(fresh, "t").items() <= files_of(inner, "t").items()


def test_damaged_metadata_is_rejected_with_a_remedy() -> None:
    store = MemoryStore("memory://many/")
    state = bulky(1)
    publish_table(store, state, AT_MILLIS)
    store.put(compute_published_name(state, store.uri).metadata_path, b'{"format-version": 2}')
    with pytest.raises(FormatError, match="delete it to have it written again"):
        publish_table(store, state, AT_MILLIS)


def test_an_azure_container_is_published_only_with_an_address_that_names_the_account() -> None:
    store = MemoryStore("az://container/lake/")
    with pytest.raises(InvalidInputError, match="abfss://container@account"):
        publish_table(store, bulky(1), AT_MILLIS)
    assert list(store.list()) == []
    found = publish_table(MemoryStore("abfss://container@account.dfs.core.windows.net/a%20lake/"), bulky(1), AT_MILLIS)
    assert found.folder == "abfss://container@account.dfs.core.windows.net/a lake/data/t"


def test_a_copy_in_another_place_has_other_names() -> None:
    state = bulky(1)
    assert compute_published_name(state, "s3://a/") != compute_published_name(state, "s3://b/")


@given(st.lists(st.text(max_size=3), max_size=200), st.integers(1, 5))
def test_runs_together_are_all_items_in_order_and_none_is_too_long(words: list[str], size: int) -> None:
    found = list(split_runs(words, words, size))
    assert [word for run in found for word in run] == words
    assert all(1 <= len(run) <= 4 * size for run in found)


@given(st.lists(st.integers(), unique=True, min_size=50, max_size=300), st.data())
def test_removing_an_item_changes_only_adjacent_runs(numbers: list[int], data: st.DataObject) -> None:
    words = [str(number) for number in numbers]
    gone = data.draw(st.sampled_from(words))
    left = [word for word in words if word != gone]
    before, after = set(split_runs(words, words, 10)), set(split_runs(left, left, 10))
    # Where words alone say where runs end, one run changes, or two become one.
    assume(all(len(run) < 40 for run in before | after))
    assert len(before - after) <= 2
