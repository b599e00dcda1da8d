"""Statements that do not read rows begin on the version in memory, and their result is that of the newest version."""

import pytest
from tests.support.table_properties import DATA_FILES_ONLY

from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.lakehouse.table import Table
from mangrove.storage.counting import CountingStore
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.wiring import LocalEngines


@pytest.fixture
def lake(effects: Effects, layout: str, strict: bool | None) -> Lakehouse:
    lake = create_on_store(effects, layout=layout, strict=strict, engines=LocalEngines)
    lake.create_namespace("shop")
    # The check for inline rows to flush reads the newest version.
    lake.create_table("shop.orders", "id bigint not null, note string", keys=["id"], properties=DATA_FILES_ONLY)
    return lake


@pytest.fixture
def other(lake: Lakehouse, store: CountingStore, clock: Clock) -> Lakehouse:
    """Return the lakehouse as another process opens it."""
    return open_on_store(build_deterministic_effects(store, clock, 10**6), engines=LocalEngines)


def append(table: Table, *ids: int) -> None:
    table.append([{"id": number, "note": "new"} for number in ids])


def ids(lake: Lakehouse, name: str = "shop.orders") -> list[int]:
    return sorted(row["id"] for row in lake.table(name).to_arrow().to_pylist())


def columns(table: Table) -> list[str]:
    return table.to_arrow().column_names


def test_consecutive_blind_statements_read_nothing(lake: Lakehouse, store: CountingStore) -> None:
    orders = lake.table("shop.orders")
    append(orders, 1)
    append(orders, 3)  # strict trees read the definition of the partition once
    before = store.requests
    append(orders, 2)
    orders.upsert([{"id": 1, "note": "changed"}])
    orders.delete_keys([{"id": 2}])
    made = store.requests - before
    assert (made.reads, made.sizes, made.lists, made.creates) == (0, 0, 0, 3)
    assert ids(lake) == [1, 3]


def test_consecutive_creates_read_no_version(lake: Lakehouse, store: CountingStore, layout: str) -> None:
    lake.create_namespace("first")
    lake.create_table("first.orders", "id bigint")
    before = store.requests
    lake.create_namespace("second")
    lake.create_table("shop.items", "id bigint")
    made = store.requests - before
    assert (made.sizes, made.lists, made.creates) == (0, 0, 2)
    # DeltaCAT layouts look up names that may be taken by its own mappings.
    assert layout.startswith("deltacat") or made.reads == 0


def test_names_that_another_process_took_or_freed_are_those_of_the_newest_version(
    lake: Lakehouse, other: Lakehouse
) -> None:
    other.create_namespace("taken")
    other.create_table("shop.taken", "id bigint")
    other.drop_table("shop.orders")
    version = other.version
    with pytest.raises(AlreadyExistsError):
        lake.create_namespace("taken")
    with pytest.raises(AlreadyExistsError):
        lake.create_table("shop.taken", "id bigint")
    assert lake.version == version
    assert columns(lake.create_table("shop.taken", "name string", if_not_exists=True)) == ["id"]
    lake.create_table("shop.orders", "name string")
    assert columns(other.table("shop.orders")) == ["name"]
    other.drop_table("shop.taken")
    other.drop_table("shop.orders")
    other.drop_namespace("shop")
    with pytest.raises(NotFoundError):
        lake.create_table("shop.orders", "id bigint")
    with lake.transaction() as transaction:
        transaction.create_namespace("shop")
    other.create_table("shop.orders", "id bigint")
    assert [one.name for one in lake.tables("shop")] == ["orders"]


def test_a_handle_that_was_idle_reads_the_newest_version(lake: Lakehouse, store: CountingStore, clock: Clock) -> None:
    orders = lake.table("shop.orders")
    append(orders, 1)
    append(orders, 3)
    clock.now_millis += 11_000
    before = store.requests
    append(orders, 2)
    assert (store.requests - before).reads == 1


def test_a_handle_that_lost_a_race_reads_the_newest_version(
    lake: Lakehouse, other: Lakehouse, store: CountingStore
) -> None:
    orders = lake.table("shop.orders")
    append(other.table("shop.orders"), 1)
    append(orders, 2)  # loses
    append(other.table("shop.orders"), 3)
    before = store.requests
    append(orders, 4)
    assert (store.requests - before).creates == 1
    assert ids(lake) == [1, 2, 3, 4]


def test_blind_appends_of_two_handles_keep_all_rows(lake: Lakehouse, other: Lakehouse) -> None:
    append(lake.table("shop.orders"), 1)
    append(other.table("shop.orders"), 2)
    append(lake.table("shop.orders"), 3)
    append(other.table("shop.orders"), 4)
    assert ids(lake) == ids(other) == [1, 2, 3, 4]


def test_a_table_name_is_resolved_in_the_newest_version(lake: Lakehouse, other: Lakehouse) -> None:
    orders = lake.table("shop.orders")
    append(orders, 1)
    with other.transaction() as transaction:
        transaction.rename_table("shop.orders", "shop.archive")
        transaction.create_table("shop.orders", "id bigint not null, note string", keys=["id"])
    append(orders, 2)
    assert (ids(other), ids(other, "shop.archive")) == ([2], [1])


def test_a_table_that_another_process_dropped_is_not_found(lake: Lakehouse, other: Lakehouse) -> None:
    orders = lake.table("shop.orders")
    append(orders, 1)
    other.drop_table("shop.orders")
    version = other.version
    with pytest.raises(NotFoundError):
        append(orders, 2)
    assert lake.version == version


def test_a_column_that_another_process_added_is_accepted(lake: Lakehouse, other: Lakehouse) -> None:
    orders = lake.table("shop.orders")
    append(orders, 1)
    other.table("shop.orders").update_schema().add_column("more", "bigint").commit()
    orders.append([{"id": 2, "note": "new", "more": 5}])
    assert {row["id"]: row["more"] for row in lake.table("shop.orders").to_arrow().to_pylist()} == {1: None, 2: 5}


def test_a_default_that_another_process_set_is_used(lake: Lakehouse, other: Lakehouse) -> None:
    orders = lake.table("shop.orders")
    append(orders, 1)
    other.table("shop.orders").update_schema().set_default("note", "'given'").commit()
    orders.append([{"id": 2}])
    assert {row["id"]: row["note"] for row in lake.table("shop.orders").to_arrow().to_pylist()} == {
        1: "new",
        2: "given",
    }


def test_a_statement_that_changes_nothing_is_repeated_on_the_newest_version(
    store: CountingStore, clock: Clock, effects: Effects
) -> None:
    lake = create_on_store(effects, layout="deltacat-2", compatible_with="deltacat", engines=LocalEngines)
    lake.create_namespace("shop")
    orders = lake.create_table("shop.orders", "id bigint not null, note string", keys=["id"])
    other = open_on_store(build_deterministic_effects(store, clock, 10**6), engines=LocalEngines)
    append(other.table("shop.orders"), 1, 2)
    orders.delete_keys([{"id": 2}])
    assert ids(other) == [1]
