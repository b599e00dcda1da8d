"""Inline rows: small writes that create no data file, on every layout."""

from collections.abc import Callable, Mapping
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

from mangrove.effects import Effects
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.lakehouse.table import Table
from mangrove.model.manifests import FileKind
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.wiring import LocalEngines

PROPERTY = "write.inline-rows-max-bytes"
SCHEMA = "id bigint not null, item string, tags map<string, array<struct<n: int>>>"


@pytest.fixture
def lake(effects: Effects, layout: str, strict: bool | None) -> Lakehouse:
    made = create_on_store(effects, layout=layout, strict=strict, engines=LocalEngines)
    made.create_namespace("shop")
    return made


def create_table(lake: Lakehouse, name: str, bytes_max: int = 2000, **options: Any) -> Table:
    return lake.create_table(name, SCHEMA, properties={PROPERTY: str(bytes_max)}, **options)


def rows_of(*ids: int, item: str = "tea") -> list[dict[str, Any]]:
    return [{"id": one, "item": item, "tags": [("a", [{"n": one}, None])]} for one in ids]


def read(table: Any, **options: Any) -> list[dict[str, Any]]:
    return sorted(table.to_arrow(**options).to_pylist(), key=lambda row: (row["id"], row["item"]))


def list_data_files(store: CountingStore) -> set[str]:
    return {entry.path for entry in store.list("data/")}


def test_small_writes_create_no_data_file(lake: Lakehouse, store: CountingStore) -> None:
    orders = create_table(lake, "shop.orders", keys=["id"])
    orders.append(rows_of(1, 2, 3))
    orders.upsert(rows_of(2, 4, item="coffee"))
    orders.delete_keys([{"id": 3}])
    assert read(orders) == [*rows_of(1), *rows_of(2, 4, item="coffee")]
    assert read(orders, where="id >= 2") == rows_of(2, 4, item="coffee")
    assert orders.count() == 3
    assert lake.maintenance.check().problems == ()
    assert bool(list_data_files(store)) is not lake.settings.allows_inline_rows


