"""Commits of PyIceberg to a table that changed since the client loaded it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ValidationException
from pyiceberg.table import Table as IcebergTable
from tests.rest.conftest import TOKEN, counted, served

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.access import Access

FIELDS: list[Any] = [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())]
ARROW = pa.schema(FIELDS)


def rows_of(*ids: int, name: str = "client") -> pa.Table:
    return pa.Table.from_pylist([{"id": one, "name": name} for one in ids], schema=ARROW)


@pytest.fixture
def shop(tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("shop")
    table = lake.create_table(
        "shop.a",
        "id bigint not null, name string",
        keys=["id"],
        properties={
            "commit.retry.min-wait-ms": "1",
            "commit.retry.max-wait-ms": "2",
        },
    )
    table.append([{"id": 1, "name": "old"}, {"id": 2, "name": "old"}])
    table.append([{"id": 3, "name": "old"}])
    return lake


@pytest.fixture
def stale(shop: Lakehouse, catalog_of: Callable[..., RestCatalog]) -> Iterator[IcebergTable]:
    """A table as a client loaded it, before the test changes it."""
    with served(counted(shop), Access("127.0.0.1", TOKEN, is_writable=True)) as address:
        yield catalog_of(address, token=TOKEN).load_table("shop.a")


def names_by_id(lake: Lakehouse) -> dict[int, str]:
    rows = lake.table("shop.a").to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["name"] for row in rows}


def test_an_append_to_a_table_that_changed_is_retried(shop: Lakehouse, stale: IcebergTable) -> None:
    shop.table("shop.a").append([{"id": 4, "name": "ours"}])
    shop.table("shop.a").upsert([{"id": 1, "name": "ours"}])
    stale.append(rows_of(5))
    assert names_by_id(shop) == {1: "ours", 2: "old", 3: "old", 4: "ours", 5: "client"}


def delete_while(stale: IcebergTable, change: Callable[[], object]) -> None:
    """Delete the row with id 1 while the table changes: the client reads before the change and commits after it."""
    transaction = stale.transaction()
    transaction.delete("id = 1")
    change()
    transaction.commit_transaction()


def test_a_delete_is_retried_if_other_rows_were_added(shop: Lakehouse, stale: IcebergTable) -> None:
    delete_while(stale, lambda: shop.table("shop.a").append([{"id": 4, "name": "ours"}]))
    assert names_by_id(shop) == {2: "old", 3: "old", 4: "ours"}


def test_a_delete_in_a_file_from_which_an_upsert_removed_rows_fails(shop: Lakehouse, stale: IcebergTable) -> None:
    with pytest.raises(ValidationException):
        delete_while(stale, lambda: shop.table("shop.a").upsert([{"id": 2, "name": "ours"}]))
    assert names_by_id(shop) == {1: "old", 2: "ours", 3: "old"}


def test_a_delete_in_a_file_that_a_compaction_replaced_fails(shop: Lakehouse, stale: IcebergTable) -> None:
    def change() -> None:
        shop.table("shop.a").upsert([{"id": 2, "name": "ours"}])
        shop.maintenance.compact("shop.a", full=True)

    with pytest.raises(ValidationException):
        delete_while(stale, change)
    assert names_by_id(shop) == {1: "old", 2: "ours", 3: "old"}


def test_a_delete_fails_if_a_matching_row_was_added(shop: Lakehouse, stale: IcebergTable) -> None:
    def change() -> None:
        shop.table("shop.a").delete("id = 1")
        shop.table("shop.a").append([{"id": 1, "name": "ours"}])

    with pytest.raises(ValidationException):
        delete_while(stale, change)
    assert names_by_id(shop) == {1: "ours", 2: "old", 3: "old"}


def test_time_travel_reads_the_rows_of_that_time(shop: Lakehouse, stale: IcebergTable) -> None:
    shop.table("shop.a").append([{"id": 4, "name": "ours"}])
    first, second = shop.at(shop.version - 2), shop.at(shop.version - 1)
    table = stale.refresh()
    for past in (first, second):
        snapshot = table.snapshot_as_of_timestamp(past.snapshot.commit.created_at_millis)
        assert snapshot is not None
        found = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist()
        assert sorted(found, key=repr) == sorted(past.table("shop.a").to_arrow().to_pylist(), key=repr)
