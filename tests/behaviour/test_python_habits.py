"""Tables in Python programs and notebooks: Arrow streams, lookups, counts, lists and HTML."""

import duckdb
import polars
import pyarrow as pa
import pytest

from mangrove.effects import Effects
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.storage.counting import CountingStore
from mangrove.wiring import LocalEngines


@pytest.fixture
def shop(effects: Effects, layout: str, strict: bool | None) -> Lakehouse:
    """Make a table with an upsert, a delete, a renamed and an added column."""
    lake = create_on_store(effects, layout=layout, strict=strict, engines=LocalEngines)
    lake.create_namespace("shop")
    orders = lake.create_table("shop.orders", "id bigint not null, city string, tags array<string>", keys=["id"])
    orders.append([{"id": number, "city": "Oslo", "tags": ["a"]} for number in range(5)])
    orders.upsert([{"id": 1, "city": "Rome", "tags": None}])
    orders.delete("id = 2")
    orders.update_schema().rename_column("city", "town").add_column("price", "decimal(8,2)").commit()
    orders.append([{"id": 9, "town": "Bonn", "price": 5}])
    return lake


def test_other_libraries_read_tables_and_scans_as_arrow_streams(shop: Lakehouse) -> None:
    orders = shop.table("shop.orders")
    expected = orders.to_arrow()
    assert pa.table(orders).equals(expected)
    assert pa.table(shop.at(shop.version).table("shop.orders")).equals(expected)
    assert polars.DataFrame(orders).equals(polars.DataFrame(expected))
    relation = duckdb.sql("select count(*), max(town) from orders")
    assert relation is not None
    assert relation.fetchall() == [(5, "Rome")]
    scan = orders.scan("id > 3", ["id", "town"])
    assert pa.table(scan).equals(scan.to_arrow())
    assert scan.to_reader().schema.equals(scan.to_arrow().schema)
    assert pa.table(orders.scan("id > 99")).equals(orders.to_arrow(where="id > 99"))


def test_a_stream_is_read_again_by_each_consumer_and_sees_later_rows(shop: Lakehouse) -> None:
    orders = shop.table("shop.orders")
    assert [pa.table(orders).num_rows for _ in range(2)] == [5, 5]
    orders.append([{"id": 10}])
    assert pa.table(orders).num_rows == 6


def test_any_arrow_stream_can_be_written(shop: Lakehouse) -> None:
    orders = shop.table("shop.orders")
    copy = shop.create_table("shop.copy", as_=orders)
    assert copy.to_arrow().to_pylist() == orders.to_arrow().to_pylist()
    assert copy.append(orders.scan("id = 9")).inserted == 1
    assert copy.append(duckdb.sql("select 20 as id, 'Graz' as town")).inserted == 1
    copy.overwrite(orders.to_reader())
    assert copy.count() == orders.count() == 5


def test_head_reads_the_first_rows_only(shop: Lakehouse, store: CountingStore) -> None:
    table = shop.create_table("shop.many", "id bigint")
    for number in range(30):
        table.append([{"id": number}])
    assert table.scan("id > 27").head().to_pylist() == [{"id": 28}, {"id": 29}]
    assert table.head(0).num_rows == 0
    assert table.head(100).num_rows == 30
    # The scan reads only a few files ahead.
    store.delete_many([table.files()[-1].location])
    assert table.head(2).to_pylist() == [{"id": 0}, {"id": 1}]
    with pytest.raises(InvalidInputError, match="the number of rows"):
        table.head(-1)


def test_rows_are_counted_without_reading_them(shop: Lakehouse, store: CountingStore) -> None:
    assert shop.table("shop.orders").count() == 5
    assert shop.table("shop.orders").count("town = 'Oslo'") == 3
    plain = shop.create_table("shop.plain", as_=pa.table({"id": [1, 2, 3]}))
    assert plain.count() == 3
    (file,) = plain.files()
    store.delete_many([file.location])
    assert plain.count() == 3