def test_a_repeated_read_decodes_only_inline_rows_that_are_visible(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not lake.settings.allows_inline_rows:
        pytest.skip("the layout has no inline rows")
    orders = create_table(lake, "shop.orders", keys=["id"])
    for item in ("tea", "coffee", "milk"):
        orders.upsert(rows_of(1, 2, item=item))
    assert read(orders) == rows_of(1, 2, item="milk")
    decoded: list[object] = []
    open_stream: Any = pa.ipc.open_stream

    def count_and_open(source: object) -> Any:
        decoded.append(source)
        return open_stream(source)

    monkeypatch.setattr(pa.ipc, "open_stream", count_and_open)
    assert read(orders) == rows_of(1, 2, item="milk")
    assert len(decoded) == 1


def test_a_large_write_creates_a_data_file(lake: Lakehouse, store: CountingStore) -> None:
    orders = create_table(lake, "shop.orders")
    orders.append(rows_of(*range(1000)))
    assert len(list_data_files(store)) == 1


def test_an_append_of_few_rows_creates_only_the_root(lake: Lakehouse, layout: str, store: CountingStore) -> None:
    if layout != "tree" or not lake.settings.allows_inline_rows:
        pytest.skip("other layouts write a definition for each delta")
    orders = create_table(lake, "shop.orders")
    orders.append(rows_of(1))
    before = store.requests
    orders.append(rows_of(2, 3, 4))
    made = store.requests - before
    # The put is that of the hint.
    assert (made.creates, made.puts, made.total) == (1, 1, 2)


def test_the_property_is_a_number_of_bytes(lake: Lakehouse) -> None:
    with pytest.raises(
        InvalidInputError, match=f"invalid {PROPERTY} '1 kB' of shop.orders; expected a number of bytes"
    ):
        lake.create_table("shop.orders", SCHEMA, properties={PROPERTY: "1 kB"})


OPERATIONS: list[Callable[[Table], object]] = [
    lambda table: table.append(rows_of(1, 2, 3)),
    lambda table: table.upsert(rows_of(2, 4, item="coffee")),
    lambda table: table.append(rows_of(*range(100, 600))),
    lambda table: table.delete_keys([{"id": 3}, {"id": 101}]),
    lambda table: table.update({"item": "water"}, "id in (1, 102)"),
    lambda table: table.upsert(rows_of(103, 5, item="milk")),
    lambda table: table.delete("id = 104 or id = 5"),
    lambda table: table.upsert([{"id": 1, "item": "juice"}, {"id": 6, "item": "juice"}]),
    lambda table: table.compact(files_max=2),
    lambda table: table.append(rows_of(7, 8)),
    lambda table: table.overwrite(rows_of(7, 9, item="cocoa"), "id >= 7 and id < 10"),
    lambda table: table.compact(),
    lambda table: table.append(rows_of(10)),
    lambda table: table.overwrite(rows_of(1, 2)),
    lambda table: table.append(rows_of(3)),
]


@pytest.mark.parametrize(("mode", "partition_by"), [("keys", ["bucket(4, id)"]), ("position", [])])
def test_all_operations_have_the_same_result_with_inline_rows(
    lake: Lakehouse, mode: str, partition_by: list[str]
) -> None:
    options: dict[str, Any] = {"keys": ["id"], "partition_by": partition_by}
    inline = create_table(lake, "shop.inline", **options)
    stored = create_table(lake, "shop.stored", 0, **options)
    first = lake.version
    for table in (inline, stored):
        table.alter({"write.delete-mode": mode})
    for place, run in enumerate(OPERATIONS):
        before = lake.version
        for table in (inline, stored):
            run(table)
        assert read(inline) == read(stored), place
        assert inline.count("id > 3") == stored.count("id > 3")
        changes = [sorted(map(repr, table.changes(before).to_pylist())) for table in (inline, stored)]
        assert changes[0] == changes[1], place
    for version in range(first, lake.version + 1):
        past = lake.at(version)
        if version % 2 == first % 2:
            assert read(past.table("shop.inline")) == read(past.table("shop.stored")), version
    assert lake.maintenance.check().problems == ()


def test_a_compaction_moves_inline_rows_into_a_file(lake: Lakehouse, store: CountingStore) -> None:
    orders = create_table(lake, "shop.orders")
    orders.append(rows_of(1))
    orders.compact()
    assert len(list_data_files(store)) == 1
    assert not any(file.is_inline for file in orders.scan().files())
    assert read(orders) == rows_of(1)


def test_renamed_and_added_columns_apply_to_inline_rows(lake: Lakehouse) -> None:
    orders = create_table(lake, "shop.orders")
    orders.append(rows_of(1))
    with orders.update_schema() as update:
        update.rename_column("item", "name")
        update.add_column("item", "bigint")
    orders.append([{"id": 2, "name": "tea", "tags": None, "item": 5}])
    assert orders.to_arrow(columns=["id", "name", "item"]).sort_by("id").to_pylist() == [
        {"id": 1, "name": "tea", "item": None},
        {"id": 2, "name": "tea", "item": 5},
    ]


def test_tables_whose_columns_differ_only_in_their_ids_delete_their_own_rows(lake: Lakehouse) -> None:
    for name, schema in (("shop.first", "id bigint, v bigint"), ("shop.second", "v bigint, id bigint")):
        table = lake.create_table(name, schema, keys=["id"], properties={PROPERTY: "2000"})
        table.append([{"id": 1, "v": 5}, {"id": 2, "v": 6}])
        table.delete_keys([{"id": 1}])
        assert table.to_arrow(columns=["id", "v"]).to_pylist() == [{"id": 2, "v": 6}]


@pytest.fixture
def early_flushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few inline rows be enough to move them into a data file."""
    monkeypatch.setattr("mangrove.tables.inline_flush._INLINE_FILES_MAX", 4)
    monkeypatch.setattr("mangrove.tables.inline_flush._FLUSH_CHECK_INTERVAL", 1)


def count_flushes(lake: Lakehouse) -> int:
    return sum(entry.message.startswith("move inline rows of") for entry in lake.history())


def test_many_small_appends_leave_few_data_files(lake: Lakehouse, store: CountingStore, clock: Clock) -> None:
    if not lake.settings.allows_inline_rows:
        pytest.skip("rows are not inline")
    orders = create_table(lake, "shop.orders", keys=["id"])
    start = lake.version
    for number in range(100):
        orders.append(rows_of(3 * number, 3 * number + 1, 3 * number + 2))
    assert orders.count() == 300
    assert 1 <= len(list_data_files(store)) <= 2
    again = open_on_store(build_deterministic_effects(store, clock, 10**6), engines=LocalEngines)
    assert again.table("shop.orders").count() == 300
    assert again.at(start + 50).table("shop.orders").count() == 150
    assert len(again.table("shop.orders").changes(start).to_pylist()) == 300
    assert again.maintenance.check().problems == ()


def test_small_writes_in_transactions_leave_few_data_files(lake: Lakehouse, store: CountingStore) -> None:
    if not lake.settings.allows_inline_rows:
        pytest.skip("rows are not inline")
    create_table(lake, "shop.orders", keys=["id"])
    create_table(lake, "shop.dropped")
    with lake.transaction() as transaction:
        for number in range(100):
            transaction.table("shop.orders").upsert(rows_of(number))
            transaction.table("shop.dropped").append(rows_of(number))
        transaction.table("shop.dropped").drop()
        assert not list_data_files(store)
    assert len(list_data_files(store)) == count_flushes(lake) == 1
    assert lake.table("shop.orders").count() == 100
    assert lake.maintenance.check().problems == ()


def test_the_publication_of_small_writes_leaves_few_data_files(lake: Lakehouse, store: CountingStore) -> None:
    if not lake.settings.allows_inline_rows:
        pytest.skip("rows are not inline")
    create_table(lake, "shop.orders", keys=["id"])
    create_table(lake, "shop.dropped")
    with lake.begin_shared("load") as shared:
        for number in range(40):
            shared.table("shop.orders").upsert(rows_of(number))
            shared.table("shop.dropped").append(rows_of(number))
    with lake.join_shared("load") as joined:
        for number in range(40, 80):
            joined.table("shop.orders").upsert(rows_of(number))
        joined.table("shop.dropped").drop()
    assert not list_data_files(store)
    lake.join_shared("load").publish()
    assert len(list_data_files(store)) == count_flushes(lake) == 1
    assert lake.table("shop.orders").count() == 80
    assert lake.maintenance.check().problems == ()


def test_rows_are_inline_by_default_where_only_mangrove_reads_them(lake: Lakehouse, layout: str) -> None:
    orders = lake.create_table("shop.orders", SCHEMA)
    orders.append(rows_of(1, 2, 3))
    is_default = layout == "tree" and lake.settings.allows_inline_rows
    assert [file.is_inline for file in orders.scan().files()] == [is_default]
    orders.alter({PROPERTY: "0"})
    orders.append(rows_of(4))
    assert [file.is_inline for file in orders.scan().files()] == [is_default, False]


def test_a_flush_keeps_the_keys_that_delete_rows_of_other_files(lake: Lakehouse, store: CountingStore) -> None:
    if not lake.settings.allows_inline_rows:
        pytest.skip("rows are not inline")
    orders = create_table(lake, "shop.orders", keys=["id"])
    orders.append(rows_of(*range(200)))
    for number in range(80):
        orders.upsert(rows_of(number % 30, item=f"item {number}"))
        orders.delete_keys([{"id": 100 + number}])
    assert count_flushes(lake) >= 1
    newest = {number % 30: f"item {number}" for number in range(80)}
    remaining = [number for number in range(200) if not 100 <= number < 180]
    expected = {number: newest.get(number, "tea") for number in remaining}
    assert {row["id"]: row["item"] for row in read(orders)} == expected
    assert lake.maintenance.check().problems == ()


@pytest.mark.parametrize("mode", ["keys", "position"])
def test_flushes_merge_the_files_of_earlier_flushes(lake: Lakehouse, mode: str, early_flushes: None) -> None:
    if not lake.settings.allows_inline_rows:
        pytest.skip("rows are not inline")
    orders = create_table(lake, "shop.orders", keys=["id"])
    orders.alter({"write.delete-mode": mode})
    orders.append(rows_of(*range(100, 300)))
    expected = dict.fromkeys(range(100, 300), "tea")
    for number in range(24):
        orders.append(rows_of(number))
        orders.update({"item": f"item {number}"}, f"id in ({number // 2}, {100 + number})")
        orders.delete(f"id = {200 + number}")
        expected |= {number: "tea"} | {number // 2: f"item {number}", 100 + number: f"item {number}"}
        del expected[200 + number]
        assert {row["id"]: row["item"] for row in read(orders)} == expected, number
    assert count_flushes(lake) >= 8
    stored = [file for file in orders.scan().files() if file.kind is FileKind.DATA and not file.is_inline]
    assert len(stored) <= 5
    assert lake.maintenance.check().problems == ()


class GatedStore(MemoryStore):
    """Lets the first write of a data file wait for a gate."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.is_writing, self.gate = Event(), Event()

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        if any(path.startswith("data/") for path in objects) and not self.is_writing.is_set():
            self.is_writing.set()
            assert self.gate.wait(60)
        super().put_many(objects)


def test_one_thread_at_a_time_moves_inline_rows(layout: str, early_flushes: None) -> None:
    store = GatedStore("memory://gated/")
    lake = create_on_store(build_deterministic_effects(store), layout=layout, strict=False, engines=LocalEngines)
    lake.create_namespace("shop")
    orders = create_table(lake, "shop.orders")
    for number in range(3):
        orders.append(rows_of(number))
    flushing = Thread(target=orders.append, args=[rows_of(3)])
    flushing.start()
    try:
        assert store.is_writing.wait(60)
        orders.append(rows_of(4))
    finally:
        store.gate.set()
        flushing.join(60)
    assert sum(1 for _ in store.list("data/")) == count_flushes(lake) == 1
    assert orders.count() == 5


class RacingStore(MemoryStore):
    """Runs a commit of another writer just before the second create of a statement, which is that of a flush."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.race: Callable[[], object] | None = None
        self.creates = 0

    def is_waiting(self) -> bool:
        return self.race is not None

    def create(self, path: str, data: bytes) -> bool:
        self.creates += 1
        if self.race is not None and self.creates == 2:
            race, self.race = self.race, None
            race()
        return super().create(path, data)


@pytest.mark.parametrize("concurrent", ["write", "compaction"])
def test_a_flush_that_loses_a_race_changes_no_rows(layout: str, concurrent: str) -> None:
    store = RacingStore("memory://race/")
    lake = create_on_store(build_deterministic_effects(store), layout=layout, strict=False, engines=LocalEngines)
    lake.create_namespace("shop")
    orders = create_table(lake, "shop.orders", keys=["id"])
    other = open_on_store(build_deterministic_effects(store, first_id=10**6), engines=LocalEngines)
    orders.append(rows_of(*range(100)))
    with lake.transaction() as transaction:
        for number in range(40):
            transaction.table("shop.orders").upsert(rows_of(number, item="flushed"))
    expected = {number: "flushed" if number < 40 else "tea" for number in range(100)}

    def write_concurrently() -> None:
        table = other.table("shop.orders")
        if concurrent == "compaction":
            table.compact()
            return
        table.upsert(rows_of(0, 200, item="concurrent"))
        table.delete_keys([{"id": 1}])
        expected.update({0: "concurrent", 200: "concurrent"})
        del expected[1]

    store.race = write_concurrently
    number = 40
    while store.is_waiting():
        store.creates = 0
        orders.upsert(rows_of(number, item="last"))
        expected[number] = "last"
        number += 1
    assert {row["id"]: row["item"] for row in read(orders)} == expected
    assert count_flushes(lake) == (1 if concurrent == "write" else 0)
    assert lake.maintenance.check().problems == ()
