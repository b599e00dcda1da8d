"""Tables in Python programs and notebooks: Arrow streams, lookups, counts, lists and HTML."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import narwhals
import pandas  # type: ignore[import-untyped]
import polars
import pyarrow as pa
import pytest
from narwhals.dependencies import is_into_dataframe
from narwhals.stable import v2 as stable

import mangrove
from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, FormatError, InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.listing import Listing
from mangrove.lakehouse.opening import create_on_store
from mangrove.storage.counting import CountingStore
from mangrove.testing.effects import Clock
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


def test_pandas_and_narwhals_read_tables_as_arrow_streams(shop: Lakehouse) -> None:
    orders = shop.table("shop.orders")
    one: Any
    for one in (orders, shop.at(shop.version).table("shop.orders"), orders.scan("id > 3", ["id", "town"])):
        expected = pa.table(one).column("id").to_pylist()
        assert narwhals.from_arrow(one, backend="pyarrow")["id"].to_list() == expected
        assert narwhals.from_native(one)["id"].to_list() == expected
        assert narwhals.from_native(one, eager_only=True).filter(narwhals.col("town") == "Bonn")["id"].to_list() == [9]
        if hasattr(pandas.DataFrame, "from_arrow"):
            # pandas 3 has it; PySpark takes pandas 2 only.
            assert list(pandas.DataFrame.from_arrow(one)["id"]) == expected


def test_narwhals_reads_a_table_only_for_its_frame(shop: Lakehouse, store: CountingStore) -> None:
    table: Any = shop.create_table("shop.plain", "id bigint", properties={"write.inline-rows-max-bytes": "0"})
    table.append([{"id": 1}, {"id": 2}])
    assert narwhals.from_native(table).to_native().equals(table.to_arrow())
    assert stable.from_native(table, eager_only=True).columns == ["id"]
    store.delete_many([file.location for file in table.files()])
    assert is_into_dataframe(table)
    assert narwhals.get_native_namespace(table) is pa
    with pytest.raises(FormatError, match="is missing"):
        narwhals.from_native(table)


def test_narwhals_accepts_only_what_has_rows(tmp_path: Path) -> None:
    lake: Any = mangrove.create(tmp_path / "lake")
    query = lake.sql("select 1 as one union all select 2", engine="duckdb")
    assert narwhals.from_native(query)["one"].sum() == 3
    with pytest.raises(TypeError, match="Lakehouse"):
        narwhals.from_native(lake)
    assert narwhals.from_native(lake, pass_through=True) is lake


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


def test_a_profile_has_statistics_of_each_column(shop: Lakehouse) -> None:
    number, town, tags, price = shop.table("shop.orders").profile()
    assert (number.name, number.count, number.minimum, number.maximum, number.frequent) == ("id", 5, 0, 9, ())
    assert (town.distinct, town.nulls, town.frequent) == (3, 0, (("Oslo", 3),))
    assert (tags.type, tags.distinct, tags.frequent) == ("array<string>", None, ())
    assert (price.nulls, price.maximum) == (4, Decimal("5.00"))
    few = shop.at(shop.version).table("shop.orders").profile(["town"], "id > 1")
    assert [(one.name, one.count) for one in few] == [("town", 3)]
    assert "most frequent" in few._repr_html_()


def test_subscripting_returns_tables(shop: Lakehouse) -> None:
    assert shop["shop.orders"].id == shop.namespace("shop")["orders"].id == shop.table("shop.orders").id
    assert shop.at(shop.version)["shop.orders"].count() == 5
    assert shop.at(shop.version).namespace("shop")["orders"].count() == 5
    assert ("shop.orders" in shop, "shop" in shop, "shop.none" in shop, 7 in shop) == (True, True, False, False)
    with pytest.raises(NotFoundError, match="none"):
        shop["shop.none"]
    with pytest.raises(TypeError, match="not iterable"):
        list(shop)  # type: ignore[call-overload]


def test_listings_support_len_indexing_and_repr(shop: Lakehouse) -> None:
    shop.create_namespace("archive", description="old")
    shop.create_table("shop.lines", "id bigint")
    shop.create_view("shop.daily", "select 1 as one", reads=[])
    assert [one.name for one in shop.namespaces()] == ["archive", "shop"]
    assert repr(shop.tables("shop")) == "[<managed table shop.lines>, <managed table shop.orders>]"
    assert (len(shop.tables("shop")), len(shop.views("shop")), len(shop.aliases())) == (2, 1, 0)
    assert shop.tables("shop")[-1].name == "orders"
    assert shop.namespaces()[:1][0].description == "old"
    assert not shop.tables("archive")
    tables = shop.tables("shop")
    assert [one.name for one in tables] == [one.name for one in tables]


def test_a_list_reads_no_more_entries_than_are_used() -> None:
    read: list[int] = []

    def entries() -> Iterator[int]:
        for number in range(100):
            read.append(number)
            yield number

    listing = Listing(entries())
    assert (listing[0], bool(listing), len(read)) == (0, True, 1)
    assert (listing[:3], len(read)) == ([0, 1, 2], 3)
    assert (next(number for number in listing if number > 5), len(read)) == (6, 7)
    assert (repr(listing).endswith("18, 19, …]"), len(read)) == (True, 21)
    assert (listing[-1], len(listing), listing == list(range(100))) == (99, 100, True)
    assert len(read) == 100


def test_the_history_of_a_lakehouse_and_of_a_table_is_a_list(shop: Lakehouse) -> None:
    assert shop.history()[0].message == "append to shop.orders"
    assert len(shop.history()) == shop.version + 1
    assert len(shop["shop.orders"].history(limit=2)) == 2


def test_html_representations_escape_text(shop: Lakehouse) -> None:
    evil = "<script>alert('x')</script>"
    shop.alter_namespace("shop", description=evil)
    orders = shop["shop.orders"].alter(description=evil)
    orders.update_schema().set_comment("id", evil).commit()
    shop.create_view("shop.daily", "select 1 as one", reads=[], description=evil)
    with shop.transaction(message=evil, author=evil) as transaction:
        transaction.create_namespace("last")
    displayed: list[Any] = [
        shop, shop.at(shop.version), shop.namespace("shop"), orders, shop.namespaces(), shop.tables("shop"),
        shop.history(), orders.history(), orders.scan("id > 3"), shop.diff(1),
    ]  # fmt: skip
    pages = [one._repr_html_() for one in displayed]
    assert all("<table>" in page and "<script>" not in page for page in pages)
    assert sum("&lt;script&gt;" in page for page in pages) >= 7
    assert "shop.orders" in pages[3]
    assert "decimal(8,2)" in pages[3]


def test_a_tag_protects_its_version_from_expiry_and_is_never_moved(shop: Lakehouse, clock: Clock) -> None:
    tagged = shop.version
    shop.alter(maximum_version_age_millis=1, minimum_versions_to_keep=1)
    assert shop.tag("before", tagged).version == tagged
    with pytest.raises(AlreadyExistsError, match="before"):
        shop.tag("before", tagged + 1)
    for number in range(3):
        shop.create_namespace(f"more_{number}")
    clock.now_millis += 10**9
    shop.maintenance.expire(alone=True)
    assert [(one.name, one.version) for one in shop.tags()] == [("before", tagged)]
    assert shop.at("before")["shop.orders"].count() == 5
    assert shop.drop_tag("before").version == tagged
    clock.now_millis += 10**9
    assert shop.maintenance.expire(alone=True).versions
    with pytest.raises(NotFoundError, match="before"):
        shop.at("before")


def test_cast_converts_floats_text_and_numbers_to_the_columns_of_the_table(shop: Lakehouse) -> None:
    schema = "price decimal(8,2), sold timestamp, day date, pieces int, rate double, note string, tags array<string>"
    sales = shop.create_table("shop.sales", schema)
    frame = pandas.DataFrame(
        {
            "price": [19.99, 0.125, None],
            "sold": ["2026-11-01T08:00:00Z", "2026-11-01 08:00:00", None],
            "day": ["2026-11-01", " 2026-11-02", None],
            "pieces": [1.0, 2.0, None],
            "rate": ["0.5", "-1e3", None],
            "note": [1, 2, 3],
        }
    )
    with pytest.raises(InvalidInputError, match=r"CAST\(price AS decimal\(8,2\)\), .*or append with cast=True"):
        sales.append(frame)
    assert sales.append(frame, cast=True).inserted == 3
    rows = sales.to_arrow().to_pylist()
    noon = datetime(2026, 11, 1, 8, tzinfo=UTC)
    assert [row["price"] for row in rows] == [Decimal("19.99"), Decimal("0.13"), None]
    assert [row["sold"] for row in rows] == [noon, noon, None]
    assert [row["day"] for row in rows] == [date(2026, 11, 1), date(2026, 11, 2), None]
    assert [(row["pieces"], row["rate"], row["note"]) for row in rows] == [
        (1, 0.5, "1"),
        (2, -1000, "2"),
        (None, None, "3"),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"price": "cheap"}, "column 'price' cannot be cast to decimal.*cheap"),
        ({"price": 1e9}, "column 'price' cannot be cast to decimal"),
        ({"sold": "yesterday"}, "column 'sold' cannot be cast to timestamp.*yesterday"),
        ({"tags": "a,b"}, "column 'tags' is array<string>, but the rows have string"),
    ],
)
def test_the_error_names_a_value_that_cannot_be_cast_and_nothing_changes(
    shop: Lakehouse, row: dict[str, Any], message: str
) -> None:
    sales = shop.create_table("shop.sales", "price decimal(8,2), sold timestamp, tags array<string>")
    before = shop.version
    with pytest.raises(InvalidInputError, match=message):
        sales.append([row], cast=True)
    assert shop.version == before


def test_cast_and_evolve_together_convert_known_columns_and_add_new_ones(shop: Lakehouse) -> None:
    sales = shop.create_table("shop.sales", "price decimal(8,2)")
    sales.append([{"price": 1.5, "city": "Oslo"}], cast=True, evolve=True)
    assert sales.to_arrow().to_pylist() == [{"price": Decimal("1.50"), "city": "Oslo"}]


def test_a_query_result_is_an_arrow_stream_with_an_html_preview(layout: str, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake", layout=layout)
    lake.create_namespace("shop")
    lake.create_table("shop.tags", as_=[{"tag": f"<{number}>"} for number in range(30)])
    result = lake.sql("select tag from shop.tags", engine="duckdb")
    assert pa.table(result).num_rows == 30
    page = result._repr_html_()
    assert ("&lt;19&gt;" in page, "<19>" in page, "the first 20 rows" in page) == (True, False, True)
